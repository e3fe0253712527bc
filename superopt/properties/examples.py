"""Finds a small well-typed example of each operator: operands of symbolic sizes, and attribute values by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from superopt.ir.dim import Size, Sizes, evaluate, symbol, symbols_of
from superopt.ir.infer import make
from superopt.ir.operator import OPERATORS, IllTyped, Operator
from superopt.ir.term import Term, var
from superopt.ir.types import TensorType
from superopt.ops.algebra import Algebra
from superopt.ops.definition import NoSemantics
from superopt.ops.meaning import Meaning
from superopt.properties.recorder import Recorder

__all__ = ["Example", "example"]

_RANKS = (2, 3, 4, 1, 0)
_DTYPES = ("float", "int64", "uint8")
_MAX_TRIED = 50_000  # combinations of ranks and attributes
# Attributes whose default leaves out a part of the definition.
_INSTEAD_OF_DEFAULTS = {"bound_low": 0.0, "bound_high": 1.0}
# Values to try for attributes without a default, by their names and the rank of the first operand.
_ATTRS: Mapping[str, Callable[[int], Sequence[Any]]] = {
    "activation": lambda rank: ["Relu"],
    "axes": lambda rank: [(-1,)],
    "axis": lambda rank: [-1],
    "blocksize": lambda rank: [2],
    "delta": lambda rank: [1.0],
    "depth": lambda rank: [3],
    "dilations": lambda rank: [(1,) * (rank - 2)],
    "ends": lambda rank: [(2,)],
    "equation": lambda rank: ["ab,bc->ac"],
    "group": lambda rank: [1],
    "indices": lambda rank: [(0, 2)],
    "kernel_shape": lambda rank: [(2,) * (rank - 2)],
    "mode": lambda rank: ["reflect"],
    "n": lambda rank: [3],
    "num_groups": lambda rank: [2],
    "num_heads": lambda rank: [2],
    "output_padding": lambda rank: [(0,) * (rank - 2)],
    "pads": lambda rank: [(1,) * (2 * rank), (0,) * (2 * rank - 4)],
    "perm": lambda rank: [tuple(reversed(range(rank)))],
    "repeats": lambda rank: [(2,) * rank],
    "scales": lambda rank: [(2,) * rank],
    "shape": lambda rank: [(-1,), (5, 1, 1), (2, 2), (2, 2, 1)],
    "size": lambda rank: [3],
    "split": lambda rank: [(1, 1)],
    "start": lambda rank: [0.0],
    "starts": lambda rank: [(1,)],
    "steps": lambda rank: [(1,)],
    "strides": lambda rank: [(1,) * (rank - 2)],
    "to": lambda rank: ["int32"],
    "value_floats": lambda rank: [(0.0, 1.0, 2.0, 3.0)],
}


@dataclass(frozen=True)
class Example:
    """A typed term of the operator, over variables called 0, 1, 2, ..."""

    term: Term

    @property
    def operator(self) -> Operator:
        """The operator's entry."""
        return OPERATORS[self.term.op]

    @property
    def shapes(self) -> tuple[Sizes, ...]:
        """The operands' shapes."""
        return tuple(_type(used).shape or () for used in self.term.inputs)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The operands' element types."""
        return tuple(_type(used).dtype for used in self.term.inputs)

    @property
    def shape(self) -> Sizes:
        """The shape of the first output."""
        return _type(self.term).shape or ()

    @property
    def dtype(self) -> str:
        """The element type of the first output."""
        return _type(self.term).dtype

    @property
    def index(self) -> Sizes:
        """The index at which `read` evaluates the definition: symbolic, so that it stands for any index."""
        return tuple(0 if size == 1 else symbol(f"i!{d}") for d, size in enumerate(self.shape))

    def read(self, algebra: Algebra) -> Any:
        """Return the scalar of the first output at `index` in an algebra."""
        return Meaning(algebra).scalar(self.term.out(0) if len(self.term.types) > 1 else self.term, self.index)


def _type(term: Term | None) -> TensorType:
    assert term is not None and term.types[0] is not None
    return term.types[0]


