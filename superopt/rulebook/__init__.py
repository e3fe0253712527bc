"""The rules outside the search.

They are loaded with their certificates, have variadic and chain forms and orders of commutative operands, and know some
numbers of a model by a formula.
"""
