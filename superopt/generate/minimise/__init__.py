"""Minimisation: removes rules that can be derived from other rules, or that no search would use.

cost.py        cost of a graph at the small sizes of an enumeration
usefulness.py  tests for rules that hold but are not worth keeping
minimiser.py   the test if an equation can be derived from the kept rules
"""
