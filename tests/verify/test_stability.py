"""Stability classes: which rewrites keep rounding errors within a proven factor."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from superopt.ir.notation import parse_rule
from superopt.ir.pattern import Bindings
from superopt.ir.term import var
from superopt.ir.types import tensor
from verify.certificates import Certificate, CertifiedBook
from verify.proof_book import ProofBook, prove_at
from verify.stability.analysis import stability
from verify.stability.classes import EXACT, LEVELS, UNSTABLE, Stability, allowed
from verify.verdict import Proved

_MEAN = "ReduceMean[axes=[-1], keepdims=1]"
_BY_44 = "Exp(Sub(x, Sub(ReduceMax[axes=[-1], keepdims=1](x), Constant[shape=[], value_floats=[44.0]])))"
_SHIFTED = "Exp(Sub(x, ReduceMax[axes=[-1], keepdims=1](x)))"
# n and h, mixed by a gate. With a gate of 1 the second form is h without a rounding, the first form is n + (h - n).
_MIXED = "Add(n, Mul(gate, Sub(h, n)))"
_BLENDED = "Add(Mul(Sub(Ones[shape=[]], gate), n), Mul(gate, h))"
_PADDED = "AveragePool[count_include_pad=0, dilations=[1, 1], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]]"


def _pool(size: int) -> str:
    sizes = f"kernel_shape=[{size}, {size}], pads=[0, 0, 0, 0], strides=[{size}, {size}]"
    return f"AveragePool[count_include_pad=0, dilations=[1, 1], {sizes}]"


def classes(line: str) -> tuple[str, str]:
    rule = parse_rule(line)
    proof = prove_at(rule, rule.signatures[0])
    assert isinstance(proof, Proved), proof
    forward, backward = stability(rule, rule.signatures[0], proof)
    return str(forward), str(backward)


@pytest.mark.parametrize(
    "line",
    [
        "MatMul(Sub(x, m), w) = Sub(MatMul(x, w), MatMul(m, w)) @ x[_,_] w[_,_] m[_]",
        "Mul(a, Sub(b, c)) = Sub(Mul(a, b), Mul(a, c)) @ a[_] b[_] c[_]",
        "Mul(a, Add(b, c)) = Add(Mul(a, b), Mul(a, c)) @ a[_] b[_] c[_]",
        "MatMul(x, Add(a, b)) = Add(MatMul(x, a), MatMul(x, b)) @ x[_,_] a[_,_] b[_,_]",
        "Div(Sub(x, m), s) = Sub(Div(x, s), Div(m, s)) @ x[_] m[_] s[_]",
        "Mul(Sub(a, b), Add(a, b)) = Sub(Mul(a, a), Mul(b, b)) @ a[_] b[_]",
        "Mul(Add(a, b), Add(a, b)) = Add(Add(Mul(a, a), Mul(b, b)), Mul(Mul(a, b), two)) @ a[_] b[_]".replace(
            "two", "ConstantOfShape[shape=[], value=2.0]"
        ),
        "Add(Add(x, y), z) = Add(x, Add(y, z)) @ x[_] y[_] z[_]",
        "Add(x, Add(y, z)) = Sum(x, y, z) @ x[_] y[_] z[_]",
        f"{_MEAN}(Mul(Sub(x, {_MEAN}(x)), Sub(x, {_MEAN}(x)))) = "
        f"Sub({_MEAN}(Mul(x, x)), Mul({_MEAN}(x), {_MEAN}(x))) @ x[_,_]",
        f"Add(Log(ReduceSum[axes=[-1], keepdims=1]({_SHIFTED})), ReduceMax[axes=[-1], keepdims=1](x)) = "
        "Log(ReduceSum[axes=[-1], keepdims=1](Exp(x))) @ x[_,_]",
        "Exp(Add(a, b)) = Mul(Exp(a), Exp(b)) @ a[_] b[_]",
        "Mul(Exp(a), Exp(b)) = Exp(Add(a, b)) @ a[_] b[_]",
        "Softmax[axis=-1](x) = Div(Exp(x), ReduceSum[axes=[-1], keepdims=1](Exp(x))) @ x[_,_]",
        "Sigmoid(Neg(x)) = Sub(Ones[shape=[]], Sigmoid(x)) @ x[_]",
        "Exp(Neg(x)) = Reciprocal(Exp(x)) @ x[_]",
        "Mul(y, Reciprocal(Exp(x))) = Mul(y, Exp(Neg(x))) @ x[_] y[_]",
        "LogSoftmax[axis=-1](a) = Log(Softmax[axis=-1](a)) @ a[_,_]",
        f"{_MIXED.replace('gate', 'Exp(s)')} = {_BLENDED.replace('gate', 'Exp(s)')} @ h[_] n[_] s[_]",
        f"{_BLENDED.replace('gate', 'Sigmoid(s)')} = {_MIXED.replace('gate', 'Sigmoid(s)')} @ h[_] n[_] s[_]",
        "x = Sub(Add(x, y), y) @ x[_] y[_]",
        # The difference of equal values is exact, although both are rounded.
        f"Sub({_MEAN}(x), {_MEAN}(x)) = {_MEAN}(Sub(x, {_MEAN}(x))) @ x[_,_]",
        # What rounds in one type does not bound what rounds in another.
        'Exp(Cast[to="double"](x)) = Cast[to="double"](Exp(x)) @ x[_]',
        'Cast[to="double"](Exp(x)) = Exp(Cast[to="double"](x)) @ x[_]',
    ],
)
def test_what_may_cancel_or_overflow_is_unstable(line: str) -> None:
    assert classes(line)[0] == "unstable"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Add(MatMul(x, w), MatMul(x, v)) = MatMul(x, Add(w, v)) @ x[_,_] w[_,_] v[_,_]", "stable(1.5)"),
        ("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c)) @ a[_,_] b[_,_] c[_,_]", "stable(2)"),
        ("Mul(MatMul(a, b), s) = MatMul(a, Mul(b, s)) @ a[_,_] b[_,_] s[]", "stable(1.5)"),
        (
            "Add(MatMul(x, w), MatMul(MatMul(x, a), b)) = MatMul(x, Add(w, MatMul(a, b)))"
            " @ x[_,_] w[_,_] a[_,_] b[_,_]",
            "stable(2.5)",
        ),
        ("Sub(Add(x, y), x) = y @ x[_] y[_]", "stable(1)"),
        ("Reciprocal(Exp(x)) = Exp(Neg(x)) @ x[_]", "stable(1)"),
        ("Log(Softmax[axis=-1](a)) = LogSoftmax[axis=-1](a) @ a[_,_]", "stable(2)"),
        ("a = MatMul(Eye[n=a.shape[-2]], a) @ a[_,_]", "stable(1)"),
        (f"{_pool(2)}({_pool(2)}(x)) = {_pool(4)}(x) @ x[_,_,_,_]", "stable(1)"),
        (f"{_pool(4)}(x) = {_pool(2)}({_pool(2)}(x)) @ x[_,_,_,_]", "stable(2)"),
        (f"Mul(c, {_PADDED}(x)) = {_PADDED}(Mul(x, c)) @ c[_,1,1] x[_,_,_,_]", "stable(2)"),
        (f"{_MIXED.replace('gate', 'Sigmoid(s)')} = {_BLENDED.replace('gate', 'Sigmoid(s)')} @ h[_] n[_] s[_]",
         "stable(3)"),
        (f"{_MIXED.replace('gate', 'Sigmoid(Add(Mul(s, t), Mul(s, u)))')} = "
         f"{_BLENDED.replace('gate', 'Sigmoid(Mul(s, Add(t, u)))')} @ h[_] n[_] s[_] t[_] u[_]", "stable(3)"),
        ("Add(x, Add(y, z)) = Sum(y, z, x) @ x[_] y[_] z[_]", "stable(1)"),
        (f"Softmax[axis=-1](x) = Div({_BY_44}, ReduceSum[axes=[-1], keepdims=1]({_BY_44})) @ x[_,_]", "stable(23)"),
        ("Concat[axis=-1](Exp(a), Exp(y)) = Exp(Concat[axis=-1](a, y)) @ a[_,_] y[_,_]", "stable(1)"),
        ("ReduceMax[axes=[-1], keepdims=1](Sigmoid(a)) = Sigmoid(ReduceMax[axes=[-1], keepdims=1](a)) @ a[_,_]",
         "stable(1)"),
        ("Transpose[perm=[1, 0]](Transpose[perm=[1, 0]](x)) = x @ x[_,_]", "exact"),
        ('Cast[to="double"](Neg(x)) = Neg(Cast[to="double"](x)) @ x[_]', "stable(1)"),
    ],
)  # fmt: skip
def test_what_cannot_cancel_is_stable(line: str, expected: str) -> None:
    assert classes(line)[0] == expected


def test_classes_are_read_as_they_are_written() -> None:
    for one in (EXACT, UNSTABLE, Stability.bounded("stable", Fraction(4, 3)), Stability("normwise", Fraction(1200))):
        assert Stability.parse(str(one)) == one
    assert Stability.bounded("stable", Fraction(1, 2)).factor == 1
    assert Stability.bounded("stable", Fraction(4, 3)).factor >= Fraction(4, 3)
    for text in ("", "stable", "stable(0.5)", "stable(-1)", "normwise()", "exact(2)"):
        with pytest.raises(ValueError, match="stability class"):
            Stability.parse(text)


def test_each_level_allows_what_stricter_levels_allow() -> None:
    kinds = [EXACT, Stability("stable", Fraction(2)), Stability("normwise", Fraction(2)), UNSTABLE]
    for numerics in ("exact", "reassociating", "real-only"):
        for kind in kinds:
            found = [allowed(level, numerics, kind) for level in LEVELS]
            assert found == sorted(found) and found[-1]
    assert not any(allowed(level, "reassociating", UNSTABLE) for level in LEVELS[:-1])
    assert allowed("normwise", "real-only", kinds[2]) and not allowed("stable", "real-only", kinds[2])


def test_a_book_applies_a_rule_in_its_stable_direction_only() -> None:
    rule = parse_rule("Add(Mul(a, b), Mul(a, c)) = Mul(a, Add(b, c)) @ a[_] b[_] c[_]")
    (signature,) = rule.signatures
    proof = prove_at(rule, signature)
    assert isinstance(proof, Proved)
    certificate = Certificate.of(rule, [(signature, proof)], stability=[stability(rule, signature, proof)])
    assert Certificate.from_json(certificate.to_json()) == certificate
    for level in LEVELS[1:]:
        for book in (ProofBook(level), CertifiedBook({rule: certificate}, level)):
            leaves = {name: var(name, tensor(3)) for name in "abc"}
            bindings = Bindings(leaves, {})
            assert str(book.stability(rule, signature)).startswith("stable")
            assert book.stability(rule.reversed(), signature) == UNSTABLE
            assert book.allows(rule, signature, bindings)
            assert book.allows(rule.reversed(), signature, bindings) == (level == "real-only")


def test_classes_by_another_analysis_are_not_used() -> None:
    rule = parse_rule("Mul(a, Sub(b, c)) = Sub(Mul(a, b), Mul(a, c)) @ a[_] b[_] c[_]")
    (signature,) = rule.signatures
    certificate = Certificate.of(rule, [(signature, Proved((), ()))], stability=[(EXACT, EXACT)])
    assert CertifiedBook({rule: certificate}).stability(rule, signature) == EXACT
    foreign = replace(certificate, analysis="0" * 32)
    assert CertifiedBook({rule: foreign}).stability(rule, signature) == UNSTABLE


_SKIP = "LayerNormalization[axis=-1, epsilon=e](Add(Add({0}, b), y), g, h) = "
_SKIP += "SkipLayerNormalization[epsilon=e]({0}, y, g, h, b) @ {1} b[_] y[_,_,_] g[_] h[_] e=*"


def test_operands_of_one_operator_decide_by_their_norms() -> None:
    """x + b may cancel, x + y may not: the reordered sum loses digits, unless those that x has lost are as many."""
    assert classes(_SKIP.format("x", "x[_,_,_]")) == ("unstable", "unstable")
    assert classes(_SKIP.format("MatMul(a, w)", "a[_,_,_] w[_,_]"))[0] == "normwise(3)"
