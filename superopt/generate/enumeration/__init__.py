"""Enumeration of all small graphs of a family, and the pairs of them that have equal fingerprints.

fingerprints.py         62-bit keys of tensors modulo a prime; the value of a term on a random sample
modular_matmul.py       exact matrix products modulo the prime
classes.py              classes of equal graphs as arrays
blocks.py               products of sets of classes: the graphs of one level
linear_fingerprints.py  fingerprints of all graphs of a block by matrix products
graph_list.py           the graphs of several blocks as one list, by ranges of fingerprints
known_rules.py          rules found so far, and which larger graphs they rewrite
deduplicate.py          one pair of each renaming, the most general ones only
enumerator.py           level after level of graphs
"""
