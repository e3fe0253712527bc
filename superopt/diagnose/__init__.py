"""Diagnosis outside the kernel: ONNX Runtime's view of the counterexamples that the kernel finds."""
