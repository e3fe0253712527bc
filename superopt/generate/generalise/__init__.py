"""Generalisation of a ground equation to a rule: attributes and sizes of the instance become variables.

draft.py             an equation in which some attributes have been replaced by variables
size_equations.py    equations between sizes, solved for single sizes
sampling_check.py    evaluation of both sides of a rule at random sizes
size_attributes.py   sizes in attributes, expressed by sizes of variables
padding.py           pads that differ between the operators of a rule
attribute_values.py  values of attributes to try besides the instance's value
attribute_equations.py  attributes that follow those of a window
equation_to_rule.py  all other attributes, and the whole generalisation
narrower.py          the same rule with fewer free attributes, for when the prover cannot decide it
"""
