"""The class normwise: minimal filtering has it, and differences of sums do not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from superopt.diagnose.confirmation import run_terms
from superopt.evaluate import evaluate
from superopt.ir.dim import symbol
from superopt.ir.notation import parse_rule
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Rule
from superopt.ir.term import Term, var
from superopt.ir.types import TensorType
from superopt.ops.algebra import equal
from tests.support.paths import ROOT
from verify.proof_book import prove_at
from verify.stability.analysis import stability
from verify.stability.normwise import Norms, _Sums, normwise_factor
from verify.verdict import Proved

FILTERING = [
    parse_rule(line)
    for line in (ROOT / "rules" / "filtering.rules").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
# Worst cases over all values, by tiles of 2 and of 4, each with a bias and without. |coefficients| sum up to 64 and
# 876.2 times C |x| |w|, for 9 in Conv. Along one axis these are 8 = sum over c of |A[r, c]| |B[c]| |G[c]| with row sums
# of the matrices of Winograd's algorithm, and 29.6.
FACTORS = [Fraction("36.12"), Fraction("35.12"), Fraction("804.02"), Fraction("801.24")]
UNIT = 2.0**-24


def classes(rule: Rule) -> tuple[str, str]:
    proof = prove_at(rule, rule.signatures[0])
    assert isinstance(proof, Proved), proof
    forward, backward = stability(rule, rule.signatures[0], proof)
    return str(forward), str(backward)


@pytest.mark.parametrize(("rule", "factor"), list(zip(FILTERING, FACTORS, strict=True)))
def test_minimal_filtering_is_normwise(rule: Rule, factor: Fraction) -> None:
    assert classes(rule) == (f"normwise({float(factor):g})", "unstable")


_SUM = "Constant[shape=[2, 2], value_floats=[1.0, 1.0, 1.0, -1.0]]"
_HALF = "Constant[shape=[2, 2], value_floats=[0.5, 0.5, 0.5, -0.5]]"
_SWAP = "Constant[shape=[2, 2], value_floats=[0.0, 1.0, 1.0, 0.0]]"
_ONE = "Constant[shape=[1], value_floats=[1.0]]"


def factor_of(line: str) -> Fraction | None:
    rule = parse_rule(line)
    assert isinstance(prove_at(rule, rule.signatures[0]), Proved)
    (left,), (right,) = rule.instantiate(rule.signatures[0])
    return normwise_factor(left, right)


@pytest.mark.parametrize(
    ("line", "factor"),
    [
        # N(left) = 2 |x| |w|. Both tables move elements: 2 |x| |w| for the products and as much for their sum.
        (f"MatMul(x, w) = MatMul(MatMul(x, {_SWAP}), MatMul({_SWAP}, w)) @ x[_,2] w[2,_]", 2),
        # |x T| <= 2 |x| with an error of 2 |x|; |T w / 2| <= |w| with an error of |w|; 2 (2 + 2 + 2) + 4 = 16.
        (f"MatMul(x, w) = MatMul(MatMul(x, {_SUM}), MatMul({_HALF}, w)) @ x[_,2] w[2,_]", 8),
        # N(left) = 2 |x| |w| + |b|. The last sum adds 4 to 16.
        (f"Add(MatMul(x, w), b) = Add(MatMul(MatMul(x, {_SUM}), MatMul({_HALF}, w)), b) @ x[_,2] w[2,_] b[_]", 10),
        # n summands on both sides, for any n.
        (f"MatMul(x, w) = MatMul(x, Mul({_ONE}, w)) @ x[_,_] w[_,_]", 2),
    ],
)
def test_factors_computed_by_hand(line: str, factor: int) -> None:
    assert factor_of(line) == factor


_MEAN = "ReduceMean[axes=[-1], keepdims=1]"


@pytest.mark.parametrize(
    "line",
    [
        f"MatMul(Sub(x, m), w) = Sub(MatMul(x, Mul({_ONE}, w)), MatMul(m, w)) @ x[_,_] w[_,_] m[_]",
        f"Sub(MatMul(x, w), MatMul(x, v)) = MatMul(Mul({_ONE}, x), Sub(w, v)) @ x[_,_] w[_,_] v[_,_]",
        f"Add(Add(x, y), z) = Add(x, Add(Mul({_ONE}, y), z)) @ x[_] y[_] z[_]",
        f"{_MEAN}(Mul(Sub(x, {_MEAN}(x)), Sub(x, {_MEAN}(x)))) = "
        f"Sub({_MEAN}(Mul(x, Mul({_ONE}, x))), Mul({_MEAN}(x), {_MEAN}(x))) @ x[_,_]",
        # 0 is added to the result: the right side sums what the left side does not.
        f"MatMul(x, w) = Sub(Add(MatMul(x, w), Mul({_ONE}, y)), y) @ x[_,_] w[_,_] y[_]",
        # A part of x is all that the left side sums.
        "MatMul(Slice[axes=[1], ends=[2], starts=[0], steps=[1]](x), w) = "
        "MatMul(x, MatMul(Constant[shape=[3, 2], value_floats=[1.0, 0.0, 0.0, 1.0, 0.0, 0.0]], w)) @ x[_,3] w[2,_]",
    ],
)
def test_what_may_cancel_is_not_normwise(line: str) -> None:
    assert factor_of(line) is None


def test_an_equation_determines_one_index_only() -> None:
    """Sum over p and q < n of [p == q + i]: n summands for the largest range of p, and one for a single p."""
    sums, i, n = _Sums(), symbol("i"), symbol("n")
    one = sums.constant(Fraction(1))
    band = sums.summation(n, lambda p: sums.summation(n, lambda q: sums.where([equal(p, q + i)], lambda: one)))
    assert band.norm == sums.summation(n, lambda p: one).norm
    line = sums.summation(n, lambda q: sums.where([equal(i, q)], lambda: one))
    assert line.norm == one.norm
    square = sums.summation(n, lambda q: sums.where([equal(i, q * q)], lambda: one))
    assert square.norm == band.norm


def test_numbers_are_exact_if_every_type_holds_them() -> None:
    sums = _Sums()
    x = sums.access("x", ())
    for number, rounded in ((2, False), (Fraction(-1, 8), False), (5, True), (Fraction(1, 3), True)):
        assert bool(sums.multiply(sums.constant(Fraction(number)), x).error) == rounded
    for number, held in ((255, True), (257, False), (Fraction(1, 576), False), (576, True)):
        assert bool(sums.constant(Fraction(number)).error) != held
    third = sums.constant(Fraction(1, 3))
    one = sums.multiply(third, sums.constant(Fraction(3)))
    assert sums.multiply(one, x).error == {m: 3 * v for m, v in x.norm.items()}  # of 1/3, of 1/3 * 3, of 1 * x
    assert sums.add(x, Norms()) == x


def _leaves(rule: Rule, dtype: str, shape: tuple[int, int, int, int], outputs: int) -> dict[str, Term]:
    shapes = {"x": shape, "w": (outputs, shape[1], 3, 3), "b": (outputs,)}
    return {name: var(name, TensorType(dtype, shapes[name])) for name in "xwb"[: len(rule.lhs[0].inputs)]}


@pytest.mark.parametrize(
    ("rule", "factor", "usual"), list(zip(FILTERING, FACTORS, (3.0, 3.0, 20.0, 20.0), strict=True))
)
def test_measured_errors_are_within_the_bound(rule: Rule, factor: Fraction, usual: float) -> None:
    """Typical errors are far below the worst case: about 10 times those of Conv for tiles of 4 x 4."""
    rng = np.random.default_rng(20)
    ratios = []
    for shape, pads in (((1, 1, 5, 5), 0), ((2, 3, 8, 7), 1), ((1, 16, 13, 14), 1), ((1, 64, 12, 12), 1)):
        attrs = {"p": (pads,) * 4}
        floats = Bindings(_leaves(rule, "float", shape, 5), attrs)
        sides = [instantiate(side, floats, "float") for side in (rule.lhs, rule.rhs)]
        doubles = Bindings(_leaves(rule, "double", shape, 5), attrs)
        exact = instantiate(rule.lhs, doubles, "double")
        for kind in range(4):
            values = {}
            for name, term in doubles.terms.items():
                assert term.type is not None
                noise = rng.standard_normal(term.type.concrete())
                if kind == 1:
                    noise += 1e3
                elif kind == 2:
                    noise = np.sign(noise)
                elif kind == 3:
                    noise = noise * 10.0 ** rng.uniform(-3, 3, noise.shape)
                values[name] = noise.astype(np.float32)
            (truth,) = evaluate(exact, {doubles.terms[n]: v.astype(float) for n, v in values.items()}, {})
            errors = []
            for side in sides:
                found = run_terms(side, values)
                assert not isinstance(found, str), found
                errors.append(np.abs(found[0] - truth).max())
            largest = {name: np.abs(value).max() for name, value in values.items()}
            norm = 9 * shape[1] * largest["x"] * largest["w"] + largest.get("b", 0.0)
            assert errors[1] <= float(factor) * UNIT * norm
            if kind == 0:
                assert all(errors)
                ratios.append(errors[1] / errors[0])
    assert np.exp(np.mean(np.log(ratios))) < usual
