"""The grammar: which operators, attributes, inputs and constants are enumerated. Data only; the rules are found.

Inputs of a family are small tensors of fixed sizes. Sizes that must agree for many operators to compose agree here
(square matrices); which of these equalities a rule really needs is found out later, by generalisation and proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from superopt.generate.modular import Shape
from superopt.ir.ops import OPS, IllTyped, OpSpec, make
from superopt.ir.term import Term

__all__ = ["FAMILIES", "Family", "Use", "Variable"]

Constant: TypeAlias = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Variable:
    """An input; variables of one role are interchangeable. `weight`: constant at inference."""

    name: str
    shape: Shape
    role: str
    weight: bool = False


@dataclass(frozen=True)
class Use:
    """One operator with its attributes.

    `slots` says for each operand what may stand there: "x" a value that depends on an input, "w" a value of weights
    only ("w2": made by at most 2 operators), "*" either ("*!Add,Neg": not made by these operators, nor these leaves); or
    names of leaves, separated by "|". The last entry serves all further operands.
    `run` and `fold`: whether it may run at inference, and on weights alone.
    """

    op: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
    arities: tuple[int, ...] = (2,)
    slots: tuple[str, ...] = ("*",)
    run: bool = True
    fold: bool = False
    index: int | None = None  # which output of Split; which part of a Slice into halves

    @property
    def spec(self) -> OpSpec:
        """The operator's row of the table."""
        return OPS[self.op]

    def accepts(self, slot: int, weight: bool, folded: int, made_by: str, leaf: str) -> bool:
        """Whether such a value may be operand number `slot`; `leaf` is empty unless it is one."""
        wanted, _, refused = self.slots[min(slot, len(self.slots) - 1)].partition("!")
        if (made_by or leaf) in refused.split(","):
            return False
        if wanted in ("*", "x", "w"):
            return wanted == "*" or (wanted == "w") == weight
        if wanted[0] == "w" and wanted[1:].isdecimal():
            return weight and folded <= int(wanted[1:])
        return leaf in wanted.split("|")

    def term(self, inputs: Sequence[Term], shapes: tuple[Shape, ...]) -> Term:
        """The operator applied to terms. Raises IllTyped."""
        attrs = self.attributes(shapes)
        if self.op != "Split":
            return make(self.op, inputs, attrs)
        return make(self.op, inputs, {name: attrs[name] for name in ("axis", "split")}).out(attrs["index"])

    def attributes(self, shapes: tuple[Shape, ...]) -> dict[str, Any]:
        """All attributes at these operand shapes; Split and Slice cut an axis into halves (`index`: which)."""
        attrs = dict(self.attrs)
        if self.op in ("Split", "Slice"):
            axis = attrs["axis"] if self.op == "Split" else attrs["axes"][0]
            size = shapes[0][axis] if -axis <= len(shapes[0]) else 0
            half = size // 2
            if half < 2:
                raise IllTyped("too narrow to be cut: a part of size 1 would broadcast")
            if self.op == "Split":
                attrs["split"] = (half, size - half)
                attrs["index"] = self.index
            else:
                attrs["starts"], attrs["ends"] = ((0,), (half,)) if self.index == 0 else ((half,), (size,))
                attrs["steps"] = (1,)
        return attrs


@dataclass(frozen=True)
class Family:
    """What is enumerated together. `folded[k]`: most folded operators beside k operators at inference."""

    name: str
    variables: tuple[Variable, ...]
    uses: tuple[Use, ...]
    runtime: int
    folded: tuple[int, ...] = (0, 0, 0, 0, 0)
    constants: tuple[Constant, ...] = ()
    shapes: frozenset[Shape] | None = None  # None: any up to `elements`
    elements: int = 32
    lifts: str = ""  # how signatures are varied: see `signatures`
    halves: tuple[int, ...] = ()  # axes at which values are cut into two, for rules with two outputs

    def admits(self, shape: Shape) -> bool:
        """Whether graphs of this shape are built."""
        if self.shapes is not None:
            return shape in self.shapes
        return 0 < _elements(shape) <= self.elements


def _elements(shape: Shape) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _inputs(names: str, shape: Shape, role: str = "", weight: bool = False) -> tuple[Variable, ...]:
    return tuple(Variable(name, shape, role or names.split()[0], weight) for name in names.split())


