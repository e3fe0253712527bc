"""Derivability: which equations follow from a set of rules, and by which steps."""

from superopt.generate.derive.admits import ByFingerprint, Certified
from superopt.generate.derive.consequences import (
    DERIVED,
    NO_INSTANCE,
    NOT_DERIVED,
    Consequence,
    Derivation,
    consequence,
)
from superopt.generate.derive.instances import Instance, instances
from superopt.generate.derive.neighbours import Admits, normal
from superopt.generate.derive.search import Deriver, Step

__all__ = [
    "DERIVED", "NOT_DERIVED", "NO_INSTANCE", "Admits", "ByFingerprint", "Certified", "Consequence", "Derivation",
    "Deriver", "Instance", "Step", "consequence", "instances", "normal",
]  # fmt: skip
