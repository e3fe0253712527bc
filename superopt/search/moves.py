"""The rules made ready for matching, and the matches of a graph.

Each rule is used in both directions where that is defined, with the operands of commutative operators in
every order, and is indexed by the operator of its first root. What matches at a term is a property of the
term alone (terms are interned), so it is found once and serves every state that holds the term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from superopt.ir.dim import Dim
from superopt.ir.ops import OPS, IllTyped
from superopt.ir.pattern import Bindings, instantiate, match
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Attr, AttrVar, Term, map_terms, topological
from superopt.search.lists import ListLaw, counts, list_law, sets_of_sites
from superopt.search.orders import is_large
from superopt.search.view import View, node_of, root_key

__all__ = ["Check", "CheckCache", "Match", "Matcher", "RuleSet", "Variant"]

# Standard operators that are other ones under another name: which of the two to write is a choice, too.
_OTHER_NAMES = frozenset({"Sum"})

Check: TypeAlias = Callable[[Rule, Bindings], "Signature | None"]


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
    chooses: bool  # it introduces a function of the runtime's own, or another name for an operator

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

    @property
    def operators(self) -> frozenset[str]:
        """Operators that the left side mentions."""
        return frozenset(t.op for t in topological(self.rule.lhs) if t.op not in ("Var", "Out"))


@dataclass(frozen=True, eq=False)
class Match:
    """A place where a rule fits: `roots` may become `results`, provided that the rule is proven for `bindings`."""

    variant: Variant
    bindings: Bindings
    roots: tuple[Term, ...]
    results: tuple[Term, ...]
    covered: frozenset[Term]  # run-time terms that operators of the left side stand at
    touched: frozenset[Term]  # those, and what its variables stand for

    @cached_property
    def made(self) -> frozenset[Term]:
        """The run-time terms of the results above what the variables stand for."""
        bound = set(self.bindings.terms.values())
        made: set[Term] = set()
        stack = list(self.results)
        while stack:
            term = stack.pop()
            if term not in made and term not in bound and not term.weight_only:
                made.add(term)
                stack.extend(i for i in term.inputs if i is not None)
        return frozenset(made)


class RuleSet:
    """All variants of a set of rules, by the operator of their first root; laws of many operands apart from them."""

    def __init__(self, rules: Iterable[Rule], available: Callable[[str], bool] = lambda op: True) -> None:
        """`available`: whether the model may have an operator that it does not have already."""
        self.by_key: dict[str, list[Variant]] = {}
        self.laws: list[tuple[ListLaw, str]] = []  # and the ids of the rules
        self.size = 0
        self._wider: dict[int, dict[str, list[Variant]]] = {}
        self._of_sites: dict[tuple[ListLaw, int], Variant | None] = {}
        seen: set[tuple[tuple[Term, ...], tuple[Term, ...]]] = set()
        for rule in sorted(rules, key=lambda rule: len(rule.lhs)):  # laws of two outputs before those of three
            for directed in (rule, rule.reversed()):
                for variant in directed.commuted() if directed.applicable and not is_large(directed) else ():
                    key = _renamed(variant.lhs, variant.rhs)
                    if variant.lhs == variant.rhs or key in seen:
                        continue
                    if not all(map(available, _operators(variant.rhs) - _operators(variant.lhs))):
                        continue
                    seen.add(key)
                    self.size += 1
                    law = list_law(variant)
                    if law is not None:
                        self.laws.append((law, rule.id))
                    if law is None or not law.of_sites:
                        self.by_key.setdefault(root_key(variant.lhs[0]), []).append(_variant(variant, rule.id))
                    else:
                        seen.update(_renamed(more.lhs, more.rhs) for more in law.of(3))
        self.site_laws: dict[str, list[tuple[ListLaw, str]]] = {}
        for law, origin in self.laws:
            if law.of_sites:
                self.site_laws.setdefault(law.root, []).append((law, origin))

    def wider(self, n: int) -> Mapping[str, list[Variant]]:
        """Variants of the laws of `n` operands or parts, by the operator of their first root."""
        if n not in self._wider:
            by_key = self._wider[n] = {}
            for law, origin in self.laws:
                for rule in () if law.of_sites else law.of(n):
                    by_key.setdefault(root_key(rule.lhs[0]), []).append(_variant(rule, origin))
        return self._wider[n]

    def of_sites(self, law: ListLaw, origin: str, n: int) -> Variant | None:
        """The law of `n` sites."""
        if (law, n) not in self._of_sites:
            rules = law.of(n)
            self._of_sites[law, n] = _variant(rules[0], origin) if rules else None
        return self._of_sites[law, n]

    @property
    def operators(self) -> frozenset[str]:
        """Operators at which some rule can apply."""
        return frozenset(key.removeprefix("Out:") for key in (*self.by_key, *self.site_laws))


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
    return Variant(rule, origin, tuple(climbs), symmetric, inner, len(inputs), chooses)


def _operators(terms: tuple[Term, ...]) -> set[str]:
    return {t.op for t in topological(terms) if t.op in OPS}


def _functions(terms: tuple[Term, ...]) -> set[str]:
    return {t.op for t in topological(terms) if t.op in OPS and (OPS[t.op].domain or t.op in _OTHER_NAMES)}


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


def _renamed(lhs: tuple[Term, ...], rhs: tuple[Term, ...]) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
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


class Matcher:
    """Finds matches of a rule set and remembers them; use one for each region."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        self._single: dict[Term, tuple[Match, ...]] = {}
        self._several: dict[tuple[Variant, tuple[Term, ...]], Match | None] = {}
        self._shared: dict[tuple[ListLaw, Term], tuple[object, ...] | None] = {}

    def forget(self) -> None:
        """Give back the memory; matches are found anew where they are asked for again."""
        self._single.clear()
        self._several.clear()
        self._shared.clear()

    def matches(self, view: View) -> Iterator[Match]:
        """Every match in the graph of `view`, in a fixed order."""
        for term in view.values:
            variants = self._variants(term)
            found = self._single.get(term)
            if found is None:
                single = (_match(v, (term,)) for v in variants if len(v.rule.lhs) == 1 and v.may_fit(term))
                found = self._single[term] = tuple(m for m in single if m is not None)
            yield from found
            for variant in variants:
                if len(variant.rule.lhs) > 1 and variant.may_fit(term):
                    yield from self._multi(variant, term, view)
        yield from self.merges(view)

    def _variants(self, term: Term) -> Sequence[Variant]:
        key = root_key(term)
        variants = self.rules.by_key.get(key, [])
        for n in dict.fromkeys(counts(term)):
            variants = [*variants, *self.rules.wider(n).get(key, ())]
        return variants

    def merges(self, view: View) -> Iterator[Match]:
        """The matches of laws of many sites."""
        for key, laws in self.rules.site_laws.items():
            terms = view.by_key.get(key, [])
            for law, origin in laws if len(terms) > 1 else ():
                by_shared: dict[tuple[object, ...], list[Term]] = {}
                for term in terms:
                    if (law, term) not in self._shared:
                        self._shared[law, term] = law.site(term)
                    shared = self._shared[law, term]
                    if shared is not None:
                        by_shared.setdefault(shared, []).append(term)
                for members in by_shared.values():
                    for roots in sets_of_sites(members, view) if len(members) > 1 else ():
                        variant = self.rules.of_sites(law, origin, len(roots))
                        if variant is not None:
                            yield from self._found(variant, roots, view)

    def _multi(self, variant: Variant, first: Term, view: View) -> Iterator[Match]:
        for roots in _roots(variant, (first,), view):
            yield from self._found(variant, roots, view)

    def _found(self, variant: Variant, roots: tuple[Term, ...], view: View) -> Iterator[Match]:
        key = (variant, roots)
        if key not in self._several:
            self._several[key] = _match(variant, roots)
        found = self._several[key]
        # A cycle would arise where something that a result is computed from is computed from a root.
        if found is not None and not any(
            view.depends(bound, root)
            for bound in found.bindings.terms.values()
            if not bound.weight_only
            for root in roots
        ):
            yield found


