"""The class *normwise*: a bound on the errors of the right side by the largest elements of what the left side sums.

The left side is one sum of products of variables: a product of matrices or a convolution, perhaps with a bias. Each
variable has one atom, its norm: the largest absolute value of its elements. N(left) has the atoms in place of the
elements, and sizes as numbers of summands:

    N(Conv(x, w, b)) = C * 3 * 3 * |x| * |w| + |b|        for C channels and windows of 3 * 3

A right side is normwise(K) if E(right) <= K * N(left), in units of the roundoff. For each operation, N bounds the
largest element of its result, and E the largest error:

    N(a + b) = N(a) + N(b)      E(a + b) = E(a) + E(b) + N(a + b)
    N(a * b) = N(a) N(b)        E(a * b) = E(a) N(b) + N(a) E(b) + N(a * b)
    N(sum of n) = n N           E(sum of n) = n E + N(sum of n)

A difference counts as much as a sum. Sums of at most 64 terms are written out, so that each number of a table is
multiplied with its own factor: the norm of `sum over k of t[i, k] * v[k]` is the largest sum of |t[i, k]| N(v[k]) over
all i. Numbers that every floating-point type holds, and products with a power of 2, are exact. As in `rounding.py`, the
number of summands is left out of the rounding of one sum.

A left side that sums anything else, such as (x - m) * w, has no such bound: |x - m| may be far below |x| + |m|.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import TypeAlias

from superopt.ir.dim import Dim, Quotient, Size, Sizes, evaluate, floor_div, symbol
from superopt.ir.term import Term
from superopt.ir.types import FLOAT_DTYPES
from superopt.ops.algebra import Guard, Piece, Table
from superopt.ops.equation import unfold
from superopt.ops.meaning import Meaning, NoSemantics
from verify.prove.outputs import output_place

__all__ = ["normwise_factor"]

_CONTRACTIONS = frozenset({"Conv", "Einsum", "MatMul"})
_REARRANGEMENTS = frozenset({"Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_MOST_SUMMANDS = 64  # of a sum that is written out
_STEPS = 50_000  # summands in all
_EXACT_BITS = 8  # the significand of bfloat16

# A polynomial with non-negative coefficients. Its atoms are norms of variables (by name) and sizes.
Monomial: TypeAlias = frozenset[tuple[str, int]]
Polynomial: TypeAlias = dict[Monomial, Fraction]
_ONE: Monomial = frozenset()


def normwise_factor(left: Term, right: Term) -> Fraction | None:
    """Return the smallest K with E(right) <= K * N(left), None if there is none or it is not in scope.

    The terms are typed and equal over the reals.
    """
    try:
        if not _sums_products(left):
            return None
        norms, errors = _largest(left), _largest(right)
    except NoSemantics:
        return None
    if any(monomial not in norms.norm for monomial in errors.error):
        return None
    return max((value / norms.norm[monomial] for monomial, value in errors.error.items()), default=Fraction(0))


def _sums_products(term: Term) -> bool:
    """Return True for one sum of products of whole variables, with further variables added.

    Its norm is then exact: the number of summands is that of the elements inside.
    """
    term = _unscaled(unfold(term) if term.op == "Gemm" else term)
    inputs = [_unscaled(x) for x in term.inputs if x is not None]
    if term.op in _CONTRACTIONS:
        return len(inputs) > 1 and all(map(_is_variable, inputs))
    if term.op == "Add":
        return any(_sums_products(a) and _is_variable(b) for a, b in (inputs, inputs[::-1]))
    return term.op in _REARRANGEMENTS and _sums_products(inputs[0])


def _unscaled(term: Term) -> Term:
    """Return a term without a factor that is a number."""
    inputs = [x for x in term.inputs if x is not None]
    scaled = [b for a, b in (inputs, inputs[::-1]) if a.op == "ConstantOfShape"] if term.op == "Mul" else []
    return scaled[0] if scaled else term


def _is_variable(term: Term) -> bool:
    """Return True for a variable with its elements in any order: no element is left out."""
    while term.op in _REARRANGEMENTS and term.inputs[0] is not None:
        term = term.inputs[0]
    return term.op == "Var" and term.type is not None and term.type.dtype in FLOAT_DTYPES


@dataclass(frozen=True)
class Norms:
    """Bounds on all elements of a tensor, or all summands of a kind.

    `number` is the value if it is known. `pending` is the rounding of a sum that an enclosing sum of the same operator
    extends. Where an equation `value == 0` of `equations` does not hold, the element is 0.
    """

    norm: Polynomial = field(default_factory=dict)
    settled: Polynomial = field(default_factory=dict)
    pending: Polynomial = field(default_factory=dict)
    number: Fraction | None = None
    equations: frozenset[Dim] = frozenset()

    @property
    def error(self) -> Polynomial:
        return _plus(self.settled, self.pending)


class _Residue(Exception):
    """An equation on an output's index that depends on its residue: the index is to be split."""

    def __init__(self, name: str, step: int) -> None:
        super().__init__(name)
        self.name, self.step = name, step


