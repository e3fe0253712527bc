"""Guesses that the prover checks. A bad guess may lose a proof, never make a false one: nothing here needs trust."""
