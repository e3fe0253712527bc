"""Rules for the tests of the search; what ships is generated and proven."""

from __future__ import annotations

from pathlib import Path

from superopt.ir.notation import parse_rules
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule, Signature
from verify.propose.signatures import literal_signatures

RULES = parse_rules((Path(__file__).parent / "search.rules").read_text(encoding="utf-8"))


def believe(rule: Rule, bindings: Bindings) -> Signature | None:
    """Stands in for the kernel: every rule holds wherever it fits and is well-typed."""
    return next(literal_signatures(rule, bindings), None)
