"""`superopt rules`: listing, deriving, the matrix, and what is unusable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from superopt.cli import main
from superopt.cli.terminal import ProgressLines
from superopt.ir.notation import show_rule
from superopt.rulebook.loading import load_rules
from tests.support.certified import certified
from tests.support.paths import TESTS

FOREIGN = TESTS / "prover" / "foreign"

MINE = """\
# rules of my own
MatMul(MatMul(MatMul(a, b), c), d) = MatMul(a, MatMul(b, MatMul(c, d))) @ a[_,_] b[_,_] c[_,_] d[_,_]
Add(MatMul(a, b), c) = Add(c, MatMul(a, b))
MatMul(a, b) = MatMul(b, a) @ a[_,_] b[_,_]
Transpose[perm=p](Transpose[perm=p](x)) = x
Concat[axis=-1](x, y) = Concat[axis=-2](x, y) @ x[_,_] y[_,_]
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["rules", *map(str, arguments)])


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.rules"
    path.write_text(MINE)
    return path


def test_rules_are_listed(lora_rules: Path) -> None:
    shipped = run()
    assert (shipped.exit_code, shipped.stderr) == (0, "")
    assert [line.split()[0] for line in shipped.stdout.splitlines()] == [rule.id for rule in load_rules()]
    assert shipped.stdout == run("list").stdout
    mine = run("list", lora_rules)
    assert mine.exit_code == 0
    assert mine.stdout.splitlines()[0].endswith("  MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))")
    assert mine.stdout == run(lora_rules).stdout


@pytest.mark.parametrize("command", ["derive", "matrix"])
def test_help_has_examples(command: str) -> None:
    assert "Examples:" in run(command, "--help").stdout


def test_every_rule_is_answered(lora_rules: Path, mine: Path) -> None:
    result = run("derive", lora_rules, mine)
    assert (result.exit_code, result.stderr) == (1, "")
    lines = result.stdout.splitlines()
    outcomes = ["derived in 2 steps", "derived in 0 steps", "not derived", "not instantiated", "not instantiated"]
    assert [line[14:32].strip() for line in lines[:5]] == outcomes
    assert [line.split()[0] for line in lines[:5]] == [rule.id for rule in load_rules(mine)]
    assert lines[0].endswith("  MatMul(MatMul(MatMul(a, b), c), d) = MatMul(a, MatMul(b, MatMul(c, d)))")
    assert [cell.strip() for cell in lines[-2].split("│")[1:-1]] == ["5", "2", "1", "2"]


def test_how(lora_rules: Path, mine: Path) -> None:
    for option in ("--how", "-v"):
        result = run("derive", lora_rules, mine, option)
        lines = [line.strip() for line in result.stdout.splitlines()]
        associative = load_rules(lora_rules)[0].id
        assert lines[1].startswith("at a[_,_] b[_,_] c[_,_] d[_,_] with a.shape[")
        assert lines[2] == "MatMul(MatMul(MatMul(a, b), c), d)"
        assert lines[3].startswith("= MatMul(") and lines[3].endswith(f"  by {associative}, left to right")
        assert lines[4] == f"= MatMul(a, MatMul(b, MatMul(c, d)))  by {associative}, left to right"
        assert any(line.startswith("no derivation of at most 4 steps at a[_,_] b[_,_] with ") for line in lines)
        assert any("needs a signature" in line for line in lines)
        assert any("no sizes were found at x[_,_] y[_,_]" in line for line in lines)


def test_steps_are_bounded(lora_rules: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.rules"
    one.write_text(MINE.splitlines()[1])
    assert run("derive", lora_rules, one).exit_code == 0
    assert run("derive", lora_rules, one, "--steps", "2").exit_code == 0
    short = run("derive", lora_rules, one, "--steps", "1")
    assert short.exit_code == 1
    assert "not derived" in short.stdout


def test_json(lora_rules: Path, mine: Path) -> None:
    result = run("derive", lora_rules, mine, "--json")
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert (data["schema_version"], data["steps"]) == (1, 4)
    assert data["totals"] == {"rules": 5, "derived": 2, "not derived": 1, "not instantiated": 2}
    first = data["rules"][0]
    assert (first["outcome"], first["steps"], first["reason"]) == ("derived", 2, "")
    assert len(first["derivations"]) == 2
    for derivation in first["derivations"]:
        assert derivation["sizes"]["a.shape[1]"] == derivation["sizes"]["b.shape[0]"]
        assert derivation["start"] == "MatMul(MatMul(MatMul(a, b), c), d)"
        assert [step["direction"] for step in derivation["steps"]] == ["left to right"] * 2
        assert derivation["steps"][-1]["after"] == "MatMul(a, MatMul(b, MatMul(c, d)))"
    refused = data["rules"][2]
    assert (refused["outcome"], refused["steps"], refused["derivations"][-1]["steps"]) == ("not derived", None, None)
    assert "no derivation" in refused["reason"]
    assert result.stdout == run("derive", lora_rules, mine, "--json").stdout


def test_rules_may_be_proven_where_no_certificate_speaks(lora_rules: Path, tmp_path: Path) -> None:
    ranks = tmp_path / "ranks.rules"
    ranks.write_text("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c)) @ a[_,_,_,_] b[_,_,_,_] c[_,_,_,_]\n")
    assert run("derive", lora_rules, ranks).exit_code == 1
    assert run("derive", lora_rules, ranks, "--prove").exit_code == 0


def test_nothing_false_is_derived(lora_rules: Path, tmp_path: Path) -> None:
    """From two rules; `tests/generate/test_coverage.py` asks the same of all shipped ones, without the command."""
    (false, *_) = load_rules(FOREIGN / "tensat.false.rules")
    (tmp_path / "false.rules").write_text(show_rule(false) + "\n")
    result = run("derive", lora_rules, tmp_path / "false.rules", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["totals"]["derived"] == 0


def test_matrix(lora_rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = certified(tmp_path / "one.rules", "Transpose[perm=[1, 0]](Transpose[perm=[1, 0]](x)) = x @ x[_,_]\n")
    result = run("matrix", lora_rules, one)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    assert rows == [[str(lora_rules), "2 of 2", "0 of 1"], [str(one), "0 of 2", "1 of 1"]]
    said: list[str] = []
    monkeypatch.setattr(ProgressLines, "__call__", lambda _, line: said.append(line))
    data = json.loads(run("matrix", lora_rules, one, "--json", "--steps", "2").stdout)
    assert (data["derived"], data["steps"]) == ([[2, 0], [0, 1]], 2)
    assert data["sets"] == [{"path": str(lora_rules), "rules": 2}, {"path": str(one), "rules": 1}]
    assert said[0].startswith(f"deriving from {lora_rules}: 1 of 6 derivations, about ")


def test_what_is_unusable_is_one_line(lora_rules: Path, mine: Path, tmp_path: Path) -> None:
    broken, empty = tmp_path / "broken.rules", tmp_path / "empty.rules"
    broken.write_text("Add(a = b\n")
    empty.write_text("# nothing\n")
    for arguments in (
        ("derive", mine, lora_rules),  # not certified
        ("derive", lora_rules, empty),
        ("derive", lora_rules, tmp_path / "missing.rules"),
        ("derive", tmp_path / "missing.rules", lora_rules),
        ("matrix", lora_rules, mine),
        ("list", tmp_path / "missing.rules"),
    ):
        result = run(*arguments)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), arguments
    assert (run("derive", lora_rules, broken).exit_code, run("derive", lora_rules).exit_code) == (2, 2)
    assert run("matrix").exit_code == 2
    assert run("derive", lora_rules, mine, "--steps", "-1").exit_code == 2
