"""Enumerates small graphs by their values at real numbers, truth values and integers.

The fingerprints of other families are computed modulo a prime, where a product has no sign and a truth value is no
number. Here every graph is evaluated in floating point, in the element type that it has, at two samples. In the first
all real numbers are positive, so that no root or logarithm is undefined; graphs with equal values there are compared on
the second, which has numbers of both signs. An equation may hold in one direction only: where the larger graph is
defined, the smaller one must be defined and equal.

Families are small (thousands of graphs), so graphs are terms, one at a time. The smallest graph of each class is the
only one that larger graphs contain.
"""

from __future__ import annotations

import contextlib
import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from superopt.evaluate.floats import compute, numpy_dtype
from superopt.evaluate.residues import Shape
from superopt.generate.conjectures.ground_equation import GroundEquation, variables
from superopt.generate.enumeration.enumerator import LevelCounts
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.grammar import Family, Use
from superopt.ir.infer import IllTyped, make
from superopt.ir.operator import OPERATORS
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.term import CLOSED_FORM, Term, map_terms, node_of, topological, var
from superopt.ir.types import FLOAT_DTYPES, TensorType
from superopt.rulebook.commutative import ordered_operands

__all__ = ["RealEvaluator", "RealSamples", "enumerate_reals"]

_Values = npt.NDArray[Any]
_DIGITS = 8  # decimal places to which values are compared first
_LARGEST = 1e6  # values beyond it have fewer exact places
_TOLERANCE = 1e-9
_EQUAL = (0.5, 1.0, 2.0, 1.75)  # half of the samples are one of these, so that two variables may be equal


class RealEvaluator(Evaluator):
    """Values of typed terms of known sizes at real numbers; `positive`: of one sign.

    Indices are taken modulo the size of their axis.
    """

    def __init__(self, seed: int, positive: bool = True) -> None:
        super().__init__(seed)
        self.positive = positive
        self._known: dict[Term, _Values] = {}

    def real(self, term: Term) -> _Values:
        """Return the value of a term. Raises KeyError for an unknown operator."""
        for node in topological((term,)):
            if node not in self._known and (len(node.types) == 1 or node.op == "Out"):
                self._known[node] = self._value(node)
        return self._known[term]

    def key(self, term: Term) -> tuple[Shape, int]:
        """Return a term's shape and a hash of its rounded value. A term without a value is equal to no other."""
        assert term.type is not None
        try:
            value = self.real(term)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return term.type.concrete() or (), zlib.crc32(term.digest.encode()) << 1
        return value.shape, zlib.crc32(_rounded(value)) << 1 | (term.type.dtype in FLOAT_DTYPES)

    def forget(self) -> None:
        """Drop all values computed so far."""
        self._known.clear()

    def _value(self, term: Term) -> _Values:
        type = term.type
        shape = None if type is None else type.concrete()
        assert type is not None and shape is not None
        if 0 in shape:
            return np.zeros(shape)
        if term.op == "Var":
            return self._sample(str(term.attr("name")), type.dtype, shape)
        node = node_of(term)
        attrs = {**dict(node.attrs), **(dict(term.attrs) if node is not term else {})}
        types = [None if i is None else i.type for i in node.inputs]
        inputs = [None if i is None else self._known[i] for i in node.inputs]
        for k in OPERATORS[node.op].index_operands if node.op in OPERATORS else ():
            table, places, axis = inputs[0], inputs[k], attrs["axis"]
            assert table is not None and places is not None and isinstance(axis, int)
            inputs[k] = places % table.shape[axis]  # all in range
        with np.errstate(all="ignore"):
            return np.asarray(compute(node.op, types, attrs, inputs, type))

    def _sample(self, name: str, dtype: str, shape: Shape) -> _Values:
        rng = np.random.default_rng([self.seed, 3, zlib.crc32(f"{name} {dtype}".encode()), self.positive, *shape])
        if dtype == "bool":
            return rng.random(shape) < 0.5
        if dtype not in FLOAT_DTYPES:
            return rng.integers(1 if self.positive else -3, 4, shape).astype(numpy_dtype(dtype))
        sizes = np.where(
            rng.random(shape) < 0.5, rng.choice(_EQUAL, shape), rng.uniform(0.3, 2.7 if self.positive else 9.0, shape)
        )
        return sizes if self.positive else sizes * rng.choice((-1, 1), shape) * (rng.random(shape) < 0.9)


def _rounded(value: _Values) -> bytes:
    with np.errstate(all="ignore"):  # values too large for rounding
        return (np.round(value.astype(np.float64), _DIGITS) + 0.0).tobytes()  # -0.0 becomes 0.0


class RealSamples:
    """Values of graphs at two samples: one where all real numbers are positive, and one of both signs."""

    def __init__(self, seed: int) -> None:
        self._samples = RealEvaluator(seed, positive=True), RealEvaluator(seed, positive=False)

    def positive(self, term: Term) -> _Values:
        """Return the value of a term where all real numbers are positive. Raises KeyError for an unknown operator."""
        return self._samples[0].real(term)

    def implies(self, left: Term, right: Term) -> bool:
        """Return True if two graphs of one type are equal wherever the left one is defined."""
        for sample in self._samples:
            a, b = (sample.real(side).astype(np.float64) for side in (left, right))
            defined = np.isfinite(a)
            if not np.isclose(a[defined], np.broadcast_to(b, a.shape)[defined], _TOLERANCE, _TOLERANCE).all():
                return False
        return True


