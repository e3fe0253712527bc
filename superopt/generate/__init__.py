"""The generator: finds rules by enumeration and fingerprints, proves them, writes them."""

from superopt.generate.pipeline import UnknownFamily, choose, generate
from superopt.generate.stage_counts import Counts, Summary

__all__ = ["Counts", "Summary", "UnknownFamily", "choose", "generate"]
