"""Conversions between real numbers and small integers, and products and convolutions of small integers.

Scale and zero point are one number each, or a list with one number for each index along `axis`. The canonical `axis` of
single numbers, for which it has no effect, is -1.

Sources: the operators' pages of the ONNX specification, QuantizeLinear-19, DequantizeLinear-19, MatMulInteger-10,
ConvInteger-10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from superopt.ir.dim import Size, Sizes
from superopt.ir.operator import OPERATORS
from superopt.ops.algebra import Algebra
from superopt.ops.definition import Operand, difference, divide
from superopt.ops.entry import composite, operator
from superopt.ops.typing import IllTyped, Need, axis_in, floats, need_equal, same

_SMALL = frozenset({"int8", "uint8", "int16", "uint16"})


def _parameters(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, scale, *rest = shapes
    if len(scale) > 1:
        raise IllTyped("scales are one number, or a list")
    if scale and scale[0] != 1:
        need_equal(need, scale[0], x[axis_in(attrs["axis"], len(x))])
    for zero in rest:
        if zero is not None:
            if len(zero) > 1:
                raise IllTyped("zero points are one number, or a list")
            need_equal(need, zero[0] if zero else 1, scale[0] if scale else 1)
    return (x,)


def _quantized(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """The type rule of QuantizeLinear: real numbers to the type of the zero point, uint8 without one."""
    floats(dtypes[:2], attrs, default)
    to = dtypes[2] if len(dtypes) > 2 and dtypes[2] is not None else "uint8"
    if to not in _SMALL:
        raise IllTyped(f"QuantizeLinear to {to}")
    return to


def _dequantized(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """The type rule of DequantizeLinear: integers to the type of the scale."""
    if same((dtypes[0], *dtypes[2:]), attrs, "int8") not in _SMALL | {"int32"}:
        raise IllTyped(f"DequantizeLinear of {dtypes[0]}")
    return floats(dtypes[1:2], attrs, default)


def _parameter(x: Operand, attrs: Mapping[str, Any], i: Sizes) -> Any:
    if not x.shape:
        return x.at()
    place: Size = 0 if x.shape[0] == 1 else i[attrs["axis"]]
    return x.at(place)


# ONNX Runtime converts NaN to the least integer and infinities to the ends, everywhere in a tensor. So the result is a
# function of the three numbers in every case, which is all that `ieee` needs.
@operator(
    "QuantizeLinear", 2, 3, "axis", shape=_parameters, dtype=_quantized, ieee="quantization", in_range=True
)  # fmt: skip
def _quantize(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """round(x / scale) + zero, limited to the integer type; halves are rounded to even."""
    zero = xs[2] if len(xs) > 2 else None
    rounded = g.apply("round", divide(g, xs[0].at(*i), _parameter(xs[1], attrs, i)))
    if zero is not None:
        rounded = g.add(rounded, _parameter(zero, attrs, i))
    return g.apply(f"saturate_to_{'uint8' if zero is None else zero.dtype}", rounded)


@operator("DequantizeLinear", 2, 3, "axis", shape=_parameters, dtype=_dequantized, ieee="dequantization")
def _dequantize(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """(x - zero) * scale."""
    value = xs[0].at(*i)
    if len(xs) > 2 and xs[2] is not None:
        value = difference(g, value, _parameter(xs[2], attrs, i))
    return g.multiply(value, _parameter(xs[1], attrs, i))


def _product(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str, saturating: tuple[str, str]) -> str:
    """The type rule of products of 8-bit integers. Each zero point has the type of its operand.

    ONNX Runtime has a kernel for unsigned by signed operands, the types `saturating`, that adds pairs of products in 16
    bits, with saturation, on x86 processors without VNNI: 255 * 127 + 255 * 127 = 32767. So what it computes depends on
    the processor and on the order of the sum, and the operator has no meaning for these types.
    """
    types = tuple(same(operands, attrs, "int8") for operands in (dtypes[0::2], dtypes[1::2]))
    if not {"int8", "uint8"}.issuperset(types):
        raise IllTyped("an 8-bit integer is needed")
    if types == saturating:
        raise IllTyped(f"a product of {types[0]} by {types[1]} depends on the processor")
    return "int32"


def _integer_product(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need, of: str) -> tuple[Sizes, ...]:
    a, b, *zeros = shapes
    (result,) = OPERATORS[of].shape_rule([a, b], attrs, need)
    for zero in zeros:
        if zero is not None and zero != ():
            raise IllTyped("zero points of a product are one number each")
    return (result,)


def _wide(x: str, zero: str) -> str:
    wide = f'Cast[to="int32"]({x})'
    return f'Sub({wide}, Cast[to="int32"]({zero}))' if zero else wide


composite(
    "MatMulInteger", 2, 4, "",
    *(
        f"MatMulInteger({operands}) = MatMul({_wide('a', a)}, {_wide('b', b)})"
        for operands, a, b in (
            ("a, b", "", ""), ("a, b, az", "az", ""), ("a, b, _, bz", "", "bz"), ("a, b, az, bz", "az", "bz")
        )
    ),
    shape=partial(_integer_product, of="MatMul"), dtype=partial(_product, saturating=("uint8", "int8")),
)  # fmt: skip


def _centered(g: Algebra, x: Operand, zero: Operand | None) -> Operand:
    """Return x - zero."""
    return x if zero is None else Operand(x.shape, "int32", lambda *i: difference(g, x.at(*i), zero.at()))


# Its kernel multiplies the filter by the columns of the image, in this order.
@operator(
    "ConvInteger", 2, 4, "dilations group=1 pads strides", shape=partial(_integer_product, of="Conv"),
    dtype=partial(_product, saturating=("int8", "uint8")),
)  # fmt: skip
def _conv_integer(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Conv of x and w without their zero points. So x has the value of its zero point outside its bounds."""
    x, w, *zeros = xs
    centered = [_centered(g, *pair) for pair in zip_longest((x, w), zeros)]
    conv = OPERATORS["Conv"].meaning
    assert conv is not None
    return conv(g, centered, attrs, shape, i)
