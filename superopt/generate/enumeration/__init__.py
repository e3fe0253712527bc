"""Enumerates all small graphs of a family, and finds the pairs of graphs with equal fingerprints.

fingerprints.py         62-bit keys of tensors modulo a prime; the value of a term on a random sample
modular_matmul.py       exact matrix products modulo the prime
classes.py              classes of equal graphs as arrays
blocks.py               products of sets of classes: the graphs of one level
linear_fingerprints.py  fingerprints of all graphs of a block by matrix products
graph_list.py           the graphs of several blocks as one list, by ranges of fingerprints
known_rules.py          rules found so far, and the test if they rewrite a larger graph
deduplicate.py          removal of pairs that are renamings or special cases of others
enumerator.py           the enumeration: all graphs, level by level (a level is a number of operators)
"""
