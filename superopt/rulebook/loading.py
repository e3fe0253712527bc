"""Where the rules are, and reading them: one equation a line in `rules/*.rules`, with certificates beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from superopt.ir.notation import NotationError, parse_rule, show_signature
from superopt.ir.rule import Rule
from verify.proofs import Certificate, kernel_hash, line_hash

__all__ = [
    "CERTIFICATES", "TIMES", "Certificates", "Listed", "RulesError", "beside", "certified_rules", "load_rules",
    "read_rules", "rule_files", "shipped_rules",
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
    package = Path(__file__).resolve().parents[1]
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


class Certificates(Mapping[str, Certificate]):
    """The certificates of a file by rule id, read where they are asked for: a model needs a few of them."""

    def __init__(self, source: Path) -> None:
        """Raises RulesError where a line of `source` is no certificate; of no file at all there are none."""
        self._source = source
        self._lines: dict[str, tuple[int, str]] = {}
        self._heads: dict[str, tuple[object, ...]] = {}
        self._read: dict[str, Certificate] = {}
        lines = source.read_text(encoding="utf-8").splitlines() if source.is_file() else []
        for number, line in enumerate(lines, 1):
            try:
                data = json.loads(line)
                rule = data["rule"]
                self._heads[rule] = data["text"], data["kernel"], [proof["signature"] for proof in data["proofs"]]
            except (ValueError, KeyError, TypeError) as error:
                raise self._unreadable(number, error) from error
            self._lines[rule] = number, line

    def _unreadable(self, number: int, error: Exception) -> RulesError:
        return RulesError(f"{self._source}:{number}: not a certificate ({type(error).__name__}: {error})")

    def __getitem__(self, rule: str) -> Certificate:
        """Raises KeyError for a rule without one, RulesError for one that cannot be read."""
        if rule not in self._read:
            number, line = self._lines[rule]
            try:
                self._read[rule] = Certificate.from_json(line)
            except (ValueError, KeyError, TypeError) as error:
                raise self._unreadable(number, error) from error
        return self._read[rule]

    def __contains__(self, rule: object) -> bool:
        return rule in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def misfit(self, listed: Listed) -> str | None:
        """Why none of them certifies the rule as it stands there; None where one does."""
        rule = listed.rule
        if rule.id not in self:
            return f"no certificate in {self._source}"
        # The same text is the same certificate; other text may still say the same.
        shown = line_hash(listed.text), kernel_hash(), [show_signature(signature) for signature in rule.signatures]
        return None if shown[2] and self._heads[rule.id] == shown else self[rule.id].misfit(rule, listed.text)


def certified_rules(path: Path | None = None) -> tuple[list[Listed], Certificates]:
    """The rules of a file or folder (None: the shipped ones) for use, and their certificates by rule id.

    Raises RulesError unless this kernel has certified every rule, exactly as it stands there.
    """
    files, source = rule_files(path), beside(path, CERTIFICATES)
    todo = f"prove it anew: superopt verify --certify {source.parent if path is None else path}"
    try:
        certificates = Certificates(source)
    except RulesError as error:
        raise RulesError(f"{error}; {todo}") from error
    rules = [listed for file in files for listed in read_rules(file)]
    for listed in rules:
        reason = certificates.misfit(listed)
        if reason is not None:
            raise RulesError(f"{listed.place}: rule {listed.rule.id}: {reason}; {todo}")
    return rules, certificates
