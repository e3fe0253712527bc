"""Evaluates terms as NumPy arrays, and folds subterms that depend on weights only.

The definitions of `superopt.ops` are evaluated for all indices of an output at once, as arrays. Real element types are
computed in float64, integers in their own type (`floats`). `fast` has handwritten kernels for operators whose
definition is too slow. `modular` evaluates the same definitions modulo a prime.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from functools import lru_cache

import numpy as np
import onnx
from onnx import helper

from superopt.evaluate.determined import depends_on_values, is_determined
from superopt.evaluate.floats import compute, numpy_dtype
from superopt.evaluate.indices import Array
from superopt.evaluate.written import is_written
from superopt.ir.infer import replace
from superopt.ir.operator import OPERATORS, ignore
from superopt.ir.term import CLOSED_FORM, Attr, Term, node_of, topological
from superopt.ir.types import FLOAT_DTYPES, TensorType
from superopt.properties import is_conversion, is_real, jumping_operands, moves

__all__ = [
    "can_evaluate", "constant", "dtype_name", "evaluate", "fold", "folded", "numpy_dtype", "rounding_decides",
]  # fmt: skip

_HASH_DIGITS = 32  # of 4 bits
_MIN_ROOM = 1 << 20  # elements; 8 MiB in float64


def dtype_name(element_type: int) -> str:
    """Return the name ("float", "int64", ...) of a TensorProto data type. Raises ValueError for an unknown type."""
    name: str = onnx.TensorProto.DataType.Name(element_type).lower()
    return name


def constant(array: Array, dtype: str, weights: MutableMapping[str, Array]) -> Term:
    """Return the leaf for `array`: a Const, or a closed form, which rules may depend on.

    Zeros and Ones are real arrays with +0.0 or 1 everywhere, ConstantOfShape a single real number that a person wrote
    (`written`); the numbers that training finds differ from place to place in a model. The array of a Const is added to
    `weights` under the hash of its type, shape and bytes.
    """
    type = TensorType(dtype, tuple(int(size) for size in array.shape))
    if dtype in FLOAT_DTYPES and array.size:
        first = array[(slice(1),) * array.ndim].reshape(-1)  # so that most big weights need no full comparison
        for op, bits in (("Zeros", 0), ("Ones", 1)):
            same = np.array(bits, array.dtype).tobytes()
            if first.tobytes() == same and _is_filled(array):
                return Term.of(op, (), {"shape": type.shape or ()}, (type,))
        with np.errstate(invalid="ignore"):  # NaN that signals
            value = float(first.astype(np.float64)[0])
        if array.size == 1 and value and math.isfinite(value) and is_written(value):
            return Term.of("ConstantOfShape", (), {"shape": type.shape or (), "value": value}, (type,))
    array = np.asanyarray(array, order="C")
    digest = hashlib.sha256(f"{type}|".encode())  # CPUs have instructions for it: 1.75 GB/s, and BLAKE2b 0.62
    if array.dtype == object:
        digest.update(repr(array.tolist()).encode())
    else:
        digest.update(array.reshape(-1).view(np.uint8).data)
    name = digest.hexdigest()[:_HASH_DIGITS]
    weights.setdefault(name, array)
    return Term.of("Const", (), {"hash": name}, (type,))


def _is_filled(array: Array) -> bool:
    """Return True if all elements have the same bytes. Copies nothing, as the array may be larger than the memory."""
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, array.dtype.itemsize)
    return bool((content.min(axis=0) == content.max(axis=0)).all())


def _literal(value: Attr) -> bool:
    return all(map(_literal, value)) if isinstance(value, tuple) else isinstance(value, (int, float, str))


def can_evaluate(term: Term) -> bool:
    """Return True if the term can be evaluated when its inputs can be evaluated.

    The operator must have a definition and attributes without symbols. If an input is absent, the types of the outputs
    must be known. A Const can be evaluated, a Var cannot.
    """
    if term.op in ("Const", "Out"):
        return True
    present = None not in term.inputs or all(type is not None and type.shape is not None for type in term.types)
    return term.op in OPERATORS and present and all(_literal(value) for _, value in term.attrs)


def evaluate(outputs: Sequence[Term], env: Mapping[Term, Array], weights: Mapping[str, Array]) -> list[Array]:
    """Return the values of `outputs`.

    `env` gives values of terms (inputs, or intermediate values), `weights` the arrays of Const terms by hash. Real
    element types are computed and returned in float64, others in their own type. The value of a term with several
    outputs is the value of its first output.

    Raises KeyError for a term that has no definition and no value in `env`.
    """
    values: dict[Term, Array] = {}
    order = _needed(outputs, env)
    last_read = {used: term for term in order if term not in env for used in _read(term)}
    with np.errstate(all="ignore"):  # infinities and NaN arise as they do in the runtime
        for term in order:
            if term in env:
                values[term] = _widen(np.asarray(env[term]), term)
            elif term.op == "Const":
                values[term] = _widen(weights[str(term.attr("hash"))], term)
            elif term.op == "Out":
                (node,), index = term.inputs, term.attr("index")
                assert node is not None and isinstance(index, int)
                values[term] = _computed(node, index, values)
            elif len(term.types) == 1 or term in outputs:
                values[term] = _computed(term, 0, values)
                if term.op in CLOSED_FORM:
                    values[term] = _widen(_narrow(values[term], term), term)
            for used in _read(term):  # free what nothing reads any more
                if last_read.get(used) is term and used not in outputs:
                    values.pop(used, None)
    return [values[term] for term in outputs]


def _read(term: Term) -> list[Term]:
    """Return the terms whose values `_computed` reads for `term`."""
    return [used for used in node_of(term).inputs if used is not None]


def _computed(term: Term, index: int, values: Mapping[Term, Array]) -> Array:
    """Return the value of output `index` of a term whose inputs are in `values`."""
    operator = OPERATORS[term.op]
    attrs = {**dict(term.attrs), "index": index}
    inputs = [None if i is None else values[i] for i in term.inputs]
    dtypes = [None if x is None or i is None else _dtype(i, x) for i, x in zip(term.inputs, inputs, strict=True)]
    type = term.types[index] if term.types else None
    shape = None if type is None else type.concrete()
    if type is None or shape is None:
        default = "float" if type is None else type.dtype
        shapes = [None if x is None else x.shape for x in inputs]
        shape = tuple(map(int, operator.shape_rule(shapes, dict(term.attrs), ignore)[index]))  # type: ignore[arg-type]
        type = TensorType(operator.dtype_rule(dtypes, dict(term.attrs), default), shape)
    types = [None if x is None else TensorType(str(d), x.shape) for x, d in zip(inputs, dtypes, strict=True)]
    return compute(term.op, types, attrs, inputs, TensorType(type.dtype, shape))


def _dtype(term: Term, value: Array) -> str:
    """Return the element type of a term's value."""
    if term.type is not None:
        return term.type.dtype
    return "float" if value.dtype.kind == "f" else dtype_name(int(helper.np_dtype_to_tensor_dtype(value.dtype)))


