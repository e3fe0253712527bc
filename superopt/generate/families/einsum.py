"""The grammar of Einsum as what it stands for: products of matrices, elementwise products, sums, and Transpose.

The runtime computes Einsum by general means, and fuses nothing with it. Each order of the axes is one equation. Data
only.
"""

from __future__ import annotations

import itertools
import math

from superopt.evaluate.residues import Shape
from superopt.generate.grammar import Family, Use, Variable, axes, binary, inputs, reduce, reshape, transpose

__all__ = ["EINSUM"]

_MOST = 1 << 12  # graphs on a level
_SIZES = {"b": 2, "h": 3, "i": 4, "j": 5, "k": 6}  # of an axis: batch, head, row, column, and what is summed over


def _written(*operands: str, result: str) -> str:
    """Return the equation with its letters in order of appearance, as it is read from a model."""
    letters = dict(zip(dict.fromkeys("".join(operands)), "abcdefgh", strict=False))
    left = ",".join("".join(letters[axis] for axis in operand) for operand in operands)
    return f"{left}->{''.join(letters[axis] for axis in result)}"


def _shape(operand: str) -> Shape:
    return tuple(_SIZES[axis] for axis in operand)


def _family(variables: tuple[Variable, ...], target: str, *uses: Use, runtime: int) -> Family:
    return Family("einsum", variables, uses, runtime, elements=1 << 11, variation="", targets=(target,), most=_MOST)


def _order(axes: str, wanted: str) -> tuple[int, ...]:
    return tuple(axes.index(axis) for axis in wanted)


def _product(left: str, right: str, result: str) -> Family:
    """Return the family of a product of matrices whose axes come in these orders.

    The axes that only one operand has are rows or columns, and further rows are axes of a batch that the other operand
    lacks. Several columns, or several axes that are summed over, are made one by Reshape.
    """
    equation, given = _written(left, right, result=result), (_shape(left), _shape(right))
    first, second = "x", "y"
    batch = "".join(axis for axis in result if axis in left and axis in right)
    summed = "".join(axis for axis in left if axis in right and axis not in result)
    rows, columns = (
        "".join(axis for axis in own if axis not in other) for own, other in ((left, right), (right, left))
    )
    if len(rows) > 1 and left == f"{batch}{summed}{rows}":  # they are columns as they stand
        first, second, left, right, rows, columns = "y", "x", right, left, columns, rows
    merged = len(summed) > 1 or len(columns) > 1
    outer = "" if merged else rows[:-1]
    wanted = (f"{outer}{batch}{rows[len(outer) :]}{summed}", f"{batch}{summed}{columns}")
    product = f"{outer}{batch}{rows[len(outer) :]}{columns}"
    moves = [
        _order(*pair) for pair in zip((left, right, product), (*wanted, result), strict=True) if pair[0] != pair[1]
    ]
    together, before = math.prod(_shape(summed)), _shape(wanted[0][: -len(summed)])
    shapes = (
        (first, (*before, together), len(summed) > 1),
        (second, (*_shape(batch), together, math.prod(_shape(columns))), merged),
        ("MatMul", _shape(product), len(columns) > 1),
    )
    reshapes = [(of, shape) for of, shape, needed in shapes if needed]
    return _family(
        (*inputs("x", given[0]), *inputs("y", given[1])),
        f'Einsum[equation="{equation}"](x, y)',
        *transpose(*sorted(set(moves)), slots=("x|y|MatMul|Reshape",)),
        *(
            use
            for of, shape in reshapes
            for use in reshape(shape, slots=(of if of == "MatMul" else f"{of}|Transpose",))
        ),
        Use("MatMul", {}, (2,), (f"{first}|Transpose|Reshape", f"{second}|Transpose|Reshape")),
        runtime=1 + len(moves) + len(reshapes),
    )


