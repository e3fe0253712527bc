"""`superopt verify --certify`: writes certificates and the prover's times beside the rules, signatures into them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from superopt.cli.proving import ProofTask, RuleReport
from superopt.files import check_writable, write_text, write_whole
from superopt.ir.notation import parse_rule
from superopt.rulebook.loading import CERTIFICATES, TIMES, RulesError, beside

__all__ = ["check_certifiable", "write_certificates", "write_signatures"]


def check_certifiable(paths: Iterable[Path], tasks: Iterable[ProofTask]) -> None:
    """Raise RulesError if two lines are one equation, OutputError if the files cannot be written."""
    for path in paths:
        for name in (TIMES, CERTIFICATES):
            check_writable(beside(path, name))
    lines: dict[str, ProofTask] = {}
    for task in tasks:
        rule = parse_rule(task.text)
        if not rule.signatures:
            check_writable(Path(task.file))
        first = lines.setdefault(rule.id, task)
        if first.text != task.text:
            raise RulesError(
                f"{task.file}:{task.line}: the same equation as {first.file}:{first.line}; write one line for both"
            )


def write_signatures(reports: Iterable[RuleReport]) -> list[str]:
    """Write the signatures that were proven into the lines of rules that had none; return the files that have changed.

    Raises OSError, and RulesError for a file that has changed meanwhile.
    """
    by_file: dict[str, list[RuleReport]] = {}
    for report in reports:
        if report.signed:
            by_file.setdefault(report.file, []).append(report)
    for name, signed in by_file.items():
        lines = Path(name).read_bytes().decode("utf-8-sig").splitlines(keepends=True)
        for report in signed:
            at = report.line - 1
            if at >= len(lines) or not report.signed.startswith(lines[at].rstrip() + " @ "):
                raise RulesError(f"{name}:{report.line}: has changed since it was read; verify it again")
            lines[at] = report.signed + lines[at][len(lines[at].rstrip("\r\n")) :]
        write_whole(Path(name), "".join(lines).encode())
    return list(by_file)


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
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
