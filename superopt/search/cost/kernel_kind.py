"""Kinds of kernels: operators of one kind run at about the same share of a device's speed.

Most kinds are operators. Some operators have several kernels, or one whose speed depends on the layout of its operands:
a depthwise Conv, a product with one row, a copy of short pieces.
"""

from __future__ import annotations

import math

from superopt.ir.term import Term
from superopt.properties import joins, moves, reduces
from superopt.search.cost.runtime_fusion import CONVOLUTIONS

__all__ = ["MIN_CHANNEL_BLOCK", "kernel_kind", "kinds_of"]

MIN_CHANNEL_BLOCK = 8  # channels of a group that product units take at once, at least
_PRODUCTS = frozenset({"FusedGemm", "FusedMatMul", "Gemm", "MatMul"})
_PLAIN = {"FusedConv": "Conv", "FusedGemm": "MatMul"}  # products with an activation: without it
_FEW_ROWS = 4  # a product with so few rows reads its matrix from memory, and uses each element once or twice
_SHORT_PIECE = 16  # elements: below, a copy spends its time on finding the pieces
_BINARY = 2
_OF_ONE_CHANNEL = " of one channel"
_LINE_RANK, _VOLUME_RANK = 3, 5  # of the kernels of Convs


def kinds_of(term: Term, block: int = 1) -> tuple[str, ...]:
    """Return the names under which figures of an operator are looked up, the most special first.

    A product with an activation is a kernel of its own, and where its figures are not known, it is the product.
    """
    kind = kernel_kind(term, block)
    plain = _PLAIN.get(term.op, term.op)
    return tuple(dict.fromkeys((kind, term.op, kind.replace(term.op, plain, 1), plain)))


def kernel_kind(term: Term, block: int = 1) -> str:
    """Return the kind of an operator with operands of known sizes: its name, or the name and a qualification.

    `block` is the number of channels in a block of the runtime's own image layout.
    """
    shapes = [None if i is None or i.type is None else i.type.concrete() for i in term.inputs]
    result = None if term.type is None else term.type.concrete()
    if not shapes or shapes[0] is None or result is None:
        return term.op
    if term.op == "ConvTranspose" and shapes[1] is not None:
        return f"{term.op}{_OF_ONE_CHANNEL if _is_of_one_channel(term, shapes[1]) else ''}"
    if term.op in CONVOLUTIONS and shapes[1] is not None:
        kernel = term.inputs[1]
        computed = "" if kernel is None or kernel.is_constant else " by a computed kernel"
        return f"{term.op}{_form_of_conv(term, shapes[1], block)}{computed}"
    if term.op in _PRODUCTS and shapes[1] is not None:
        name = "FusedGemm" if term.op == "FusedGemm" else "MatMul"
        return f"{name}{_form_of_product(result, shapes[1])}"
    if moves(term.op):
        return f"{term.op}{' short' if _piece(term, shapes[0], result) < _SHORT_PIECE else ''}"
    if reduces(term.op):
        return f"{term.op}{'' if _reduces_last(term, shapes[0]) else ' strided'}"
    known = [shape for shape in shapes if shape is not None and math.prod(shape) > 1]
    if len(shapes) >= _BINARY and any(shape != result for shape in known):
        return f"{term.op} broadcast"
    return term.op


def _form_of_conv(term: Term, kernel: tuple[int, ...], block: int) -> str:
    group = term.attr("group")
    line = {_LINE_RANK: " of a line", _VOLUME_RANK: " of a volume"}.get(len(kernel), "")
    if _is_of_one_channel(term, kernel):
        return f"{_OF_ONE_CHANNEL}{line}"
    if group != 1:
        if kernel[1] == 1:
            return f" depthwise{line}"
        return f" grouped{' in blocks' if kernel[1] % max(MIN_CHANNEL_BLOCK, block) == 0 else ''}{line}"
    return line or (" 1x1" if math.prod(kernel[2:]) == 1 else "")


def _is_of_one_channel(term: Term, kernel: tuple[int, ...]) -> bool:
    """Return True if each result is a sum over one window of one channel, or goes to one: a small product an image."""
    return term.attr("group") == 1 and kernel[1] == 1 and math.prod(kernel[2:]) > 1


def _form_of_product(result: tuple[int, ...], second: tuple[int, ...]) -> str:
    if len(second) > 2:
        return " stacked"
    return " of few rows" if math.prod(result[:-1]) <= _FEW_ROWS else ""


def _piece(term: Term, shape: tuple[int, ...], result: tuple[int, ...]) -> int:
    """Return the number of elements that are copied together."""
    attrs, rank = dict(term.attrs), len(shape)
    perm = attrs.get("perm")
    if isinstance(perm, tuple):
        kept = next((k for k in range(rank) if perm[rank - 1 - k] != rank - 1 - k), rank)
        return math.prod(shape[rank - kept :])
    axes = attrs.get("axes", attrs.get("axis"))
    numbers = [axis for axis in (axes if isinstance(axes, tuple) else (axes,)) if isinstance(axis, int)]
    if not numbers:
        return result[-1] if result else 1
    last = max(axis % max(1, rank) for axis in numbers)
    steps = attrs.get("steps")
    if isinstance(steps, tuple) and any(step != 1 for step in steps):
        return 1
    pieces = shape if joins(term.op) else result
    return math.prod(pieces[last:]) if len(pieces) == rank else math.prod(shape[last + 1 :])


def _reduces_last(term: Term, shape: tuple[int, ...]) -> bool:
    attrs, rank = dict(term.attrs), len(shape)
    axes = attrs.get("axes", attrs.get("axis", -1))
    numbers = [axis for axis in (axes if isinstance(axes, tuple) else (axes,)) if isinstance(axis, int)]
    return not numbers or max(axis % max(1, rank) for axis in numbers) == rank - 1
