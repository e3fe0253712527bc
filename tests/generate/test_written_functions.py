"""Functions that models write out: each window's output is compared with them, and the rule is a direct one."""

from __future__ import annotations

from pathlib import Path

import pytest

from superopt.corpus import Window, read_corpus
from superopt.generate import generate
from superopt.generate.conjectures.written_functions import function_families
from superopt.generate.grammar import Family
from superopt.ir.notation import parse_rules

NORM = "Sqrt(Add(ReduceMean[axes=[-1], keepdims=1]({}), ConstantOfShape[shape=[], value=0.125]))"
NUMBER = "ConstantOfShape[shape=[], value={}]"
SQUARE = f"Pow(x0, {NUMBER.format(2.0)})"
ROOT_OF_2 = NUMBER.format(1.4142135381698608)
SIZES = "@ x0[2,3,4] x1[4] ! weights x1; count 3; share 0.1; models some"


def windows(folder: Path, *lines: str) -> tuple[Window, ...]:
    path = folder / "corpus.txt"
    path.write_text("\n".join(lines) + "\n")
    return read_corpus(path)


def found(folder: Path, text: str, sizes: str = SIZES) -> tuple[Family, ...]:
    return function_families(windows(folder, f"{text} {sizes}"))


@pytest.mark.parametrize(
    "text",
    [
        f"Mul(x1, Mul(x0, Reciprocal({NORM.format(SQUARE)})))",
        f"Mul(Div(x0, {NORM.format('Mul(x0, x0)')}), x1)",
        f"Div(Mul(x0, x1), {NORM.format(SQUARE)})",
    ],
)
def test_every_form_of_a_normalization(tmp_path: Path, text: str) -> None:
    (family,) = found(tmp_path, text)
    assert "RMSNormalization[axis=-1, epsilon=0.125](x0, x1)" in family.definitions
    assert [v.name for v in family.variables if v.weight] == ["x1"]


def test_a_number_is_read_as_its_formula(tmp_path: Path) -> None:
    """1.41421354 is the float32 number nearest to the root of 2, of which Gelu is defined."""
    gelu = "Mul(Mul(x0, Add(Erf(Div(x0, {})), Ones[shape=[]])), " + NUMBER.format(0.5) + ")"
    sizes = "@ x0[2,3,4] ! count 3; share 0.1; models some"
    (family,) = found(tmp_path, gelu.format(ROOT_OF_2), sizes)
    assert family.definitions == ('Gelu[approximate="none"](x0)',) and "Sqrt" in family.targets[0]
    assert not found(tmp_path, gelu.format(NUMBER.format(1.5)), sizes)


@pytest.mark.parametrize(
    "text",
    [
        f"Mul(x1, Mul(x0, {NORM.format(SQUARE)}))",  # multiplied by the root
        f"Mul(x1, Div(x0, {NORM.format('Abs(x0)')}))",
        f"Mul(x1, Div(x0, {NORM.format('Mul(x0, x1)')}))",
        "Mul(Add(x0, x1), x1)",  # small windows are enumerated
    ],
)
def test_nothing_that_is_no_function(tmp_path: Path, text: str) -> None:
    assert not found(tmp_path, text)


def test_rules_are_proven_at_all_ranks(tmp_path: Path) -> None:
    families = found(tmp_path, f"Mul(x1, Mul(x0, Reciprocal({NORM.format(SQUARE)})))")
    generate(tmp_path / "rules", 0, lambda _: None, families=families)
    rules = parse_rules((tmp_path / "rules" / "corpus.rules").read_text())
    (rule,) = (rule for rule in rules if rule.lhs[0].op == "Mul")
    assert rule.rhs[0].op == "RMSNormalization"  # and SimplifiedLayerNormalization follows from that, or the reverse
    assert {len(dict(s.shapes)["x0"]) for s in rule.signatures} == {1, 2, 3, 4}
    assert [one.lhs[0].op for one in rules if one is not rule] == ["RMSNormalization"]
