"""Properties of operators, read off their definitions at a small example (`superopt.properties.examples`).

A property belongs to the operator, not to one use of it: Einsum counts as a matrix product, and Pad as an operator that
fills in constants, even where its pads are 0. No proof depends on these properties; the kernel has
`superopt.ops.movement`. An unregistered operator has none of the properties.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from superopt.ir.dim import Size
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term
from superopt.ir.types import FLOAT_DTYPES
from superopt.ops.equation import equations_of
from superopt.properties.examples import Example, example
from superopt.properties.recorder import Expression, Recorder

__all__ = [
    "SIZE_READERS", "adds_up", "changes_shape_only", "contracts", "expression", "fused_activations", "is_conversion",
    "is_linear_product", "is_matrix_product", "is_polynomial", "is_product", "is_real", "is_scaling", "joins",
    "jumping_operands", "jumps", "linear_operands", "lists_numbers", "moves", "rearranges", "reduces",
    "rounds_at_most_once", "summand", "summand_count", "uses_function",
]  # fmt: skip

_CONVERSIONS = ("from_real_to_", "to_")  # how the names of functions between element types begin
_LEAVES = frozenset({"access", "constant", "entry", "real"})


@cache
def _recorded(op: str) -> tuple[Expression, Example] | None:
    found = example(op)
    return None if found is None else (found.read(Recorder()), found)


def expression(op: str) -> Expression | None:
    """Return the scalar of the operator's first output at its example, or None for an unknown operator."""
    found = _recorded(op)
    return None if found is None else found[0]


def _nodes(root: Expression) -> Iterator[Expression]:
    """Yield each subexpression once."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack.extend(node.args)


def _operand(access: Expression) -> int:
    assert isinstance(access.detail, tuple)
    return int(access.detail[0])


@cache
def moves(op: str) -> bool:
    """Return True if each element is an element of an operand or a constant, selected by its index or by a bool mask.

    Such an operator has no arithmetic, so it is exact in each element type. A type conversion does not count.
    """
    found = _recorded(op)
    if found is None:
        return False
    root, at = found
    moved = all(node.head in _LEAVES | {"piecewise"} or _is_mask(node, at) for node in _nodes(root))
    return moved and all(at.dtype == at.dtypes[_operand(n)] for n in _data(root, at) if n.head == "access")


@cache
def is_conversion(op: str) -> bool:
    """Return True if each element is the operand's element at the same place, in another element type."""
    root = expression(op)
    if root is None or root.head != "apply" or [arg.head for arg in root.args] != ["access"]:
        return False
    return str(root.detail).startswith(_CONVERSIONS)


@cache
def rearranges(op: str) -> bool:
    """Return True if each element is an element of an operand, selected by its index. Pad, which adds constants, is not
    such an operator."""
    root = expression(op)
    return root is not None and moves(op) and all(node.head in ("access", "piecewise") for node in _nodes(root))


@cache
def joins(op: str) -> bool:
    """Return True if the elements of several operands are put side by side, as by Concat."""
    found = _recorded(op)
    read = set() if found is None else {_operand(node) for node in _nodes(found[0]) if node.head == "access"}
    return rearranges(op) and len(read) > 1


def _is_mask(node: Expression, at: Example) -> bool:
    """Return True for a choice by an element of a bool operand."""
    return node.head == "choose" and node.args[0].head == "access" and at.dtypes[_operand(node.args[0])] == "bool"


