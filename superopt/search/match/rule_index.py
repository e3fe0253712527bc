"""The rules made ready for matching.

Each rule is used in both directions where that is defined, with the operands of commutative operators in
every order, and is indexed by the operator of its first root.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from superopt.ir.dim import Dim
from superopt.ir.infer import OPERATORS
from superopt.ir.rule import Rule
from superopt.ir.term import Attr, AttrVar, Term, map_terms, topological
from superopt.rulebook.commutative import is_large
from superopt.search.match.graph_index import node_of, root_key
from superopt.search.match.multi_site import ListLaw, counts, is_of_parts, list_law
from superopt.search.match.overflow import exponentiates, may_overflow

__all__ = ["RuleSet", "Variant"]

# Standard operators that are other ones under another name: which of the two to write is a choice, too. So is an
# algorithm for an operator, with numbers of its own (Constant): what may become of the operator comes before.
_OTHER_NAMES = frozenset({"Constant", "Sum"})


@dataclass(frozen=True)
class _Climb:
    """One step from a term up to a user: the user's operator, and at which input the term stands there."""

    op: str
    place: int
    index: int | None  # which output, where the user is an `Out`


@dataclass(frozen=True, eq=False)
class Variant:
    """A rule as it is applied, left to right.

    `climbs[k]` leads from a variable that earlier roots bind up to root k; None: no variable is shared.
    `symmetric`: exchanging the roots gives the same rule, so only one order of them is tried.
    """

    rule: Rule
    origin: str  # id of the rule as it stands in the rule set
    climbs: tuple[tuple[Term, tuple[_Climb, ...]] | None, ...]
    symmetric: bool
    inner: tuple[tuple[int, str], ...]  # operators that inputs of the first root must be
    arity: int  # how many inputs it must have
    chooses: bool  # it introduces a function of the runtime's own, or another name or algorithm for an operator
    covers: bool  # that, or it is about such functions, or writes the same operators in another way

    @cached_property
    def kind(self) -> tuple[tuple[str, ...], ...]:
        """The operators of both sides: the same for laws of parts that differ in which part they are of."""
        return tuple(tuple(t.op for t in topological(side)) for side in (self.rule.lhs, self.rule.rhs))

    @cached_property
    def by_values(self) -> bool:
        """Whether what it gains is in the values that are computed with, which no cost of operators tells."""
        return exponentiates(self.rule)

    def may_fit(self, term: Term) -> bool:
        """A quick look at the operators just below: False where the first root cannot be `term`."""
        inputs = node_of(term).inputs
        if len(inputs) != self.arity:
            return False
        for place, op in self.inner:
            used = inputs[place]
            if used is None or used.op != op:
                return False
        return True


# Operators below a root, as often as they stand there; and the sides of a rule, by which equal ones are known.
_Below: TypeAlias = tuple[str, ...]
_Sides: TypeAlias = tuple[tuple[Term, ...], tuple[Term, ...]]
# A law and the id of the rule that it comes from, after the rule's number.
_Law: TypeAlias = tuple[int, ListLaw, str]


class _Made:
    """What is made of rules whose first root has one key and the same operators below it."""

    def __init__(self, rules: Iterable[tuple[int, Rule, str]]) -> None:
        self.variants: list[tuple[int, Variant]] = []  # no laws of sites
        self.several: list[_Law] = []  # laws of several outputs, not of sites
        self.site_laws: list[_Law] = []
        seen: set[_Sides] = set()
        for number, directed, origin in rules:
            for rule in _orders(directed, seen):
                law = list_law(rule) if len(rule.lhs) > 1 else None
                if law is not None and law.of_sites:
                    seen.update(_renamed(more.lhs, more.rhs) for more in law.of(3))
                    self.site_laws.append((number, law, origin))
                    continue
                self.variants.append((number, _variant(rule, origin)))
                if law is not None:
                    self.several.append((number, law, origin))


