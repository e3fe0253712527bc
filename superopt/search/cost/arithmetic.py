"""Counts the arithmetic of an operator in its definition, at the sizes of its operands.

The definition says how the scalar at one index is computed. Each subexpression is an element of an intermediate tensor
over the indices that occur in the subexpression, and its operation counts once for each element of that tensor. So the
mean in LayerNormalization is computed once for each row. Subexpressions that differ only in the names of their indices
are one tensor: the exponentials in Softmax, exp(x[i]) and those in the sum over exp(x[k]), are computed once for each
element.

A chain of additions and multiplications whose other parts have fewer indices counts as one affine map a * x + b, as its
a and b are computed once for all elements that share them: BatchNormalization is one factor and one summand a channel.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from superopt.ir.dim import Atom, Dim, NoValue, Quotient, Size, evaluate, symbols_of
from superopt.ir.types import TensorType
from superopt.ops.meaning import NoSemantics
from superopt.properties import is_product, moves, summand
from superopt.properties.recorder import Expression, record

__all__ = ["Work", "arithmetic"]

# Additions, multiplications or comparisons of one call of a function: the terms of the polynomial that kernels use.
_FUNCTIONS: Mapping[str, int] = {
    "cos": 12, "erf": 16, "exp": 8, "log": 10, "power": 18, "reciprocal": 4, "sigmoid": 12, "sin": 12, "sqrt": 4,
    "tanh": 12, "truncated_quotient": 4,
}  # fmt: skip


class Work(NamedTuple):
    """Numbers of arithmetic operations: in sums of products (`dense`), and all others (`scalar`)."""

    dense: int = 0
    scalar: int = 0


@lru_cache(maxsize=1 << 14)
def arithmetic(
    op: str,
    attrs: tuple[tuple[str, Any], ...],
    inputs: tuple[TensorType | None, ...],
    results: tuple[TensorType | None, ...],
) -> Work:
    """Count the arithmetic of an operator with operands and results of these types, whose sizes must be known."""
    if moves(op):
        return Work()
    result = results[0]
    assert result is not None
    shape = result.shape or ()
    elements = math.prod(size for size in shape if isinstance(size, int))
    try:
        root = record(op, dict(attrs), inputs, results)
    except (NoSemantics, NoValue):  # the usual sizes that stand for unknown ones may not fit together
        return Work(scalar=elements)
    count = _OperationCount({f"i!{d}": size for d, size in enumerate(shape) if isinstance(size, int)}).count(root)
    # Definitions write logic and comparisons as arithmetic with 0 and 1: count one operation for each element. So do
    # operators without counted arithmetic: a conversion, or a change of sign by itself, is one instruction, too.
    if (result.dtype == "bool" and not count.loops) or not count.dense + count.scalar:
        moved = root.head == "access" and all(type is None or type.dtype == result.dtype for type in inputs)
        return Work() if moved else Work(scalar=elements)
    return Work(count.dense, count.scalar)


class _Tensor(NamedTuple):
    """A subexpression as an intermediate tensor."""

    form: int  # equal for expressions that differ in the names of their indices only
    indices: tuple[Atom, ...]  # in the order in which they occur; a quotient of indices counts as an index
    equations: frozenset[Size]  # sizes that are 0 wherever the element is not 0


class _Affine(NamedTuple):
    """An expression as a * x + b: the indices of a and b, and which of the two there is."""

    indices: frozenset[Atom] = frozenset()
    factor: bool = False
    summand: bool = False


class _OperationCount:
    """The arithmetic of one expression."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = dict(sizes)
        self._forms: dict[Hashable, int] = {}
        self._tensors: dict[int, _Tensor] = {}
        self._outer: set[int] = set()  # ids of sums of sums: the additions are counted in the inner sums
        self._dense: set[int] = set()  # forms of the products inside sums of products
        self._counted: dict[int, tuple[int, bool]] = {}
        self._affine: dict[int, _Affine] = {}  # by id, for parts that have one user
        self.loops = False

    def count(self, root: Expression) -> _OperationCount:
        """Count the expression. Returns self."""
        order = _in_order(root)
        for node in reversed(order):  # outer sums first: the sizes of inner sums may mention their indices
            if node.head in ("sum", "product", "supremum"):
                self._enter(node)
        for node in order:
            self._tensors[id(node)] = self._tensor(node)
        for node in order:
            if node.head == "sum":
                self._mark(summand(node))
        users = Counter(id(arg) for node in order for arg in node.args)
        for node in order:
            operations, elements = self._operations(node)
            if users[id(node)] > 1:
                self._affine.pop(id(node), None)  # its elements are needed as they are
            form = self._tensors[id(node)].form
            count = operations * elements
            if count > self._counted.get(form, (0, False))[0]:
                self._counted[form] = count, (node.head == "sum" and is_product(summand(node))) or form in self._dense
        return self

    @property
    def dense(self) -> int:
        """Operations in sums of products."""
        return sum(count for count, dense in self._counted.values() if dense)

    @property
    def scalar(self) -> int:
        """All other operations."""
        return sum(count for count, dense in self._counted.values() if not dense)

    def _enter(self, node: Expression) -> None:
        self.loops = True
        for index, size in _bound(node):
            (name,) = symbols_of(index)
            self._sizes[name] = self._largest(size)
        if node.head == "sum" and _below_conditions(node.args[0]).head == "sum":
            self._outer.add(id(node))

    def _mark(self, node: Expression) -> None:
        """Mark a product inside a sum as dense, with its factors that are products of operands' elements."""
        if is_product(node):
            self._dense.add(self._tensors[id(node)].form)
            for factor in node.args:
                if all(arg.head == "access" for arg in factor.args):
                    self._mark(factor)

    def _tensor(self, node: Expression) -> _Tensor:
        parts = [self._tensors[id(arg)] for arg in node.args]
        own = list(_atoms(node))
        indices = list(dict.fromkeys([*(atom for part in parts for atom in part.indices), *own]))
        place = {atom: k for k, atom in enumerate(indices)}
        children = tuple((part.form, tuple(place[atom] for atom in part.indices)) for part in parts)
        key = (node.head, _renamed(node, place), children)
        form = self._forms.setdefault(key, len(self._forms))
        equations = frozenset[Size]().union(*(part.equations for part in parts))
        if node.head == "where" and isinstance(node.detail, tuple):
            equations |= {guard.value for guard in node.detail if guard.relation == "=="}
        if node.head in ("sum", "product", "supremum"):
            gone = {name for index, _ in _bound(node) for name in symbols_of(index)}
            indices = [atom for atom in indices if gone.isdisjoint(_names(atom))]
            equations = frozenset(e for e in equations if gone.isdisjoint(symbols_of(e)))
        return _Tensor(form, tuple(indices), equations)

    def _elements(self, node: Expression) -> int:
        """Return the number of elements of a subexpression's tensor that no condition makes 0."""
        tensor = self._tensors[id(node)]
        plain = {atom for atom in tensor.indices if isinstance(atom, str)}
        sizes = {atom: self._sizes.get(atom, 1) for atom in plain}
        total = math.prod(sizes.values())
        for atom in tensor.indices:  # a quotient of indices that occur themselves adds no elements
            if isinstance(atom, Quotient) and not _names(atom) <= plain:
                total *= self._largest(Dim((((atom,), 1),))) + 1
        for equation in tensor.equations:  # each equation determines one of its indices
            total //= max((sizes[name] for name in symbols_of(equation) if name in sizes), default=1)
        return total

    def _largest(self, size: Size) -> int:
        """Return the value of a polynomial of indices at the largest value of each index; other symbols count as 1."""
        known: dict[str, Size] = {name: self._sizes.get(name, 2) - 1 for name in symbols_of(size)}
        value = evaluate(size, known)
        return value if isinstance(value, int) else 0

    def _operations(self, node: Expression) -> tuple[int, int]:
        """Return the operations for each element, and the number of elements."""
        if not node.reads:  # the runtime computes constants when it loads a model
            return 0, 0
        if node.head in ("add", "multiply"):
            return self._affine_operations(node), self._elements(node)
        if node.head == "maximum":
            return len(node.args) - 1, self._elements(node)
        if node.head == "apply":
            wraps = str(node.detail).startswith("to_")  # machine integers wrap around by themselves
            return 0 if wraps else _FUNCTIONS.get(str(node.detail), 1), self._elements(node)
        if node.head == "choose":
            return 1, self._elements(node)
        if node.head == "sum" and any(isinstance(size, Dim) for _, size in _bound(node)):
            return 1, self._elements(node)  # a running sum adds one term to the sum before it
        if node.head in ("sum", "product", "supremum"):
            return int(id(node) not in self._outer), self._elements(node.args[0])
        return 0, 0

    def _affine_operations(self, node: Expression) -> int:
        """Return the operations that a sum or product adds to the affine map that its largest part is."""
        factors = node.head == "multiply"
        # A change of sign is part of the operation that uses it.
        alone = int(node.args[0].detail not in (1, -1)) if factors else len(node.args) - 1
        whole = frozenset(self._tensors[id(node)].indices)
        parts = [(arg, frozenset(self._tensors[id(arg)].indices)) for arg in node.args]
        largest = [arg for arg, indices in parts if indices == whole]
        if len(largest) != 1:
            return alone
        before = self._affine.get(id(largest[0]), _Affine())
        fewer = before.indices.union(*(indices for arg, indices in parts if arg is not largest[0]))
        if fewer == whole:  # its a or b would be as large as x: a new map begins here
            return alone
        if not alone:
            self._affine[id(node)] = before
            return 0
        after = _Affine(fewer, before.factor or factors, before.summand or not factors)
        self._affine[id(node)] = after
        return int(after.factor) + int(after.summand) - int(before.factor) - int(before.summand)


