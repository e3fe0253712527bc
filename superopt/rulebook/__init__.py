"""The rules outside the search: loading with certificates, variadic and chain rules, orders of commutative operands."""