class _Ready:
    """The rules whose first root has one key. They are made ready where a graph has the operators below it that they
    ask for; there are many, and a graph needs few."""

    def __init__(self, rules: Iterable[tuple[int, Rule, str]]) -> None:
        self._waiting: dict[_Below, list[tuple[int, Rule, str]]] = {}
        self._made: dict[_Below, _Made] = {}
        self._laws: dict[Variant, ListLaw | None] = {}  # laws of one output, where they were needed
        for number, directed, origin in rules:
            self._waiting.setdefault(_below(directed.lhs[0]), []).append((number, directed, origin))

    def _of(self, below: _Below) -> _Made:
        if below not in self._made:
            self._made[below] = _Made(self._waiting[below])
        return self._made[below]

    def at(self, fits: Callable[[_Below], bool]) -> list[Variant]:
        """The variants, no laws of sites, that `fits` says may be about the operators below a term."""
        found = [item for below in self._waiting if fits(below) for item in self._of(below).variants]
        return [variant for _, variant in sorted(found, key=lambda item: item[0])]

    def laws(self, below: AbstractSet[str]) -> Iterator[tuple[ListLaw, str]]:
        """Those that are no laws of sites and have no other operators than these just below the first root."""
        for variant in self.at(lambda needed: below >= set(needed)):
            if len(variant.rule.lhs) == 1:
                if variant not in self._laws:
                    self._laws[variant] = list_law(variant.rule)
                law = self._laws[variant]
                if law is not None:
                    yield law, variant.origin
        several = [law for needed in self._waiting if below >= set(needed) for law in self._of(needed).several]
        yield from ((law, origin) for _, law, origin in sorted(several, key=lambda item: item[0]))

    @cached_property
    def site_laws(self) -> list[_Law]:
        """The laws of sites, in the order of the rules."""
        groups = (
            below
            for below, rules in self._waiting.items()
            if any(len(rule.lhs) > 1 and not is_of_parts(rule) for _, rule, _ in rules)  # parts of a value are no sites
        )
        return sorted((law for below in groups for law in self._of(below).site_laws), key=lambda item: item[0])


def _below(root: Term) -> _Below:
    return tuple(sorted(i.op for i in node_of(root).inputs if i is not None and i.op != "Var"))


def _orders(directed: Rule, seen: set[_Sides]) -> Iterator[Rule]:
    """The rule with commutative operands in every order, as far as it is not `seen` yet."""
    for rule in directed.commuted():
        name = _renamed(rule.lhs, rule.rhs)
        if rule.lhs != rule.rhs and name not in seen:
            seen.add(name)
            yield rule


class RuleSet:
    """All variants of a set of rules, by the operator of their first root; laws of many operands apart from them.

    Variants are made where a graph has the operators: most graphs have few of those that there are rules for.
    """

    def __init__(self, rules: Iterable[Rule], available: Callable[[str], bool] = lambda op: True) -> None:
        """`available`: whether the model may have an operator that it does not have already."""
        self._available = available
        # By the key of the left side: numbers of rules, the rules, and whether they are meant from right to left.
        self._listed: dict[str, list[tuple[int, Rule, bool]]] = {}
        # Those of them that can be applied, directed, with their ids as they stand in the set; where it was asked for.
        self._rules: dict[str, list[tuple[int, Rule, str]]] = {}
        self._ready: dict[str, _Ready] = {}
        self._at: dict[tuple[object, ...], list[Variant]] = {}
        self._depths: dict[str, int] = {}
        self._of_parts: dict[tuple[ListLaw, int], list[Variant]] = {}
        self._of_sites: dict[tuple[ListLaw, int], Variant | None] = {}
        ordered = sorted(rules, key=lambda rule: len(rule.lhs))  # laws of two outputs before those of three
        for number, rule in enumerate(ordered):
            for reverse, side in enumerate((rule.lhs, rule.rhs)):
                self._listed.setdefault(root_key(side[0]), []).append((number, rule, bool(reverse)))

    def _applicable(self, key: str) -> list[tuple[int, Rule, str]]:
        """The directed rules of that key that can be applied, with their numbers and the ids of the rules."""
        if key not in self._rules:
            self._rules[key] = []
            for number, rule, reverse in self._listed.get(key, ()):
                directed = rule.reversed() if reverse else rule
                if not directed.applicable or _only_adds(directed) or may_overflow(directed) or is_large(directed):
                    continue
                if all(map(self._available, _operators(directed.rhs) - _operators(directed.lhs))):
                    self._rules[key].append((number, directed, rule.id))
        return self._rules[key]

    def _of(self, key: str) -> _Ready:
        if key not in self._ready:
            self._ready[key] = _Ready(self._applicable(key))
        return self._ready[key]

    def at(self, term: Term) -> Sequence[Variant]:
        """The variants whose first root may be `term`, by the operators at and just below it; laws of sites are none
        of them."""
        inputs = node_of(term).inputs
        several = tuple(dict.fromkeys(counts(term)))
        root = root_key(term)
        key = (root, several, *(None if i is None else i.op for i in inputs))
        if key not in self._at:
            there = Counter(i.op for i in inputs if i is not None)
            variants = self._of(root).at(lambda needed: Counter(needed) <= there)
            variants += (variant for n in several for variant in self._wider(n, term))
            self._at[key] = [variant for variant in variants if variant.may_fit(term)]
        return self._at[key]

    def depth(self, key: str) -> int:
        """How far below a root of that key what a rule of one output touches may be."""
        if key not in self._depths:
            sides = (rule.lhs[0] for _, rule, _ in self._applicable(key) if len(rule.lhs) == 1)
            self._depths[key] = max(map(_depth, sides), default=0)
        return self._depths[key]

    def _wider(self, n: int, term: Term) -> Iterator[Variant]:
        """Variants of the laws of `n` operands or parts whose first root may be `term`."""
        below = {i.op for i in node_of(term).inputs if i is not None}
        for law, origin in self._of(root_key(term)).laws(below):  # a law of n is about the same operators
            if (law, n) not in self._of_parts:
                self._of_parts[law, n] = [_variant(rule, origin) for rule in law.of(n)]
            yield from self._of_parts[law, n]

    def site_laws(self, keys: Collection[str]) -> list[tuple[str, list[tuple[ListLaw, str]]]]:
        """The laws of many sites, and the ids of their rules, by the key of the first root: those of `keys`."""
        found = [(laws, key) for key in self._listed if key in keys and (laws := self._of(key).site_laws)]
        found.sort(key=lambda item: item[0][0][0])  # by the number of the first rule
        return [(key, [(law, origin) for _, law, origin in laws]) for laws, key in found]

    def of_sites(self, law: ListLaw, origin: str, n: int) -> Variant | None:
        """The law of `n` sites."""
        if (law, n) not in self._of_sites:
            rules = law.of(n)
            self._of_sites[law, n] = _variant(rules[0], origin) if rules else None
        return self._of_sites[law, n]

    def __contains__(self, op: object) -> bool:
        """Whether some rule can apply at the operator."""
        return any(self._applicable(key) for key in (f"{op}", f"Out:{op}"))