def _in_order(root: Expression) -> list[Expression]:
    """Return all subexpressions once, parts before the whole."""
    order: dict[int, Expression] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        missing = [arg for arg in node.args if id(arg) not in order]
        if missing and id(node) not in order:
            stack.extend(missing)
        else:
            order.setdefault(id(stack.pop()), node)
    return list(order.values())


def _below_conditions(node: Expression) -> Expression:
    while node.head == "where":
        (node,) = node.args
    return node


def _bound(node: Expression) -> list[tuple[Size, Size]]:
    """Return the indices that a sum, product or supremum binds, with their sizes."""
    assert isinstance(node.detail, tuple)
    indices, sizes = node.detail
    return list(zip(indices, sizes, strict=True))


def _sizes_in(node: Expression) -> Iterable[Size]:
    """Return the indices and conditions in an expression's own detail, without those of its parts."""
    detail: Any = node.detail
    if node.head in ("access", "entry"):
        return tuple(detail[1])
    if node.head == "size":
        return (detail,)
    if node.head == "where":
        return [guard.value for guard in detail]
    if node.head == "piecewise":
        return [guard.value for conditions in detail for guard in conditions]
    return [size for _, size in _bound(node)] if node.head in ("sum", "product", "supremum") else ()


def _atoms(node: Expression) -> Iterable[Atom]:
    for size in _sizes_in(node):
        if isinstance(size, Dim):
            yield from (atom for atom in size.atoms() if _names(atom))


def _names(atom: Atom) -> frozenset[str]:
    return Dim((((atom,), 1),)).symbols


def _renamed(node: Expression, place: Mapping[Atom, int]) -> Hashable:
    """Return an expression's own detail with each index replaced by its number in `place`."""

    def polynomial(size: Size) -> Hashable:
        if isinstance(size, int):
            return size
        return tuple((tuple(place.get(atom, atom) for atom in atoms), factor) for atoms, factor in size.terms)

    own: Hashable = node.detail if node.head in ("apply", "choose", "constant", "real") else None
    if node.head == "access" and isinstance(node.detail, tuple):
        own = node.detail[0]
    if node.head in ("sum", "product", "supremum"):
        own = tuple(polynomial(index) for index, _ in _bound(node))
    return own, tuple(polynomial(size) for size in _sizes_in(node))
