"""Shapes that follow from the shapes of the inputs, operator by operator, with free sizes as polynomials.

ONNX's own inference runs over a whole graph and knows few sizes that a model computes by arithmetic on shapes (Range,
Expand, Reshape, Slice). Here these sizes are static values. Other operators use their definition, or ONNX's inference
for a single node.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import onnx
from onnx import TensorProto

from superopt.ir.dim import Dim, Size, Sizes, evaluate, floor_div, symbol
from superopt.ir.infer import OPERATORS, IllTyped
from superopt.ir.term import CLOSED_FORM, Term
from superopt.onnx_io.model import EqualSizes
from superopt.onnx_io.node_inference import infer_node
from superopt.onnx_io.reshape_targets import allows_zero
from superopt.onnx_io.schemas import DEFAULT_DOMAINS, TO_THE_END, schema_of
from superopt.onnx_io.static_values import StaticValues, is_never_negative
from superopt.onnx_io.subgraphs import subgraphs
from superopt.onnx_io.tensor_types import LARGEST_SIZE, sizes_by_text, stated_shape, type_proto

__all__ = ["ShapeProofs"]

_Inputs: TypeAlias = Sequence["Term | None"]


class ShapeProofs:
    """Proven shapes of the outputs of nodes, from the proven shapes and static values in `known`.

    A slice from the start of an axis has a size min(a, b). It is a new symbol, and `_minima` has a and b. `is_certain`
    says whether a size is one of the inputs, or computed from those. `assumed` has sizes that are equal wherever a node
    can be computed, by the name of its first output; with a 1 among them where operands are broadcast.
    """

    def __init__(self, known: StaticValues, opset: int, is_certain: Callable[[Size], bool]) -> None:
        self._known, self._opset, self._is_certain = known, opset, is_certain
        self._minima: dict[Size, frozenset[Size]] = {}
        self.assumed: dict[str, set[EqualSizes]] = {}
        self._here: set[EqualSizes] = set()

    def outputs(self, node: onnx.NodeProto, term: Term, inputs: _Inputs, count: int) -> list[Sizes | None]:
        """Return the shapes of the first `count` outputs of `node`, which was read as `term`; None if unknown."""
        self._here = set()
        schema = schema_of(node.op_type, self._opset) if node.domain in DEFAULT_DOMAINS else None
        if term.op in OPERATORS and term.op not in CLOSED_FORM:
            found = self._defined(term)
        elif term.op == "com.microsoft::DynamicQuantizeLSTM":
            found = self._quantized_lstm(node, inputs)
        elif schema is None or len(inputs) < schema.min_input or next(subgraphs(node), None) is not None:
            found = None
        elif node.op_type in _RULES:
            shape = _RULES[node.op_type](self, node, inputs)
            found = None if shape is None else [shape]
        else:
            found = self._by_onnx(node, inputs)
        if self._here:
            self.assume(node.output[0], self._here)
        if found is None or len(found) < count:
            return [None] * count
        return [shape if shape is not None and all(map(_is_possible, shape)) else None for shape in found]

    def assume(self, name: str, equal: set[EqualSizes]) -> None:
        """Note sizes that a node needs to be equal, by the name of its output, or one like it if branches share it."""
        while name in self.assumed:
            name += "'"
        self.assumed[name] = equal

    def may_infer(self, node: onnx.NodeProto, inputs: _Inputs) -> bool:
        """Return False for an Expand to an unknown shape: ONNX's inference says something of it all the same."""
        return node.op_type != "Expand" or self._sizes(inputs, 1) is not None

    def _shapes(self, inputs: _Inputs) -> list[Sizes | None] | None:
        """Return the proven shapes of the inputs that are present, or None if one is unknown."""
        shapes = [self._known.shape(term) for term in inputs]
        return None if any(t is not None and s is None for t, s in zip(inputs, shapes, strict=True)) else shapes

    def _sizes(self, inputs: _Inputs, index: int) -> list[Size] | None:
        """Return the elements of a list of integers, or of a single one."""
        term = inputs[index] if index < len(inputs) else None
        found = None if term is None else self._known.sizes(term)
        return None if found is None or found.ndim > 1 else [_plain(size) for size in found.reshape(-1)]

    def _defined(self, term: Term) -> list[Sizes | None] | None:
        """Apply the type rule of an operator with a definition."""
        shapes = self._shapes(term.inputs)
        if shapes is None:
            return None
        equal: dict[Size, Size] = {}  # sizes that are equal to another one wherever the operator can be computed
        uncertain: list[Size] = []

        def need(relation: str, left: Size, right: Size) -> None:
            if relation == "==" and left != right:
                size = left if isinstance(left, Dim) else right
                ones = frozenset({1} if _may_be_one(term, shapes, size) else ())
                common = self._common(left, right, ones)
                if common is None and term.op == "Concat":
                    common = self._one_of(left, right)
                if common is None:
                    uncertain.append(left)
                    self._here.add(frozenset({left, right}) | ones)
                else:
                    equal[left if common == right else right] = common

        try:
            made = OPERATORS[term.op].shape_rule(shapes, dict(term.attrs), need)
        except (IllTyped, TypeError, IndexError, KeyError):
            return None
        if uncertain:
            return None
        if not equal:
            return list(made)
        named = {str(size): other for size, other in equal.items()}  # sizes within larger ones
        return [tuple(equal[size] if size in equal else evaluate(size, named) for size in shape) for shape in made]

    def _common(self, one: Size, other: Size, ones: frozenset[int]) -> Size | None:
        """Return the size of an axis where axes of these two sizes meet, or None if it depends on the sizes.

        Where min(a, n) meets a, for a number n, it is a: the operator fails at all sizes at which the two differ, if
        neither is 1 and broadcast. `ones` has a 1 if it may be.
        """
        if one == other:
            return one
        for size, least in ((one, other), (other, one)):
            if size in self._minima.get(least, ()):
                self._here.add(frozenset({size, self._minima[least]}) | ones)
                return size
        return None

    def _one_of(self, one: Size, other: Size) -> Size | None:
        """Return one of two sizes that must be equal, always the same one; None if they are not or may not be known.

        ONNX says that sizes beside the axis of a Concat are equal. ONNX Runtime lets those of empty operands differ.
        """
        if not (self._is_certain(one) and self._is_certain(other)) or (isinstance(one, int) and isinstance(other, int)):
            return None
        self._here.add(frozenset({one, other}))
        return min(one, other, key=lambda size: (isinstance(size, Dim), len(str(size)), str(size)))

    def _by_onnx(self, node: onnx.NodeProto, inputs: _Inputs) -> list[Sizes | None] | None:
        """Apply ONNX's inference to one node."""
        shapes = self._shapes(inputs)
        if shapes is None or any(t is not None and t.type is None for t in inputs):
            return None
        sizes = sizes_by_text(shapes)
        types: dict[str, onnx.TypeProto] = {}
        data: dict[str, TensorProto] = {}
        for name, term, shape in zip(node.input, inputs, shapes, strict=False):
            if term is not None and term.type is not None and shape is not None:
                types[name] = type_proto(term.type.dtype, shape)
                value = self._known.numbers(term) if math.prod(s for s in shape if isinstance(s, int)) <= 64 else None
                if value is not None and value.dtype.kind in "iu":
                    data[name] = onnx.numpy_helper.from_array(value, name)
        found = infer_node(node, self._opset, types, data)
        return [stated_shape(found[name], sizes) if name in found else None for name in node.output]

    def _quantized_lstm(self, node: onnx.NodeProto, inputs: _Inputs) -> list[Sizes | None] | None:
        """Return [steps, directions, batch, hidden] and twice [directions, batch, hidden], as ONNX's LSTM has them."""
        x = self._known.shape(inputs[0])
        hidden = next((a.i for a in node.attribute if a.name == "hidden_size"), 0)
        both = any(a.name == "direction" and a.s == b"bidirectional" for a in node.attribute)
        if x is None or len(x) != 3 or hidden < 1:
            return None
        state = (1 + both, x[1], hidden)
        return [(x[0], *state), state, state]

    def _range(self, node: onnx.NodeProto, inputs: _Inputs) -> Sizes | None:
        """Count from `start` up to `limit` in steps of 1."""
        start, limit, delta = (self._sizes(inputs, k) for k in range(3))
        if start is None or limit is None or delta != [1]:
            return None
        count = limit[0] - start[0]
        return (count,) if is_never_negative(count) else None

    def _expand(self, node: onnx.NodeProto, inputs: _Inputs) -> Sizes | None:
        """Broadcast the operand's shape with the target, where this does not depend on the sizes.

        Where 2 meets n, ONNX's inference says 2, and n has to be 2 (or 1).
        """
        shape, target = self._known.shape(inputs[0]), self._sizes(inputs, 1)
        if shape is None or target is None:
            return None
        result: list[Size | None] = []
        for back in range(max(len(shape), len(target)), 0, -1):
            pair = [sizes[-back] for sizes in (shape, target) if back <= len(sizes) and sizes[-back] != 1] or [1]
            size = self._common(pair[0], pair[-1], frozenset({1}))
            if size is None:
                self._here.add(frozenset({*pair, 1}))
            result.append(size)
        return None if None in result else tuple(size for size in result if size is not None)

    def _reshape(self, node: onnx.NodeProto, inputs: _Inputs) -> Sizes | None:
        """Take the target's sizes, copy the operand's for 0 unless `allowzero`, and divide for -1."""
        shape, target = self._known.shape(inputs[0]), self._sizes(inputs, 1)
        copies = not allows_zero(node)
        if shape is None or target is None or target.count(-1) > 1:
            return None
        if copies and any(size == 0 and k >= len(shape) for k, size in enumerate(target)):
            return None
        result = [shape[k] if size == 0 and copies else size for k, size in enumerate(target)]
        if -1 in result:
            place, whole = result.index(-1), math.prod(shape)
            rest = math.prod(size for size in result if size != -1)
            if rest == 0 or floor_div(whole, rest) * rest != whole:
                return None
            result[place] = floor_div(whole, rest)
        return tuple(result) if all(map(is_never_negative, result)) else None

    def _constant_of_shape(self, node: onnx.NodeProto, inputs: _Inputs) -> Sizes | None:
        target = self._sizes(inputs, 0)
        return tuple(target) if target is not None and all(map(is_never_negative, target)) else None

    def _tile(self, node: onnx.NodeProto, inputs: _Inputs) -> Sizes | None:
        shape, repeats = self._known.shape(inputs[0]), self._sizes(inputs, 1)
        if shape is None or repeats is None or len(shape) != len(repeats):
            return None
        return tuple(size * count for size, count in zip(shape, repeats, strict=True))

    def _slice(self, node: onnx.NodeProto, inputs: _Inputs) -> Sizes | None:
        """Slice with steps of 1: to the end, or from the start."""
        shape, starts, ends = self._known.shape(inputs[0]), self._sizes(inputs, 1), self._sizes(inputs, 2)
        if shape is None or starts is None or ends is None:
            return None
        axes, steps = self._sizes(inputs, 3), self._sizes(inputs, 4)
        axes = list(range(len(starts))) if axes is None and len(inputs) < 4 else axes
        steps = [1] * len(starts) if steps is None and len(inputs) < 5 else steps
        if axes is None or steps is None or any(step != 1 for step in steps) or len(starts) != len(axes):
            return None
        result = list(shape)
        for axis, start, end in zip(axes, starts, ends, strict=False):
            if not isinstance(axis, int) or not -len(shape) <= axis < len(shape) or not isinstance(start, int):
                return None
            size = self._sliced(shape[axis], start, end)
            if size is None:
                return None
            result[axis] = size
        return tuple(result)

    def _sliced(self, size: Size, start: int, end: Size) -> Size | None:
        if isinstance(size, int) and isinstance(end, int):
            return len(range(size)[start:end])
        if start == 0 and (end == size or (isinstance(end, int) and end >= TO_THE_END)):
            return size
        if start != 0 or not is_never_negative(end) or end == 0 or size == 0:
            return None
        parts = frozenset({size, end})
        for least, known in self._minima.items():
            if known == parts:
                return least
        names = (symbol(f"least_{k}") for k in itertools.count(len(self._minima)))
        least = next(size for size in names if not self._is_certain(size))  # an input may have a size of that name
        self._minima[least] = parts if any(isinstance(part, int) for part in parts) else frozenset()
        return least


