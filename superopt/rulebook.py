"""Where the rules are, and reading them: one equation a line in `rules/*.rules`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from superopt.ir.rule import Rule
from superopt.ir.text import NotationError, parse_rule

__all__ = ["RulesError", "load_rules", "read_rules", "rule_files", "shipped_rules"]


class RulesError(ValueError):
    """There are no rules at a path, or a line of them cannot be read; the message is one line that names the place."""


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
    """The rules of a file or folder (None: the shipped ones), in the order of files and lines, equal ones once.

    Raises RulesError.
    """
    rules: dict[Rule, None] = {}
    for file in rule_files(path):
        rules.update((rule, None) for _, rule in read_rules(file))
    return list(rules)


def read_rules(file: Path) -> Iterator[tuple[int, Rule]]:
    """The rules of one file with their line numbers. Raises RulesError."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (UnicodeDecodeError, OSError) as error:
        raise RulesError(f"{file}: cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            yield number, parse_rule(line)
        except NotationError as error:
            raise RulesError(f"{file}:{number}: {error}") from error
