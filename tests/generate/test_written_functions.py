"""Functions that models write out: each window's output is compared with them, and the rule is a direct one."""

from __future__ import annotations

from pathlib import Path

import pytest

from superopt.corpus import Window, read_corpus
from superopt.generate import generate
from superopt.generate.conjectures.written_functions import function_families
from superopt.generate.grammar import Family
from superopt.ir.notation import parse_rules
from superopt.ir.term import node_of

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
    (weight,) = (v.name for v in family.variables if v.weight)  # variables are named in the order of the part's graph
    (other,) = {v.name for v in family.variables} - {weight}
    assert f"RMSNormalization[axis=-1, epsilon=0.125]({other}, {weight})" in family.definitions


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
    (rule,) = rules  # the function's own equations lead back
    assert rule.lhs[0].op == "Mul"
    assert rule.rhs[0].op == "RMSNormalization"  # and SimplifiedLayerNormalization follows from that, or the reverse
    data = str(rule.rhs[0].inputs[0].attr("name"))
    assert {len(dict(s.shapes)[data]) for s in rule.signatures} == {1, 2, 3, 4}


SKIP = "LayerNormalization[axis=-1, epsilon=0.125](Add(Add({}, x2), x3), x4, x5)"
SKIP_SIZES = "@ x0[1,2,3] x1[3,4] x2[4] x3[1,2,4] x4[4] x5[4] ! weights x1,x2,x4,x5; count 3; share 0.1; models some"


def test_a_part_of_a_window_over_variables_and_over_products(tmp_path: Path) -> None:
    """x + b may cancel, and what it loses is then gone: only the sum with a product may be taken in another order."""
    families = found(tmp_path, SKIP.format("MatMul(x0, x1)"), SKIP_SIZES)
    assert [len(family.variables) for family in families] == [5, 5, 6, 6]
    generate(tmp_path / "rules", 0, lambda _: None, families=families)
    rules = parse_rules((tmp_path / "rules" / "corpus.rules").read_text())
    assert sorted(len(rule.lhs) for rule in rules) == [1, 2]
    for rule in rules:
        node = node_of(rule.rhs[0])
        assert node.op == "SkipLayerNormalization" and node.inputs[0].op == "MatMul"
        assert rule.rhs == (node.out(0), node.out(1))[: len(rule.lhs)]
        assert rule.lhs[1:] == rule.lhs[0].inputs[:1][: len(rule.lhs) - 1]  # the sum that is normalised
