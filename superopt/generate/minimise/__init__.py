"""Minimisation: rules that other rules give, or that no search would use, are left out."""
