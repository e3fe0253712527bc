"""Diagnosis outside the kernel: the kernel's counterexamples, run in ONNX Runtime."""
