"""Proofs: from the conjectures of a family to proven rules, and the signatures at which each rule is shipped."""
