"""Diagnostics, which never decide what is proven: counterexamples, weakest guards, a second solver."""
