"""The trusted kernel: semantics of operators, prover, certificates, replay of a trace. See verify/README.md."""