_RULES: Mapping[str, Callable[[ShapeProofs, onnx.NodeProto, _Inputs], Sizes | None]] = {
    "ConstantOfShape": ShapeProofs._constant_of_shape,
    "Expand": ShapeProofs._expand,
    "Range": ShapeProofs._range,
    "Reshape": ShapeProofs._reshape,
    "Slice": ShapeProofs._slice,
    "Tile": ShapeProofs._tile,
}


def _plain(size: object) -> Size:
    return size if isinstance(size, Dim) else int(size)  # type: ignore[call-overload]


def _may_be_one(term: Term, shapes: Sequence[Sizes | None], size: Size) -> bool:
    """Return True if an operator broadcasts an axis of this size where it is 1.

    ONNX Runtime's PRelu broadcasts x to the slope, which ONNX excludes.
    """
    if term.op == "PRelu":
        return True
    asks: list[Size] = []

    def need(relation: str, left: Size, right: Size) -> None:
        if relation == "==" and 1 in (left, right):
            asks.append(left)

    ones = [None if shape is None else tuple(1 if one == size else one for one in shape) for shape in shapes]
    try:
        OPERATORS[term.op].shape_rule(ones, dict(term.attrs), need)
    except (IllTyped, TypeError, IndexError, KeyError):
        return False
    return not asks


def _is_possible(size: Size) -> bool:
    """Return False for a number that no tensor can have as a size: the node cannot run."""
    return not isinstance(size, int) or 0 <= size <= LARGEST_SIZE
