"""The grammar of axes that change places before or after an operator that keeps them, so that two Transposes meet.

Models with channels last, or with the sequence before the batch, move axes around many operators. An operator on rows
keeps the axes before them, and padding, a reduction or a slope for each channel names its axes. Data only.
"""

from __future__ import annotations

from superopt.evaluate.residues import Shape
from superopt.generate.families.usual import LAYER
from superopt.generate.grammar import Family, Use, Variable, along, axes, inputs, reduce, transpose

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
