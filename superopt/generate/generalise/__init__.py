"""Generalisation of a ground equation to a rule: attributes and sizes of the instance become variables.

draft.py            an equation some of whose attributes are variables already
sampling_check.py   evaluation of both sides at random sizes
size_equations.py   equations between sizes, solved for single sizes
size_attributes.py  sizes in attributes as sizes of variables
padding.py          pads that differ between the operators of a rule
attributes.py       all other attributes, and the generalisation as a whole
"""
