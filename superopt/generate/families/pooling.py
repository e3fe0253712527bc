"""The grammar of pooling: what may stand before a pooling as well as after it, and what is a pooling. Data only."""

from __future__ import annotations

from typing import Any

from superopt.generate.grammar import Constant, Family, Use, axes, binary, concat, inputs, ones, transpose, unary

__all__ = ["POOLING"]

_IMAGE, _WIDE, _SMALL, _POINT = (1, 2, 6, 6), (1, 4, 6, 6), (1, 2, 3, 3), (1, 2, 1, 1)
_K1, _SCALE = (2, 2, 1, 1), (2, 1, 1)
_CONV: dict[str, Any] = {"dilations": (1, 1), "group": 1, "strides": (1, 1)}
_NINE: Constant = ("ConstantOfShape", {"shape": (), "value": 9.0})


def _pool(op: str, size: int, stride: int, pad: int = 0, slots: tuple[str, ...] = ("x",), **attrs: int) -> Use:
    window = {"dilations": (1, 1), "kernel_shape": (size,) * 2, "pads": (pad,) * 4, "strides": (stride,) * 2}
    return Use(op, {**window, **attrs}, (1,), slots)


def _conv1(arities: tuple[int, ...] = (2, 3), slots: tuple[str, ...] = ("x!Conv", "w", "b")) -> Use:
    return Use("Conv", {**_CONV, "pads": (0, 0, 0, 0)}, arities, slots)


_FUNCTIONS = "Relu Sigmoid Tanh"
_ONCE = ("x!MaxPool,AveragePool,GlobalAveragePool,GlobalMaxPool,ReduceMean,ReduceMax",)
_POOLS = (_pool("MaxPool", 2, 2, slots=_ONCE), _pool("AveragePool", 2, 2, slots=_ONCE, count_include_pad=0))
_GLOBAL = unary("GlobalAveragePool GlobalMaxPool", slots=_ONCE)

POOLING: tuple[Family, ...] = (
    Family(  # functions, sums and scales
        "pool",
        (*inputs("x y", _IMAGE), *inputs("c", _SCALE, "c", True), *inputs("s", (), "s", True)),
        (
            *_POOLS,
            *_GLOBAL,
            *unary(_FUNCTIONS, slots=("x!Relu,Sigmoid,Tanh",)),
            Use("Neg", {}, (1,), ("x!Neg,Relu,Sigmoid,Tanh",)),
            *binary("Add Max", slots=("x", "x")),
            Use("Mul", slots=("x!Mul,Relu,Sigmoid,Tanh", "c|s")),
            Use("Add", slots=("x!Mul,Add,Relu,Sigmoid,Tanh", "c|s")),
        ),
        runtime=2,
        shapes=frozenset({_IMAGE, _SMALL, _POINT}),
        lifts="conv",
    ),
    Family(  # channels and batches side by side
        "pool",
        inputs("x y z", _IMAGE),
        (*_POOLS, *_GLOBAL, *concat(-3, -4, slots=("x",)), *unary("Relu", slots=("x!Relu",))),
        runtime=3,
        shapes=frozenset(
            {_IMAGE, _WIDE, (2, 2, 6, 6), _SMALL, (1, 4, 3, 3), (2, 2, 3, 3), _POINT, (1, 4, 1, 1), (2, 2, 1, 1)}
        ),
        lifts="conv",
    ),
    Family(  # a Conv of single points before an average, or after it
        "pool",
        (*inputs("x", _IMAGE), *inputs("w u", _K1, "w", True), *inputs("b", (2,), "b", True)),
        (
            _conv1(),
            _pool("AveragePool", 2, 2, slots=_ONCE, count_include_pad=0),
            _pool("AveragePool", 3, 1, 1, slots=_ONCE, count_include_pad=0),
            _pool("AveragePool", 3, 1, 1, slots=_ONCE, count_include_pad=1),
            *unary("GlobalAveragePool", slots=_ONCE),
            Use("ReduceMean", {"axes": (2, 3), "keepdims": 1}, (1,), _ONCE),
        ),
        runtime=3,
        shapes=frozenset({_IMAGE, _SMALL, _POINT}),
        lifts="conv",
    ),
    Family(  # global poolings by other names, and what becomes of them
        "pool",
        inputs("x", _IMAGE),
        (
            *_GLOBAL,
            *(
                Use(f"Reduce{name}", {"axes": (-2, -1), "keepdims": keep}, (1,), _ONCE)
                for name in ("Mean", "Max")
                for keep in (0, 1)
            ),
            *axes("Squeeze", (-2, -1), slots=("x",)),
            Use("Flatten", {"axis": 1}, (1,), ("x!x",)),
            *transpose((0, 2, 3, 1), (0, 3, 1, 2), slots=("x!x,Transpose",)),
        ),
        runtime=2,
        elements=72,
        lifts="conv",
    ),
    Family(  # poolings of padded images, and poolings one after the other
        "pool",
        inputs("x", _IMAGE),
        (
            Use("Pad", {"pads": (0, 0, 1, 1, 0, 0, 1, 1), "value": 0.0}, (1,), ("x!Pad",)),
            _pool("AveragePool", 3, 1, count_include_pad=1),
            _pool("AveragePool", 3, 1, 1, count_include_pad=1),
            _pool("AveragePool", 3, 1, 1, count_include_pad=0),
            _pool("MaxPool", 3, 1, 1),
            _pool("MaxPool", 3, 1),
            _pool("MaxPool", 5, 1, 2),
            _pool("MaxPool", 1, 2),
            _pool("AveragePool", 1, 2, count_include_pad=0),
            _pool("MaxPool", 3, 2, 1),
        ),
        runtime=2,
        elements=200,
        lifts="conv",
    ),
    Family(  # an average as a Conv with a kernel of equal numbers, channel by channel
        "pool",
        (*inputs("x", (1, 2, 5, 5)),),
        (
            Use("Conv", {**_CONV, "group": 2, "pads": (1, 1, 1, 1)}, (2,), ("x", "w")),
            Use("Conv", {**_CONV, "group": 2, "pads": (0, 0, 0, 0)}, (2,), ("x", "w")),
            _pool("AveragePool", 3, 1, 1, count_include_pad=1),
            _pool("AveragePool", 3, 1, count_include_pad=0),
            Use("Div", {}, (2,), ("Ones", "ConstantOfShape"), run=False, fold=True),
        ),
        runtime=1,
        folded=(1, 1),
        constants=(ones(2, 1, 3, 3), _NINE),
        shapes=frozenset({(1, 2, 5, 5), (1, 2, 3, 3), (2, 1, 3, 3)}),
        lifts="conv",
    ),
)
