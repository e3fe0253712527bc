"""Where the rules are, and reading them: one equation a line in `rules/*.rules`, with certificates beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from superopt.ir.notation import NotationError, parse_rule, show_signature
from superopt.ir.rule import Rule
from verify.certificates import Certificate, line_hash, rule_kernel_hash

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


@dataclass(frozen=True)
class _Entry:
    """A line of a file of certificates, of which only what is needed to compare it with a rule has been read."""

    number: int
    line: str
    text: str  # hash of the rule's line
    kernel: str
    signatures: list[str]


class Certificates(Mapping[Rule, Certificate]):
    """The certificates of admitted rules (`admit`). Each is read when it is asked for: a model needs a few of them.

    A line is found by the rule's id and then compared with the whole rule: by the hash of the line that the rule's two
    sides were read from. Rules of one id are different keys here unless their sides are the same.
    """

    def __init__(self, source: Path) -> None:
        """Raises RulesError where a line of `source` is no certificate; a file that is missing holds none."""
        self._source = source
        self._entries: dict[str, list[_Entry]] = {}
        self._admitted: dict[Rule, _Entry] = {}
        self._read: dict[Rule, Certificate] = {}
        lines = source.read_text(encoding="utf-8").splitlines() if source.is_file() else []
        for number, line in enumerate(lines, 1):
            try:
                data = json.loads(line)
                signatures = [proof["signature"] for proof in data["proofs"]]
                entry = _Entry(number, line, data["text"], data["kernel"], signatures)
                self._entries.setdefault(data["rule"], []).append(entry)
            except (ValueError, KeyError, TypeError) as error:
                raise self._unreadable(number, error) from error

    def _unreadable(self, number: int, error: Exception) -> RulesError:
        return RulesError(f"{self._source}:{number}: not a certificate ({type(error).__name__}: {error})")

    def _certificate(self, entry: _Entry) -> Certificate:
        try:
            return Certificate.from_json(entry.line)
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(entry.number, error) from error

    def __getitem__(self, rule: Rule) -> Certificate:
        """Raises KeyError for a rule without one, RulesError for one that cannot be read."""
        if rule not in self._read:
            self._read[rule] = self._certificate(self._admitted[rule])
        return self._read[rule]

    def __contains__(self, rule: object) -> bool:
        return rule in self._admitted

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._admitted)

    def __len__(self) -> int:
        return len(self._admitted)

    def admit(self, listed: Listed) -> str | None:
        """Return why no certificate here certifies the rule as it stands in its file; None where one does, which is
        from now on the rule's."""
        rule, text = listed.rule, line_hash(listed.text)
        entries = self._entries.get(rule.id)
        if entries is None:
            return f"no certificate in {self._source}"
        entry = next((entry for entry in entries if entry.text == text), entries[0])
        # The same text is the same signature; other text may still say the same.
        shown = [show_signature(signature) for signature in rule.signatures]
        if not shown or (entry.text, entry.signatures, entry.kernel) != (text, shown, rule_kernel_hash(rule)):
            reason = self._certificate(entry).misfit(rule, listed.text)
            if reason is not None:
                return reason
        self._admitted.setdefault(rule, entry)
        return None


def certified_rules(path: Path | None = None) -> tuple[list[Listed], Certificates]:
    """The rules of a file or folder (None: the shipped ones) for use, and their certificates.

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
        reason = certificates.admit(listed)
        if reason is not None:
            raise RulesError(f"{listed.place}: rule {listed.rule.id}: {reason}; {todo}")
    return rules, certificates