def _largest(term: Term) -> Norms:
    """Return bounds that hold for all elements of a term, the largest of all residues of its indices."""
    sums = _Sums()
    meaning = _NormMeaning(sums)
    if term.type is None or term.type.shape is None:
        raise NoSemantics(f"{term.op} of unknown shape")
    sums.outputs = {f"i!{d}" for d in range(len(term.type.shape))}
    place = output_place(term)
    sums.sizes.update({str(i): n for i, n in zip(place, term.type.shape, strict=True) if isinstance(i, Dim)})
    cases, found = [place], Norms()
    while cases:
        place = cases.pop()
        try:
            found = _either([found, meaning.scalar(term, place)])
        except _Residue as split:
            part = symbol(f"{split.name}/{split.step}")
            parts = [{split.name: split.step * part + rest} for rest in range(split.step)]
            cases += [tuple(evaluate(i, env) for i in place) for env in parts]
    return found


class _NormMeaning(Meaning):
    """Evaluates terms at indices without quotients that are 0."""

    def __init__(self, sums: _Sums) -> None:
        super().__init__(sums)
        self._sums = sums

    def scalar(self, term: Term, index: Sizes) -> Norms:
        found: Norms = super().scalar(term, tuple(map(self._sums.simplified, index)))
        return replace(found, settled=found.error, pending={}) if found.pending else found


class _Sums:
    """The algebra of `Norms`."""

    def __init__(self) -> None:
        self.sizes: dict[str, Size] = {}  # indices that run from 0 to below a size
        self.outputs: set[str] = set()
        self._names: dict[tuple[int, Size], str] = {}
        self._open: list[str] = []
        self._steps = 0

    def simplified(self, value: Size) -> Size:
        """Replace quotients i / n by 0 where 0 <= i < n."""
        if isinstance(value, int):
            return value
        total: Size = 0
        for monomial, coefficient in value.terms:
            part: Size = coefficient
            for atom in monomial:
                if isinstance(atom, Quotient):
                    above, below = self.simplified(atom.numerator), atom.denominator
                    part = part * (0 if self.sizes.get(_name(above)) == below else floor_div(above, below))
                else:
                    part = part * Dim((((atom,), 1),))
            total = total + part
        return total

    def constant(self, value: Fraction) -> Norms:
        size = _polynomial(abs(value))
        return Norms(size, {} if _is_exact(value) else size, number=value)

    def access(self, tensor: str, index: Sizes) -> Norms:
        return Norms({frozenset({(tensor, 1)}): Fraction(1)})

    def data_index(self, value: Norms, size: Size) -> Size:
        raise NoSemantics("an element as an index")

    def entry(self, table: Table, index: Sizes) -> Norms:
        places = [(i,) if isinstance(i, int) else range(n) for i, n in zip(index, table.shape, strict=True)]
        values = [self.constant(table[place]) for place in product(*places)]
        return values[0] if len(values) == 1 else _either(values)

    def size(self, value: Size) -> Norms:
        if not isinstance(value, int):
            raise NoSemantics("a size as a number")
        return self.constant(Fraction(value))

    def real(self, name: str) -> Norms:
        raise NoSemantics(f"a number {name}")

    def add(self, *parts: Norms) -> Norms:
        parts = tuple(part for part in parts if part.norm)
        if len(parts) < 2:
            return parts[0] if parts else Norms()
        norm = _plus(*(part.norm for part in parts))
        return Norms(norm, _plus(*(part.error for part in parts), norm))

    def multiply(self, left: Norms, right: Norms) -> Norms:
        norm = _times(left.norm, right.norm)
        error = _plus(_times(left.error, right.norm), _times(left.norm, right.error))
        numbers = [one.number for one in (left, right) if one.number is not None and not one.error]
        number = numbers[0] * numbers[1] if len(numbers) == 2 else None
        scales = any(_is_exact(one, 1) for one in numbers)
        if not scales and (number is None or not _is_exact(number)):
            error = _plus(error, norm)
        return Norms(norm, error, number=number, equations=left.equations | right.equations)

    def apply(self, function: str, *arguments: Norms) -> Norms:
        if function != "reciprocal" or not arguments[0].number:
            raise NoSemantics(f"a bound for {function}")
        (argument,) = arguments
        assert argument.number is not None
        if argument.error:
            raise NoSemantics("division by a rounded number")
        return self.constant(1 / argument.number)

    def summation(self, size: Size, body: Callable[[Size], Norms]) -> Norms:
        if isinstance(size, int) and size <= _MOST_SUMMANDS:
            values = [self._counted(body, k) for k in range(size)]
            values = [value for value in values if value.norm]
            if len(values) < 2:
                return values[0] if values else Norms()
            rounded = [value.pending or value.norm for value in values]
            return Norms(
                _plus(*(value.norm for value in values)), _plus(*(value.settled for value in values)), _plus(*rounded)
            )
        with self._index(size) as name:
            value = self._counted(body, symbol(name))
        with_it = {equation for equation in value.equations if name in equation.symbols}
        others = value.equations - with_it
        if any(name in _linear(equation) for equation in with_it):  # at most one summand is not 0
            return replace(value, equations=others)
        count = _count(size)
        norm, settled = _times(count, value.norm), _times(count, value.settled)
        return Norms(norm, settled, _times(count, value.pending or value.norm), equations=others)

    def where(self, conditions: Sequence[Guard], body: Callable[[], Norms]) -> Norms:
        guards = [Guard(g.relation, self.simplified(g.value)) for g in conditions]
        if any(g.decided() is False for g in guards):
            return Norms()
        equations = frozenset(g.value for g in guards if g.relation == "==" and isinstance(g.value, Dim))
        for equation in equations:
            self._split(equation)
        found = body()
        known = all(g.decided() for g in guards)
        return found if known else replace(found, number=None, equations=found.equations | equations)

    def piecewise(self, pieces: Sequence[Piece], otherwise: Norms | None) -> Norms:
        values = [self.where(conditions, body) for conditions, body in pieces]
        if otherwise is not None and otherwise.norm:
            values.append(otherwise)
        return values[0] if len(values) == 1 else _either(values)

    def choose(self, relation: str, value: Norms, yes: Norms, no: Norms) -> Norms:
        raise NoSemantics("a choice by values")

    def maximum(self, parts: Sequence[Norms]) -> Norms:
        raise NoSemantics("a choice by values")

    def product(self, size: Size, body: Callable[[Size], Norms]) -> Norms:
        raise NoSemantics("a product of many")

    def supremum(self, sizes: Sizes, conditions: Callable[..., Sequence[Guard]], body: Callable[..., Norms]) -> Norms:
        raise NoSemantics("a choice by values")

    def _counted(self, body: Callable[[Size], Norms], k: Size) -> Norms:
        self._steps += 1
        if self._steps > _STEPS:
            raise NoSemantics("too many summands")
        return body(k)

    @contextmanager
    def _index(self, size: Size) -> Iterator[str]:
        """Yield a name for a summed index. Equal indices have equal names, so terms at them are evaluated once."""
        name = self._names.setdefault((len(self._open), size), f"k!{len(self._names)}")
        self._open.append(name)
        self.sizes[name] = size
        try:
            yield name
        finally:
            self._open.pop()

    def _split(self, equation: Dim) -> None:
        """Raise _Residue if only the residue of an output's index decides whether a summed index satisfies it."""
        linear = _linear(equation)
        steps = [abs(linear[name]) for name in self._open if name in linear]
        for output in sorted(self.outputs & linear.keys()):
            if abs(linear[output]) == 1 and max(steps, default=1) > 1:
                raise _Residue(output, max(steps))


