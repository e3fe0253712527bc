"""Proofs: from the conjectures of a family to proven rules, and the signatures at which each rule is shipped.

proven_rules.py        the rules proven so far, and whether another equation adds anything to them
prove_conjectures.py   decisions about conjectures, one after the other: derivable, weak, proven or refused
used_signatures.py     signatures at which derivations used a rule
shipped_signatures.py  other ranks and attributes at which a rule is proven
more_operands.py       rules of two operands, proven for more operands
"""