def _needed(outputs: Sequence[Term], env: Mapping[Term, Array]) -> list[Term]:
    """Return the terms that are needed for `outputs`, inputs first. Terms below a term in `env` are not needed."""
    done: dict[Term, None] = {}
    stack = list(reversed(outputs))
    while stack:
        term = stack[-1]
        missing = [] if term in env else [i for i in term.inputs if i is not None and i not in done]
        if term in done or not missing:
            done.setdefault(stack.pop())
        else:
            stack.extend(reversed(missing))
    return list(done)


def _widen(array: Array, term: Term) -> Array:
    real = term.type.dtype in FLOAT_DTYPES if term.type is not None else array.dtype.kind == "f"
    return array.astype(np.float64, copy=False) if real else array


def _narrow(array: Array, term: Term) -> Array:
    """Return the array in the term's element type; numbers beyond its range become infinite."""
    with np.errstate(all="ignore"):
        return array if term.type is None else array.astype(numpy_dtype(term.type.dtype), copy=False)


def _is_exact(term: Term) -> bool:
    """Return True if `term` only moves elements, or computes with no real numbers."""
    types = [type for part in (term, *term.inputs) if part is not None for type in part.types]
    return _moves(term) or all(type is not None and type.dtype not in FLOAT_DTYPES for type in types)


def _moves(term: Term) -> bool:
    """Return True for operators that only move elements, so that folding them is exact in any element type."""
    return term.op == "Out" or term.op in CLOSED_FORM or moves(term.op)


def _before_jumps(order: Sequence[Term]) -> set[Term]:
    """Return the terms that may not be folded, because the runtime's rounding decides on which side of a jump they are.

    These are discontinuous functions of weights, and the operands whose rounding matters: the floor of 0.7 / 0.1 is 7
    in a runtime that computes in float32, and 6 in float64. `order` has inputs before users.
    """
    same: set[Term | None] = {None}  # terms without rounding: every runtime has the same bits
    for term in order:
        moved = term.op == "Const" or _moves(term) or is_conversion(term.op)
        if not is_real(term) or (moved and same.issuperset(term.inputs)):
            same.add(term)
    found: set[Term] = set()
    for term in reversed(order):
        asked = term.inputs if term in found else jumping_operands(term)
        rounded = [i for i in asked if i is not None and i not in same]
        if term in found or (term.is_constant and rounded):
            found.update((term, *rounded))
    return found


