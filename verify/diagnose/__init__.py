"""Diagnostics without a say in what is proven: counterexamples, weakest guards, a second solver."""
