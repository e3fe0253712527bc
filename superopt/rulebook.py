"""Where the rules are, and reading them: one equation a line in `rules/*.rules`, with certificates beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from superopt.ir.rule import Rule
from superopt.ir.text import NotationError, parse_rule
from verify.proofs import Certificate, load_certificates

__all__ = [
    "CERTIFICATES", "TIMES", "Listed", "RulesError", "beside", "certified_rules", "load_rules", "read_rules",
    "rule_files", "shipped_rules",
]  # fmt: skip

CERTIFICATES = "certificates.jsonl"
TIMES = "times.json"  # rule id -> seconds of the prover


class RulesError(ValueError):
    """There are no rules at a path, or a line of them cannot be read or used; the message is one line that names the
    place."""


def shipped_rules() -> Path:
    """The folder of the rules that came with the program: inside the installed package, or at the top of a checkout.

    Raises RulesError where there is none (a broken installation).
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "rules", package.parent / "rules"):
        if folder.is_dir():
            return folder
    raise RulesError(f"the rules that belong to the program are missing (looked beside {package})")


def rule_files(path: Path | None = None) -> list[Path]:
    """The files to read for `path`: itself, or a folder's `*.rules` by name; None is the shipped folder.

    Raises RulesError where there is nothing to read.
    """
    path = shipped_rules() if path is None else path
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise RulesError(f"{path}: no such file or folder of rules")
    files = sorted(path.glob("*.rules"))
    if not files:
        raise RulesError(f"{path}: holds no *.rules file")
    return files


def load_rules(path: Path | None = None) -> list[Rule]:
    """The rules of a file or folder (None: the shipped ones), in the order of files and lines, equal ones once, whether
    they are certified or not: to be looked at. Raises RulesError."""
    return list(dict.fromkeys(listed.rule for file in rule_files(path) for listed in read_rules(file)))


@dataclass(frozen=True)
class Listed:
    """A rule, and the very line in which it stands."""

    file: Path
    line: int
    text: str
    rule: Rule

    @property
    def place(self) -> str:
        """File and line, for messages."""
        return f"{self.file}:{self.line}"


def read_rules(file: Path) -> Iterator[Listed]:
    """The rules of one file. Raises RulesError."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (UnicodeDecodeError, OSError) as error:
        raise RulesError(f"{file}: cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            yield Listed(file, number, line, parse_rule(line))
        except NotationError as error:
            raise RulesError(f"{file}:{number}: {error}") from error


def beside(path: Path | None, name: str) -> Path:
    """Where what belongs to the rules of `path` is kept: `name` in a folder, `<stem>.name` beside a single file."""
    path = shipped_rules() if path is None else path
    return path / name if path.is_dir() else path.with_name(f"{path.stem}.{name}")


def certified_rules(path: Path | None = None) -> tuple[list[Listed], dict[str, Certificate]]:
    """The rules of a file or folder (None: the shipped ones) for use, and their certificates by rule id.

    Raises RulesError unless this kernel has certified every rule, exactly as it stands there.
    """
    files, source = rule_files(path), beside(path, CERTIFICATES)
    todo = f"prove it anew: superopt verify --certify {source.parent if path is None else path}"
    try:
        certificates = load_certificates(source) if source.is_file() else {}
    except ValueError as error:
        raise RulesError(f"{error}; {todo}") from error
    rules = [listed for file in files for listed in read_rules(file)]
    for listed in rules:
        certificate = certificates.get(listed.rule.id)
        missing = f"no certificate in {source}"
        reason = missing if certificate is None else certificate.misfit(listed.rule, listed.text)
        if reason is not None:
            raise RulesError(f"{listed.place}: rule {listed.rule.id}: {reason}; {todo}")
    return rules, certificates