def _unary(names: str, **kinds: Any) -> tuple[Use, ...]:
    return tuple(Use(name, arities=(1,), **kinds) for name in names.split())


def _binary(names: str, **kinds: Any) -> tuple[Use, ...]:
    return tuple(Use(name, **kinds) for name in names.split())


def _concat(*axes: int, **kinds: Any) -> tuple[Use, ...]:
    return tuple(Use("Concat", {"axis": axis}, **kinds) for axis in axes)


def _transpose(*perms: tuple[int, ...], **kinds: Any) -> tuple[Use, ...]:
    return tuple(Use("Transpose", {"perm": perm}, (1,), **kinds) for perm in perms)


def _splits(*axes: int, **kinds: Any) -> tuple[Use, ...]:
    return tuple(Use("Split", {"axis": axis}, (1,), index=k, **kinds) for axis in axes for k in (0, 1))


def _slices(*axes: int, **kinds: Any) -> tuple[Use, ...]:
    return tuple(Use("Slice", {"axes": (axis,)}, (1,), index=k, **kinds) for axis in axes for k in (0, 1))


def _reduce(*axes: tuple[int, ...], keepdims: tuple[int, ...] = (0, 1), **kinds: Any) -> tuple[Use, ...]:
    return tuple(Use("ReduceSum", {"axes": a, "keepdims": k}, (1,), **kinds) for a in axes for k in keepdims)


