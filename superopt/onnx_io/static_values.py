"""Static values of small tensors: numbers, or polynomials of symbolic sizes, known while a file is read.

A model may compute a shape by Shape, Gather, Concat, arithmetic and Reshape. Each element of such a shape is a number
or a polynomial of symbolic sizes. Only results on which all runtimes agree are computed: integers, truth values, and
real operations that IEEE 754 rounds correctly. Those are computed in float64 and rounded once more, which gives the
same float32 (Figueroa, "When is double rounding innocuous?", 1995).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from superopt.evaluate import can_evaluate, evaluate, numpy_dtype
from superopt.evaluate.determined import divides, is_determined
from superopt.ir.dim import Atom, DataIndex, Dim, Quotient, Size, Sizes, floor_div, symbol, symbols_of
from superopt.ir.infer import OPERATORS
from superopt.ir.operator import fits
from superopt.ir.term import CLOSED_FORM, Term, node_of
from superopt.ir.types import FLOAT_DTYPES, TensorType
from superopt.onnx_io.attributes import unpack
from superopt.onnx_io.inference import SMALL
from superopt.onnx_io.model import Array
from superopt.onnx_io.moved_constants import MOVES, moved
from superopt.ops.logic import CASTABLE
from superopt.properties import SIZE_READERS, is_conversion, is_polynomial, rounds_at_most_once

__all__ = ["LONGEST_POLYNOMIAL", "StaticValues", "is_never_negative", "length"]

# Arithmetic on sizes is known as far as it cannot wrap around while no axis of a tensor is longer than the first number
# (seventeen minutes of sound at 16 kHz), and the product of different axes is no greater than the second.
_LONGEST, _MOST = 1 << 24, 1 << 48
# By `length`; a YOLO's grid, of a height and a width that are halved five times, has 72. What computes q + q / 2 of
# its last result again and again would double a polynomial each time.
LONGEST_POLYNOMIAL = 256
_MOST_PRODUCTS = 1 << 12
# Operators that ONNX's reference evaluates, for integers and truth values only.
_BY_REFERENCE = frozenset({"Mod", "NonZero"})
_INFERRED = _BY_REFERENCE | MOVES | {"Out"} | SIZE_READERS


class StaticValues:
    """Static values by term: those of constants, and those that `infer` has found."""

    def __init__(self, weights: dict[str, Array]) -> None:
        self._weights = weights
        self._known: dict[Term, Array] = {}
        self.shapes: dict[Term, Sizes] = {}  # shapes that follow from those of the inputs
        self._axes: set[Size] = set()  # sizes of axes of tensors that are computed, and whose shapes are asked for

    def shape(self, term: Term | None) -> Sizes | None:
        """Return the shape of `term` if it is certain, or None; a shape that only the file states is not certain."""
        if term is not None and (term.op == "Const" or term.op in CLOSED_FORM) and term.type is not None:
            return term.type.shape
        return None if term is None else self.shapes.get(term)

    def computed_sizes(self) -> dict[Term, tuple[Size, ...]]:
        """Return the elements of the tensors of integers that are sizes, not all of them numbers."""
        return {term: tuple(found.reshape(-1)) for term, found in self._known.items() if found.dtype == object}

    def numbers(self, term: Term) -> Array | None:
        """Return the value of `term` in its element type, or None."""
        if term.op == "Const":
            return self._weights[str(term.attr("hash"))]
        found = self._known.get(term)
        if found is None and term.op in CLOSED_FORM and term.type is not None:
            shape = term.type.concrete()
            if shape is not None and math.prod(shape) <= SMALL:
                found = evaluate([term], {}, {})[0].astype(numpy_dtype(term.type.dtype))
                self._known[term] = found
        return None if found is None or found.dtype == object else found

    def sizes(self, term: Term) -> Array | None:
        """Return the elements of a small tensor of integers as numbers and polynomials, or None."""
        found = self._known.get(term)
        found = self.numbers(term) if found is None else found
        if found is None or found.dtype.kind not in "iubO" or found.size > SMALL or _text(term):
            return None
        return found.astype(object)

    def infer(self, term: Term, opset: int) -> Array | None:
        """Infer the value of `term` from those of its inputs.

        Return the value in its element type, or None if it is unknown or only partly known.
        """
        type = term.type
        if type is None or term in self._known or (term.op not in OPERATORS and term.op not in _INFERRED):
            return self.numbers(term)
        shape = type.concrete()
        if math.prod(shape or ()) > SMALL or (shape is None and term.op not in _BY_REFERENCE | MOVES):
            return None
        try:
            with np.errstate(all="ignore"):
                found = self._found(term, opset)
        except (ArithmeticError, KeyError, TypeError, ValueError, RuntimeError):
            return None  # an error leaves the value unknown
        if found is None or found.shape != (found.shape if shape is None else shape) or found.size > SMALL:
            return None
        if found.dtype == object and not any(isinstance(size, Dim) for size in found.flat):
            found = found.astype(numpy_dtype(type.dtype))
        self._known[term] = found
        return self.numbers(term)

    def _found(self, term: Term, opset: int) -> Array | None:
        if term.op in SIZE_READERS:
            return self._of_shape(term)
        node = node_of(term)
        inputs = [i for i in node.inputs if i is not None]
        if not inputs or len(inputs) < len(node.inputs):
            return None
        numbers = [self.numbers(i) for i in inputs]
        if all(n is not None and n.size <= SMALL for n in numbers):
            return self._computed(term, node, [n for n in numbers if n is not None], opset)
        sizes = [self.sizes(i) for i in inputs]
        if any(s is None for s in sizes) or term.type is None or term.type.dtype not in ("int64", "int32", "bool"):
            return None
        found = _polynomials(term, node, [s for s in sizes if s is not None])
        if found is None or not _is_short(found.flat):
            return None
        return found if all(self._within(size, term.type.dtype) for size in found.flat) else None

    def _within(self, size: Size, dtype: str) -> bool:
        """Return True if an integer type has the number, or all that a polynomial gives: only integers wrap around."""
        if not isinstance(size, Dim):
            return dtype == "bool" or fits(size, dtype)
        return dtype != "bool" and fits(_LONGEST if size in self._axes else _largest(size), dtype)

    def _of_shape(self, term: Term) -> Array | None:
        shape = self.shape(term.inputs[0]) if term.inputs else None
        if shape is None:
            return None
        if term.op == "Size":
            return _objects([math.prod(shape)]).reshape(()) if _is_short(shape) else None
        self._axes.update(shape)
        attrs = dict(term.attrs)
        start, end = attrs.get("start", 0), attrs.get("end", len(shape))
        return _objects(shape[start:end]) if isinstance(start, int) and isinstance(end, int) else None

    def _computed(self, term: Term, node: Term, inputs: list[Array], opset: int) -> Array | None:
        dtypes = {t.dtype for t in (*term.types, *(t for i in node.inputs if i is not None for t in i.types)) if t}
        real = bool(dtypes & FLOAT_DTYPES)
        if not dtypes <= CASTABLE or (real and not dtypes & FLOAT_DTYPES <= {"float", "double"}) or term.type is None:
            return None
        if node.op in MOVES and not real:
            return moved(node, inputs)
        if node.op in _BY_REFERENCE and not real:
            return _reference(node, inputs, opset)
        if (real and not rounds_at_most_once(node.op)) or not can_evaluate(node):
            return None
        operands = [i for i in node.inputs if i is not None]
        types = [TensorType(i.type.dtype, x.shape) for i, x in zip(operands, inputs, strict=True) if i.type is not None]
        if len(types) < len(inputs) or not is_determined(node.op, types, dict(node.attrs), inputs, term.type):
            return None
        return evaluate([term], dict(zip(operands, inputs, strict=True)), {})[0].astype(numpy_dtype(term.type.dtype))


def length(size: Size) -> int:
    """Return the number of factors in all products of a polynomial, inside quotients too, and one for each product."""
    if not isinstance(size, Dim):
        return 1
    return sum(1 + sum(map(_length_of_atom, product)) for product, _ in size.terms)


def _length_of_atom(atom: Atom) -> int:
    return 1 + length(atom.numerator) + length(atom.denominator) if isinstance(atom, Quotient) else 1


def _is_short(sizes: Iterable[Size]) -> bool:
    """Return True if none of the polynomials is too long, nor the product of all of them."""
    sizes = list(sizes)
    products = math.prod(len(size.terms) for size in sizes if isinstance(size, Dim))
    return products <= _MOST_PRODUCTS and all(length(size) <= LONGEST_POLYNOMIAL for size in sizes)


def _text(term: Term) -> bool:
    return term.type is None or term.type.dtype == "string"


def _objects(sizes: Sequence[Size]) -> Array:
    array = np.empty(len(sizes), dtype=object)
    array[:] = sizes
    return array


def _reference(node: Term, inputs: list[Array], opset: int) -> Array | None:
    names = [f"x{k}" for k in range(len(inputs))]
    made = onnx.helper.make_node(node.op, names, ["y"])
    made.attribute.extend(unpack(node.attrs))
    if node.op == "NonZero" and not inputs[0].ndim:
        return None  # ONNX says that the result has the shape (0, 1), and ONNX Runtime gives (1, 1)
    if node.op == "Mod" and not (divides(*inputs) and all(_exact_in_double(x) for x in inputs)):
        return None
    graph = onnx.helper.make_graph(
        [made],
        "one",
        [onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
         for n, x in zip(names, inputs, strict=True)],
        [onnx.ValueInfoProto(name="y")],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    return np.asarray(ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))[0])  # type: ignore[index]


def _exact_in_double(x: Array) -> bool:
    """Return True if doubles hold these integers: ONNX Runtime's Mod with `fmod` converts to them."""
    return bool((np.abs(x.astype(np.float64)) <= 2.0**53).all())


