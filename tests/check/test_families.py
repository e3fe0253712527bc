"""Rewrites that released optimizers got wrong, and their guarded versions, as pairs of models."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import onnx
import pytest

from superopt.check import DIFFERENT, CheckOptions, check
from superopt.ir.dim import Dim, evaluate, symbols_of
from superopt.ir.notation import parse_rule
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Attr, AttrVar, Term, var
from superopt.onnx_io import new_model, write_model
from tests.support.paths import TESTS
from verify.diagnose.decide import decide
from verify.verdict import Refuted

CASES = sorted((TESTS / "prover" / "known_false").glob("*.json"))
Sides = tuple[tuple[Term, ...], tuple[Term, ...]]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_models_of_a_family(path: Path) -> None:
    case = json.loads(path.read_text())
    rule = parse_rule(f"{case['source']} = {case['target']} @ {case['signature']}")
    sides = _sides(rule, case["expected"] == "proved")
    if sides is None:  # the wrong side has no type: no file holds it
        assert path.stem in ("06-clip-clip-unordered", "13-conv-merge-symbolic")
        return
    left, right = map(_model, sides)
    is_true = case["expected"] == "proved"
    answer = check(left, right, CheckOptions(seconds=0.4 if is_true else 20))
    assert (answer.verdict == DIFFERENT) != is_true, answer.reason


def _sides(rule: Rule, is_true: bool) -> Sides | None:
    """Return both sides at sizes where the rule holds, or at those of the kernel's counterexample."""
    signature = rule.signatures[0]
    if not is_true:
        verdict = decide(rule, signature)
        assert isinstance(verdict, Refuted) and verdict.counterexample is not None
        return _at(rule, signature, dict(verdict.counterexample.sizes))
    symbols = sorted({s for t in signature.bindings().terms.values() for d in t.type.shape for s in symbols_of(d)})
    for sizes in itertools.product((4, 2, 6), repeat=len(symbols)):
        found = _at(rule, signature, dict(zip(symbols, sizes, strict=True)))
        if found is not None:
            return found
    raise AssertionError("no sizes fit")


def _at(rule: Rule, signature: Signature, sizes: dict[str, int]) -> Sides | None:
    symbolic = signature.bindings()
    terms = {name: var(name, term.type.with_sizes(sizes)) for name, term in symbolic.terms.items()}
    bindings = Bindings(terms, {name: _number(value, sizes) for name, value in symbolic.attrs.items()})
    try:
        sides = tuple(instantiate(side, bindings, bindings.dtype() or "float") for side in (rule.lhs, rule.rhs))
    except IllTyped:
        return None
    return sides[0], sides[1]


def _number(value: Attr, sizes: dict[str, int]) -> Attr:
    if isinstance(value, tuple):
        return tuple(_number(item, sizes) for item in value)
    if isinstance(value, AttrVar):
        return 0.5
    return evaluate(value, sizes) if isinstance(value, Dim) else value


def _model(side: tuple[Term, ...]) -> onnx.ModelProto:
    return write_model(new_model(side, opset=18), fold=False)