def _data(root: Expression, at: Example) -> Iterator[Expression]:
    """Yield all subexpressions except masks."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.args[1:] if _is_mask(node, at) else node.args)


@cache
def changes_shape_only(op: str) -> bool:
    """Return True if each element keeps its position in row-major order, as in Reshape. Such an operator is a view."""
    found = _recorded(op)
    if found is None or found[0].head != "access":
        return False
    root, at = found
    assert isinstance(root.detail, tuple)
    return _offset(at.shapes[_operand(root)], root.detail[1]) == _offset(at.shape, at.index)


def _offset(shape: tuple[Size, ...], index: tuple[Size, ...]) -> Size:
    offset: Size = 0
    for size, place in zip(shape, index, strict=True):
        offset = offset * size + place
    return offset


@cache
def linear_operands(op: str) -> frozenset[int]:
    """Return the operands in which the result is linear or affine when the other operands are fixed.

    x / y is linear in x, LayerNormalization in its scale and its bias.
    """
    found = _recorded(op)
    if found is None:
        return frozenset()
    root, at = found
    return frozenset(k for k in range(len(at.shapes)) if _degree(root, at, k) == 1)


def _degree(root: Expression, at: Example, operand: int) -> int | None:
    """Return the degree of the expression as a polynomial in an operand's elements, or None if it is no polynomial."""
    known: dict[int, int | None] = {}

    def of(node: Expression) -> int | None:
        if id(node) not in known:
            known[id(node)] = _compute(node)
        return known[id(node)]

    def _compute(node: Expression) -> int | None:
        if node.head == "access":
            return int(_operand(node) == operand)
        degrees = [of(arg) for arg in node.args]
        if all(degree == 0 for degree in degrees):
            return 0
        if None in degrees:
            return None
        whole = [degree for degree in degrees if degree is not None]
        if node.head == "multiply":
            return sum(whole)
        if node.head in ("add", "piecewise", "sum", "where"):
            return max(whole)
        return max(whole[1:]) if _is_mask(node, at) and not whole[0] else None

    return of(root)


@cache
def is_polynomial(op: str) -> bool:
    """Return True if the elements are sums of products of the operands' elements, with whole coefficients.

    If the operands hold polynomials (as computed shapes do), so does the result.
    """
    found = _recorded(op)
    if found is None or found[1].operator.index_operands:  # a polynomial is no index
        return False
    heads = _LEAVES - {"real"} | {"add", "multiply", "sum", "product", "piecewise"}
    numbers = (n.detail for n in _nodes(found[0]) if n.head == "constant")
    whole = all(getattr(value, "denominator", 1) == 1 for value in numbers)
    return whole and found[1].dtype != "bool" and all(node.head in heads for node in _nodes(found[0]))


@cache
def adds_up(op: str) -> bool:
    """Return True if the result is a sum along some axis, linear in each operand: products of matrices, means."""
    found = _recorded(op)
    summed = found is not None and any(node.head == "sum" for node in _nodes(found[0]))
    return found is not None and summed and len(linear_operands(op)) == len(found[1].shapes)


@cache
def reduces(op: str) -> bool:
    """Return True if an element is a sum, product or maximum along some axis."""
    root = expression(op)
    return root is not None and any(node.head in ("sum", "product", "supremum") for node in _nodes(root))


@cache
def contracts(op: str) -> bool:
    """Return True if the operator sums products of two different elements, as Conv and MatMul do."""
    root = expression(op)
    return root is not None and any(node.head == "sum" and is_product(summand(node)) for node in _nodes(root))


def is_product(node: Expression) -> bool:
    """Return True for a product of two different factors that both depend on operands. Squares do not count."""
    return node.head == "multiply" and all(arg.reads for arg in node.args) and node.args[0] is not node.args[1]


def summand(node: Expression) -> Expression:
    """Return the expression inside a sum, or inside the innermost of nested sums."""
    while node.head in ("sum", "where"):
        (node,) = node.args
    return node


def summand_count(root: Expression) -> int:
    """Return the number of terms that the sums of an expression of fixed sizes add up; 0 if conditions choose them."""
    nodes = list(_nodes(root))
    if any(node.head == "where" for node in nodes):
        return 0
    sizes = [node.detail[1] for node in nodes if node.head == "sum" and isinstance(node.detail, tuple)]
    return math.prod(size for bounds in sizes for size in bounds)


@cache
def is_linear_product(op: str) -> bool:
    """Return True for sums of products that are linear in each operand: for MatMul and Conv, but not for LSTM."""
    return contracts(op) and adds_up(op)


@cache
def is_matrix_product(op: str) -> bool:
    """Return True for sums of products along one axis that are linear in each operand: for MatMul, but not for Conv."""
    root = expression(op)
    return root is not None and is_linear_product(op) and sum(node.head == "sum" for node in _nodes(root)) == 1


@cache
def lists_numbers(op: str) -> bool:
    """Return True for an operator without operands whose elements are numbers that it lists, as Constant does."""
    if op not in OPERATORS or OPERATORS[op].inputs != (0, 0):
        return False
    root = expression(op)
    return root is not None and root.head == "entry"


@cache
def is_scaling(op: str) -> bool:
    """Return True if the first operand is multiplied or divided by another one, element by element."""
    root = expression(op)
    return root is not None and is_product(root) and 0 in linear_operands(op)


