"""The algebra of sums of guarded products: distribution, linearity and the exchange of sums hold by construction."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

from superopt.ir.dim import DataIndex, Dim, Size, Sizes, symbol
from superopt.ops.algebra import Guard, Piece, Table, at_least, below, holds
from superopt.ops.definition import NoSemantics
from verify.prove.application import apply, is_partial
from verify.prove.substitution import Substitution
from verify.prove.sums import (
    ONE,
    Access,
    Bound,
    Choice,
    Entry,
    Maximum,
    Product,
    Quantity,
    Real,
    Repeated,
    SumOfProducts,
    number_in,
    only_factor,
    single,
)  # fmt: skip

__all__ = ["FEW", "Symbolic", "data_index"]

FEW = 4  # values: sums over at most this many are written out


class Symbolic:
    """The algebra of sums. `dtypes` has the element types of the tensors that are not "float".

    `careful`: zero is an unknown number, so that no proof uses x * 0 = 0. Such a proof holds term by term, in another
    order of summation (class "reassociating" of `verify.verdict.NUMERICS`).
    `unfolded`: Sigmoid and Tanh are expressed by exp, and sums over a few values are written out.
    `tabulated`: tables of numbers occur; sums over a few values are written out once no table is left.
    """

    def __init__(
        self,
        dtypes: Mapping[str, str] | None = None,
        careful: bool = False,
        unfolded: bool = False,
        tabulated: bool = False,
    ) -> None:
        self._count = itertools.count()
        self._dtypes = dtypes or {}
        self.careful, self.unfolded, self.tabulated = careful, unfolded, tabulated

    def fresh(self) -> str:
        """Return a new name for a bound variable."""
        return f"k!{next(self._count)}"

    def constant(self, value: Fraction) -> SumOfProducts:
        if not value and self.careful:
            return single(Real("0"))
        return (Product(value),) if value else ()

    def real(self, name: str) -> SumOfProducts:
        return single(Real(name))

    def size(self, value: Size) -> SumOfProducts:
        """Return a size as a sum. A monomial is a product of quantities, so that sizes add and multiply as numbers."""
        if isinstance(value, int):
            return self.constant(Fraction(value))
        return _monomials(value)

    def access(self, tensor: str, index: Sizes) -> SumOfProducts:
        return single(Access(tensor, index, self._dtypes.get(tensor, "float")))

    def data_index(self, value: SumOfProducts, size: Size) -> Size:
        return data_index(value, size)

    def entry(self, table: Table, index: Sizes) -> SumOfProducts:
        place = tuple(k for k in index if isinstance(k, int))
        if len(place) == len(index):
            return self.constant(table[place])
        return single(Entry(table, index))

    def add(self, *parts: SumOfProducts) -> SumOfProducts:
        return tuple(itertools.chain.from_iterable(parts))

    def multiply(self, left: SumOfProducts, right: SumOfProducts) -> SumOfProducts:
        """(sum of a) * (sum of b) = sum of all a * b, with distinct binders.

        A partial function is evaluated even where the other side is an empty sum, or 0 by its guards. A product with
        coefficient 0 records it, so that the function's definedness is still required.
        """
        products = [self._product(a, b) for a in left for b in right]
        reminders: dict[Product, None] = {}
        for side, other in ((left, right), (right, left)):
            if not other or any(p.guards for p in other):
                for p in side:
                    partial = tuple(filter(is_partial, p.factors))
                    if partial:
                        reminders[Product(Fraction(0), partial, p.binders, p.guards)] = None
        return (*products, *reminders)

    def _product(self, a: Product, b: Product) -> Product:
        if set(a.binders) & set(b.binders):
            b = self.renamed(b)
        return Product(a.coefficient * b.coefficient, a.factors + b.factors, a.binders + b.binders, a.guards + b.guards)

    def renamed(self, product: Product) -> Product:
        """Return the product with fresh bound variables."""
        names = {binder: self.fresh() for binder in product.binders}
        env = Substitution({old: symbol(new) for old, new in names.items()})
        return Product(
            product.coefficient,
            tuple(env.factor(self, f) for f in product.factors),
            tuple(names.values()),
            env.guards(product.guards),
        )

    def renamed_bound(self, bound: Bound) -> Bound:
        """Return the bound with fresh bound variables."""
        names = {binder: self.fresh() for binder in bound.binders}
        env = Substitution({old: symbol(new) for old, new in names.items()})
        return Bound(tuple(names.values()), env.guards(bound.guards), env.sum(self, bound.value))

    def apply(self, function: str, *arguments: SumOfProducts) -> SumOfProducts:
        return apply(self, function, *arguments)

    def choose(self, relation: str, value: SumOfProducts, yes: SumOfProducts, no: SumOfProducts) -> SumOfProducts:
        """Return the branch if the choice is decided or both branches are equal, else a `Choice`."""
        number = number_in(value)
        if number is not None:
            return yes if holds(relation, number) else no
        if yes == no:
            return yes
        return single(Choice(relation, value, yes, no))

    def maximum(self, parts: Sequence[SumOfProducts]) -> SumOfProducts:
        """max(max(a, b), c) = max(a, b, c); only the largest of several numbers is kept."""
        alternatives: dict[Bound, None] = {}
        largest: Fraction | None = None
        for part in parts:
            number = number_in(part)
            if number is not None:
                largest = number if largest is None else max(largest, number)
            else:
                alternatives.update(dict.fromkeys(_flattened(Bound((), (), part))))
        if largest is not None:
            alternatives[Bound((), (), self.constant(largest))] = None
        return self.of_alternatives(tuple(alternatives))

    def of_alternatives(self, alternatives: tuple[Bound, ...]) -> SumOfProducts:
        """Return the maximum of the alternatives; a single value is its own maximum."""
        if len(alternatives) == 1 and not alternatives[0].binders and not alternatives[0].guards:
            return alternatives[0].value
        return single(Maximum(alternatives))

    def supremum(
        self, sizes: Sizes, conditions: Callable[..., Sequence[Guard]], body: Callable[..., SumOfProducts]
    ) -> SumOfProducts:
        names = [None if size == 1 else self.fresh() for size in sizes]
        place = [0 if name is None else symbol(name) for name in names]
        bounds = [
            g for k, size in zip(place, sizes, strict=True) if size != 1 for g in (at_least(k, 0), below(k, size))
        ]
        guards = tuple(g for g in (*bounds, *conditions(*place)) if g.decided() is not True)
        value = body(*place)
        return self.of_alternatives(tuple(_flattened(Bound(tuple(n for n in names if n), guards, value))))

    def summation(self, size: Size, body: Callable[[Size], SumOfProducts]) -> SumOfProducts:
        """Return the sum over a fresh k with 0 <= k < size; a sum over one value is that value."""
        if size == 1:
            return body(0)
        if self.unfolded and isinstance(size, int) and size <= FEW:
            return self.add(*(body(k) for k in range(size)))
        name = self.fresh()
        k = symbol(name)
        bounds = (at_least(k, 0), below(k, size))
        return tuple(Product(p.coefficient, p.factors, (name, *p.binders), bounds + p.guards) for p in body(k))

    def product(self, size: Size, body: Callable[[Size], SumOfProducts]) -> SumOfProducts:
        if size == 1:
            return body(0)
        name = self.fresh()
        k = symbol(name)
        value = body(k)
        inner = only_factor(value)
        if isinstance(inner, Repeated):  # a product of products is one
            over = inner.over
            return single(
                Repeated(Bound((name, *over.binders), (at_least(k, 0), below(k, size), *over.guards), over.value))
            )
        return single(Repeated(Bound((name,), (at_least(k, 0), below(k, size)), value)))

    def where(self, conditions: Sequence[Guard], body: Callable[[], SumOfProducts]) -> SumOfProducts:
        open_ones = tuple(c for c in conditions if c.decided() is None)
        if any(c.decided() is False for c in conditions):
            return ()
        return tuple(Product(p.coefficient, p.factors, p.binders, open_ones + p.guards) for p in body())

    def piecewise(self, pieces: Sequence[Piece], otherwise: SumOfProducts | None) -> SumOfProducts:
        """Return the sum of [c_j] * body_j, plus otherwise * (1 - sum of [c_j]), where [c] is 1 if c holds, else 0."""
        bodies = [self.where(conditions, body) for conditions, body in pieces]
        if not otherwise:
            return self.add(*bodies)
        rest = otherwise
        minus = (Product(-ONE),)
        gone = [self.multiply(minus, self.where(conditions, lambda: rest)) for conditions, _ in pieces]
        return self.add(*bodies, otherwise, *gone)


def data_index(value: SumOfProducts, size: Size) -> Size:
    """Return an element of an integer tensor as an index. Raises NoSemantics for integers that are computed.

    Equal elements of one tensor are one index along axes of equal sizes, and nothing else is known about it than its
    range. That the elements are in range is an obligation of its own (`verify.prove.lookups`).
    """
    element = only_factor(value)
    if not isinstance(element, Access) or element.dtype not in ("int32", "int64"):
        raise NoSemantics("an index that is computed")
    return Dim((((DataIndex(element.tensor, element.index, size),), 1),))


@lru_cache(maxsize=1 << 12)
def _monomials(value: Dim) -> SumOfProducts:
    return tuple(
        Product(Fraction(coefficient), tuple(Quantity(Dim((((atom,), 1),))) for atom in monomial))
        for monomial, coefficient in value.terms
    )


def _flattened(bound: Bound) -> Iterator[Bound]:
    """max over k of (max over j) = max over k and j."""
    inner = only_factor(bound.value)
    if isinstance(inner, Maximum):
        for alternative in inner.alternatives:
            yield from _flattened(
                Bound(bound.binders + alternative.binders, bound.guards + alternative.guards, alternative.value)
            )
    else:
        yield bound
