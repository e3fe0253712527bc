"""Find and read rule files (`rules/*.rules`, one equation a line) and the certificates kept beside them."""

from __future__ import annotations

import contextlib
import json
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from superopt.gc_tuning import rare_collections
from superopt.ir.rule import Rule
from superopt.rulebook.kept_rules import kept_or_read
from superopt.rulebook.line_problems import LineProblem, parsed
from verify.certificates import Certificate, line_hash, rule_kernel_hash

__all__ = [
    "CERTIFICATES", "OTHER_FORM", "TIMES", "Certificates", "Listed", "RuleSyntaxError", "RulesError", "beside",
    "certificate_lines", "certified_rules", "chosen_rules", "has_rules", "load_rules", "read_all_rules", "read_rules",
    "rule_files", "shipped_rules",
]  # fmt: skip

CERTIFICATES = "certificates.jsonl"
TIMES = "times.json"  # rule id -> seconds of the prover
# Errors of reading JSON of another form; RecursionError: brackets in brackets, thousands deep.
OTHER_FORM = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class RulesError(ValueError):
    """A path has no rules, or a line of a rule file cannot be read or used. The message is one line with file and line
    number."""


class RuleSyntaxError(RulesError):
    """Lines of rule files cannot be read. The message is about the first one.

    `lines` shows all of them, each with its place, the line itself and a caret below the column.
    """

    def __init__(self, problems: list[tuple[str, LineProblem]]) -> None:
        self._problems = problems
        texts = [(f"{place}: {problem}", problem.lines()) for place, problem in problems]
        more = f" (and {len(texts) - 1} more lines cannot be read)" if len(texts) > 1 else ""
        super().__init__(f"{texts[0][0]}{more}")
        self.lines = [line for text, shown in texts for line in (f"error: {text}", *(f"    {one}" for one in shown))]

    def __reduce__(self) -> tuple[type[RuleSyntaxError], tuple[list[tuple[str, LineProblem]]]]:
        return type(self), (self._problems,)  # it may be raised in a child process


def shipped_rules() -> Path:
    """Return the folder of the shipped rules: inside the installed package, or at the top of a checkout.

    Raises RulesError if the folder is missing (a broken installation).
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "rules", package.parent / "rules"):
        if folder.is_dir():
            return folder
    raise RulesError(f"the rules that belong to the program are missing (looked beside {package})")


def rule_files(path: Path | None = None) -> list[Path]:
    """Return the rule files at `path`: the file itself, or a folder's `*.rules`, sorted by name.

    None stands for the shipped folder. Raises RulesError if there is nothing to read.
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


def has_rules(path: Path | None = None) -> bool:
    """Return True if the file or folder (None: the shipped one) has a line with a rule. Raises RulesError."""
    return any(True for file in rule_files(path) for _ in _lines(file))


def load_rules(path: Path | None = None) -> list[Rule]:
    """Return the rules of a file or folder (None: the shipped ones), for inspection: certificates are not checked.

    The order is that of files and lines, and equal rules are returned once. Raises RulesError.
    """
    return list(dict.fromkeys(listed.rule for listed in read_all_rules(rule_files(path))))


@dataclass(frozen=True)
class Listed:
    """A rule with its file, line number, and the text of the line."""

    file: Path
    line: int
    text: str
    rule: Rule

    @property
    def place(self) -> str:
        """File and line, for messages."""
        return f"{self.file}:{self.line}"


def read_rules(file: Path) -> list[Listed]:
    """Return the rules of one file. Raises RulesError, RuleSyntaxError."""
    return read_all_rules([file])


