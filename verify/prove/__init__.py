"""The prover: decides that two terms are equal for all sizes."""