@dataclass(frozen=True)
class _Class:
    """The smallest graph of a class, its number of operators, its name in slots, and if larger graphs may use it."""

    term: Term
    operators: int
    made_by: str
    leaf: str
    operand: bool = True


class _Classes:
    """The classes found so far. Graphs of one class are equal on both samples, where both are defined."""

    def __init__(self, family: Family, seed: int) -> None:
        self.family = family
        self._samples = RealSamples(seed)
        self._found: dict[tuple[TensorType, bytes], list[_Class]] = {}
        self.all: list[_Class] = []

    def add(self, new: _Class) -> _Class | None:
        """Return the class whose graph is equal to `new`, or None if there is none, and `new` is a class of its own."""
        value = self._samples.positive(new.term)
        if not np.isfinite(value.astype(np.float64)).all() or np.abs(value.astype(np.float64)).max() > _LARGEST:
            return new
        assert new.term.type is not None
        same = self._found.setdefault((new.term.type, _rounded(value)), [])
        for known in same:
            if self._samples.implies(new.term, known.term) or self._samples.implies(known.term, new.term):
                return known
        same.append(new)
        self.all.append(new)
        return None


def enumerate_reals(family: Family, seed: int, operators: int) -> tuple[list[GroundEquation], list[LevelCounts]]:
    """Return the equations between each graph of the family and the smallest graph that is equal to it.

    Variables of one role are interchangeable: of graphs that differ in their names, only the first is compared.
    """
    classes, levels = _Classes(family, seed), []
    equations: list[GroundEquation] = []
    renamed: set[Term] = set()  # the least renaming of each compared graph
    for variable in family.variables:
        term = var(variable.name, TensorType(variable.dtype, variable.shape))
        classes.add(_Class(term, 0, "", variable.name))
    for dtype in dict.fromkeys(v.dtype for v in family.variables):
        for op, attrs in family.constants:
            with contextlib.suppress(IllTyped):
                classes.add(_Class(make(op, (), attrs, dtype), 0, "", op))
        for op in ("Zeros", "Ones"):
            classes.add(_Class(make(op, (), {"shape": family.variables[0].shape}, dtype), 0, "", op, operand=False))
    for level in range(1, operators + 1):
        counts, before = LevelCounts(level), len(classes.all)
        for new in list(_graphs(family, classes.all[:before], level)):
            counts.graphs += 1
            same = classes.add(new)
            if same is not None and same is not new and same.term is not new.term:
                least = _least_renaming(family, new.term)
                if least in renamed:
                    continue
                renamed.add(least)
                equation = GroundEquation((new.term,), (same.term,), family)
                if _is_typed_by_variables(equation):
                    counts.pairs += 1
                    equations.append(equation)
        counts.classes, counts.unexplained = len(classes.all) - before, counts.pairs
        levels.append(counts)
    return sorted(equations, key=lambda e: e.size), levels


def _graphs(family: Family, known: Sequence[_Class], operators: int) -> Iterator[_Class]:
    """Yield the graphs of this many operators over the smallest graphs of classes."""
    for use in family.uses:
        for arity in use.arities:
            fitting = [[one for one in known if one.operand and _accepts(use, slot, one)] for slot in range(arity)]
            for operands in itertools.product(*fitting):
                if sum(one.operators for one in operands) != operators - 1:
                    continue
                terms = [one.term for one in operands]
                if all(not variables((term,)) for term in terms):
                    continue
                swapped = arity == 2 and OPERATORS[use.op].commutative and terms[1] < terms[0]
                if swapped and all(_accepts(use, slot, one) for slot, one in enumerate(reversed(operands))):
                    continue  # the other order is built, too
                try:
                    term = use.term(terms, tuple(_sizes(term) for term in terms))
                except IllTyped:
                    continue
                yield _Class(term, operators, use.made or use.op, "")


def _sizes(term: Term) -> Shape:
    sizes = None if term.type is None else term.type.concrete()
    assert sizes is not None
    return sizes


def _accepts(use: Use, slot: int, one: _Class) -> bool:
    return use.accepts(slot, one.term.op in CLOSED_FORM, 0, one.made_by, one.leaf)


def _is_typed_by_variables(equation: GroundEquation) -> bool:
    """Return True if the types of constants follow from those of the variables, as in a rule."""
    leaves = variables(equation.lhs + equation.rhs)
    bindings = Bindings({str(leaf.attr("name")): leaf for leaf in leaves})
    try:
        sides = [instantiate(side, bindings, bindings.dtype() or "float") for side in (equation.lhs, equation.rhs)]
    except IllTyped:
        return False
    return sides == [equation.lhs, equation.rhs]


def _least_renaming(family: Family, term: Term) -> Term:
    """Return the least of the terms that differ from `term` in the names of variables of one role only."""
    roles: dict[str, list[str]] = {}
    for variable in family.variables:
        roles.setdefault(variable.role, []).append(variable.name)
    own = [name for names in roles.values() for name in names]
    orders = itertools.product(*(itertools.permutations(names) for names in roles.values()))
    return min(_renamed(term, dict(zip(own, itertools.chain(*order), strict=True))) for order in orders)


def _renamed(term: Term, names: Mapping[str, str]) -> Term:
    """Return the term with other names of variables, and commutative operands in one order."""

    def rename(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        if old.op == "Var" and old.type is not None:
            return var(names[str(old.attr("name"))], old.type)
        return ordered_operands(old, inputs)

    return map_terms((term,), rename)[0]
