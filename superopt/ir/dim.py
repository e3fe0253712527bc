"""Symbolic tensor sizes and indices: integer polynomials over named symbols, floor quotients and indices in tensors.

A `Size` is an `int` if its value is known, else a `Dim`. Arithmetic normalises (sums of monomials in a fixed order), so
equal polynomials compare equal, and a polynomial without symbols collapses to a plain `int`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, Union

__all__ = [
    "Atom",
    "DataIndex",
    "Dim",
    "NoValue",
    "Quotient",
    "Size",
    "Sizes",
    "ceil_div",
    "evaluate",
    "floor_div",
    "symbol",
    "symbols_of",
]


class NoValue(TypeError):
    """A symbol stands where a number is needed."""


@dataclass(frozen=True)
class Quotient:
    """An atom floor(numerator / denominator), with a positive denominator; the division is not known to be exact."""

    numerator: Size
    denominator: Size

    def __str__(self) -> str:
        return f"({self.numerator}) // ({self.denominator})"


@dataclass(frozen=True)
class DataIndex:
    """An atom: the element of an integer tensor at `place`, as an index along an axis of `size` elements.

    A negative element counts from the end, so the atom's value is from 0 to below `size`. It means that wherever the
    element is in range; elsewhere it is some number in range, the same one for equal elements and sizes.
    """

    tensor: str
    place: Sizes
    size: Size

    def __str__(self) -> str:
        return f"index {self.tensor!r}[{', '.join(map(str, self.place))}] of {self.size}"

    def moved(self, move: Callable[[Size], Size]) -> Size:
        """Return this index at another place, along an axis of another size."""
        return Dim((((DataIndex(self.tensor, tuple(map(move, self.place)), move(self.size)),), 1),))


Atom: TypeAlias = Union[str, Quotient, DataIndex]
Monomial: TypeAlias = tuple[Atom, ...]


def _atom_key(atom: Atom) -> tuple[bool, str]:
    return (not isinstance(atom, str), str(atom))


@lru_cache(maxsize=1 << 16)
def _monomial_key(monomial: Monomial) -> tuple[int, tuple[tuple[bool, str], ...]]:
    return (len(monomial), tuple(_atom_key(atom) for atom in monomial))


class Dim:
    """A polynomial that mentions at least one symbol; build with `symbol` and arithmetic. Never changed.

    `terms` holds monomials and their coefficients in the order of `_monomial_key`: a number, if any, comes first.
    """

    __slots__ = ("terms", "_hash", "_symbols", "_text")
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash: int | None = None
        self._symbols: frozenset[str] | None = None
        self._text: str | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.terms)
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Dim) and hash(self) == hash(other) and self.terms == other.terms)

    def __reduce__(self) -> tuple[object, ...]:
        return Dim, (self.terms,)  # without the hash: strings have another one in another process

    def __bool__(self) -> bool:
        raise NoValue("a symbolic size may be 0 or not")

    def __add__(self, other: Size) -> Size:
        if isinstance(other, int):
            return self._plus(other)
        total = dict(self.terms)
        for monomial, coefficient in _terms(other):
            total[monomial] = total.get(monomial, 0) + coefficient
        return _build(total)

    __radd__ = __add__

    def _plus(self, number: int) -> Dim:
        first, *rest = self.terms
        if not first[0]:
            number += first[1]
        else:
            rest = [first, *rest]
        return Dim((((), number), *rest) if number else tuple(rest))

    def __neg__(self) -> Dim:
        return Dim(tuple([(monomial, -coefficient) for monomial, coefficient in self.terms]))

    def __sub__(self, other: Size) -> Size:
        return self + (-other)

    def __rsub__(self, other: Size) -> Size:
        return (-self) + other

    def __mul__(self, other: Size) -> Size:
        if isinstance(other, int):
            return Dim(tuple([(monomial, a * other) for monomial, a in self.terms])) if other else 0
        total: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in _terms(other):
                product = _product(left, right)
                total[product] = total.get(product, 0) + a * b
        return _build(total)

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        return floor_div(self, other)

    def __rfloordiv__(self, other: Size) -> Size:
        return floor_div(other, self)

    def __mod__(self, other: Size) -> Size:
        return self - other * floor_div(self, other)

    def __rmod__(self, other: Size) -> Size:
        return other - self * floor_div(other, self)

    def __str__(self) -> str:
        if self._text is None:
            self._text = self._shown()
        return self._text

    __repr__ = __str__

    def _shown(self) -> str:
        text = ""
        for monomial, coefficient in sorted(self.terms, key=lambda item: (-len(item[0]), _monomial_key(item[0]))):
            sign = "-" if coefficient < 0 else "+"
            factors = [atom if isinstance(atom, str) else f"({atom})" for atom in monomial]
            if abs(coefficient) != 1 or not monomial:
                factors.insert(0, str(abs(coefficient)))
            body = "*".join(factors)
            text = f"{text} {sign} {body}" if text else (f"-{body}" if sign == "-" else body)
        return text

    @property
    def symbols(self) -> frozenset[str]:
        """The names of all symbols, inside quotients and places too."""
        if self._symbols is None:
            found: set[str] = set()
            for atom in self.atoms():
                if isinstance(atom, Quotient):
                    found |= symbols_of(atom.numerator) | symbols_of(atom.denominator)
                elif isinstance(atom, DataIndex):
                    found |= symbols_of(atom.size).union(*map(symbols_of, atom.place))
                else:
                    found.add(atom)
            self._symbols = frozenset(found)
        return self._symbols

    def atoms(self) -> Iterator[Atom]:
        """Yield the atoms of all monomials, with repetitions."""
        for monomial, _ in self.terms:
            yield from monomial


Size: TypeAlias = Union[int, Dim]
Sizes: TypeAlias = tuple[Size, ...]


def symbol(name: str) -> Dim:
    """Return the symbolic size called `name`."""
    return Dim((((name,), 1),))


def _terms(value: Size) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(value, Dim):
        return value.terms
    return (((), value),) if value else ()


@lru_cache(maxsize=1 << 16)
def _product(left: Monomial, right: Monomial) -> Monomial:
    return tuple(sorted(left + right, key=_atom_key)) if left and right else left or right


def _build(total: Mapping[Monomial, int]) -> Size:
    kept = [term for term in total.items() if term[1]]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    kept.sort(key=_term_key)
    return Dim(tuple(kept))


def _term_key(term: tuple[Monomial, int]) -> tuple[int, tuple[tuple[bool, str], ...]]:
    return _monomial_key(term[0])


def _divide_monomial(
    monomial: Monomial, coefficient: int, by: Monomial, by_coefficient: int
) -> tuple[Monomial, int] | None:
    if coefficient % by_coefficient:
        return None
    rest = list(monomial)
    for atom in by:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest), coefficient // by_coefficient


def floor_div(numerator: Size, denominator: Size) -> Size:
    """Return floor(numerator / denominator) for a positive denominator.

    The part of the numerator that the denominator divides is taken out: floor((q*d + r) / d) = q + floor(r / d).
    """
    if not isinstance(numerator, Dim) and not isinstance(denominator, Dim):
        return numerator // denominator  # integers, or arrays of integers when arrays are evaluated
    if denominator == 1:
        return numerator
    divisor = _terms(denominator)
    if len(divisor) != 1:
        return 1 if numerator == denominator else _quotient(numerator, denominator)
    by, by_coefficient = divisor[0]
    exact: Size = 0
    remainder: Size = 0
    for monomial, coefficient in _terms(numerator):
        divided = _divide_monomial(monomial, coefficient, by, by_coefficient)
        if divided is None:
            remainder = remainder + _build({monomial: coefficient})
        else:
            exact = exact + _build({divided[0]: divided[1]})
    if isinstance(remainder, int) and isinstance(denominator, int):
        return exact + remainder // denominator
    return exact + (0 if remainder == 0 else _quotient(remainder, denominator))


def _quotient(numerator: Size, denominator: Size) -> Size:
    return Dim((((Quotient(numerator, denominator),), 1),))


def ceil_div(numerator: Size, denominator: Size) -> Size:
    """Return ceil(numerator / denominator) for a positive denominator."""
    return floor_div(numerator + denominator - 1, denominator)


def evaluate(value: Size, env: Mapping[str, Size]) -> Size:
    """Replace every symbol of `value` that `env` has; other symbols stay."""
    if isinstance(value, int) or value.symbols.isdisjoint(env):
        return value
    total: dict[Monomial, int] = {}
    for monomial, coefficient in value.terms:
        product: Size = coefficient
        for atom in monomial:
            if isinstance(atom, Quotient):
                product = product * floor_div(evaluate(atom.numerator, env), evaluate(atom.denominator, env))
            elif isinstance(atom, DataIndex):
                product = product * atom.moved(lambda size: evaluate(size, env))
            else:
                product = product * (env[atom] if atom in env else symbol(atom))
        for part, number in _terms(product):
            total[part] = total.get(part, 0) + number
    return _build(total)


def symbols_of(value: Size) -> frozenset[str]:
    """Return the names of all symbols in `value`, inside quotients and places too."""
    return frozenset() if isinstance(value, int) else value.symbols
