"""The grammar of axes that change places before or after an operator that keeps them, so that two Transposes meet.

Models with channels last, or with the sequence before the batch, move axes around many operators. An operator on rows
keeps the axes before them, and padding, a reduction or a slope for each channel names its axes. Data only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from superopt.evaluate.residues import Shape
from superopt.generate.families.usual import LAYER
from superopt.generate.grammar import (
    Family,
    Use,
    Variable,
    along,
    axes,
    gather,
    inputs,
    reduce,
    slices,
    splits,
    transpose,
)

__all__ = ["PLACES"]

_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # permutations that move channels last and first
_IMAGE = (2, 3, 4, 5)
# Each permutation keeps the last axis.
_ROWS: tuple[tuple[tuple[int, ...], Shape], ...] = (((1, 0, 2), (2, 3, 4)), ((0, 2, 1, 3), _IMAGE))


def _family(variables: tuple[Variable, ...], *uses: Use, runtime: int = 2) -> Family:
    return Family("places", variables, uses, runtime, elements=600, reals=True)


def _slot(name: str) -> tuple[str, ...]:
    return (f"x|{name}",)


def _pads(*pads: tuple[int, ...]) -> tuple[Use, ...]:
    return tuple(Use("Pad", {"pads": some, "value": 0.0}, (1,), _slot("Transpose")) for some in pads)


_PERMUTED: tuple[tuple[Shape, tuple[tuple[int, ...], ...]], ...] = (
    ((3, 4), ((1, 0),)),
    ((2, 3, 4), ((0, 2, 1), (1, 0, 2))),
    (_IMAGE, (_LAST, _FIRST)),
    (_IMAGE, ((0, 2, 1, 3), (0, 1, 3, 2))),
)


def _smaller(perms: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Return the permutations of the axes that are left where an operator has one result axis less."""
    rank = len(perms[0]) - 1
    return {2: ((1, 0),), 3: ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1))}.get(rank, ())


def _named(uses: Iterable[Use], made: str) -> tuple[Use, ...]:
    return tuple(replace(use, slots=("x|Transpose",), made=made) for use in uses)


# Operators along an axis, which then is gone.
_ALONG: tuple[tuple[str, Callable[[int], tuple[Use, ...]]], ...] = (
    ("Sums", lambda axis: _named(reduce("Sum Mean", (axis,), 0), "Sums")),
    ("Extrema", lambda axis: _named(reduce("Max Min", (axis,), 0), "Extrema")),
    (
        "Places",
        lambda axis: _named((Use(op, {"axis": axis, "keepdims": 0}, (1,)) for op in ("ArgMax", "ArgMin")), "Places"),
    ),
    ("One", lambda axis: _named(gather(axis, 1), "One")),
)
# Operators along an axis, which stays.
_KEEPING: tuple[Callable[[int, int], tuple[Use, ...]], ...] = (
    lambda axis, rank: _named(reduce("Sum Mean", (axis,), 1), "Along"),
    lambda axis, rank: _named(reduce("Max Min", (axis,), 1), "Along"),
    lambda axis, rank: _named(gather(axis, (1, 0)), "Along"),
    lambda axis, rank: _named((*slices(axis), *splits(axis)), "Along"),
    lambda axis, rank: _named(
        (Use("Tile", {"repeats": (1,) * (rank + axis) + (2,) + (1,) * (-axis - 1)}, (1,)),), "Along"
    ),
    lambda axis, rank: _named(along("Softmax LogSoftmax", axis=axis), "Along"),
)

PLACES: tuple[Family, ...] = (
    # Operators on rows.
    *(
        _family((*inputs("x", shape), *parameters), *transpose(perm, slots=_slot(use.op)), use)
        for perm, shape in _ROWS
        for use, parameters in (
            (Use("MatMul", {}, (2,), ("x|Transpose", "u")), inputs("u", (shape[-1], 6))),
            *((row, ()) for row in along("Softmax LogSoftmax", *_slot("Transpose"))),
            *((row, ()) for row in reduce("Sum Max Min Mean", (-1,), 1, *_slot("Transpose"))),
            (Use("RMSNormalization", LAYER, (2,), ("x|Transpose", "g")), inputs("g", shape[-1:])),
            (Use("LayerNormalization", LAYER, (3,), ("x|Transpose", "g", "h")), inputs("g h", shape[-1:], "g")),
        )
    ),
    # Reductions over the pixels of an image.
    *(
        _family(
            inputs("x", _IMAGE),
            *transpose(perm, slots=_slot("|".join(f"Reduce{kind}" for kind in kinds.split()))),
            *(use for over in ((-2, -1), (-3, -2)) for use in reduce(kinds, over, keepdims, *_slot("Transpose"))),
        )
        for kinds in ("Sum Mean", "Max Min")
        for keepdims in (0, 1)
        for perm in (_LAST, _FIRST)
    ),
    # Reductions over one axis, selections and cuts along it, and repetitions.
    *(
        _family(
            inputs("x", shape),
            *transpose(*perms, slots=("x",)),
            *transpose(*_smaller(perms), slots=(made,)),
            *(use for k in range(1, len(shape) + 1) for use in uses(-k)),
        )
        for shape, perms in _PERMUTED
        for made, uses in _ALONG
    ),
    *(
        _family(
            inputs("x", shape),
            *transpose(perm, slots=("x|Along",)),
            *(replace(use, slots=_slot("Transpose")) for k in range(1, len(shape) + 1) for use in uses(-k, len(shape))),
        )
        for shape, perms in _PERMUTED
        for perm in perms
        for uses in _KEEPING
    ),
    # Borders of zeros, all different.
    *(
        _family(
            inputs("x", shape),
            *transpose(perm, slots=_slot("Pad")),
            *_pads(amounts, (*(amounts[k] for k in perm), *(amounts[len(perm) + k] for k in perm))),
        )
        for shape, perm, amounts in (
            ((3, 4), (1, 0), (1, 2, 3, 4)),
            ((2, 3, 4), (0, 2, 1), (0, 1, 2, 0, 3, 4)),
            ((2, 3, 4), (1, 0, 2), (1, 2, 0, 3, 4, 0)),
            (_IMAGE, _LAST, (0, 0, 1, 2, 0, 0, 3, 4)),
            (_IMAGE, _FIRST, (0, 1, 2, 0, 0, 3, 4, 0)),
            (_IMAGE, (0, 1, 3, 2), (0, 0, 1, 2, 0, 0, 3, 4)),
        )
    ),
    # Borders of zeros. Pads are literals: those before convolutions with kernels of 3, 5 and 7, and of stride 2.
    *(
        _family(
            inputs("x", _IMAGE),
            *transpose(perm, slots=_slot("Pad")),
            *_pads((0, 0, before, before, 0, 0, after, after), (0, before, before, 0, 0, after, after, 0)),
        )
        for perm in (_LAST, _FIRST)
        for before, after in ((1, 1), (2, 2), (3, 3), (0, 1))
    ),
    # A slope for each channel.
    *(
        _family(
            (*inputs("x", _IMAGE), *inputs("s", (channels,))),
            *transpose(perm, slots=_slot("PRelu")),
            *axes("Unsqueeze", (-2, -1), slots=("s",)),
            Use("PRelu", {}, (2,), ("x|Transpose", "s|Unsqueeze")),
            runtime=3,
        )
        for perm, channels in ((_LAST, 3), (_FIRST, 5))
    ),
)
