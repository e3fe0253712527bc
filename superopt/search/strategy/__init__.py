"""How the space of equal graphs is searched."""
