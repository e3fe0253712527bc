"""Proves the conjectures of a family, and chooses the signatures at which each rule is shipped.

proven_rules.py        the rules proven so far, and the test if another equation adds something new
prove_conjectures.py   the decision about each conjecture: derivable, weak, proven or refused
used_signatures.py     signatures at which derivations used a rule
shipped_signatures.py  other ranks and attributes at which a rule is proven
more_operands.py       rules of two operands, proven for more operands
"""
