"""Minimisation: rules are left out that other rules derive, or that no search would use.

cost.py        cost of a graph at the small sizes of an enumeration
usefulness.py  rules that are not worth keeping, though they hold
minimiser.py   equations that the kept rules derive
"""