def _name(value: Size) -> str:
    """Return the name of a symbol, "" for other sizes."""
    if isinstance(value, Dim) and len(value.terms) == 1:
        ((monomial, coefficient),) = value.terms
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], str):
            return monomial[0]
    return ""


def _linear(value: Dim) -> dict[str, int]:
    """Return the symbols that occur in a single monomial, which has no other, with their coefficients."""
    inside = Counter(name for monomial, _ in value.terms for name in Dim(((monomial, 1),)).symbols)
    single = ((monomial[0], coefficient) for monomial, coefficient in value.terms if len(monomial) == 1)
    return {atom: coefficient for atom, coefficient in single if isinstance(atom, str) and inside[atom] == 1}


def _is_exact(value: Fraction, bits: int = _EXACT_BITS) -> bool:
    """Return True if every floating-point type holds the number (with a significand of that many bits)."""
    top, below = abs(value.numerator), value.denominator
    if below & (below - 1):
        return False
    return not top or top // (top & -top) < 1 << bits


def _polynomial(value: Fraction) -> Polynomial:
    return {_ONE: value} if value else {}


def _count(size: Size) -> Polynomial:
    """Return a size as a polynomial. One that is no monomial is an atom of its own."""
    if isinstance(size, int):
        return _polynomial(Fraction(size))
    ((monomial, coefficient), *more) = size.terms
    if more or coefficient < 0:
        return {frozenset({(f"({size})", 1)}): Fraction(1)}
    return {frozenset(Counter(f"({atom})" for atom in monomial).items()): Fraction(coefficient)}


def _plus(*parts: Mapping[Monomial, Fraction]) -> Polynomial:
    total: Polynomial = {}
    for part in parts:
        for monomial, value in part.items():
            total[monomial] = total.get(monomial, Fraction(0)) + value
    return total


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for (a, m), (b, n) in product(left.items(), right.items()):
        powers = Counter(dict(a))
        powers.update(dict(b))
        monomial = frozenset(powers.items())
        total[monomial] = total.get(monomial, Fraction(0)) + m * n
    return total


def _either(values: Iterable[Norms]) -> Norms:
    """Return bounds that hold for each of several values."""
    values = tuple(values)

    def largest(parts: Sequence[Polynomial]) -> Polynomial:
        return {name: max(part.get(name, Fraction(0)) for part in parts) for name in set().union(*parts)}

    return Norms(largest([value.norm for value in values]), largest([value.error for value in values]))