def _variant(rule: Rule, origin: str) -> Variant:
    climbs: list[tuple[Term, tuple[_Climb, ...]] | None] = [None]
    for k in range(1, len(rule.lhs)):
        bound = {t for t in topological(rule.lhs[:k]) if t.op == "Var"}
        climbs.append(_climb(rule.lhs[k], bound))
    swapped = _renamed(tuple(reversed(rule.lhs)), ())
    symmetric = len(rule.lhs) == 2 and swapped == _renamed(rule.lhs, ())
    inputs = node_of(rule.lhs[0]).inputs
    inner = tuple((k, i.op) for k, i in enumerate(inputs) if i is not None and i.op != "Var")
    chooses = not _functions(rule.rhs) <= _functions(rule.lhs)
    same = all(old.op == new.op for old, new in zip(rule.lhs, rule.rhs, strict=True))
    covers = chooses or same or bool(_functions(rule.lhs))
    return Variant(rule, origin, tuple(climbs), symmetric, inner, len(inputs), chooses, covers)


def _only_adds(rule: Rule) -> bool:
    """Whether it is of the form f(x) = g(f(x)), which left to right only adds work, or says nothing."""
    return not set(rule.lhs).isdisjoint(topological(rule.rhs))


def _depth(side: Term) -> int:
    depths: dict[Term, int] = {}
    for term in topological((side,)):
        depths[term] = max((depths[i] + 1 for i in term.inputs if i is not None), default=0)
    return depths[side]


def _operators(terms: tuple[Term, ...]) -> set[str]:
    return {t.op for t in topological(terms) if t.op in OPERATORS}


def _functions(terms: tuple[Term, ...]) -> set[str]:
    return {t.op for t in topological(terms) if t.op in OPERATORS and (OPERATORS[t.op].domain or t.op in _OTHER_NAMES)}


def _climb(pattern: Term, bound: set[Term]) -> tuple[Term, tuple[_Climb, ...]] | None:
    """The shortest way from a variable in `bound` up to `pattern`."""
    level: list[tuple[Term, tuple[_Climb, ...]]] = [(pattern, ())]
    while level:
        deeper: list[tuple[Term, tuple[_Climb, ...]]] = []
        for term, path in level:
            if term in bound:
                return term, tuple(reversed(path))
            index = term.attr("index") if term.op == "Out" else None
            assert index is None or isinstance(index, int)
            for place, used in enumerate(term.inputs):
                if used is not None:
                    deeper.append((used, (*path, _Climb(term.op, place, index))))
        level = deeper
    return None


def _renamed(lhs: tuple[Term, ...], rhs: tuple[Term, ...]) -> _Sides:
    """Both sides with variables named by order of occurrence.

    Attribute variables keep their names, and so do variables where attributes mention their sizes: two
    rules may then count as different that are not, which costs time only.
    """
    sides = (*lhs, *rhs)
    if any(_mentions_sizes(value) for term in topological(sides) for _, value in term.attrs if term.op != "Var"):
        return lhs, rhs
    names: dict[Term, Term] = {}

    def rename(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        if old.op == "Var":
            return names.setdefault(old, Term.of("Var", (), {"name": f"v{len(names)}"}))
        return Term.of(old.op, inputs, dict(old.attrs), old.types)

    renamed = map_terms(sides, rename)
    return renamed[: len(lhs)], renamed[len(lhs) :]


def _mentions_sizes(value: Attr) -> bool:
    if isinstance(value, tuple):
        return any(map(_mentions_sizes, value))
    return isinstance(value, (AttrVar, Dim)) and ".shape" in str(value)
