"""The rules: loading them with their certificates, variadic and chain rules, and operand orders."""
