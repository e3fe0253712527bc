"""Lines of rule files that cannot be read: all of them, each with its column and the names that may be meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from superopt.cli import main
from superopt.ir.notation import show_rule
from superopt.ir.rule import Rule
from superopt.rulebook.line_problems import LineProblem, parsed
from superopt.rulebook.loading import RuleSyntaxError, certified_rules, load_rules, read_all_rules


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("MatMull(a, b) = MatMul(a, b)", 0, "there is no operator MatMull; did you mean MatMul"),
        ("Relu(x) = reluu(x)", 10, "there is no operator reluu; did you mean Relu"),
        ("Relu(x) = qqqqqq(x)", 10, "there is no operator qqqqqq"),
        ("Transpose[prem=[1, 0]](x) = x", 10, "Transpose has no attribute prem; did you mean perm?"),
        ("Clip[min=0](x) = x", 5, "Clip has no attribute min; it takes bound_high, bound_low"),
        ("Neg(Add(x, _)) = Add(_, x)", 4, "Add needs input 2; _ leaves out optional ones"),
        ("Relu[axis=1](x) = x", 5, "Relu has no attribute axis; it takes none"),
        ("Relu(Transpose(x)) = x", 5, "Transpose needs the attribute perm: Transpose[perm=...](...)"),
        ("x = Relu(Sub(x))", 9, "Sub does not take 1 inputs"),
        ("Relu(x", 6, "expected ',', found the end"),
        ("Relu(x) = x $ y", 12, "'$' is no sign of the notation"),
        ("(Relu(x), x) = x", None, "2 outputs on the left, 1 on the right"),
        ("Relu(x) = x @ x:flaot[_]", 16, "there is no element type flaot; did you mean float"),
        ("Relu(xs) = xs @ x[_]", 16, "the rule has no variable x; did you mean xs?"),
        ("Relu(x) = Relu(x) @ x[_] | y=1", 18, "a signature does not mention the variable x"),
        ("Softmax[axis=a](x) = x @ x[_]", 23, "a signature does not mention the attribute variable a"),
        ("Relu(x) = x @ x=_", 14, "a signature does not mention the variable x"),
    ],
)
def test_column_and_message(line: str, column: int | None, message: str) -> None:
    problem = parsed(line)
    assert isinstance(problem, LineProblem)
    assert problem.message.startswith(message)
    assert problem.column in (column, line.find("@"))
    if column is not None and problem.column == column:
        shown, caret = problem.lines()
        assert (shown, caret.index("^")) == (line, column)


@pytest.mark.parametrize(
    ("line", "column"),
    [(f"{'Neg(' * 5000}x{')' * 5000} = x", 403), (f"Transpose[perm={'[' * 5000}0{']' * 5000}](x) = x", 114)],
)
def test_brackets_that_no_parser_can_follow(line: str, column: int) -> None:
    assert parsed(line) == LineProblem(line, column, "brackets are nested more than 100 deep")
    assert isinstance(parsed(f"{'Neg(' * 100}x{')' * 100} = x"), Rule)


def test_a_long_line_is_cut_around_the_column() -> None:
    line = "Add(" * 60 + "x, Reluu(x)" + ", x)" * 60 + " = x"
    problem = parsed(line)
    assert isinstance(problem, LineProblem) and problem.column == line.index("Reluu")
    shown, caret = problem.lines()
    assert len(shown) < 120 and shown[caret.index("^") :].startswith("Reluu")


def test_rules_that_can_be_read_stay_as_they_are() -> None:
    for rule in load_rules():
        assert parsed(show_rule(rule)) == rule


@given(st.text("Relu(x)=@[]_,.:|Add1\"'\\$ \t*", max_size=30))
def test_any_text_is_a_rule_or_a_problem_in_one_place(text: str) -> None:
    found = parsed(text)
    assert isinstance(found, (Rule, LineProblem))
    if isinstance(found, LineProblem):
        assert found.lines() and "\n" not in found.message


def test_all_lines_of_all_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text("# head\nReluu(x) = x\n\nRelu(x) = Relu(Relu(x)) @ x[_]\nRelu(x\n")
    (tmp_path / "b.rules").write_text("Relu(x, y) = x\n")
    with pytest.raises(RuleSyntaxError) as caught:
        read_all_rules(sorted(tmp_path.glob("*.rules")))
    assert str(caught.value).startswith(f"{tmp_path / 'a.rules'}:2: column 1: there is no operator Reluu")
    assert "(and 2 more lines cannot be read)" in str(caught.value)
    assert [line[: line.index(": ", 7)] for line in caught.value.lines if not line.startswith(" ")] == [
        f"error: {tmp_path / name}" for name in ("a.rules:2", "a.rules:5", "b.rules:1")
    ]


def test_a_byte_order_mark_is_no_part_of_the_first_rule(tmp_path: Path) -> None:
    """Editors on Windows write one; `verify --certify` leaves it out when it writes signatures."""
    path = tmp_path / "mine.rules"
    path.write_text("Relu(Relu(x)) = Relu(x)\n", encoding="utf-8-sig")
    done = CliRunner().invoke(main.command, ["verify", "--certify", str(path)])
    assert done.exit_code == 0, done.output
    assert path.read_text(encoding="utf-8").startswith("Relu(Relu(x)) = Relu(x) @ x[")
    certified_rules(path)


@pytest.mark.parametrize("command", ["verify", "rules"])
def test_the_command_shows_them(tmp_path: Path, command: str) -> None:
    path = tmp_path / "mine.rules"
    path.write_text("Reluu(x) = x\nRelu(x) = \n")
    done = CliRunner().invoke(main.command, [command, str(path)])
    assert done.exit_code == 2 and not done.stdout
    assert done.stderr.splitlines() == [
        f"error: {path}:1: column 1: there is no operator Reluu; did you mean Relu or PRelu or Elu?",
        "    Reluu(x) = x",
        "    ^",
        f"error: {path}:2: column 11: expected an operator or a variable, found the end",
        "    Relu(x) = ",
        "              ^",
    ]