def _roots(variant: Variant, roots: tuple[Term, ...], view: View) -> Iterator[tuple[Term, ...]]:
    """`roots`, matched so far, extended to all roots of the rule in every way that fits by operators."""
    lhs = variant.rule.lhs
    bound: dict[Term, Term] = {}
    if not all(_fits(pattern, root, bound) for pattern, root in zip(lhs, roots, strict=False)):
        return
    if len(roots) == len(lhs):
        yield roots
        return
    climb = variant.climbs[len(roots)]
    if climb is None:
        candidates = view.by_key.get(root_key(lhs[len(roots)]), [])
    else:
        candidates = [term for pattern, term in bound.items() if pattern is climb[0]]
        for step in climb[1]:
            candidates = [
                user
                for term in candidates
                for user in view.users.get(term, ())
                if user.op == step.op
                and step.place < len(user.inputs)
                and user.inputs[step.place] is term
                and (step.index is None or user.attr("index") == step.index)
            ]
    for candidate in candidates:
        if candidate in roots or (variant.symmetric and view.terms[candidate] < view.terms[roots[-1]]):
            continue
        yield from _roots(variant, (*roots, candidate), view)


def _fits(pattern: Term, term: Term, bound: dict[Term, Term]) -> bool:
    """Whether operators and sharing agree (attributes are left to `match`); binds pattern terms in `bound`."""
    stack: list[tuple[Term | None, Term | None]] = [(pattern, term)]
    while stack:
        p, t = stack.pop()
        if p is None or t is None:
            if p is not t:
                return False
            continue
        if bound.setdefault(p, t) is not t:
            return False
        if p.op != "Var":
            if p.op != t.op or len(p.inputs) != len(t.inputs):
                return False
            stack.extend(zip(p.inputs, t.inputs, strict=True))
    return True


