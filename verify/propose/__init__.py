"""Guesses that the prover checks: a bad guess costs a proof, never soundness. Nothing here needs trust."""