def _largest(size: Size) -> int:
    """Return a bound of what a polynomial and its parts give for sizes up to `_LONGEST`."""
    if not isinstance(size, Dim):
        return abs(size)
    return sum(abs(coefficient) * _largest_product(atoms) for atoms, coefficient in size.terms)


def _largest_product(atoms: Iterable[Atom]) -> int:
    """Return a bound of a product of sizes and quotients of sizes: h w, or (h / 7) (w / 7), is of different axes."""
    different, others = 1, 1
    axes: set[str] = set()
    for atom in atoms:
        assert not isinstance(atom, DataIndex)  # no size is one
        bound = _LONGEST if isinstance(atom, str) else _largest(atom.numerator)
        own = {atom} if isinstance(atom, str) else symbols_of(atom.numerator)
        if bound < 2 * _LONGEST and axes.isdisjoint(own):
            different *= bound
        else:
            others *= bound
        axes |= own
    return min(different, _MOST) * others


def _polynomials(term: Term, node: Term, inputs: list[Array]) -> Array | None:
    if node.op == "Div":
        return np.asarray(np.vectorize(_quotient, otypes=[object])(*inputs))
    if node.op == "Equal":
        return np.asarray(np.vectorize(_equal, otypes=[bool])(*inputs))
    if is_conversion(node.op):
        return inputs[0] if term.type is not None and term.type.dtype != "bool" else None
    if node.op == "Where":
        inputs[0] = inputs[0].astype(bool) if all(isinstance(v, (bool, int)) for v in inputs[0].flat) else inputs[0]
        return np.where(*inputs) if inputs[0].dtype == bool else None
    if not is_polynomial(node.op) or not can_evaluate(node):
        return None
    # NumPy returns a single element of an array of objects as the object itself.
    return np.asarray(
        evaluate([term], dict(zip((i for i in node.inputs if i is not None), inputs, strict=True)), {})[0]
    )