def read_all_rules(files: Iterable[Path]) -> list[Listed]:
    """Return the rules of several files. Raises RulesError, or RuleSyntaxError for all lines that cannot be read."""
    found: list[Listed] = []
    problems: list[tuple[str, LineProblem]] = []
    with rare_collections():
        for file in files:
            for number, line in _lines(file):
                rule = parsed(line)
                if isinstance(rule, LineProblem):
                    problems.append((f"{file}:{number}", rule))
                else:
                    found.append(Listed(file, number, line, rule))
    if problems:
        raise RuleSyntaxError(problems)
    return found


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that hold a rule, with their numbers. Raises RulesError."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()  # editors on Windows write a byte order mark
    except UnicodeDecodeError:
        raise RulesError(f"{file}: not a file of rules: it holds bytes that are no text in UTF-8") from None
    except OSError as error:
        raise RulesError(f"{file}: cannot be read: {error.strerror or error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def beside(path: Path | None, name: str) -> Path:
    """Return the path of a file kept with the rules at `path`: `name` in a folder, `<stem>.name` beside a single file.

    For example, the certificates of `mine.rules` are in `mine.certificates.jsonl`.
    """
    path = shipped_rules() if path is None else path
    return path / name if path.is_dir() else path.with_name(f"{path.stem}.{name}")


@dataclass(frozen=True)
class _Entry:
    """A line of a certificate file. Only the fields that are compared with a rule are parsed."""

    number: int
    line: str
    text: str  # hash of the rule's line
    kernel: str
    signatures: list[str]


class Certificates(Mapping[Rule, Certificate]):
    """The certificates of admitted rules (`admit`), parsed on demand, because a model needs only a few of them.

    A certificate is found by the rule's id, and then compared with the whole rule by the hash of the rule's line. Two
    rules with the same id but different sides are different keys.
    """

    def __init__(self, source: Path) -> None:
        """Index the lines of `source`. A missing file has no certificates. Raises RulesError for a malformed line."""
        self._source = source
        self._entries: dict[str, list[_Entry]] = {}
        self._admitted: dict[Rule, _Entry] = {}
        self._read: dict[Rule, Certificate] = {}
        for number, encoded in enumerate(source.read_bytes().splitlines() if source.is_file() else (), 1):
            try:
                line = encoded.decode()
                data = json.loads(line)
                signatures = [proof["signature"] for proof in data["proofs"]]
                entry = _Entry(number, line, data["text"], data["kernel"], signatures)
                self._entries.setdefault(data["rule"], []).append(entry)
            except OTHER_FORM as error:
                raise self._unreadable(number) from error

    def _unreadable(self, number: int) -> RulesError:
        return RulesError(f"{self._source}:{number}: not a certificate")

    def _certificate(self, entry: _Entry) -> Certificate:
        certificate = _certificate(entry.line)
        if certificate is None:
            raise self._unreadable(entry.number)
        return certificate

    def __getitem__(self, rule: Rule) -> Certificate:
        """Return the certificate of an admitted rule.

        Raises KeyError if the rule is not admitted, RulesError if its certificate cannot be read.
        """
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
        """Return the reason why no certificate covers the rule as written in its file, or None if one does.

        If one does, the rule becomes a key of this mapping.
        """
        rule, text = listed.rule, line_hash(listed.text)
        entries = self._entries.get(rule.id)
        if entries is None:
            return f"no certificate in {self._source}"
        entry = next((entry for entry in entries if entry.text == text), entries[0])
        # The same text is the same signature; other text may still say the same.
        written = listed.text.partition(" @ ")[2].split(" | ")
        if (entry.text, entry.signatures, entry.kernel) != (text, written, rule_kernel_hash(rule)):
            reason = self._certificate(entry).misfit(rule, listed.text)
            if reason is not None:
                return reason
        self._admitted.setdefault(rule, entry)
        return None


def certificate_lines(path: Path) -> dict[tuple[str, str], str]:
    """Return the readable certificates in a file as lines of JSON, by the rule's id and the hash of its line.

    A missing file has none, and a damaged line is left out.
    """
    found = {}
    for encoded in path.read_bytes().splitlines() if path.is_file() else ():
        with contextlib.suppress(UnicodeDecodeError):
            line = encoded.decode()
            if (certificate := _certificate(line)) is not None:
                found[certificate.rule, certificate.text] = line
    return found


def _certificate(line: str) -> Certificate | None:
    """Return the certificate that a line of JSON is; None if it is none."""
    try:
        found = Certificate.from_json(line)
    except OTHER_FORM:
        return None
    texts = (found.rule, found.text, found.kernel, found.solver, found.analysis)
    return found if all(isinstance(text, str) for text in texts) else None


def certified_rules(path: Path | None = None) -> tuple[list[Listed], Certificates]:
    """Return the rules of a file or folder (None: the shipped ones) for use, and their certificates.

    Raises RulesError unless this version of the kernel has certified every rule exactly as written.
    """
    files, source = rule_files(path), beside(path, CERTIFICATES)
    return kept_or_read((*files, source), lambda: _certified(path, files, source))


def _certified(path: Path | None, files: list[Path], source: Path) -> tuple[list[Listed], Certificates]:
    todo = f"prove it anew: superopt verify --certify {source.parent if path is None else path}"
    with rare_collections():
        try:
            certificates = Certificates(source)
        except RulesError as error:
            raise RulesError(f"{error}; {todo}") from error
        rules = read_all_rules(files)
        for listed in rules:
            reason = certificates.admit(listed)
            if reason is not None:
                raise RulesError(f"{listed.place}: rule {listed.rule.id}: {reason}; {todo}")
    return rules, certificates


def chosen_rules(
    path: Path | None = None, added: Iterable[Path] = (), skipped: Collection[str] = ()
) -> tuple[list[Rule], Mapping[Rule, Certificate]]:
    """Return the rules at `path` (None: the shipped ones) and at all paths in `added`, and their certificates.

    Equal rules are returned once, and rules whose id is in `skipped` are left out. Raises RulesError as
    `certified_rules` does, and if no rule has one of the ids.
    """
    found = [certified_rules(path), *map(certified_rules, added)]
    rules = list(dict.fromkeys(entry.rule for listed, _ in found for entry in listed))
    for name in sorted(set(skipped) - {rule.id for rule in rules}):
        raise RulesError(f"no rule has the id {name}; `superopt rules` lists them")
    certificates: ChainMap[Rule, Certificate] = ChainMap(*(kept for _, kept in found))  # type: ignore[arg-type] # it is only read
    return [rule for rule in rules if rule.id not in skipped], certificates
