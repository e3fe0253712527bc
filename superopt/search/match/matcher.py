"""The matches of a graph.

What matches at a term is a property of the term alone (terms are interned), so it is found once and serves every state
that holds the term; whether it makes sense there is found out where somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from superopt.ir.infer import IllTyped
from superopt.ir.pattern import Bindings, instantiate, match
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term
from superopt.search.match.graph_index import View, root_key
from superopt.search.match.multi_site import ListLaw, sets_of_sites
from superopt.search.match.overflow import rescales
from superopt.search.match.rule_index import RuleSet, Variant

__all__ = ["Check", "CheckCache", "Match", "Matcher", "RuleSet", "Variant"]

Check: TypeAlias = Callable[[Rule, Bindings], "Signature | None"]


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

    @property
    def name(self) -> str:
        """By what the luck of beginning with it is remembered."""
        return self.variant.origin

    @property
    def only_writes_weights(self) -> bool:
        """Whether the same operators read the same run-time values, and only constants are written in another way.

        Where that gains nothing, it is one state; there are many such moves, and they crowd out what leads on.
        """
        return all(
            new.op == old.op and new.inputs != old.inputs and _run_time_inputs(new) == _run_time_inputs(old)
            for old, new in zip(self.roots, self.results, strict=True)
        )

    @property
    def absorbs(self) -> bool:
        """Whether it makes only operators that were there, of the same run-time values, with other constants."""
        return all(
            any(
                new.op == old.op and new.inputs != old.inputs and _run_time_inputs(new) == _run_time_inputs(old)
                for old in self.covered
            )
            for new in self.results
        )


def _run_time_inputs(term: Term) -> list[Term]:
    return [i for i in term.inputs if i is not None and not i.weight_only]


class _Place:
    """Where operators are as a variant's left side has them: `at` says which term each of its terms is.

    `misfits` has, for all places, what attributes and types those terms had where the rule did not fit.
    """

    def __init__(
        self, variant: Variant, roots: tuple[Term, ...], at: dict[Term, Term], misfits: set[tuple[object, ...]]
    ) -> None:
        self.variant, self.roots = variant, roots
        self._at, self._misfits = at, misfits
        self.touched = frozenset(t for t in at.values() if not t.weight_only)

    @cached_property
    def match(self) -> Match | None:
        """The match, if attributes and types fit, too."""
        # No more of the terms matters to that, and places in a model are alike.
        alike = self.variant, *[t.types if p.op == "Var" else (t.attrs, t.types) for p, t in self._at.items()]
        if alike in self._misfits:
            return None
        fitting = self._fitting()
        if fitting is None:
            self._misfits.add(alike)
            return None
        bindings, results = fitting
        if results == self.roots or any(root.weight_only for root in self.roots):
            return None
        covered = frozenset(t for pattern, t in self._at.items() if pattern.op != "Var" and not t.weight_only)
        found = Match(self.variant, bindings, self.roots, results, covered, self.touched)
        if bindings.dtype() == "float16" and (self.variant.by_values or rescales(found.covered, found.made)):
            return None
        # f(x) = g(f(x)) left to right only adds work.
        return None if not found.made.isdisjoint(self.roots) else found

    def _fitting(self) -> tuple[Bindings, tuple[Term, ...]] | None:
        """What the variables stand for, and the right side, if it has the types of the left one."""
        bindings = match(self.variant.rule.lhs, self.roots)
        dtype = None if bindings is None else bindings.dtype()
        if bindings is None or dtype is None:
            return None
        try:
            results = instantiate(self.variant.rule.rhs, bindings, dtype)
        except IllTyped:  # the right side does not exist at these sizes: a guard that fails
            return None
        alike = all(o.type is not None and n.types == o.types for n, o in zip(results, self.roots, strict=True))
        return (bindings, results) if alike else None


@dataclass(frozen=True)
class _Site:
    """A term where a law of many sites fits, what it has to share with others, and what a merge of it touches there."""

    term: Term
    shared: tuple[object, ...]
    touched: frozenset[Term]


# Terms whose matches are remembered from one region to the next.
_REMEMBERED = 20_000


class Matcher:
    """Finds matches of a rule set and remembers them; use one for all regions, which may hold the same terms."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        # By the first root: places of rules of one output; for the others, which terms those of the first pattern are.
        self._single: dict[Term, list[_Place]] = {}
        self._first_of_several: dict[Term, list[tuple[Variant, dict[Term, Term]]]] = {}
        self._fitting: dict[tuple[Term, Term], dict[Term, Term] | None] = {}
        self._several: dict[tuple[Variant, tuple[Term, ...]], _Place] = {}
        self._misfits: set[tuple[object, ...]] = set()
        self._sites: dict[Term, list[_Site | None]] = {}  # one for each law that there is for the term's key

    def tidy(self) -> None:
        """Give back the memory, if it is much; matches are found anew where they are asked for again."""
        if len(self._single) > _REMEMBERED:
            self.forget()

    def forget(self) -> None:
        """Give back the memory."""
        self._single.clear()
        self._first_of_several.clear()
        self._fitting.clear()
        self._several.clear()
        self._misfits.clear()
        self._sites.clear()

    def matches(
        self,
        view: View,
        near: frozenset[Term] | None = None,
        wanted: Callable[[Variant], bool] = lambda variant: True,
        several: bool = False,
    ) -> Iterator[Match]:
        """Every match in the graph of `view` (with `near`: that touches one of these terms) of a `wanted` variant (with
        `several`: of several outputs), in a fixed order."""
        above: Collection[Term] | None = None if near is None else self._above(near, view)
        if several:
            above = ()
        for term in view.values:
            if above is None or term in above:
                for place in self._single_at(term):
                    if (near is None or not near.isdisjoint(place.touched)) and wanted(place.variant):
                        found = place.match
                        if found is not None:
                            yield found
            for variant, at in self._several_at(term):
                if wanted(variant):
                    for roots in self._roots(variant, (term,), at, view):
                        yield from self._found(variant, roots, view, near)
        yield from self.merges(view, near, wanted)

    def _above(self, near: frozenset[Term], view: View) -> set[Term]:
        """The terms whose left side, with that root, may be deep enough to reach one of `near`."""
        found: set[Term] = set()
        level = {term for term in near if term in view.terms}
        seen = set(level)
        for distance in range(1 + max(map(self.rules.depth, view.by_key), default=0)):
            found.update(term for term in level if distance <= self.rules.depth(root_key(term)))
            level = {user for term in level for user in view.users.get(term, ()) if user not in seen}
            seen |= level
        return found

    def _single_at(self, term: Term) -> list[_Place]:
        if term not in self._single:
            fits = self._fits(term, several=False)
            self._single[term] = [_Place(variant, (term,), at, self._misfits) for variant, at in fits]
        return self._single[term]

    def _several_at(self, term: Term) -> list[tuple[Variant, dict[Term, Term]]]:
        if term not in self._first_of_several:
            self._first_of_several[term] = list(self._fits(term, several=True))
        return self._first_of_several[term]

    def _fits(self, term: Term, several: bool) -> Iterator[tuple[Variant, dict[Term, Term]]]:
        """Variants of one output, or of `several`, whose first root may be `term`, and what their terms are there."""
        for variant in self.rules.at(term):
            if (len(variant.rule.lhs) > 1) is several:
                at = _fit(variant.rule.lhs[0], term)
                if at is not None:
                    yield variant, at

    def merges(
        self, view: View, near: frozenset[Term] | None = None, wanted: Callable[[Variant], bool] = lambda variant: True
    ) -> Iterator[Match]:
        """The matches of laws of many sites."""
        for key, laws in self.rules.site_laws([key for key, terms in view.by_key.items() if len(terms) > 1]):
            places = [self._sites.get(term) or self._sites_at(term, laws) for term in view.by_key[key]]
            for number, (law, origin) in enumerate(laws):
                by_shared: dict[tuple[object, ...], list[_Site]] = {}
                for sites in places:
                    site = sites[number]
                    if site is not None:
                        by_shared.setdefault(site.shared, []).append(site)
                for alike in by_shared.values():
                    if len(alike) == 1 or (near is not None and all(near.isdisjoint(s.touched) for s in alike)):
                        continue
                    for roots in sets_of_sites([site.term for site in alike], view):
                        variant = self.rules.of_sites(law, origin, len(roots))
                        if variant is not None and wanted(variant):
                            yield from self._found(variant, roots, view, near)

    def _sites_at(self, term: Term, laws: Sequence[tuple[ListLaw, str]]) -> list[_Site | None]:
        """What it is a site of, law by law: all laws that there are for its key."""
        found: list[_Site | None] = []
        for law, _ in laws:
            shared = law.site(term)
            touched = [] if shared is None else (self._fit(law.rule.lhs[0], term) or {}).values()
            run_time = frozenset(t for t in touched if not t.weight_only)
            found.append(None if shared is None else _Site(term, shared, run_time))
        self._sites[term] = found
        return found

    def _found(
        self, variant: Variant, roots: tuple[Term, ...], view: View, near: frozenset[Term] | None
    ) -> Iterator[Match]:
        place = self._several.get((variant, roots))
        if place is None:
            at: dict[Term, Term] = {}
            for pattern, root in zip(variant.rule.lhs, roots, strict=True):
                at.update(self._fit(pattern, root) or {})
            place = self._several[variant, roots] = _Place(variant, roots, at, self._misfits)
        if near is not None and near.isdisjoint(place.touched):
            return
        found = place.match
        # A cycle would arise where something that a result is computed from is computed from a root.
        if found is not None and not any(
            view.depends(bound, root)
            for bound in found.bindings.terms.values()
            if not bound.weight_only
            for root in roots
        ):
            yield found

    def _fit(self, pattern: Term, term: Term) -> dict[Term, Term] | None:
        key = (pattern, term)
        if key not in self._fitting:
            self._fitting[key] = _fit(pattern, term)
        return self._fitting[key]

    def _roots(
        self, variant: Variant, roots: tuple[Term, ...], at: dict[Term, Term], view: View
    ) -> Iterator[tuple[Term, ...]]:
        """`roots`, which are the terms `at`, extended to all roots of the rule in every way that fits by operators."""
        lhs = variant.rule.lhs
        if len(roots) == len(lhs):
            yield roots
            return
        pattern, climb = lhs[len(roots)], variant.climbs[len(roots)]
        if climb is None:
            candidates = view.by_key.get(root_key(pattern), [])
        else:
            candidates = [at[climb[0]]]
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
            more = self._fit(pattern, candidate)
            if more is not None and all(at.get(p, t) is t for p, t in more.items()):
                yield from self._roots(variant, (*roots, candidate), {**at, **more}, view)


