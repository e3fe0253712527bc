"""Derivability: which equations follow from a set of rules, and by which steps."""

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
