"""Matching rules in a graph."""
