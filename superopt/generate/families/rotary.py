"""The grammar of rotary position embeddings: rotated pairs of elements, written out. Data only.

The angles of a position are written twice, once for each half of a head, and the rotated element is
x * cos + (-second half, first half) * sin.
"""

from __future__ import annotations

from superopt.evaluate.residues import Shape
from superopt.generate.grammar import Family, Use, inputs

__all__ = ["ROTARY"]

# (batch, heads, sequence, size) and (batch, sequence, half of the size), with sizes that nothing else has
_X, _ANGLES, _HALF = (5, 3, 7, 8), (5, 7, 4), 4
_FIRST, _SECOND = (f"Slice[axes=[-1], starts=[{k}], ends=[{k + _HALF}], steps=[1]](x)" for k in (0, _HALF))
_SPLIT = f"Split[axis=-1, split=[{_HALF}, {_HALF}]](x)"


def _rotated(cosines: str, sines: str, *halves: str) -> str:
    """Return the embedding written out, with the cosines and sines of all elements."""
    first, second = halves
    return f"Add(Mul(x, {cosines}), Mul(Concat[axis=-1](Neg({second}), {first}), {sines}))"


def _twice(angles: str, function: str = "") -> str:
    """Return the angles, or a function of them, for both halves and all heads."""
    both = f"Concat[axis=-1]({angles}, {angles})"
    return f"Unsqueeze[axes=[-3]]({f'{function}({both})' if function else both})"


def _rotation(*targets: str, angles: Shape = _ANGLES) -> Family:
    """Return the family of the embedding of angles `f` that are computed at run time."""
    given = "Cos|Sin"
    broadcast = (Use("Expand", {"shape": _ANGLES}, (1,), (given,)),) if angles != _ANGLES else ()
    return Family(
        "rotary",
        (*inputs("x", _X), *inputs("f", angles)),
        (
            Use("Cos", {}, (1,), ("f",)),
            Use("Sin", {}, (1,), ("f",)),
            *broadcast,
            Use("RotaryEmbedding", {}, (3,), ("x", *("Expand" if broadcast else given,) * 2)),
        ),
        runtime=5,
        elements=1 << 10,
        variation="attention",
        targets=targets,
        most=1 << 10,
    )


_HALVES = ((_FIRST, _SECOND), (f"{_SPLIT}.0", f"{_SPLIT}.1"))

ROTARY: tuple[Family, ...] = (
    *(
        _rotation(_rotated(_twice("f", "Cos"), _twice("f", "Sin"), *halves), angles=angles)
        for halves in _HALVES
        for angles in (_ANGLES, (1, *_ANGLES[1:]))
    ),
    # The same of given cosines and sines.
    *(
        Family(
            "rotary",
            (*inputs("x", _X), *inputs("c s", _ANGLES)),
            (Use("RotaryEmbedding", {}, (3,), ("x", "c|s")),),
            runtime=1,
            elements=1 << 10,
            variation="attention",
            targets=(_rotated(_twice("c"), _twice("s"), *halves),),
            most=1 << 10,
        )
        for halves in _HALVES
    ),
    # The operator's own equations.
    Family(
        "rotary",
        (*inputs("x", _X), *inputs("c s", _ANGLES)),
        (),
        1,
        variation="attention",
        reals=True,
        definitions=tuple(f"RotaryEmbedding[interleaved={pairs}](x, c, s)" for pairs in (0, 1)),
    ),
)
