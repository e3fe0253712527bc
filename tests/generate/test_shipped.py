"""The shipped rules: expected rules are there, and the generator produces the files."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from superopt.generate.derive import normal
from superopt.ir.infer import IllTyped, replace
from superopt.ir.notation import parse_terms
from superopt.ir.pattern import Bindings, instantiate, match
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.ir.types import tensor
from superopt.rulebook.commutative import operand_orders
from superopt.rulebook.loading import certified_rules, load_rules, read_rules
from tests.support.paths import ROOT
from verify.certificates import CertifiedBook, load_certificates

SHIPPED, CORPUS = ROOT / "rules", ROOT / "superopt" / "generate" / "corpus.txt"
RULES = [listed.rule for path in sorted(SHIPPED.glob("*.rules")) for listed in read_rules(path)]

_CONV = "Conv[dilations=[1, 1], group={g}, pads=[{p}, {p}, {p}, {p}], strides=[{s}, {s}]]"
_FOLD = (
    "Transpose[perm=[1, 0, 2, 3]](BatchNormalization[epsilon=1e-05](Transpose[perm=[1, 0, 2, 3]]({w}), s, {z}, {z}, v))"
)
_MOVE = "Squeeze[axes=[-2]](BatchNormalization[epsilon=1e-05]({b}, s, o, m, v))"
_NORM = "BatchNormalization[epsilon=1e-05]({x}, s, o, m, v)"
_PAD = "Pad[pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.0]"
_UNPADDED = "Pad[pads=[0, 0, 0, 0, 0, 0, 0, 0], value=0.0]"


def _conv(g: int = 1, p: int = 1, s: int = 1) -> str:
    return _CONV.format(g=g, p=p, s=s)


def _fold(w: str, channels: int) -> str:
    return _FOLD.format(w=w, z=f"Zeros[shape=[{channels}]]")


_STATISTICS: Mapping[str, tuple[int, ...]] = dict.fromkeys(("s", "o", "m", "v"), (6,))
_IMAGE: Mapping[str, tuple[int, ...]] = {"x": (2, 4, 7, 8), "y": (2, 3, 7, 8)}
_KERNELS: Mapping[str, tuple[int, ...]] = {
    "w": (6, 4, 3, 3),
    "u": (6, 4, 3, 3),
    "k": (6, 4, 1, 1),
    "b": (6,),
    "c": (6,),
}
_GROUPED: Mapping[str, tuple[int, ...]] = {**_KERNELS, "w": (6, 2, 3, 3), "u": (6, 2, 3, 3), "k": (6, 2, 1, 1)}
_DEPTHWISE: Mapping[str, tuple[int, ...]] = {"x": (2, 6, 7, 8), "w": (6, 1, 3, 3), "k": (6, 1, 1, 1), "b": (6,)}

# name -> (left, right, sizes): the right side is one application of a shipped rule away from the left side.
_EXPECTED: Mapping[str, tuple[str, str, Mapping[str, tuple[int, ...]]]] = {
    "MatMul is associative": (
        "MatMul(MatMul(a, b), c)",
        "MatMul(a, MatMul(b, c))",
        {"a": (2, 3), "b": (3, 4), "c": (4, 5)},
    ),
    "batched MatMul is associative": (
        "MatMul(MatMul(a, b), c)",
        "MatMul(a, MatMul(b, c))",
        {"a": (7, 2, 3), "b": (3, 4), "c": (4, 5)},
    ),
    "MatMul distributes over Add": (
        "Add(MatMul(a, b), MatMul(a, c))",
        "MatMul(a, Add(b, c))",
        {"a": (2, 3), "b": (3, 4), "c": (3, 4)},
    ),
    "MatMul distributes from the right": (
        "Add(MatMul(a, c), MatMul(b, c))",
        "MatMul(Add(a, b), c)",
        {"a": (2, 3), "b": (2, 3), "c": (3, 4)},
    ),
    "two MatMuls share an input": (
        "(MatMul(a, b), MatMul(a, c))",
        "(Split[axis=-1, split=[4, 5]](MatMul(a, Concat[axis=-1](b, c))).0, "
        "Split[axis=-1, split=[4, 5]](MatMul(a, Concat[axis=-1](b, c))).1)",
        {"a": (2, 3), "b": (3, 4), "c": (3, 5)},
    ),
    "two batched MatMuls share an input": (
        "(MatMul(a, b), MatMul(a, c))",
        "(Split[axis=-1, split=[4, 5]](MatMul(a, Concat[axis=-1](b, c))).0, "
        "Split[axis=-1, split=[4, 5]](MatMul(a, Concat[axis=-1](b, c))).1)",
        {"a": (7, 2, 3), "b": (3, 4), "c": (3, 5)},
    ),
    "a sum of MatMuls as one": (
        "Add(MatMul(a, b), MatMul(c, d))",
        "MatMul(Concat[axis=-1](a, c), Concat[axis=-2](b, d))",
        {"a": (2, 3), "b": (3, 4), "c": (2, 5), "d": (5, 4)},
    ),
    # MatMul of transposes follows by undoing a Transpose.
    "a transposed MatMul": (
        "MatMul(Transpose[perm=[1, 0]](b), a)",
        "Transpose[perm=[1, 0]](MatMul(Transpose[perm=[1, 0]](a), b))",
        {"a": (3, 2), "b": (3, 4)},
    ),
    "a transposed batched MatMul": (
        "MatMul(Transpose[perm=[0, 2, 1]](b), a)",
        "Transpose[perm=[0, 2, 1]](MatMul(Transpose[perm=[0, 2, 1]](a), b))",
        {"a": (7, 3, 2), "b": (7, 3, 4)},
    ),
    "a scalar through MatMul": ("Mul(MatMul(a, b), s)", "MatMul(a, Mul(b, s))", {"a": (2, 3), "b": (3, 4), "s": ()}),
    "a one-element scalar through MatMul": (
        "Mul(MatMul(a, b), s)",
        "MatMul(a, Mul(b, s))",
        {"a": (2, 3), "b": (3, 4), "s": (1,)},
    ),
    "a low-rank branch": (
        "Add(Gemm[alpha=1.0, beta=1.0, transA=0, transB=0](x, w, b), MatMul(MatMul(x, u), t))",
        "Gemm[alpha=1.0, beta=1.0, transA=0, transB=0](x, Add(w, MatMul(u, t)), b)",
        {"x": (2, 9), "w": (9, 8), "u": (9, 2), "t": (2, 8), "b": (8,)},
    ),
    "Gemm of a transposed weight": (
        "Gemm[alpha=1.0, beta=1.0, transA=0, transB=1](x, w, b)",
        "Gemm[alpha=1.0, beta=1.0, transA=0, transB=0](x, Transpose[perm=[1, 0]](w), b)",
        {"x": (2, 3), "w": (4, 3), "b": (4,)},
    ),
    "zero is neutral": ("Add(x, Zeros[shape=[]])", "x", _IMAGE),
    "one is neutral": ("Mul(x, Ones[shape=[]])", "x", _IMAGE),
    "Transpose undone": ("Transpose[perm=[0, 2, 3, 1]](Transpose[perm=[0, 3, 1, 2]](x))", "x", _IMAGE),
    "Relu through Concat": (
        "Concat[axis=-3](Relu(x), Relu(y))",
        "Relu(Concat[axis=-3](x, y))",
        _IMAGE,
    ),
    "Convs merged over output channels": (
        f"Concat[axis=-3]({_conv()}(x, w), {_conv()}(x, u))",
        f"{_conv()}(x, Concat[axis=-4](w, u))",
        {**_IMAGE, **_KERNELS},
    ),
    "Convs with biases merged, as two outputs": (
        f"({_conv(s=2)}(x, w, b), {_conv(s=2)}(x, u, c))",
        f"(Split[axis=-3, split=[6, 6]]({_conv(s=2)}(x, Concat[axis=-4](w, u), Concat[axis=-1](b, c))).0, "
        f"Split[axis=-3, split=[6, 6]]({_conv(s=2)}(x, Concat[axis=-4](w, u), Concat[axis=-1](b, c))).1)",
        {**_IMAGE, **_KERNELS},
    ),
    # One rule adds kernels of all sizes by padding the smaller one; kernels of one size are padded by 0.
    "a sum of Convs": (
        f"Add({_conv()}(x, w), {_conv()}(x, u))",
        f"{_conv()}(x, Add({_UNPADDED}(w), u))",
        {**_IMAGE, **_KERNELS},
    ),
    "a sum of grouped Convs with biases": (
        f"Add({_conv(2, 1, 2)}(x, w, b), {_conv(2, 1, 2)}(x, u, c))",
        f"{_conv(2, 1, 2)}(x, Add({_UNPADDED}(w), u), Add(b, c))",
        {**_IMAGE, **_GROUPED},
    ),
    "a sum of Convs of two inputs": (
        f"Add({_conv()}(x, w), {_conv()}(y, t))",
        f"{_conv()}(Concat[axis=-3](x, y), Concat[axis=-3](w, t))",
        {**_IMAGE, **_KERNELS, "t": (6, 3, 3, 3)},
    ),
    "a Pad by nothing": (f"{_UNPADDED}(w)", "w", _KERNELS),
    "1x1 padded to 3x3": (f"{_conv(p=1)}(x, {_PAD}(k))", f"{_conv(p=0)}(x, k)", {**_IMAGE, **_KERNELS}),
    "1x1 merged into 3x3": (
        f"Add({_conv(2, 0, 2)}(x, k, b), {_conv(2, 1, 2)}(x, w, c))",
        f"{_conv(2, 1, 2)}(x, Add({_PAD}(k), w), Add(b, c))",
        {**_IMAGE, **_GROUPED},
    ),
    "BatchNormalization into Conv": (
        _NORM.format(x=f"{_conv(s=2)}(x, w)"),
        f"{_conv(s=2)}(x, {_fold('w', 6)}, {_MOVE.format(b='Zeros[shape=[1, 6]]')})",
        {**_IMAGE, **_KERNELS, **_STATISTICS},
    ),
    "BatchNormalization into a grouped Conv with bias": (
        _NORM.format(x=f"{_conv(2)}(x, w, b)"),
        f"{_conv(2)}(x, {_fold('w', 6)}, {_MOVE.format(b='Unsqueeze[axes=[-2]](b)')})",
        {**_IMAGE, **_GROUPED, **_STATISTICS},
    ),
    "BatchNormalization as a depthwise Conv": (
        _NORM.format(x="x"),
        f"{_conv(6, 0)}(x, {_fold('Ones[shape=[6, 1, 1, 1]]', 6)}, {_MOVE.format(b='Zeros[shape=[1, 6]]')})",
        {**_DEPTHWISE, **_STATISTICS},
    ),
    "BatchNormalization beside a depthwise Conv": (
        f"Add({_conv(6)}(x, w, b), {_NORM.format(x='x')})",
        f"{_conv(6)}(x, Add(w, {_fold('Dirac[group=6, shape=[6, 1, 3, 3]]', 6)}), "
        f"Add(b, {_MOVE.format(b='Zeros[shape=[1, 6]]')}))",
        {**_DEPTHWISE, **_STATISTICS},
    ),
    "identity as Conv": (
        f"Add({_conv(6)}(x, w, b), x)",
        f"{_conv(6)}(x, Add(w, Dirac[group=6, shape=[6, 1, 3, 3]]), b)",
        _DEPTHWISE,
    ),
    "identity as 1x1 Conv": (
        f"Add({_conv(6, 0)}(x, k), x)",
        f"{_conv(6, 0)}(x, Add(k, Dirac[group=6, shape=[6, 1, 1, 1]]))",
        _DEPTHWISE,
    ),
    "a bias absorbed": (
        f"Add({_conv()}(x, w), t)",
        f"{_conv()}(x, w, Squeeze[axes=[-4, -2, -1]](t))",
        {**_IMAGE, **_KERNELS, "t": (1, 6, 1, 1)},
    ),
}


@functools.cache
def _variants() -> list[tuple[Rule, Rule]]:
    """Return each shipped rule with its applicable directions, in every order of commutative operands."""
    directions = ((rule, direction) for rule in RULES for direction in (rule, rule.reversed()))
    return [
        (rule, variant)
        for rule, direction in directions
        if direction.applicable
        for variant in operand_orders(direction)
    ]


@functools.cache
def _book() -> CertifiedBook:
    return CertifiedBook(certified_rules(SHIPPED)[1])


def _holds_here(rule: Rule, variant: Rule, bindings: Bindings) -> bool:
    """Return True if the kernel allows the step: at a shipped signature, or at one that is proven now."""
    return _book().check(rule, bindings) is not None or _book().check(variant, bindings) is not None


def _one_step(left: tuple[Term, ...], right: tuple[Term, ...]) -> Rule | None:
    """Return the shipped rule that rewrites `left`, at any place, to `right`, up to the order of operands."""
    goal = normal(right)
    places = [left] if len(left) > 1 else [(term,) for term in topological(left)]
    for rule, variant in _variants():
        for place in places:
            bindings = match(variant.lhs, place) if len(place) == len(variant.lhs) else None
            if bindings is None:
                continue
            try:
                new = instantiate(variant.rhs, bindings, "float")
                whole = replace(left, dict(zip(place, new, strict=True)))
            except IllTyped:  # outside the rule's conditions
                continue
            if normal(whole) == goal and _holds_here(rule, variant, bindings):
                return rule
    return None


@pytest.mark.parametrize("name", _EXPECTED)
def test_expected_rules_ship(name: str) -> None:
    left, right, shapes = _EXPECTED[name]
    types = {variable: tensor(*shape) for variable, shape in shapes.items()}
    assert _one_step(parse_terms(left, types), parse_terms(right, types)) is not None


def test_the_set_is_small_and_every_rule_has_a_certificate() -> None:
    total = json.loads((SHIPPED / "summary.json").read_text())["total"]
    assert len(RULES) == total["rules"]
    assert total["rules"] - total["extended"] >= 700
    assert len({rule.id for rule in RULES}) == len(RULES)
    certificates = load_certificates(SHIPPED / "certificates.jsonl")
    assert sorted(rule.id for rule in RULES) == sorted(one.rule for one in certificates)
    assert [listed.rule for listed in certified_rules(SHIPPED)[0]] == RULES
    assert all(rule.applicable for rule in RULES)


def test_the_rules_are_proven_where_searches_asked() -> None:
    proven = {rule: rule.signatures for rule in RULES}
    asked = [(rule, signature) for rule in load_rules(CORPUS.with_name("asked.rules")) for signature in rule.signatures]
    unproven = [(rule, signature) for rule, signature in asked if signature not in proven[rule]]
    assert len(asked) > 500 and len(unproven) < len(asked) / 20


@pytest.mark.long
def test_the_generator_makes_the_shipped_files(tmp_path: Path) -> None:
    # In a separate process, as the command does.
    program = "import sys; from superopt.cli import main; main(['generate', '-j', '2', *sys.argv[1:]])"
    arguments = ["--corpus", str(CORPUS), "--asked", str(CORPUS.with_name("asked.rules")), "--out", str(tmp_path)]
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, cwd=SHIPPED.parent)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    shipped = {path.name: path.read_bytes() for path in SHIPPED.iterdir()}
    assert made.keys() == shipped.keys()
    for name in made.keys() - {"times.json"}:
        assert made[name] == shipped[name], name