def _gemm(*transposed: int, arities: tuple[int, ...] = (2, 3), slots: tuple[str, ...] = ("x", "*")) -> tuple[Use, ...]:
    return tuple(
        Use("Gemm", {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": b}, arities, slots) for b in transposed
    )


def _conv(pads: int, group: int = 1, arities: tuple[int, ...] = (2, 3), slots: tuple[str, ...] = ("x", "w")) -> Use:
    attrs = {"dilations": (1, 1), "group": group, "pads": (pads,) * 4, "strides": (1, 1)}
    return Use("Conv", attrs, arities, slots)


EPSILON = 1e-05
_STATISTICS = tuple(Variable(name, (2,), name, True) for name in ("s", "o", "m", "v"))
# BatchNormalization of values; of kernels, which it scales (no offset, no mean); of biases, which it moves.
_NORMALISE = Use("BatchNormalization", {"epsilon": EPSILON}, (5,), ("x!BatchNormalization", "s", "o", "m", "v"))
_NORMALISE_KERNEL = Use(
    "BatchNormalization", {"epsilon": EPSILON}, (5,), ("w1!BatchNormalization", "s", "Zeros", "Zeros", "v"), run=False, fold=True
)
_NORMALISE_BIAS = Use("BatchNormalization", {"epsilon": EPSILON}, (5,), ("w1!BatchNormalization", "s", "o", "m", "v"), run=False, fold=True)
_SWAP_CHANNELS = (1, 0, 2, 3)


def _dirac(group: int, *shape: int) -> Constant:
    return ("Dirac", {"group": group, "shape": shape})


def _zeros(*shape: int) -> Constant:
    return ("Zeros", {"shape": shape})


def _ones(*shape: int) -> Constant:
    return ("Ones", {"shape": shape})


def _axes(op: str, *axes: tuple[int, ...], **kinds: Any) -> tuple[Use, ...]:
    return tuple(Use(op, {"axes": a}, (1,), **kinds) for a in axes)


_FOLDED: Mapping[str, Any] = {"slots": ("w",), "run": False, "fold": True}
_IMAGE = (1, 2, 2, 2)
_WIDE = (1, 4, 2, 2)
_K1, _K3 = (2, 2, 1, 1), (2, 2, 3, 3)
_DEPTHWISE1, _DEPTHWISE3 = (2, 1, 1, 1), (2, 1, 3, 3)
_BIASES = _inputs("b c", (2,), "b", True)

_FUNCTIONS = "Relu Sigmoid Tanh Neg"
_ELEMENTWISE = (
    Family(
        "elementwise",
        _inputs("x y", (2, 2)),
        (*_unary("Identity Neg Relu"), *_binary("Add Sub Mul")),
        runtime=1,
        constants=(_zeros(), _ones(), _zeros(2, 2)),
        lifts="elementwise",
    ),
    Family(
        "elementwise",
        _inputs("x y z", (2, 2)),
        (
            *_unary("Neg Relu"),
            Use("Add"),
            Use("Sub", slots=("*!Sub",)),
            Use("Mul"),
            Use("Sum", arities=(1, 2, 3), slots=("x|y|z",)),
        ),
        runtime=2,
        lifts="elementwise",
    ),
    Family("elementwise", _inputs("x y z", (2, 2)), _binary("Add Mul"), runtime=3, lifts="elementwise"),
)

_LAYOUT = (
    *(
        Family(
            "layout",
            (*_inputs("x y", (2, 2)), *_inputs("t u", (2, 4))),
            (*_unary(_FUNCTIONS), *_binary("Add Mul Sub", slots=("*!Add,Mul,Sub",)), *_concat(-1), *cuts),
            runtime=2,
            elements=8,
            lifts="layout",
            halves=halves,
        )
        for cuts, halves in ((_splits(-1), (-1,)), (_slices(-1), ()))
    ),
    Family(
        "layout",
        _inputs("x y z", (2, 2)),
        (*_unary(_FUNCTIONS, slots=("*!Relu,Sigmoid,Tanh,Neg",)), *_concat(-1, -2)),
        runtime=3,
        elements=12,
        lifts="layout",
    ),
    Family(
        "layout",
        _inputs("x y z t", (2, 2)),
        (*_binary("Add Mul Sub", slots=("*!Add,Mul,Sub",)), *_concat(-1)),
        runtime=3,
        elements=12,
        lifts="layout",
    ),
    Family(
        "layout",
        (*_inputs("t u", (2, 4)),),
        (*_splits(-1), *_binary("Add Mul Sub", slots=("*!Add,Mul,Sub",))),
        runtime=3,
        elements=8,
        lifts="layout",
        halves=(-1,),
    ),
    Family(
        "layout",
        _inputs("x y", (2, 2, 2)),
        (
            *_transpose((0, 2, 1), (1, 2, 0), (2, 0, 1)),
            *_unary(_FUNCTIONS, slots=("*!Relu,Sigmoid,Tanh,Neg",)),
            *_binary("Add Mul Sub", slots=("*!Add,Mul,Sub",)),
        ),
        runtime=3,
        lifts="layout",
    ),
    Family(
        "layout",
        _inputs("x y", (2, 2)),
        (*_transpose((1, 0), slots=("*!Transpose",)), *_concat(-1, -2)),
        runtime=3,
        elements=8,
        lifts="layout",
    ),
    Family(
        "layout",
        _inputs("x y", (2, 2)),
        (
            *_axes("Unsqueeze", (-1,), (-2,), (-3,), slots=("*!Unsqueeze,Squeeze",)),
            *_axes("Squeeze", (-1,), (-2,), (-3,), slots=("*!Squeeze",)),
            *_unary(_FUNCTIONS, slots=("*!Relu,Sigmoid,Tanh,Neg",)),
            *_binary("Add Mul", slots=("*!Add,Mul",)),
        ),
        runtime=3,
        elements=4,
        lifts="layout",
    ),
)

_MATRIX = (
    Family(
        "matrix",
        (*_inputs("a b c d", (2, 2)), *_inputs("s", ())),
        (*_binary("MatMul Add"), Use("Mul", slots=("*", "s")), *_transpose((1, 0)), *_concat(-1, -2)),
        runtime=3,
        elements=8,
        lifts="matrix",
        halves=(-1, -2),
    ),
    Family(
        "matrix",
        (*_inputs("a b", (2, 2)), *_inputs("t", (2, 4)), *_inputs("u", (4, 2))),
        (*_binary("MatMul Sub"), *_unary("Neg"), *_splits(-1, -2)),
        runtime=2,
        elements=8,
        lifts="matrix",
    ),
    Family(
        "matrix",
        (*_inputs("a", (2, 2)), *_inputs("t", (2, 4)), *_inputs("u", (4, 2))),
        (*_binary("MatMul"), *_slices(-1, -2)),
        runtime=2,
        elements=8,
        lifts="matrix",
    ),
    Family("matrix", _inputs("a b c", (2, 2)), _binary("MatMul Sub"), runtime=3, lifts="matrix"),
    Family(
        "matrix",
        _inputs("a", (2, 2)),
        _binary("MatMul"),
        runtime=1,
        constants=(("Eye", {"n": 2}), _zeros(2, 2)),
        lifts="matrix",
    ),
)

_REDUCE = (
    Family(
        "reduce",
        (*_inputs("x y", (2, 2)), *_inputs("s", ())),
        (
            *_reduce((-1,), (-2,), slots=("*!ReduceSum",)),
            *_binary("MatMul", slots=("*!MatMul",)),
            Use("Mul", slots=("*!Mul,MatMul", "s")),
            *_unary("Neg", slots=("*!Neg,Mul,MatMul",)),
            *_transpose((1, 0), slots=("*!Transpose,Neg,Mul,MatMul",)),
        ),
        runtime=2,
        lifts="matrix",
    ),
    Family(
        "reduce", _inputs("x", (2, 2)), _reduce((-1,), (-2,), (-2, -1), keepdims=(1,)), runtime=2, lifts="matrix"
    ),
    Family(
        "reduce",
        _inputs("x y", (2, 2)),
        (
            *_reduce((-1,), (-2,), (-2, -1), keepdims=(1,), slots=("*!ReduceSum",)),
            *_binary("Add Sub", slots=("*!Add,Sub",)),
            *_concat(-1, slots=("*!Add,Sub,Concat",)),
        ),
        runtime=3,
        elements=8,
        lifts="matrix",
    ),
)

_LINEAR = (
    Family(
        "linear",
        (*_inputs("x", (2, 2)), *_inputs("w u", (2, 2), "w", True), *_inputs("b c", (2,), "b", True)),
        (
            *_gemm(0, 1, slots=("x", "w!b,c", "w!w,u")),
            Use("MatMul", slots=("x", "w!b,c")),
            Use("Add", slots=("x!x,Add", "*!x,Add")),
            Use("Add", slots=("w0",), run=False, fold=True),
            *_transpose((1, 0), slots=("w0",), run=False, fold=True),
            *_concat(-1, -2, **_FOLDED),
            *_concat(-1),
        ),
        runtime=3,
        folded=(1, 2, 0, 0),
        elements=8,
        lifts="matrix",
        halves=(-1,),
    ),
    Family(
        "linear",
        (*_inputs("x y", (2, 2)), *_inputs("w u", (2, 2), "w", True), *_inputs("b", (2,), "b", True)),
        (
            *_gemm(0, slots=("x", "w")),
            *_binary("MatMul", slots=("x", "w")),
            *_binary("Add", slots=("x",)),
            *_concat(-1),
            *_concat(-2, **_FOLDED),
        ),
        runtime=3,
        folded=(1, 1, 1, 0),
        elements=8,
        lifts="matrix",
    ),
    Family(
        "linear",
        # A low-rank branch: u and t have few columns and rows, so that multiplying them out first costs more.
        (
            *_inputs("x", (2, 6)),
            *_inputs("w", (6, 6), "w", True),
            *_inputs("u", (6, 2), "u", True),
            *_inputs("t", (2, 6), "t", True),
            *_inputs("b", (6,), "b", True),
        ),
        (
            *_gemm(0, 1, arities=(3,), slots=("x", "w", "b")),
            *_binary("MatMul", slots=("x", "w")),
            *_binary("Add", slots=("x",)),
            Use("MatMul", slots=("u", "t"), run=False, fold=True),
            Use("Add", slots=("w1!b", "w1"), run=False, fold=True),
            *_transpose((1, 0), slots=("w",), run=False, fold=True),
        ),
        runtime=4,
        folded=(3, 3, 0, 0, 0),
        elements=36,
        lifts="matrix",
    ),
    Family(
        "linear",
        (*_inputs("x", (2, 2)), *_inputs("w", (2, 2), "w", True), *_inputs("b", (2,), "b", True), *_inputs("s", (), "s", True)),
        (
            *_gemm(0, slots=("x", "w")),
            *_binary("MatMul", slots=("x", "w")),
            *_binary("Mul", slots=("*", "s")),
            *_binary("Mul", slots=("w", "s"), run=False, fold=True),
        ),
        runtime=2,
        folded=(1, 2, 0),
        lifts="matrix",
    ),
)

_CONV_FAMILIES = (
    Family(
        "conv",
        (*_inputs("x", _IMAGE), *_inputs("w u", _K3, "w", True), *_BIASES),
        (
            _conv(1, slots=("x!Conv,Add,Sub,Neg,Concat", "w")),
            *_binary("Add Sub", slots=("x!x,Add,Sub,Neg",)),
            *_unary("Neg", slots=("x!x,Neg,Sub,Add,Concat",)),
            *_unary("Neg", slots=("w0",), run=False, fold=True),
            *_binary("Add Sub", slots=("w0",), run=False, fold=True),
            *_concat(-3, slots=("x!x,Add,Sub,Neg,Concat",)),
            *_concat(-4, -1, **_FOLDED),
        ),
        runtime=3,
        folded=(1, 2, 0, 0),
        shapes=frozenset({_IMAGE, _WIDE, _K3, (4, 2, 3, 3), (2,), (4,)}),
        lifts="conv",
        halves=(-3,),
    ),
    Family(
        "conv",
        (*_inputs("x y", _IMAGE), *_inputs("w u", _K3, "w", True), *_BIASES),
        (
            _conv(1, slots=("x!Conv,Add", "w")),
            *_binary("Add", slots=("x!x,y,Add,Concat",)),
            *_binary("Add", slots=("w0",), run=False, fold=True),
            *_concat(-3, slots=("x!Conv,Add",)),
            *_concat(-3, **_FOLDED),
        ),
        runtime=3,
        folded=(1, 2, 2, 0),
        shapes=frozenset({_IMAGE, _WIDE, _K3, (2, 4, 3, 3), (2,)}),
        lifts="conv",
    ),
    Family(
        "conv",
        (*_inputs("x", _IMAGE), *_inputs("w", _K1, "w", True), *_inputs("u", _K3, "u", True), *_BIASES),
        (
            _conv(0, slots=("x!Conv,Add", "w")),
            _conv(1, slots=("x!Conv,Add", "w")),
            *_binary("Add", slots=("x",)),
            *_binary("Add", **_FOLDED),
            Use("Pad", {"pads": (0, 0, 1, 1, 0, 0, 1, 1), "value": 0.0}, (1,), **_FOLDED),
        ),
        runtime=3,
        folded=(2, 3, 0, 0),
        shapes=frozenset({_IMAGE, _K1, _K3, (2,)}),
        lifts="conv",
    ),
    Family(
        "conv",
        (*_inputs("x", _IMAGE), *_inputs("w", _K3, "w", True)),
        (_conv(0), _conv(1), Use("Pad", {"pads": (0, 0, 1, 1, 0, 0, 1, 1), "value": 0.0}, (1,), ("x",))),
        runtime=2,
        shapes=frozenset({_IMAGE, (1, 2, 4, 4), _K3}),
        lifts="conv",
    ),
    *(
        Family(
            "conv",
            (
                *_inputs("x", _IMAGE),
                *_inputs("w", kernel, "w", True),
                *_inputs("b", (2,), "b", True),
                *_STATISTICS,
            ),
            (
                _conv(0, group, slots=("x!Conv,BatchNormalization", "w!Dirac,Ones", "w!s,o,m,v,Zeros")),
                _NORMALISE,
                _NORMALISE_KERNEL,
                _NORMALISE_BIAS,
                Use("Transpose", {"perm": _SWAP_CHANNELS}, (1,), ("w2",), run=False, fold=True),
                *_axes("Unsqueeze", (-2,), slots=("b",), run=False, fold=True),
                *_axes("Squeeze", (-2,), slots=("w2",), run=False, fold=True),
            ),
            runtime=2,
            folded=(3, 6, 0),
            constants=(_zeros(2), _zeros(1, 2), one),
            shapes=frozenset({_IMAGE, kernel, (kernel[1], kernel[0], 1, 1), (2,), (1, 2)}),
            lifts="conv",
        )
        for group, kernel, one in ((1, _K1, _dirac(1, *_K1)), (2, _DEPTHWISE1, _ones(*_DEPTHWISE1)))
    ),
    Family(
        "conv",
        (*_inputs("x", _IMAGE), *_inputs("w", _K3, "w", True), *_inputs("u", _DEPTHWISE3, "u", True), *_inputs("b", (2,), "b", True)),
        (
            _conv(1, slots=("x!Conv,Add", "w")),
            _conv(1, 2, slots=("x!Conv,Add", "w")),
            *_binary("Add", slots=("x",)),
            Use("Add", slots=("w!Dirac", "Dirac"), run=False, fold=True),
        ),
        runtime=2,
        folded=(1, 1, 0),
        constants=(_dirac(1, *_K3), _dirac(2, *_DEPTHWISE3)),
        shapes=frozenset({_IMAGE, _K3, _DEPTHWISE3, (2,)}),
        lifts="conv",
    ),
    *(
        Family(
            "conv",
            (*_inputs("x", _IMAGE), *_inputs("w", kernel, "w", True), *_inputs("b", (2,), "b", True), *_STATISTICS),
            (
                _conv(1, group, slots=("x!Conv,BatchNormalization,Add", "w!Dirac", "w!s,o,m,v,Zeros")),
                _NORMALISE,
                _NORMALISE_KERNEL,
                _NORMALISE_BIAS,
                *_binary("Add", slots=("x!x,Add",)),
                Use("Add", slots=("w|b", "w3!w,b,s,o,m,v,Zeros"), run=False, fold=True),
                Use("Transpose", {"perm": _SWAP_CHANNELS}, (1,), ("w2",), run=False, fold=True),
                *_axes("Unsqueeze", (-2,), slots=("b",), run=False, fold=True),
                *_axes("Squeeze", (-2,), slots=("w2",), run=False, fold=True),
            ),
            runtime=3,
            folded=(4, 7, 0, 0),
            constants=(_zeros(2), _zeros(1, 2), _dirac(group, *kernel)),
            shapes=frozenset({_IMAGE, kernel, (kernel[1], kernel[0], 3, 3), (2,), (1, 2)}),
            lifts="conv",
        )
        for group, kernel in ((1, _K3), (2, _DEPTHWISE3))
    ),
    Family(
        "conv",
        (
            *_inputs("x", _IMAGE),
            *_inputs("w", _K3, "w", True),
            *_inputs("b", (2,), "b", True),
            *_inputs("c", (1, 2, 1, 1), "c", True),
            *_inputs("d", (2, 1, 1), "d", True),
            *_inputs("s", (), "s", True),
        ),
        (
            _conv(1, slots=("x!Conv,Add,Mul", "w")),
            Use("Add", slots=("x!x,Add,Mul", "w0")),
            Use("Mul", slots=("x!x,Add,Mul", "w0")),
            Use("Add", slots=("b", "w1!w,b"), run=False, fold=True),
            Use("Mul", slots=("b|w", "w1!w,b"), run=False, fold=True),
            *_transpose(_SWAP_CHANNELS, slots=("w1!w",), run=False, fold=True),
            *_axes("Squeeze", (-4, -2, -1), (-2, -1), **_FOLDED),
            *_axes("Unsqueeze", (-3,), **_FOLDED),
        ),
        runtime=2,
        folded=(2, 4, 1),
        shapes=frozenset({_IMAGE, _K3, (2,), (1, 2, 1, 1), (2, 1, 1), (2, 1, 1, 1), ()}),
        lifts="conv",
    ),
    Family(
        "conv",
        (*_inputs("x", _IMAGE), *_inputs("w", _K3, "w", True), *_inputs("u", _K1, "u", True)),
        (
            _conv(0, arities=(2,)),
            _conv(1, arities=(2,)),
            Use("Conv", dict(_conv(0).attrs), (2,), ("w", "w"), run=False, fold=True),
            *_transpose(_SWAP_CHANNELS, **_FOLDED),
        ),
        runtime=2,
        folded=(3, 3, 0),
        shapes=frozenset({_IMAGE, _K1, _K3}),
        lifts="conv",
    ),
    Family(
        "conv",
        (*_inputs("x", _IMAGE), *_inputs("w", (4, 2, 3, 3), "w", True), *_inputs("b", (4,), "b", True)),
        (
            _conv(1),
            *_splits(-3),
            *_splits(-4, **_FOLDED),
            *_splits(-1, **_FOLDED),
        ),
        runtime=2,
        folded=(1, 2, 0),
        shapes=frozenset({_IMAGE, _WIDE, (4, 2, 3, 3), _K3, (2,), (4,)}),
        lifts="conv",
    ),
)

FAMILIES: tuple[Family, ...] = (*_ELEMENTWISE, *_LAYOUT, *_MATRIX, *_REDUCE, *_LINEAR, *_CONV_FAMILIES)
