"""Rules that models need, found by the families that are there for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from superopt.generate.families.batched import BATCHED
from superopt.generate.families.conv import CONV_FAMILIES
from superopt.generate.families.grouped import GROUPED
from superopt.generate.families.images import IMAGES
from superopt.generate.families.layout import LAYOUT
from superopt.generate.families.linear import LINEAR
from superopt.generate.families.products import PRODUCTS
from superopt.generate.families.rows import ROWS
from superopt.generate.families.select import SELECT
from superopt.generate.families.stacks import STACKS
from superopt.generate.families.unit_axes import UNIT_AXES
from superopt.generate.grammar import Family
from superopt.generate.pipeline import generate
from superopt.ir.notation import parse_rules

_CONV = "Conv[dilations=dl, group={g}, pads=p, strides=st]"
_PARTS = "Split[axis=-3, split=[x.shape[1], y.shape[1]]](w)"
_WIDENED = (
    "Reshape[allowzero=0, shape=[w.shape[0], 2*w.shape[1], w.shape[2], w.shape[3]]](MatMul("
    "Transpose[perm=[0, 2, 1, 3]](Dirac[group=g // 2, shape=[g, 2, 1, 1]]), "
    "Reshape[allowzero=0, shape=[g, w.shape[0] // g, 1, w.shape[1]*w.shape[2]*w.shape[3]]](w)))"
)
_GEMM = "Gemm[alpha=1.0, beta=1.0, transA=0, transB=0]"
_ANY = "Gemm[alpha=alpha, beta=beta, transA=0, transB=tb]"
_ROWS = "Split[axis=-2, split=[x.shape[-2], y.shape[-2]]]"
_JOINED = "Concat[axis=-2](x, y)"
_STACK = "Concat[axis=-3](Unsqueeze[axes=[-3]]({0}), Unsqueeze[axes=[-3]]({1}))"
_BATCH = f"MatMul({_STACK.format('x', 'y')}, {_STACK.format('w', 'u')})"
_BIASED = f"Add(Concat[axis=-3](Unsqueeze[axes=[-3, -2]](b), Unsqueeze[axes=[-3, -2]](c)), {_BATCH})"
_SIDE_BY_SIDE = "Reshape[allowzero=0, shape=[0, -1]](Transpose[perm=[1, 0, 2]]({0}))"
_CUT = "Slice[axes=[{0}], ends=to, starts=from, steps=by]"
_SHAPED = "Reshape[allowzero=0, shape=[{0}]]"
_SWAPPED = "Transpose[perm=p]"
_NORM = "BatchNormalization[epsilon=e]"
_ONE_ROW = "Squeeze[axes=[-2]]"
_PHASE = "Slice[axes=[-2, -1], ends=to, starts=[{}, {}], steps=[2, 2]](a)"  # every other row and column
_ONE, _PAIRED, _GROUPED = (_CONV.format(g=g) for g in ("1", "g // 2", "g"))


def _with_input(families: Sequence[Family], *names: str) -> list[Family]:
    """Return the families with exactly these inputs."""
    return [family for family in families if {variable.name for variable in family.variables} == set(names)]


# name -> (families, rules that they must give)
_EXPECTED: dict[str, tuple[Sequence[Family], tuple[str, ...]]] = {
    "rows padded before a product": (
        PRODUCTS[:1],
        ("MatMul(Pad[pads=p, value=0.0](x), y) = Pad[pads=p, value=0.0](MatMul(x, y))",),
    ),
    "two groups as one": (
        GROUPED,
        (f"{_PAIRED}(x, {_WIDENED}) = {_GROUPED}(x, w)", f"{_PAIRED}(x, {_WIDENED}, b) = {_GROUPED}(x, w, b)"),
    ),
    "channels side by side in parts": (
        [family for family in _with_input(CONV_FAMILIES, "x", "y", "w", "b") if (2, 4, 3, 3) in (family.shapes or ())],
        (
            f"Add({_ONE}(x, {_PARTS}.0), {_ONE}(y, {_PARTS}.1)) = {_ONE}(Concat[axis=-3](x, y), w)",
            f"Add({_ONE}(x, {_PARTS}.0), {_ONE}(y, {_PARTS}.1, b)) = {_ONE}(Concat[axis=-3](x, y), w, b)",
        ),
    ),
    "a low-rank branch beside a bias": (
        [family for family in _with_input(LINEAR, "x", "w", "u", "t", "b") if family.runtime == 5],
        ("Add(Add(b, MatMul(x, w)), MatMul(MatMul(x, u), t)) = Add(b, MatMul(x, Add(w, MatMul(u, t))))",),
    ),
    "rows of several inputs through one Gemm": (
        [family for family in _with_input(LINEAR, "x", "y", "w", "b") if family.split_axes == (-2,)],
        (
            f"({_ANY}(x, w, b), {_ANY}(y, w, b)) "
            f"= ({_ROWS}({_ANY}({_JOINED}, w, b)).0, {_ROWS}({_ANY}({_JOINED}, w, b)).1)",
        ),
    ),
    "rows that meet one row": (
        _with_input(LAYOUT, "x", "y", "t", "b"),
        (
            f"(Add(x, b), Add(y, b)) = ({_ROWS}(Add(b, {_JOINED})).0, {_ROWS}(Add(b, {_JOINED})).1)",
            "Split[axis=-2, split=n](Add(t, b)).0 = Add(b, Split[axis=-2, split=n](t).0)",
        ),
    ),
    "all rows one after the other": (
        [family for family in _with_input(SELECT, "a") if family.runtime == 3],
        (
            "Concat[axis=-2](Gather[axis=-3, indices=0](a), Gather[axis=-3, indices=1](a)) "
            "= Reshape[allowzero=0, shape=[a.shape[-2]*a.shape[-3], a.shape[-1]]](a)",
        ),
    ),
    "products of stacks": (
        BATCHED,
        (
            f"{_STACK.format('MatMul(x, w)', 'MatMul(y, u)')} = {_BATCH}",
            f"{_BIASED} = {_STACK.format(f'{_GEMM}(x, w, b)', f'{_GEMM}(y, u, c)')}",
            f"{_SIDE_BY_SIDE.format(_BATCH)} = Concat[axis=-1](MatMul(x, w), MatMul(y, u))",
            f"{_SIDE_BY_SIDE.format(_BIASED)} = Concat[axis=-1]({_GEMM}(x, w, b), {_GEMM}(y, u, c))",
            "Squeeze[axes=[-2]](MatMul(Unsqueeze[axes=[-2]](v), x)) "
            "= ReduceSum[axes=[-2], keepdims=0](Mul(x, Unsqueeze[axes=[-1]](v)))",
        ),
    ),
    "rows side by side": (
        [family for family in _with_input(LAYOUT, "x", "y") if (3, 5) in {v.shape for v in family.variables}],
        (
            "Concat[axis=-2](Unsqueeze[axes=[-2]](x), Unsqueeze[axes=[-2]](y)) "
            "= Reshape[allowzero=0, shape=[0, -1, x.shape[-1]]](Concat[axis=-1](x, y))",
            "Transpose[perm=[1, 0, 2]](Reshape[allowzero=0, shape=[0, -1, x.shape[-1]]](Concat[axis=-1](x, y))) "
            f"= {_STACK.format('x', 'y')}",
        ),
    ),
    "queries, keys and values": (
        [family for family in _with_input(SELECT, "a") if family.elements == 840],
        tuple(
            f"Gather[axis=-5, indices={k}](Transpose[perm=[2, 0, 3, 1, 4]](Reshape[allowzero=0, shape=z](a))) "
            "= Transpose[perm=[0, 2, 1, 3]](Reshape[allowzero=0, shape=[a.shape[-3], a.shape[-2], z[3], z[4]]]("
            f"Split[axis=-1, split=[z[3]*z[4], z[3]*z[4], z[3]*z[4]]](a).{k}))"
            for k in range(3)
        ),
    ),
    "rows before heads": (
        ROWS,
        (
            "Gather[axis=i, indices=j](x) = Squeeze[axes=[i]](Slice[axes=[i], ends=[j + 1], starts=[j], steps=[1]](x))",
            *(
                f"{_CUT.format(-2)}({_SHAPED.format(shape)}(x)) = {_SHAPED.format('0, 0, -1')}({_CUT.format(-3)}(x))"
                for shape in ("x.shape[-4], x.shape[-3], x.shape[-1]*x.shape[-2]", "0, 0, -1")
            ),
            *(
                f"{_CUT.format(-3)}({_SHAPED.format(shape)}(x)) = {_SHAPED.format(copied)}({_CUT.format(-2)}(x))"
                for shape, copied in (
                    ("x.shape[-3], x.shape[-2], z, z2", "0, 0, z, z2"),
                    ("0, 0, z, z2", "0, 0, z, z2"),
                    ("0, 0, -1, z", "0, 0, -1, z"),
                )
            ),
            f"{_CUT.format(-3)}({_SWAPPED}(x)) = {_SWAPPED}({_CUT.format(-2)}(x))",
            f"{_CUT.format(-2)}({_SWAPPED}(x)) = {_SWAPPED}({_CUT.format(-3)}(x))",
        ),
    ),
    "images of one row": (
        IMAGES,
        (
            f"{_NORM}({_ONE_ROW}(x), g, h, m, v) = {_ONE_ROW}({_NORM}(x, g, h, m, v))",
            "Relu(Squeeze[axes=[i]](x)) = Squeeze[axes=[i]](Relu(x))",
            "Add(Squeeze[axes=[i]](x), Squeeze[axes=[i]](y)) = Squeeze[axes=[i]](Add(x, y))",
        ),
    ),
    "axes of size 1": (
        UNIT_AXES,
        (
            "Unsqueeze[axes=[-2]](c) = Unsqueeze[axes=[-1]](c)",
            "Squeeze[axes=[-1]](c) = Squeeze[axes=[-2]](c)",
            "Unsqueeze[axes=[-2]](Squeeze[axes=[-1]](c)) = Transpose[perm=[1, 0]](c)",
            "Add(a, Unsqueeze[axes=[-4]](c)) = Add(a, c)",
        ),
    ),
    "parts that are stacked": (
        STACKS,
        (
            "Split[axis=i, split=n](a).0 = Slice[axes=[i], ends=[n[0]], starts=[0], steps=[1]](a)",
            "Concat[axis=-3](Unsqueeze[axes=[-3]](Split[axis=-1, split=n](a).0), Unsqueeze[axes=[-3]]("
            "Split[axis=-1, split=n](a).1)) = Transpose[perm=[1, 0, 2]](Reshape[allowzero=0, shape=[0, 2, -1]](a))",
            f"Concat[axis=-3]({', '.join(_PHASE.format(row, column) for row in (0, 1) for column in (0, 1))}) "
            "= SpaceToDepth[blocksize=2](a)",
        ),
    ),
}


@pytest.mark.parametrize("name", _EXPECTED)
def test_a_family_gives_the_rules(name: str, tmp_path: Path) -> None:
    families, expected = _EXPECTED[name]
    generate(tmp_path / "rules", families=families)
    found = [rule for path in (tmp_path / "rules").glob("*.rules") for rule in parse_rules(path.read_text(), path.name)]
    ids = {known for rule in found for known in (rule.id, rule.reversed().id)}
    for text in expected:
        (rule,) = parse_rules(text)
        assert rule.id in ids, text


def test_cut_rows_have_any_sizes(tmp_path: Path) -> None:
    generate(tmp_path / "rules", families=ROWS)
    for rule in parse_rules((tmp_path / "rules" / "rows.rules").read_text()):
        sizes = [size for signature in rule.signatures for _, shape in signature.shapes for size in shape]
        assert sizes == [None] * len(sizes), rule
