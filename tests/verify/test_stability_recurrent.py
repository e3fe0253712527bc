"""Recurrent layers of one step against the same cell in simpler operators."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.diagnose.confirmation import run_terms
from superopt.evaluate import evaluate
from superopt.ir.notation import parse_rule
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import topological, var
from superopt.ir.types import tensor
from superopt.rulebook.chain import chain_rule
from superopt.rulebook.loading import load_rules, shipped_rules
from verify.proof_book import prove_at
from verify.stability.analysis import stability
from verify.verdict import Proved

_SHAPES = "a[_,_] bn[_] br[_] bz[_] cn[_] cz[_] h[_,_] un[_,_] ur[_,_] uz[_,_] wn[_,_] wr[_,_] wz[_,_]"


def gru(linear_before_reset: bool, *, biases: bool = False) -> Rule:
    """Return the equation of a cell and a GRU, perhaps with two biases in gate z."""
    z = "Sigmoid(Add(bz, Add(MatMul(a, wz), MatMul(h, uz))))"
    if biases:
        z = "Sigmoid(Add(Add(MatMul(a, wz), bz), Add(MatMul(h, uz), cz)))"
    r = "Sigmoid(Add(br, Add(MatMul(a, wr), MatMul(h, ur))))"
    n = f"Tanh(Add(bn, Add(MatMul(a, wn), MatMul(Mul({r}, h), un))))"
    if linear_before_reset:
        n = f"Tanh(Add(Add(MatMul(a, wn), bn), Mul({r}, Add(MatMul(h, un), cn))))"
    cell = f"Add(Mul(Sub(Ones[shape=[]], {z}), {n}), Mul({z}, h))"
    zeros = "Zeros[shape=bz.shape]"
    of_state = f"{'cz' if biases else zeros}, {zeros}, {'cn' if linear_before_reset else zeros}"
    wide = "Unsqueeze[axes=[-3]]"
    w, u = (f"{wide}(Transpose[perm=[1, 0]](Concat[axis=-1]({k}z, {k}r, {k}n)))" for k in "wu")
    bias = f"Unsqueeze[axes=[-2]](Concat[axis=-1](bz, br, bn, {of_state}))"
    layer = f"GRU[linear_before_reset={int(linear_before_reset)}]({wide}(a), {w}, {u}, {bias}, {wide}(h))"
    used = [one for one in _SHAPES.split() if one.split("[")[0] in cell]
    return parse_rule(f"{cell} = Squeeze[axes=[-3]]({layer}.1) @ {' '.join(used)}")


def classes(rule: Rule) -> tuple[str, str]:
    proof = prove_at(rule, rule.signatures[0])
    assert isinstance(proof, Proved), proof
    forward, backward = stability(rule, rule.signatures[0], proof)
    return str(forward), str(backward)


@pytest.mark.parametrize(("linear_before_reset", "factor"), [(False, 1), (True, 2)])
def test_a_cell_as_it_is_defined_is_stable_both_ways(linear_before_reset: bool, factor: int) -> None:
    assert classes(gru(linear_before_reset)) == (f"stable({factor})", f"stable({factor})")


def test_biases_that_cancel_make_a_cell_of_two_sums_unstable() -> None:
    rule = gru(False, biases=True)
    assert classes(rule) == ("stable(2)", "unstable")
    cell, layer = _errors(rule, bias=1e6)
    assert cell > 1000 * layer  # ONNX Runtime adds both biases of a layer before all else


def _errors(rule: Rule, bias: float) -> tuple[float, float]:
    """Return the largest errors of both sides in float32, for biases of gate z that cancel."""
    rng = np.random.default_rng(0)
    (signature,) = rule.signatures
    values = {name: rng.standard_normal((4,) * len(shape)).astype(np.float32) for name, shape in signature.shapes}
    values["bz"] = np.round(bias * values["bz"])
    values["cz"] = -values["bz"]
    sides = []
    for dtype in ("float", "double"):
        leaves = {name: var(name, tensor(*value.shape, dtype=dtype)) for name, value in values.items()}
        sides.append([instantiate(side, Bindings(leaves, {}), dtype) for side in (rule.lhs, rule.rhs)])
    doubles = {var(name, tensor(*value.shape, dtype="double")): value.astype(float) for name, value in values.items()}
    (truth,) = evaluate(sides[1][1], doubles, {})
    found = []
    for side in sides[0]:
        got = run_terms(side, values)
        assert not isinstance(got, str), got
        found.append(float(np.abs(got[0] - truth).max()))
    return found[0], found[1]


def test_a_long_chain_of_steps_is_stable() -> None:
    """Concat joins its operands, it repeats none: 100 steps once took 12 seconds of questions about repeated parts."""
    chain = max(
        (one for rule in load_rules(shipped_rules() / "recurrent.rules") if (one := chain_rule(rule)) is not None
         and one.first.op == "LSTM"),
        key=lambda one: len(one.rule.lhs),
    )  # fmt: skip
    rule = chain.for_steps(100, [(k, 1) for k in range(100)])
    assert rule is not None
    names = sorted({str(t.attr("name")) for t in topological(rule.lhs) if t.op == "Var"})
    shapes = tuple(
        (name, (1, None) if name == "b" else (1, 1, None) if name[0] in "chpq" else (1, None, None)) for name in names
    )
    signature = Signature(shapes, ())
    proof = prove_at(rule, signature)
    assert isinstance(proof, Proved), proof
    assert str(stability(rule, signature, proof)[0]) == "stable(1)"
