"""Rules as files: loading, certificates, and rules of any number of operands."""
