"""Generalisation of a ground equation to a rule: attributes and sizes of the instance become variables.

draft.py             an equation some of whose attributes are variables already
size_equations.py    equations between sizes, solved for single sizes
sampling_check.py    evaluation of both sides of a rule at random sizes
size_attributes.py   sizes in attributes as sizes of variables
padding.py           pads that differ between the operators of a rule
attribute_values.py  other values at which a generalised attribute is tried
equation_to_rule.py  all other attributes, and the generalisation as a whole
"""
