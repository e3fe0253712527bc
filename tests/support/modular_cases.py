"""Terms over all operators, with the shapes of their variables, for the reading modulo P.

Variables are integers from -9 to 9 but for those called `t` and `u`, which are truth values, `n`, which is never 0,
and `rows`, which are indices along at least 3 elements. The types of `i`, `j` and `rows` are int64, uint8 and int64;
other variables are real.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from superopt.ir.notation import parse_terms
from superopt.ir.term import Term
from superopt.ir.types import TensorType

__all__ = ["EXACT", "IMAGE", "PADDED", "TRUTHS", "Shapes", "typed"]

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
TRUTHS = ("t", "u")
_DTYPES = {**dict.fromkeys(TRUTHS, "bool"), "i": "int64", "j": "uint8", "rows": "int64"}

_CONV = "Conv[dilations=[1, 2], group={group}, pads=[1, 0, 2, 1], strides=[2, 1]]"
_TURNED_CONV = (
    "ConvTranspose[dilations=[1, 2], group={group}, output_padding=[1, 0], pads=[1, 0, 0, 1], strides=[2, 1]]"
)
_POOL = "dilations={d}, kernel_shape=[2, 3], pads={pads}, strides=[1, 2]"
PADDED = _POOL.format(d="[1, 1]", pads="[1, 1, 0, 2]")
_DILATED = _POOL.format(d="[2, 1]", pads="[0, 0, 0, 0]")
_MATRICES: Shapes = {"a": (2, 3), "b": (3, 4)}
IMAGE: Shapes = {"x": (2, 3, 5, 6), "w": (4, 3, 2, 3), "b": (4,)}
_A: Shapes = {"a": (2, 3)}
_AN: Shapes = {"a": (2, 3), "n": (3,)}
_AB: Shapes = {"a": (2, 3), "b": (3,)}
_TU: Shapes = {"t": (2, 3), "u": (3,)}


def typed(text: str, shapes: Shapes) -> tuple[Term, ...]:
    """The terms of a text, over variables of these shapes."""
    types = {name: TensorType(_DTYPES.get(name, "float"), shape) for name, shape in shapes.items()}
    return parse_terms(text, types)


# On integers, `superopt.evaluate` computes integers or simple fractions: the values here are their residues.
EXACT: Mapping[str, Shapes] = {
    "MatMul(a, b)": _MATRICES,
    "MatMul(a, c)": {"a": (5, 1, 2, 3), "c": (4, 3, 2)},
    "MatMul(v, b)": {"v": (3,), "b": (3, 4)},
    "MatMul(b, w)": {"b": (3, 4), "w": (4,)},
    "MatMul(v, v)": {"v": (3,)},
    "Gemm[alpha=3.0, beta=2.0, transA=1, transB=1](a, b, c)": {"a": (3, 2), "b": (4, 3), "c": (4,)},
    "Gemm[alpha=0.5, beta=0.25](a, b, c)": {**_MATRICES, "c": ()},
    "Gemm(a, b)": _MATRICES,
    'Einsum[equation="abc,cbd->ad"](a, b)': {"a": (2, 3, 4), "b": (4, 3, 5)},
    'Einsum[equation="aab,bc,c->ab"](a, b, c)': {"a": (2, 2, 3), "b": (3, 4), "c": (4,)},
    'Einsum[equation="ab->ba"](a)': _A,
    'Einsum[equation="ab,ab->"](a, b)': {"a": (2, 3), "b": (2, 3)},
    "Add(a, b)": {"a": (2, 3), "b": (2, 1, 3)},
    "Sub(a, b)": {"a": (2, 3), "b": ()},
    "Mul(a, b)": {"a": (2, 1), "b": (3,)},
    "Sum(a, b, a)": _AB,
    "Neg(a)": _A,
    "Identity(a)": _A,
    "Relu(a)": _A,
    "Concat[axis=-2](a, b)": {"a": (2, 3), "b": (4, 3)},
    "Split[axis=-1, split=[1, 2, 3]](a).1": {"a": (2, 6)},
    "Slice[axes=[-2, -1], ends=[3, 6], starts=[1, 0], steps=[1, 2]](a)": {"a": (3, 6)},
    "Slice[axes=[-2, -1], ends=[-1, 0], starts=[2, 5], steps=[-1, -2]](a)": {"a": (3, 6)},
    "Transpose[perm=[2, 0, 1]](a)": {"a": (2, 3, 4)},
    "Pad[pads=[1, 0, 2, -1], value=5.0](a)": _A,
    "Pad[pads=[1, 2, 0, -1]](a)": _A,
    "Unsqueeze[axes=[-3, -1]](a)": _A,
    "Squeeze[axes=[-2]](a)": {"a": (2, 1, 3)},
    "Reshape[shape=[0, -1, 2]](a)": {"a": (2, 3, 4)},
    "Flatten[axis=2](a)": {"a": (2, 3, 4)},
    "Expand[shape=[4, 1, 3]](a)": {"a": (2, 1)},
    "Tile[repeats=[2, 1, 3]](a)": {"a": (1, 2, 3)},
    "DepthToSpace[blocksize=2](a)": {"a": (2, 8, 2, 3)},
    'DepthToSpace[blocksize=2, mode="CRD"](a)': {"a": (2, 8, 2, 3)},
    "SpaceToDepth[blocksize=2](a)": {"a": (2, 3, 4, 2)},
    "Gather[axis=-2, indices=[2, 0, 2, -1]](a)": {"a": (2, 3, 4)},
    "Gather[axis=-1, indices=1](a)": _A,
    "Trilu[k=1, upper=0](a)": {"a": (2, 3, 4)},
    "Trilu(a)": _A,
    "OneHot[depth=3](i, b)": {"i": (2, 3), "b": (2,)},
    "Lookup[axis=-2](a, rows)": {"a": (2, 3, 4), "rows": (2, 1)},
    "Lookup[axis=0](a, rows)": {"a": (5,), "rows": (2, 3)},
    'PadCopy[mode="edge", pads=[1, 0, 2, 3]](a)': _A,
    'PadCopy[mode="reflect", pads=[1, 0, 0, 2]](a)': _A,
    'PadCopy[mode="wrap", pads=[0, 1, 2, 3]](a)': _A,
    "DequantizeLinear[axis=-1](j, a)": {"j": (2, 3), "a": ()},
    "Resize[scales=[2, 3]](a)": {"a": (2, 1, 2)},
    'Resize[coordinate_transformation_mode="asymmetric", nearest_mode="ceil", scales=[1.5]](a)': {"a": (2, 4)},
    "ResizeLinear[scales=[2, 4]](a)": {"a": (2, 3, 2)},
    'ResizeLinear[coordinate_transformation_mode="align_corners", scales=[0.5]](a)': {"a": (2, 4)},
    "CumSum[axis=-1](a)": {"a": (2, 4)},
    "CumSum[axis=-2, exclusive=1](a)": {"a": (4, 2)},
    "CumSum[axis=-1, exclusive=1, reverse=1](a)": {"a": (2, 4)},
    "ReduceSum[axes=[-2]](a)": _A,
    "ReduceSum[axes=[-3, -1], keepdims=0](a)": {"a": (2, 3, 4)},
    "ReduceMean[axes=[-1], keepdims=0](a)": _A,
    "ReduceMean[axes=[-2, -1]](a)": _A,
    "ReduceProd[axes=[-1]](a)": {"a": (2, 4)},
    "ReduceProd[axes=[-2, -1], keepdims=0](a)": {"a": (3, 2, 2)},
    "ReduceMax[axes=[-1], keepdims=0](a)": _A,
    "ReduceMin[axes=[-2, -1]](a)": _A,
    "ReduceL1[axes=[-1]](a)": _A,
    "ReduceSumSquare[axes=[-2], keepdims=0](a)": _A,
    _CONV.format(group=1) + "(x, w, b)": IMAGE,
    _CONV.format(group=2) + "(x, w)": {"x": (1, 4, 5, 6), "w": (6, 2, 3, 2)},
    "Conv[dilations=[2], group=3, pads=[1, 1], strides=[1]](x, w)": {"x": (2, 3, 7), "w": (3, 1, 3)},
    _TURNED_CONV.format(group=1) + "(x, w, b)": {"x": (2, 3, 2, 3), "w": (3, 4, 2, 3), "b": (4,)},
    _TURNED_CONV.format(group=2) + "(x, w)": {"x": (1, 4, 2, 3), "w": (4, 3, 3, 2)},
    f"MaxPool[{PADDED}](x)": {"x": (2, 2, 4, 5)},
    f"MaxPool[{_DILATED}](x)": {"x": (2, 2, 4, 5)},
    f"AveragePool[count_include_pad=0, {PADDED}](x)": {"x": (2, 2, 4, 5)},
    f"AveragePool[count_include_pad=1, {PADDED}](x)": {"x": (2, 2, 4, 5)},
    f"AveragePool[count_include_pad=0, {_DILATED}](x)": {"x": (2, 2, 4, 5)},
    "GlobalMaxPool(x)": {"x": (2, 3, 2, 2)},
    "GlobalAveragePool(x)": {"x": (2, 3, 2, 2)},
    "ArgMax[axis=-1](a)": {"a": (2, 5)},
    "ArgMin[axis=-2, keepdims=0, select_last_index=1](a)": {"a": (5, 2)},
    "Div(a, n)": _AN,
    "Reciprocal(n)": _AN,
    "Pow(a, ConstantOfShape[shape=[], value=3.0])": _A,
    "Pow(n, Range[delta=1.0, n=3, start=-1.0])": _AN,
    "Max(a, b, a)": _AB,
    "Min(a, b)": {"a": (2, 1), "b": (3,)},
    "Min(a)": _A,
    "Clip[bound_high=6.0, bound_low=-2.0](a)": _A,
    "Clip[bound_low=1.0](a)": _A,
    "Clip[bound_high=3.0](a)": _A,
    "Abs(a)": _A,
    "Sign(a)": _A,
    "LeakyRelu[alpha=0.25](a)": _A,
    "PRelu(a, b)": _AB,
    "ThresholdedRelu[alpha=2.0](a)": _A,
    "Softsign(a)": _A,
    "LpNormalization[axis=-1, p=1](a)": _A,
    "Where(t, a, b)": {"t": (2, 1), **_AB},
    "Not(t)": _TU,
    "And(t, u)": _TU,
    "Or(t, u)": _TU,
    "Xor(t, u)": _TU,
    "Equal(a, b)": _AB,
    "Less(a, b)": _AB,
    "LessOrEqual(a, b)": _AB,
    "Greater(a, b)": _AB,
    "GreaterOrEqual(a, b)": _AB,
    "FusedMatMul[alpha=0.5, transA=1, transB=1](a, b)": {"a": (2, 3, 2), "b": (4, 3)},
    "MatMul(a, Eye[n=3])": _A,
    "Add(a, Ones[shape=[2, 3]])": _A,
    "Mul(a, Zeros[shape=[]])": _A,
    "Add(a, ConstantOfShape[shape=[2, 3], value=-4.0])": _A,
    "Mul(a, Constant[shape=[3], value_floats=[1.0, -2.0, 4.0]])": _A,
    "Mul(a, Range[delta=-2.0, n=3, start=3.0])": _A,
    "Conv[dilations=[1, 1], group=2, pads=[1, 1, 1, 1], strides=[1, 1]](x, Dirac[group=2, shape=[4, 2, 3, 3]])": {
        "x": (1, 4, 3, 3)
    },
}
