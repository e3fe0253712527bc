"""Rule files of tests, certified as `superopt verify --certify` does it."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from superopt.cli.certifying import write_certificates
from superopt.cli.proving import RuleReport, prove_all, tasks
from superopt.ir.rule import Rule
from verify.certificates import Certificate
from verify.stability.classes import EXACT
from verify.verdict import Proved

__all__ = ["certified", "vouched"]


def certified(path: Path, text: str) -> Path:
    """Write provable rules and their certificates; return `path`. A process proves a text once."""
    path.write_text(text, encoding="utf-8")
    write_certificates(path, _proofs(text))
    return path


@functools.cache
def _proofs(text: str) -> list[RuleReport]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.rules"
        path.write_text(text, encoding="utf-8")
        reports = list(prove_all(tasks([path], ask_second=False), 1))
    assert all(report.accepted for report in reports), reports
    return reports


def vouched(rule: Rule, **proof: object) -> dict[Rule, Certificate]:
    """Return a certificate that nobody has proven, for tests of what a certificate allows."""
    proved = Proved((), (), **proof)  # type: ignore[arg-type]
    proofs = [(signature, proved) for signature in rule.signatures]
    return {rule: Certificate.of(rule, proofs, stability=[(EXACT, EXACT) for _ in proofs])}