def _quotient(a: Size, b: Size) -> Size:
    """Return a / b rounded towards zero, which is floor for a >= 0. Raises ArithmeticError if a may be negative."""
    if (
        not isinstance(b, int)
        or b < 1
        or (isinstance(a, Dim) and not is_never_negative(a))
        or (isinstance(a, int) and a < 0)
    ):
        raise ArithmeticError
    return floor_div(a, b)


def _equal(a: Size, b: Size) -> bool:
    """Return the truth value of a == b if it is the same for all sizes. Raises ArithmeticError if it depends on them.

    Sizes are not negative, so a sum of products of sizes is never equal to a negative number.
    """
    if a == b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return False
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Dim) and is_never_negative(one) and isinstance(other, int) and other < 0:
            return False
    raise ArithmeticError


def is_never_negative(size: Size) -> bool:
    """Return True if `size` is at least 0 whatever its symbols are, each at least 0; False if this is not known."""
    least = _least(size)
    return least is not None and least >= 0


@lru_cache(maxsize=1 << 14)
def _least(size: Size) -> int | None:
    """Return a lower bound, or None.

    Each quotient is its own least value plus something that is never negative: q1 q2 + q1 + q2 + 1 with q1, q2 >= -1 is
    (p1 - 1)(p2 - 1) + p1 - 1 + p2 - 1 + 1 = p1 p2 >= 0.
    """
    if isinstance(size, int):
        return size
    total: Size = 0
    for monomial, coefficient in size.terms:
        product: Size = coefficient
        for atom in monomial:
            least = _least_quotient(atom) if isinstance(atom, Quotient) else 0
            if least is None:
                return None
            product = product * (symbol(f"{type(atom).__name__} {atom}") + least)  # no two atoms have one name
        total = total + product
    if isinstance(total, int):
        return total
    if any(coefficient < 0 for monomial, coefficient in total.terms if monomial):
        return None
    return dict(total.terms).get((), 0)


def _least_quotient(quotient: Quotient) -> int | None:
    if not isinstance(quotient.denominator, int):  # positive, so that 0 / d is a bound for what is never negative
        return 0 if is_never_negative(quotient.numerator) else None
    least = _least(quotient.numerator)
    return None if least is None else least // quotient.denominator
