"""Replay of a search's trace: check every step and rebuild the result. Only a graph returned from here may be written.

Replacing a term by one that is equal for all inputs preserves the graph's outputs (congruence). So two checks suffice:
each step of a region's rewrite is an instance of a proven rule whose conditions hold there, and each application names
terms that are in the graph. ONNX Runtime breaks congruence in one place: of two Casts in a row it drops the first, even
one that rounds or wraps. So a rewrite may make or take apart no such pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from superopt.ir.dim import Dim, Quotient, Size, evaluate, floor_div, symbol, symbols_of
from superopt.ir.infer import remake, replace
from superopt.ir.pattern import Bindings, instantiate, match
from superopt.ir.rule import Condition
from superopt.ir.term import Attr, Term, topological, var
from superopt.ir.trace import Application, Rewrite, Step, Trace
from superopt.ir.types import FLOAT_DTYPES, TensorType
from superopt.ops.logic import keeps_numbers
from verify.proof_book import Book

__all__ = ["ReplayError", "merged_casts", "replay", "replay_rewrite", "with_general_sizes"]

_CASTS = frozenset({"Cast", "ai.onnx::Cast"})  # one with a definition, and one without


class ReplayError(ValueError):
    """A trace with a step that is not proven or does not fit the graph; the message says where."""


def replay(outputs: tuple[Term, ...], trace: Trace, book: Book) -> tuple[Term, ...]:
    """Return the outputs after all applications of `trace`. Raises ReplayError unless every step is proven and fits."""
    checked: set[Rewrite] = set()
    present = set(topological(outputs))
    origin: dict[Term, tuple[Application, int]] = {}
    for application in trace.applications:
        rewrite = application.rewrite
        if rewrite not in checked:
            replay_rewrite(rewrite, book)
            checked.add(rewrite)
        for position, term in enumerate(_placed(rewrite.before, dict(application.leaves))):
            if term not in present:
                raise ReplayError(f"{term} is not in the graph that the trace is for")
            if term in origin:
                raise ReplayError(f"{term} is rewritten twice")
            origin[term] = (application, position)
    result = _rebuilt(outputs, origin)
    if merged_casts(result) != merged_casts(outputs):
        raise ReplayError("ONNX Runtime would merge other Casts")
    return result


def merged_casts(outputs: tuple[Term, ...]) -> Counter[tuple[str, ...]]:
    """Count the Casts of a Cast that loses numbers, by the three element types.

    ONNX Runtime drops the first of two Casts in a row, even one that rounds or wraps. Casts between integers wrap as
    ever.
    """

    def dtype(term: Term | None) -> str:
        return "" if term is None or term.type is None else term.type.dtype

    found: Counter[tuple[str, ...]] = Counter()
    for term in topological(outputs):
        inner = term.inputs[0] if term.op in _CASTS else None
        if inner is not None and inner.op in _CASTS:
            types = dtype(inner.inputs[0]), dtype(inner), dtype(term)
            if not keeps_numbers(*types[:2]) and not FLOAT_DTYPES.isdisjoint(types):
                found[types] += 1
    return found


def replay_rewrite(rewrite: Rewrite, book: Book, not_negative: Collection[Size] = ()) -> None:
    """Check the steps of one region, where some sizes are known to be `not_negative`. Raises ReplayError."""
    state = rewrite.before
    for number, step in enumerate(rewrite.steps, 1):
        state = _stepped(state, step, book, number, not_negative)
    if state != rewrite.after:
        raise ReplayError("the steps do not end at the result that the trace claims")


def _stepped(
    state: tuple[Term, ...], step: Step, book: Book, number: int, not_negative: Collection[Size]
) -> tuple[Term, ...]:
    rule, where = step.rule, f"step {number}, rule {step.rule.id}"
    if not set(step.roots) <= set(topological(state)):
        raise ReplayError(f"{where}: a term to rewrite is not in the graph")
    bindings = match(rule.lhs, step.roots) if len(rule.lhs) == len(step.roots) else None
    if bindings is None:
        raise ReplayError(f"{where}: the left side does not match")
    if not book.allows(rule, step.signature, with_general_sizes(bindings, not_negative)):
        raise ReplayError(f"{where}: not proven here")
    dtype = bindings.dtype()
    if dtype is None:
        raise ReplayError(f"{where}: real numbers of several types")
    results = instantiate(rule.rhs, bindings, dtype)
    for old, new in zip(step.roots, results, strict=True):
        if old.type is None or old.type != new.type:
            raise ReplayError(f"{where}: type {new.type} in place of {old.type}")
    return replace(state, dict(zip(step.roots, results, strict=True)))


def with_general_sizes(bindings: Bindings, not_negative: Collection[Size] = ()) -> Bindings:
    """Return the bindings of a more general match, with a size of its own in place of each quotient of sizes.

    A strided Conv makes an axis of floor((n - 1) / 2) + 1 elements. A condition that holds for every such quotient
    q >= 0 holds for this one. `Condition.holds` knows sizes, which are at least 1: so q is a size less one. If n - 2
    is known to be `not_negative`, floor(n / 2) is a size, and n is a size plus one.
    """
    shapes = [term.type.shape or () for term in bindings.terms.values() if term.type is not None]
    sizes = [size for shape in (*shapes, bindings.attrs.values()) for size in _sizes_in(shape)]
    least = _least_sizes(not_negative)
    quotients = any(isinstance(atom, Quotient) for size in sizes if isinstance(size, Dim) for atom in size.atoms())
    if not quotients and not least:
        return bindings
    changed = {name: symbol(name) + (size - 1) for name, size in least.items()}
    names = frozenset().union(*map(symbols_of, sizes))
    general = _General(names, changed, [evaluate(size, changed) for size in not_negative])
    terms = {
        name: var(name, TensorType(term.type.dtype, tuple(map(general.size, term.type.shape))))
        if term.type is not None and term.type.shape is not None
        else term
        for name, term in bindings.terms.items()
    }
    return Bindings(terms, {name: general.attribute(value) for name, value in bindings.attrs.items()})


def _least_sizes(not_negative: Iterable[Size]) -> dict[str, int]:
    """Return the sizes n of which some n - c, with a number c above 1, is not negative, and the greatest such c."""
    found: dict[str, int] = {}
    for size in not_negative:
        for name in symbols_of(size):
            constant = size - symbol(name)
            if isinstance(constant, int) and -constant > found.get(name, 1):
                found[name] = -constant
    return found


def _sizes_in(value: object) -> Iterator[Size]:
    if isinstance(value, (int, Dim)):
        yield value
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for item in value:
            yield from _sizes_in(item)


class _General:
    """Sizes in place of others, which may be any: `changed` sizes, and new ones for quotients.

    `taken` has the names of all sizes.
    """

    def __init__(self, taken: frozenset[str], changed: Mapping[str, Size], not_negative: Collection[Size]) -> None:
        self._taken, self._changed, self._not_negative = taken, changed, frozenset(not_negative)
        self._names: dict[Quotient, str] = {}

    def attribute(self, value: Attr) -> Attr:
        if isinstance(value, tuple):
            return tuple(map(self.attribute, value))
        return self.size(value) if isinstance(value, Dim) else value

    def size(self, size: Size) -> Size:
        """Return the size over `changed` ones, with quotients that are never negative as new sizes less one."""
        return self._without_quotients(evaluate(size, self._changed))

    def _without_quotients(self, size: Size) -> Size:
        if isinstance(size, int):
            return size
        total: Size = 0
        for monomial, coefficient in size.terms:
            product: Size = coefficient
            for atom in monomial:
                product = product * (self._new(atom) if isinstance(atom, Quotient) else Dim((((atom,), 1),)))
            total = total + product
        return total

    def _new(self, quotient: Quotient) -> Size:
        above, below = quotient.numerator, quotient.denominator
        whole = floor_div(above, below)
        least = 1 if above - below in self._not_negative else 0
        is_known = least or not self._not_negative.isdisjoint({above, whole})
        if not is_known and not Condition("<=", 0, self._without_quotients(above)).holds({}):
            return whole
        if quotient not in self._names:
            number = len(self._names)
            while f"q{number}" in self._taken:
                number += 1
            self._names[quotient] = f"q{number}"
            self._taken |= {f"q{number}"}
        return symbol(self._names[quotient]) - (1 - least)


def _placed(terms: tuple[Term, ...], leaves: Mapping[Term, Term]) -> tuple[Term, ...]:
    for leaf, actual in leaves.items():
        if leaf.op not in ("Const", "Var"):
            raise ReplayError(f"{leaf} has a meaning of its own, so it stands for nothing else")
        if leaf.type != actual.type:
            raise ReplayError(f"a leaf of type {leaf.type} stands for a term of type {actual.type}")
    for term in topological(terms):
        if term.op == "Var" and term not in leaves:
            raise ReplayError(f"leaf {term.attr('name')} stands for nothing")
    return replace(terms, leaves)


def _rebuilt(outputs: tuple[Term, ...], origin: Mapping[Term, tuple[Application, int]]) -> tuple[Term, ...]:
    """Rebuild the graph in one pass, without recursion: a rewritten term becomes its region's result."""
    new: dict[Term, Term] = {}
    results: dict[Application, tuple[Term, ...]] = {}
    waiting: set[Term] = set()
    stack = list(reversed(outputs))
    while stack:
        term = stack[-1]
        if term in new:
            stack.pop()
            continue
        application, position = origin.get(term, (None, 0))
        needed = [i for i in term.inputs if i is not None]
        if application is not None:
            needed = [actual for _, actual in application.leaves]
        missing = [i for i in needed if i not in new]
        if missing:
            if term in waiting:
                raise ReplayError("the trace would make the graph cyclic")
            waiting.add(term)
            stack.extend(reversed(missing))
            continue
        stack.pop()
        if application is None:
            inputs = tuple(None if i is None else new[i] for i in term.inputs)
            new[term] = term if inputs == term.inputs else remake(term, inputs)
        else:
            if application not in results:
                leaves = {leaf: new[actual] for leaf, actual in application.leaves}
                results[application] = _placed(application.rewrite.after, leaves)
            new[term] = results[application][position]
            if new[term].type != term.type:
                raise ReplayError(f"type {new[term].type} in place of {term.type}")
    return tuple(new[output] for output in outputs)