def _fit(pattern: Term, term: Term) -> dict[Term, Term] | None:
    """Which term each term of `pattern` is, if operators, outputs and sharing agree (other attributes are left to
    `match`)."""
    at: dict[Term, Term] = {}
    stack: list[tuple[Term, Term]] = [(pattern, term)]
    while stack:
        p, t = stack.pop()
        if at.setdefault(p, t) is not t:
            return None
        if p.op != "Var":
            if p.op != t.op or len(p.inputs) != len(t.inputs):
                return None
            if p.op == "Out" and p.attr("index") != t.attr("index"):  # else parts would be tried in every order
                return None
            for i, j in zip(p.inputs, t.inputs, strict=True):
                if i is not None and j is not None:
                    stack.append((i, j))
                elif i is not j:
                    return None
    return at


class CheckCache:
    """`check`, asked once for each rule, types of its variables, and attributes."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self._known: dict[object, Signature | None] = {}

    def __call__(self, found: Match) -> Signature | None:
        """The signature at which the matched rule may be applied, or None."""
        return self.of(found.variant.rule, found.bindings)

    def of(self, rule: Rule, bindings: Bindings) -> Signature | None:
        """The same for a rule and what its variables stand for."""
        types = tuple((name, term.type) for name, term in sorted(bindings.terms.items()))
        key = (rule, types, tuple(sorted(bindings.attrs.items(), key=lambda item: item[0])))
        if key not in self._known:
            self._known[key] = self.check(rule, bindings)
        return self._known[key]
