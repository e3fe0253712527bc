"""Forward error analysis: a proven bound on how much larger the rounding errors of one side of a rule can be."""