@cache
def uses_function(op: str, function: str) -> bool:
    """Return True if the operator is `function` applied to its operands, and nothing else."""
    root = expression(op)
    applied = root is not None and (root.head, root.detail) == ("apply", function)
    return root is not None and applied and all(arg.head == "access" for arg in root.args)


@cache
def fused_activations(op: str) -> Mapping[str, int]:
    """Return the activations that an operator can apply to its result, with the numbers of their parameters."""
    if op not in OPERATORS or "activation" not in OPERATORS[op].attrs:
        return {}
    names = (str(equation.attrs["activation"]) for equation in equations_of(op))
    return {name: len(OPERATORS[name].attrs) for name in names}


# Functions that IEEE 754 and every runtime compute without a rounding.
_WITHOUT_ROUNDING = (*_CONVERSIONS, "floor", "round")


@cache
def rounds_at_most_once(op: str) -> bool:
    """Return True if the result has the same bits in each runtime.

    This holds for data movement, comparisons, rounding to integers, and operators with `Operator.ieee`. Maximum and
    minimum do not count, because runtimes may return 0 or -0.
    """
    found = _recorded(op)
    return found is not None and (bool(found[1].operator.ieee) or _is_unrounded(found[0]))


def _is_unrounded(node: Expression) -> bool:
    if node.head == "choose":  # a rounded difference has the sign of the exact difference
        value, *sides = node.args
        return all(map(_is_unrounded, (*(value.args if value.head == "add" else (value,)), *sides)))
    sign = node.head == "multiply" and node.args[0].is_minus_one
    known = node.head == "apply" and str(node.detail).startswith(_WITHOUT_ROUNDING)
    return (node.head in _LEAVES | {"piecewise"} or sign or known) and all(map(_is_unrounded, node.args))


_JUMPING = frozenset({"floor", "round", "truncated_quotient"})  # discontinuous functions


@cache
def jumps(op: str) -> bool:
    """Return True for a discontinuous function of real numbers: a small change of an operand may be a large change of
    the result."""
    found = _recorded(op)
    return found is not None and any(_jumps(node, found[1]) for node in _nodes(found[0]))


SIZE_READERS = frozenset({"Shape", "Size"})  # no element of their operand matters


def jumping_operands(term: Term) -> list[Term]:
    """Return the operands in which an operator may be discontinuous.

    So are functions that jump, and all from real numbers to other types: comparisons, casts to integers. x ** 2 is
    continuous in x. An operator without a definition counts as continuous if its results are real.
    """
    if term.op in SIZE_READERS:
        return []
    operands = [i for i in term.inputs if i is not None]
    if uses_function(term.op, "power"):
        return operands[1:]
    makes_others = any(type is not None and type.dtype not in FLOAT_DTYPES for type in term.types)
    if jumps(term.op) or (makes_others and any(map(is_real, operands))):
        return operands
    return []


def is_real(term: Term) -> bool:
    """Return True if an output has real numbers, or may have them."""
    return any(type is None or type.dtype in FLOAT_DTYPES for type in term.types)


def _jumps(node: Expression, at: Example) -> bool:
    if node.head == "apply":
        if node.detail == "power":  # that of a negative number is only real if the exponent is whole
            return any(part.head == "access" for part in _nodes(node.args[1]))
        return node.detail in _JUMPING
    if node.head != "choose" or _is_mask(node, at):
        return False
    value, yes, no = node.args
    ends = [_value(side, {id(value): 0.0}) for side in (yes, no)]
    return node.detail == "==" or ends[0] is None or ends[0] != ends[1]


# Functions in the branches of continuous piecewise functions, such as Elu.
_VALUES: Mapping[str, Callable[[float], float]] = {"exp": math.exp}


def _value(node: Expression, known: dict[int, float]) -> float | None:
    """Return the value of an expression, or None if a function in it is not in `_VALUES`.

    `known` has the values of some subexpressions, by id. All other elements of operands count as 0.3.
    """
    if id(node) in known:
        return known[id(node)]
    if node.head == "constant":
        return float(node.detail)  # type: ignore[arg-type]
    if node.head in ("access", "real"):
        return 0.3
    parts = [_value(arg, known) for arg in node.args]
    numbers = [part for part in parts if part is not None]
    if len(numbers) < len(parts) or not parts:
        return None
    if node.head == "add":
        return sum(numbers)
    if node.head == "multiply":
        return math.prod(numbers)
    return _VALUES[str(node.detail)](*numbers) if node.head == "apply" and node.detail in _VALUES else None
