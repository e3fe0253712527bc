"""The generator: finds rules by enumeration and fingerprints, proves them, writes them."""

from superopt.generate.pipeline import FamilyCount, Summary, generate

__all__ = ["FamilyCount", "Summary", "generate"]