@lru_cache(maxsize=1 << 12)
def rounding_decides(term: Term) -> bool:
    """Return True for a constant that jumps at computed numbers: what it is depends on the runtime's own rounding."""
    return term.is_constant and term in _before_jumps(list(topological((term,))))


def _growth(term: Term) -> int:
    """Return the number of elements by which the outputs of an operator exceed its largest operand."""
    if term.op == "Out" or not term.inputs:
        return 0
    made = sum(_size(type) for type in term.types)
    return max(made - max(_size(i.type) for i in term.inputs if i is not None), 0)


def _size(type: TensorType | None) -> int:
    return math.prod(type.concrete() or ()) if type is not None else 0


def _is_determined(term: Term, known: dict[Term, Array], weights: Mapping[str, Array]) -> bool:
    """Return True if the term may be folded whatever its operands' values are, or at the values that they have.

    `known` keeps the values of operands.
    """
    inputs = [i for i in term.inputs if i is not None]
    types = [i.type for i in inputs if i.type is not None]
    if term.type is None or len(types) < len(inputs):
        return False
    if not depends_on_values(term.op, [type.dtype for type in types], term.type.dtype):
        return True
    found = evaluate(inputs, known, weights)
    known.update(zip(inputs, found, strict=True))
    here = [TensorType(type.dtype, x.shape) for type, x in zip(types, found, strict=True)]
    return is_determined(term.op, here, dict(term.attrs), found, term.type)


def folded(
    outputs: Iterable[Term],
    weights: MutableMapping[str, Array],
    exact: bool = False,
    known: MutableMapping[Term, tuple[Term, Array]] | None = None,
) -> dict[Term, Term]:
    """Map every maximal subterm made of weights and known operators to the constant that it equals.

    Constants are computed in float64 and rounded once to their element type. Their arrays are added to `weights`.
    A small graph may describe huge constants. So the elements by which folded terms exceed their largest operand are
    limited in all: to twice as many as the weights have, or `_MIN_ROOM` if that is more.
    Leaves are not folded. Neither are discontinuous functions of computed numbers, with the operands that they depend
    on: there the result depends on the runtime's own rounding (see `_before_jumps`). Integers of which the definition
    is not what the runtime computes are left, too (see `determined`).

    With `exact`, only subterms without any rounding are folded, so that the constant has the bits that every runtime
    computes. `known` has constants that were folded before, with their arrays; new ones are added.
    """
    outputs = tuple(outputs)
    known = {} if known is None else known
    foldable: set[Term] = set()
    users: dict[Term, bool] = dict.fromkeys(outputs, False)  # True if all users of the term are folded, too
    order = list(topological(outputs))
    left = _before_jumps(order)
    room = max(_MIN_ROOM, 2 * sum(_size(term.type) for term in order if term.is_constant and not term.inputs))
    operands: dict[Term, Array] = {}
    for term in order:
        allowed = term not in left and (not exact or term.op == "Const" or _is_exact(term))
        if allowed and term.is_constant and can_evaluate(term) and all(i in foldable for i in term.inputs):
            growth = _growth(term)
            if growth <= room and _is_determined(term, operands, weights):
                room -= growth
                foldable.add(term)
    for term in reversed(order):
        inside = term in foldable
        for i in term.inputs:
            if i is not None:
                users[i] = users.get(i, True) and inside
    found: dict[Term, Term] = {}
    values: dict[Term, Array] = {}  # of folded terms that other folded terms read; other values are freed at once
    read_again = {i for term in foldable for i in term.inputs}
    for term in order:
        leaf = term.op == "Const" or term.op in CLOSED_FORM
        splits = len(term.types) > 1 and term.op != "Out"
        if term in foldable and not leaf and not splits and not users[term] and term.type is not None:
            if term in known and term not in read_again:
                found[term], narrow = known[term]
                if found[term].op == "Const":
                    weights.setdefault(str(found[term].attr("hash")), narrow)
                continue
            (array,) = evaluate([term], values, weights)
            if term in read_again:
                values[term] = array
            narrow = _narrow(array, term)
            found[term] = constant(narrow, term.type.dtype, weights)
            known[term] = found[term], narrow
    return found


def fold(outputs: Iterable[Term], weights: MutableMapping[str, Array]) -> tuple[Term, ...]:
    """Return `outputs` with the subterms of `folded` replaced by constants. Closed-form constants are kept."""
    outputs = tuple(outputs)
    return replace(outputs, folded(outputs, weights))
