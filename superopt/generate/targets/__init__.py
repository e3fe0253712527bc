"""Families from windows: parts of models (`superopt.corpus`) that faster graphs are wanted for.

window_family.py  a window as a family: its graph as the target, its variables, and the operators to build others from
variants.py       windows that differ from one in a number, where each such number needs a rule of its own
related.py        the operators that a window's right sides may need besides its own
"""

from superopt.generate.targets.window_family import window_families

__all__ = ["window_families"]
