"""The READMEs are true: links lead somewhere, commands and options exist, tables name what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from superopt.cli import main, optimize_main
from tests.support.paths import ROOT, TESTS

READMES = sorted(path for path in ROOT.glob("**/README.md") if not {".venv", "node_modules"} & set(path.parts))
TOP = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """Return the lines of the top README that call the program."""
    blocks = re.findall(r"```sh\n(.*?)```", TOP, re.DOTALL)
    lines = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith(("optimize ", "superopt "))]


def test_the_top_one_takes_five_minutes() -> None:
    assert len(TOP.split()) <= 900


def test_each_part_has_one() -> None:
    parts = {path.parent.relative_to(ROOT).as_posix() for path in READMES}
    assert parts >= {".", "superopt", "rules", "verify", "scripts", "tests"}


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.parent.name or "top")
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#:]+)\)", text)
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("line", commands())
def test_commands_and_options_exist(line: str) -> None:
    program, *words = line.split()
    command: click.Command = (optimize_main if program == "optimize" else main).command
    while isinstance(command, click.Group) and words and words[0].isalpha():
        found = command.get_command(click.Context(command), words[0])
        assert found is not None or command.invoke_without_command, line
        if found is None:
            break
        command, words = found, words[1:]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert [word for word in words if word.startswith("-") and word not in known] == []


def test_the_table_of_tests_names_every_folder() -> None:
    named = set(re.findall(r"`(\w+)/`", (TESTS / "README.md").read_text(encoding="utf-8")))
    assert {path.name for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__"} <= named


def test_the_numbers_of_rules_are_those_of_the_files() -> None:
    text = (ROOT / "rules" / "README.md").read_text(encoding="utf-8")
    stated = {name: int(count) for name, count in re.findall(r"(?<=\| )(\w+) \| (\d+) \|", text)}
    lines = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in (ROOT / "rules").glob("*.rules")}
    assert stated == {name: sum(not line.startswith("#") for line in here) for name, here in lines.items()}
    total = json.loads((ROOT / "rules" / "summary.json").read_text(encoding="utf-8"))["total"]
    said = {int(number.replace(",", "")) for number in re.findall(r"\d+(?:,\d{3})*", text)}
    counts = ("rules", "signatures", "equal_pairs", "conjectures", "derivable", "weak", "proved", "extended")
    assert {total[name] for name in counts} <= said
