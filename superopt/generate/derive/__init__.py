"""Derivations: decides if an equation follows from a set of rules, and finds the steps.

canonical.py     attributes in one form, as in a model that was read
constants.py     constants that hold one number everywhere, folded
neighbours.py    one rewriting step: all terms that one application of a rule leads to
step_checks.py   validity of a step: equal fingerprints, or a certificate that covers it
deriver.py       short derivations, searched from both ends
instances.py     ground equations: a rule at known sizes
defining_equation.py   ground equations of operators that are defined by others
consequences.py  derivability of a rule: derivations of instances at each of its signatures
"""

from superopt.generate.derive.consequences import (
    DERIVED,
    NO_INSTANCE,
    NOT_DERIVED,
    Consequence,
    Derivation,
    consequence,
)
from superopt.generate.derive.deriver import DerivationStep, Deriver
from superopt.generate.derive.instances import Instance, instances
from superopt.generate.derive.neighbours import StepCheck, normal
from superopt.generate.derive.step_checks import CertificateCheck, FingerprintCheck

__all__ = [
    "DERIVED", "NOT_DERIVED", "NO_INSTANCE", "CertificateCheck", "Consequence", "Derivation",
    "DerivationStep", "Deriver", "FingerprintCheck", "Instance", "StepCheck", "consequence", "instances", "normal",
]  # fmt: skip
