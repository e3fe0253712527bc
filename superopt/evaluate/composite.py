"""Evaluates composite operators by evaluating the primitive operators of their equations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from superopt.ir.infer import make
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Attr, Term, node_of, topological, var
from superopt.ir.types import TensorType
from superopt.ops.equation import unfold

__all__ = ["Step", "along_equations", "is_composite"]

# Evaluates one operator: its name, its attributes, its operands as terms and as values, and the type of its value.
Step: TypeAlias = Callable[[str, Mapping[str, Any], Sequence["Term | None"], Sequence[Any], TensorType], Any]


def is_composite(op: str) -> bool:
    """Return True if an operator is defined by equations."""
    return OPERATORS[op].meaning is None


@lru_cache(maxsize=1 << 12)
def _unfolded(
    op: str, types: tuple[TensorType | None, ...], attrs: tuple[tuple[str, Attr], ...], index: int | None
) -> tuple[tuple[Term, ...], tuple[Term | None, ...]]:
    """Return the operators of a composite operator's equation, in order, and the leaves that stand for its operands.

    `index` is the output that the equation is for, None for the only one.
    """
    leaves = tuple(None if type is None else var(f"x{k}", type) for k, type in enumerate(types))
    node = make(op, leaves, dict(attrs))
    return tuple(topological((unfold(node if index is None else node.out(index)),))), leaves


def along_equations(
    op: str, types: Sequence[TensorType | None], attrs: Mapping[str, Any], values: Sequence[Any], step: Step
) -> Any:
    """Return the value of a composite operator; `step` evaluates each operator of its equation.

    `types` and `values` are those of the operands. `attrs` has the `index` of one of several outputs.
    """
    own = tuple((name, attrs[name]) for name in OPERATORS[op].attrs)
    order, leaves = _unfolded(op, tuple(types), own, attrs.get("index"))
    known: dict[Term | None, Any] = {None: None, **dict(zip(leaves, values, strict=True))}
    for term in order:
        if term in known or (len(term.types) > 1 and term.op != "Out"):
            continue
        node = node_of(term)
        assert term.type is not None
        below = [known[i] for i in node.inputs]
        known[term] = step(node.op, {**dict(node.attrs), **dict(term.attrs)}, node.inputs, below, term.type)
    return known[order[-1]]
