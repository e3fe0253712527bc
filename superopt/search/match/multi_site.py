"""One law at all of its sites at once.

A law of two alike outputs,

    (f(x, b), f(x, c)) = the parts of f(x, Concat(b, c)),

is one of n (`superopt.rulebook.variadic`). Where n sites share x, one move takes them all: merging two of twenty time
steps pays nothing, merging all of them does. Laws of one output that join or cut (Concat, Split) follow how many
operands or parts a graph has. A law of n is proven like any other before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from superopt.ir.pattern import Bindings, match
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.rulebook.variadic import Reading, readings, schema_of
from superopt.search.match.graph_index import View, node_of, root_key

__all__ = ["ListLaw", "counts", "is_of_parts", "list_law", "sets_of_sites"]

_SHIPPED = 2  # rules are there for so many operands
# A proof grows with a power of the number: so many sites in one move, and so many parts of a Split or Concat.
_MOST, _MOST_PARTS = 32, 8
_CHAIN = 4  # how far along a value's only users its context goes


def counts(term: Term) -> Iterator[int]:
    """Of how many operands and parts the Concats and Splits at and just below `term` are, where rules do not say."""
    for node in dict.fromkeys(map(node_of, (term, *(i for i in node_of(term).inputs if i is not None)))):
        sizes = node.attr("split") if node.op == "Split" else node.inputs if node.op == "Concat" else ()
        assert isinstance(sizes, tuple)
        if _SHIPPED < len(sizes) <= _MOST_PARTS:
            yield len(sizes)


def list_law(rule: Rule) -> ListLaw | None:
    """The rule as a law of any number of operands, or None where it is not of two alike ones."""
    if len(rule.lhs) == 2 and not (_same_operators(*rule.lhs) and _same_operators(*rule.rhs)):
        return None  # as any reading would find, later
    reading = next(readings(schema_of(rule)), None) if len(rule.lhs) <= 2 else None
    if reading is None or len(rule.lhs) != (2 if reading.of_outputs else 1):
        return None
    return ListLaw(rule, reading)


def _same_operators(one: Term | None, other: Term | None) -> bool:
    if one is None or other is None:
        return one is other
    alike = one.op == other.op and len(one.inputs) == len(other.inputs)
    return alike and all(map(_same_operators, one.inputs, other.inputs))


def is_of_parts(rule: Rule) -> bool:
    """Whether it is about single outputs of operators that have several."""
    return any(term.op == "Out" for term in topological(rule.lhs))


class ListLaw:
    """A rule of two alike operands, and the same law for more. `of_sites`: its outputs stand side by side in a graph,
    with operands of their own and shared ones, so that any sites which agree in the shared ones may be merged."""

    def __init__(self, rule: Rule, reading: Reading) -> None:
        self.rule, self._reading = rule, reading
        self.of_outputs = reading.of_outputs
        self.of_sites = reading.of_outputs and bool(reading.after) and not is_of_parts(rule)
        self._known: dict[int, tuple[Rule, ...]] = {2: (rule,)}

    @property
    def root(self) -> str:
        """What the first output is indexed by."""
        return root_key(self.rule.lhs[0])

    @cached_property
    def below(self) -> frozenset[str]:
        """The operators just below the first output."""
        inputs = node_of(self.rule.lhs[0]).inputs
        return frozenset(i.op for i in inputs if i is not None and i.op != "Var")

    @cached_property
    def _own(self) -> frozenset[str]:
        return frozenset(self._reading.after)

    def of(self, n: int) -> tuple[Rule, ...]:
        """The law of `n` operands; of each of them, where it is one of single operands."""
        if n not in self._known:
            reading = self._reading
            parts = reading.parts(n) if reading.after or reading.of_outputs or not reading.sides else ()
            self._known[n] = tuple(reading.schema(n, part).rule for part in parts)
        return self._known[n]

    def site(self, term: Term) -> tuple[object, ...] | None:
        """What all sites of one move share with `term`; None where the law does not fit there."""
        bindings = match(self.rule.lhs[:1], (term,))
        return None if bindings is None else self._shared(bindings)

    def _shared(self, bindings: Bindings) -> tuple[object, ...]:
        terms = sorted((name, term) for name, term in bindings.terms.items() if name not in self._own)
        attrs = sorted((name, str(value)) for name, value in bindings.attrs.items() if name not in self._own)
        return (*terms, *attrs)


def sets_of_sites(members: Sequence[Term], view: View) -> Iterator[tuple[Term, ...]]:
    """Which of these sites to merge: all that do not depend on one another, and those among them that lead to the same
    operators (gates that become operands of one Add, say)."""
    seen: set[tuple[Term, ...]] = set()
    for apart in _apart(members, view):
        by_context: dict[tuple[object, ...], list[Term]] = {}
        for term in apart:
            context = _context(term, view)
            for length in range(len(context), 0, -1):
                by_context.setdefault(context[:length], []).append(term)
        for some in (apart, *by_context.values()):
            for start in range(0, len(some), _MOST):
                chosen = tuple(some[start : start + _MOST])
                if len(chosen) > 1 and chosen not in seen:
                    seen.add(chosen)
                    yield chosen


def _apart(members: Sequence[Term], view: View) -> list[list[Term]]:
    """The sites in sets without dependence, each as large as comes easily, in the order of the graph."""
    sets: list[list[Term]] = []
    for term in sorted(members, key=view.terms.__getitem__):
        for chosen in sets:
            if not any(view.depends(term, other) for other in chosen):
                chosen.append(term)
                break
        else:
            sets.append([term])
    return sets


def _context(term: Term, view: View) -> tuple[object, ...]:
    """The operators that a value passes through on its only way up, and at which operand it enters them."""
    found: list[object] = []
    for _ in range(_CHAIN):
        users = view.users.get(term, [])
        if len(users) != 1 or users[0].op == "Out":
            break
        found.append((users[0].op, users[0].inputs.index(term)))
        term = users[0]
    return tuple(found)