@cache
def example(op: str) -> Example | None:
    """Return the first use of the operator that its type rules and its definition accept.

    All optional operands are present, and a variadic operator has two operands. Returns None if the operator is
    unknown, or if an attribute needs a value that is not among the values tried here.
    """
    operator = OPERATORS.get(op)
    if operator is None:
        return None
    for steps in (None, 1):
        for found in _typed(operator, steps):
            try:
                found.read(Recorder())
            except NoSemantics:  # the first axis must have a known size
                break
            return found
    return None


def _typed(operator: Operator, first: Size | None) -> Iterator[Example]:
    least, most = operator.inputs
    count = max(2, least) if most is None else most
    # Most operands of most operators have one rank: those that differ the least are tried first.
    by_difference = sorted(
        itertools.product(_RANKS, repeat=count), key=lambda ranks: count - max(map(ranks.count, ranks), default=0)
    )
    dtypes = _dtypes(operator, count)
    uses = ((ranks, attrs) for ranks in by_difference for attrs in _attributes(operator, ranks[0] if ranks else 2))
    for ranks, attrs in () if dtypes is None else itertools.islice(uses, _MAX_TRIED):
        sizes: list[Sizes] = [tuple(symbol(f"n{k}!{d}") for d in range(rank)) for k, rank in enumerate(ranks)]
        if first is not None and sizes and sizes[0]:
            sizes[0] = (first, *sizes[0][1:])
        try:
            types = map(TensorType, dtypes or (), _consistent(operator, sizes, attrs))
            found = make(operator.name, [var(str(k), type) for k, type in enumerate(types)], attrs)
        except (IllTyped, IndexError, ValueError, TypeError):
            continue
        yield Example(found)


def _consistent(operator: Operator, shapes: Sequence[Sizes], attrs: Mapping[str, Any]) -> tuple[Sizes, ...]:
    """Return the operands' shapes with symbols replaced by the sizes that the type rule requires them to equal."""
    needs: list[tuple[Size, Size]] = []

    def need(relation: str, left: Size, right: Size) -> None:
        if relation == "==":
            needs.extend([(left, right), (right, left)])

    while True:
        needs.clear()
        operator.shape_rule(shapes, attrs, need)
        known = {name: other for one, other in needs if (name := _name(one)) and name not in symbols_of(other)}
        if not known:
            return tuple(shapes)
        first = dict([next(iter(known.items()))])
        shapes = [tuple(evaluate(size, first) for size in shape) for shape in shapes]


def _name(size: Size) -> str | None:
    """Return the name of a size that is a single symbol, else None."""
    only = symbols_of(size)
    return next(iter(only)) if len(only) == 1 and size == symbol(*only) else None


def _any(rank: int) -> Sequence[Any]:
    """Return values to try for an attribute of an unknown name."""
    return [1, (1,), 1.0, (1,) * rank, 0, -1, ""]


def _dtypes(operator: Operator, count: int) -> tuple[str, ...] | None:
    """Return the first element types that the operator accepts. Most operators have one type, or a bool mask."""
    attrs = {"to": "int32", **dict(next(_attributes(operator, 2)))}
    mask = ("bool", *["float"] * (count - 1))[:count]
    uniform = [(dtype,) * count for dtype in _DTYPES]
    for dtypes in (uniform[0], ("bool",) * count, mask, *uniform[1:], *itertools.product(_DTYPES, repeat=count)):
        try:
            operator.dtype_rule(dtypes, attrs, "float")
        except IllTyped:
            continue
        return dtypes
    return None


def _attributes(operator: Operator, rank: int) -> Iterator[Mapping[str, Any]]:
    instead = {name: value for name, value in _INSTEAD_OF_DEFAULTS.items() if name in operator.attrs}
    open_names = [name for name in operator.attrs if name not in operator.defaults]
    for values in itertools.product(*(_ATTRS.get(name, _any)(rank) for name in open_names)):
        yield {**operator.defaults, **instead, **dict(zip(open_names, values, strict=True))}
