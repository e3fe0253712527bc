"""`superopt verify --certify`: writes certificates and the prover's times beside the rules."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from superopt.cli.proving import ProofTask, RuleReport
from superopt.files import check_writable, write_text
from superopt.ir.notation import parse_rule
from superopt.rulebook.loading import CERTIFICATES, TIMES, RulesError, beside

__all__ = ["check_certifiable", "write_certificates"]


def check_certifiable(paths: Iterable[Path], tasks: Iterable[ProofTask]) -> None:
    """Raise RulesError if a rule cannot have a certificate of its own, OutputError if the files cannot be written."""
    for path in paths:
        for name in (TIMES, CERTIFICATES):
            check_writable(beside(path, name))
    lines: dict[str, ProofTask] = {}
    for task in tasks:
        rule = parse_rule(task.text)
        if not rule.signatures:
            raise RulesError(
                f"{task.file}:{task.line}: a certificate is for signatures, and the rule has none (`superopt verify`"
                " shows the default ones; write them after `@`)"
            )
        first = lines.setdefault(rule.id, task)
        if first.text != task.text:
            raise RulesError(
                f"{task.file}:{task.line}: the same equation as {first.file}:{first.line}; write one line for both"
            )


def write_certificates(path: Path, reports: Iterable[RuleReport]) -> Path:
    """Write times and certificates of the rules in `path`, all of them proven; return the file of certificates.

    Raises OSError.
    """
    reports = list(reports)
    before = _read_times(beside(path, TIMES))
    times = {
        report.id: before.get(report.id, 0.0) if report.seconds is None else round(report.seconds, 3)
        for report in sorted(reports, key=lambda report: report.id)
    }
    write_text(beside(path, TIMES), json.dumps(times, indent=0) + "\n")
    lines = sorted({report.certificate for report in reports})
    write_text(beside(path, CERTIFICATES), "".join(f"{line}\n" for line in lines))
    return beside(path, CERTIFICATES)


def _read_times(path: Path) -> dict[str, float]:
    """Return the seconds of an earlier run; none if there is no readable file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