# Heads come after rows as a layer writes them, and before them in a product of matrices.
_HEADS = tuple(itertools.product(("bhik", "bihk"), ("bhjk", "bjhk", "bhkj"), ("bhij", "bihj")))
_STACKED = tuple(itertools.product(("bik", "bki"), ("bkj", "bjk"), ("bij", "bji")))
_ROWS = tuple((left, right, f"{left[:-1]}j") for left in ("bik", "bhik") for right in ("kj", "jk"))
_PLAIN = tuple(itertools.product(("ik", "ki"), ("kj", "jk"), ("ij", "ji")))
_OTHER = (
    # Heads that a layer makes of a row, and a row that it makes of heads.
    ("bik", "khj", "bihj"), ("bik", "khj", "bhij"), ("bihk", "hkj", "bij"), ("bhik", "hkj", "bij"),
    # Masks over the pixels of an image.
    ("bik", "bkhj", "bihj"), ("bkhj", "bik", "bihj"),
    # Positions relative to a row or a column.
    ("bhik", "hjk", "bhij"), ("bhik", "ijk", "bhij"),
    # Attention with the sequence before the batch.
    ("ibhk", "jbhk", "bhij"), ("bhik", "kbhj", "ibhj"), ("ibhk", "jbhk", "ijbh"), ("ijbh", "jbhk", "ibhk"),
)  # fmt: skip


def _alone(operand: str, result: str) -> Family:
    """Return the family of a Transpose, or a sum over the axes that the result lacks."""
    lost = tuple(place - len(operand) for place, axis in enumerate(operand) if axis not in result)
    kept = "".join(axis for axis in operand if axis in result)
    return _family(
        inputs("x", _shape(operand)),
        f'Einsum[equation="{_written(operand, result=result)}"](x)',
        *(reduce("Sum", lost, 0, "x") if lost else ()),
        *(transpose(_order(kept, result), slots=("x|ReduceSum",)) if kept != result else ()),
        runtime=bool(lost) + (kept != result),
    )


def _elementwise(left: str, right: str, result: str) -> Family:
    """Return the family of an elementwise product, and of its sum over the axes that the result lacks."""
    lost = tuple(place - len(left) for place, axis in enumerate(left) if axis not in result)
    absent = tuple(place - len(left) for place, axis in enumerate(left) if axis not in right)
    return _family(
        (*inputs("x", _shape(left)), *inputs("y", _shape(right))),
        f'Einsum[equation="{_written(left, right, result=result)}"](x, y)',
        *(axes("Unsqueeze", absent, slots=("y",)) if absent else ()),
        *binary("Mul", slots=("x", "y|Unsqueeze")),
        *(reduce("Sum", lost, 0, "Mul") if lost else ()),
        runtime=1 + bool(absent) + bool(lost),
    )


def _outer(left: str, right: str) -> Family:
    """Return the family of all products of an element of one operand and an element of the other: columns by a row."""
    return _family(
        (*inputs("x", _shape(left)), *inputs("y", _shape(right))),
        f'Einsum[equation="{_written(left, right, result=left + right)}"](x, y)',
        *axes("Unsqueeze", (-1,), slots=("x",)),
        *axes("Unsqueeze", (-2,), slots=("y",), made="Row"),
        Use("MatMul", {}, (2,), ("Unsqueeze", "Row")),
        runtime=3,
    )


EINSUM: tuple[Family, ...] = (
    *(_product(*orders) for orders in (*_PLAIN, *_STACKED, *_ROWS, *_HEADS, *_OTHER)),
    *(_outer(left, "j") for left in ("i", "bi", "bhi")),
    *(
        _alone(operand, result)
        for operand, result in (
            ("ij", "ji"), ("bij", "bji"), ("bij", "ibj"), ("bhij", "bihj"), ("bhij", "bijh"), ("bijh", "bhij"),
            ("ij", "i"), ("ij", "j"), ("bij", "bi"), ("bij", "bj"),
        )
    ),
    *(
        _elementwise(left, right, result)
        for left, right, result in (
            ("ij", "ij", "ij"), ("ij", "ij", "i"), ("bij", "bij", "bij"), ("bij", "bij", "bi"), ("bij", "bij", "b"),
            ("ij", "i", "ij"), ("ij", "j", "ij"), ("bij", "bi", "bij"), ("bij", "bj", "bij"), ("bhij", "bhi", "bhij"),
            ("ij", "j", "i"), ("bij", "j", "bi"), ("bij", "bj", "bi"), ("bij", "bi", "bj"),
        )
    ),
)  # fmt: skip
