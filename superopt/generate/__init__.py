"""The generator: finds rules by enumeration and fingerprints, proves them, writes them."""

from superopt.generate.counts import Counts, Summary
from superopt.generate.pipeline import UnknownFamily, choose, generate

__all__ = ["Counts", "Summary", "UnknownFamily", "choose", "generate"]