def _match(variant: Variant, roots: tuple[Term, ...]) -> Match | None:
    bindings = match(variant.rule.lhs, roots)
    if bindings is None or any(root.weight_only for root in roots):
        return None
    dtype = bindings.dtype()
    if dtype is None:
        return None
    try:
        results = instantiate(variant.rule.rhs, bindings, dtype)
    except IllTyped:  # the right side does not exist at these sizes: a guard that fails
        return None
    if results == roots or any(o.type is None or n.types != o.types for n, o in zip(results, roots, strict=True)):
        return None
    places: dict[Term, Term] = {}
    for pattern, root in zip(variant.rule.lhs, roots, strict=True):
        _fits(pattern, root, places)
    covered = frozenset(t for pattern, t in places.items() if pattern.op != "Var" and not t.weight_only)
    bound = frozenset(t for pattern, t in places.items() if pattern.op == "Var" and not t.weight_only)
    found = Match(variant, bindings, roots, results, covered, covered | bound)
    # f(x) = g(f(x)) left to right only adds work.
    return None if not found.made.isdisjoint(roots) else found


class CheckCache:
    """`check`, asked once for each rule, types of its variables, and attributes."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self._known: dict[object, Signature | None] = {}

    def __call__(self, found: Match) -> Signature | None:
        """The signature at which the matched rule may be applied, or None."""
        bindings = found.bindings
        types = tuple((name, term.type) for name, term in sorted(bindings.terms.items()))
        key = (found.variant.rule, types, tuple(sorted(bindings.attrs.items(), key=lambda item: item[0])))
        if key not in self._known:
            self._known[key] = self.check(found.variant.rule, bindings)
        return self._known[key]
