"""The matcher: finds the matches of all rules in a graph.

Because terms are interned, the occurrences of a rule with one root depend on the root alone. They are found once and
used for every graph of the search that contains the term.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from superopt.ir.rule import Rule
from superopt.ir.term import Term
from superopt.search.match.compiled_rule import CompiledRule, compile_rule
from superopt.search.match.graph_index import GraphIndex, index_key
from superopt.search.match.occurrence import Match, Occurrence, align
from superopt.search.match.rule_index import RuleIndex
from superopt.search.match.siblings import sibling_sets
from superopt.search.match.split_rule import literal_rule
from superopt.search.match.variadic_rule import VariadicRule

__all__ = ["Matcher"]

_MAX_REMEMBERED_TERMS = 20_000


def _any_rule(compiled: CompiledRule) -> bool:
    return True


@dataclass(frozen=True)
class _Sibling:
    """A term that a variadic rule may merge with others that have the same `shared` operands and attributes."""

    term: Term
    shared: tuple[object, ...]
    touched: frozenset[Term]


class Matcher:
    """Finds matches and remembers them. Regions hold the same terms, so one matcher serves all regions of a search."""

    def __init__(self, rules: RuleIndex) -> None:
        self.rules = rules
        # By first root: occurrences of rules with one root; alignments of the first pattern of rules with several.
        self._one_root: dict[Term, list[Occurrence]] = {}
        self._first_roots: dict[Term, list[tuple[CompiledRule, dict[Term, Term]]]] = {}
        self._alignments: dict[tuple[Term, Term], dict[Term, Term] | None] = {}
        self._several_roots: dict[tuple[CompiledRule, tuple[Term, ...]], Occurrence] = {}
        self._splits: dict[tuple[CompiledRule, tuple[Term, ...]], Occurrence | None] = {}
        self._literal_rules: dict[Rule, CompiledRule] = {}
        self._mismatches: set[tuple[object, ...]] = set()
        self._siblings: dict[Term, list[_Sibling | None]] = {}  # one for each sibling rule of the term's index key

    def trim(self) -> None:
        """Free the memory if the matches of many terms are held."""
        if len(self._one_root) > _MAX_REMEMBERED_TERMS:
            self.clear()

    def clear(self) -> None:
        """Free the memory; matches are found again when they are asked for."""
        self._one_root.clear()
        self._first_roots.clear()
        self._alignments.clear()
        self._several_roots.clear()
        self._splits.clear()
        self._literal_rules.clear()
        self._mismatches.clear()
        self._siblings.clear()
        self.rules.clear()

    def matches(
        self,
        index: GraphIndex,
        near: frozenset[Term] | None = None,
        wanted: Callable[[CompiledRule], bool] = _any_rule,
        multi_root_only: bool = False,
    ) -> Iterator[Match]:
        """Yield the matches of all `wanted` rules in a graph, in a fixed order.

        `near`: only matches that touch one of these terms. `multi_root_only`: only matches of rules with several roots.
        """
        reaching: Collection[Term] | None = None if near is None else self._reaching(near, index)
        if multi_root_only:
            reaching = ()
        for term in index.computed:
            if reaching is None or term in reaching:
                for occurrence in self._one_root_at(term):
                    if (near is None or not near.isdisjoint(occurrence.touched)) and wanted(occurrence.compiled):
                        found = occurrence.match
                        if found is not None:
                            yield found
            for compiled, at in self._first_root_at(term):
                if wanted(compiled) and not (compiled.splits_attributes and multi_root_only):
                    for roots in self._all_roots(compiled, (term,), at, index):
                        if compiled.splits_attributes:
                            yield from self._split_at(compiled, roots, near)
                        else:
                            yield from self._match_at(compiled, roots, index, near)
        yield from self.sibling_matches(index, near, wanted)

    def _reaching(self, near: frozenset[Term], index: GraphIndex) -> set[Term]:
        """Return the terms that are roots of left sides deep enough to reach one of `near`."""
        found: set[Term] = set()
        level = {term for term in near if term in index.position}
        seen = set(level)
        for distance in range(1 + max(map(self.rules.depth, index.by_key), default=0)):
            found.update(term for term in level if distance <= self.rules.depth(index_key(term)))
            level = {user for term in level for user in index.users.get(term, ()) if user not in seen}
            seen |= level
        return found

    def _one_root_at(self, term: Term) -> list[Occurrence]:
        if term not in self._one_root:
            aligned = self._aligned_rules(term, several=False)
            self._one_root[term] = [self._occurrence(compiled, (term,), at) for compiled, at in aligned]
        return self._one_root[term]

    def _occurrence(self, compiled: CompiledRule, roots: tuple[Term, ...], at: dict[Term, Term]) -> Occurrence:
        return Occurrence(compiled, roots, at, self._mismatches, self.rules.lacks)

    def _first_root_at(self, term: Term) -> list[tuple[CompiledRule, dict[Term, Term]]]:
        if term not in self._first_roots:
            self._first_roots[term] = list(self._aligned_rules(term, several=True))
        return self._first_roots[term]

    def _aligned_rules(self, term: Term, several: bool) -> Iterator[tuple[CompiledRule, dict[Term, Term]]]:
        """Yield the rules with one root, or with `several`, whose first pattern aligns with `term`."""
        for compiled in self.rules.candidates(term):
            if (len(compiled.rule.lhs) > 1) is several:
                at = align(compiled.rule.lhs[0], term)
                if at is not None:
                    yield compiled, at

    def sibling_matches(
        self,
        index: GraphIndex,
        near: frozenset[Term] | None = None,
        wanted: Callable[[CompiledRule], bool] = _any_rule,
    ) -> Iterator[Match]:
        """Yield the matches of variadic rules that merge sibling operators (horizontal fusion)."""
        for key, rules in self.rules.sibling_rules([key for key, terms in index.by_key.items() if len(terms) > 1]):
            of_terms = [self._siblings.get(term) or self._siblings_at(term, rules) for term in index.by_key[key]]
            for number, (variadic, rule_id) in enumerate(rules):
                by_shared: dict[tuple[object, ...], list[_Sibling]] = {}
                for siblings in of_terms:
                    sibling = siblings[number]
                    if sibling is not None:
                        by_shared.setdefault(sibling.shared, []).append(sibling)
                for alike in by_shared.values():
                    if len(alike) == 1 or (near is not None and all(near.isdisjoint(s.touched) for s in alike)):
                        continue
                    for roots in sibling_sets([sibling.term for sibling in alike], index):
                        compiled = self.rules.sibling_rule(variadic, rule_id, len(roots))
                        if compiled is not None and wanted(compiled):
                            yield from self._match_at(compiled, roots, index, near)

    def _siblings_at(self, term: Term, rules: Sequence[tuple[VariadicRule, str]]) -> list[_Sibling | None]:
        """Return the term as a sibling for each of `rules`, which are all sibling rules of its index key."""
        found: list[_Sibling | None] = []
        for variadic, _ in rules:
            shared = variadic.shared_operands(term)
            touched = [] if shared is None else (self._align(variadic.rule.lhs[0], term) or {}).values()
            run_time = frozenset(t for t in touched if not t.is_constant)
            found.append(None if shared is None else _Sibling(term, shared, run_time))
        self._siblings[term] = found
        return found

    def _match_at(
        self, compiled: CompiledRule, roots: tuple[Term, ...], index: GraphIndex, near: frozenset[Term] | None
    ) -> Iterator[Match]:
        """Yield the match with these roots, if there is one."""
        occurrence = self._several_roots.get((compiled, roots))
        if occurrence is None:
            at: dict[Term, Term] = {}
            for pattern, root in zip(compiled.rule.lhs, roots, strict=True):
                at.update(self._align(pattern, root) or {})
            occurrence = self._several_roots[compiled, roots] = self._occurrence(compiled, roots, at)
        if near is not None and near.isdisjoint(occurrence.touched):
            return
        found = occurrence.match
        # If a term that a result reads depends on a root, the rewritten graph would have a cycle.
        if found is not None and not any(
            index.depends(bound, root)
            for bound in found.bindings.terms.values()
            if not bound.is_constant
            for root in roots
        ):
            yield found

    def _split_at(
        self, compiled: CompiledRule, roots: tuple[Term, ...], near: frozenset[Term] | None
    ) -> Iterator[Match]:
        """Yield the match at the first root, if the second root determines the attributes that the rule splits."""
        key = (compiled, roots)
        if key not in self._splits:
            at: dict[Term, Term] = {}
            for pattern, root in zip(compiled.rule.lhs, roots, strict=True):
                at.update(self._align(pattern, root) or {})
            rule, occurrence = literal_rule(compiled.rule, at), None
            if rule is not None:
                own = self._literal_rules.setdefault(rule, compile_rule(rule, compiled.rule_id))
                aligned = self._align(rule.lhs[0], roots[0])
                occurrence = None if aligned is None else self._occurrence(own, roots[:1], aligned)
            self._splits[key] = occurrence
        occurrence = self._splits[key]
        if occurrence is None or (near is not None and near.isdisjoint(occurrence.touched)):
            return
        if occurrence.match is not None:
            yield occurrence.match

    def _align(self, pattern: Term, term: Term) -> dict[Term, Term] | None:
        key = (pattern, term)
        if key not in self._alignments:
            self._alignments[key] = align(pattern, term)
        return self._alignments[key]

    def _all_roots(
        self, compiled: CompiledRule, roots: tuple[Term, ...], at: dict[Term, Term], index: GraphIndex
    ) -> Iterator[tuple[Term, ...]]:
        """Yield every extension of `roots`, aligned as `at`, to all roots of the rule at which the operators agree."""
        lhs = compiled.rule.lhs
        if len(roots) == len(lhs):
            yield roots
            return
        pattern, path = lhs[len(roots)], compiled.paths[len(roots)]
        if path is None:
            candidates = index.by_key.get(index_key(pattern), [])
        else:
            start, steps = path
            candidates = [at[start]]
            for step in steps:
                candidates = [
                    user
                    for term in candidates
                    for user in index.users.get(term, ())
                    if user.op == step.op
                    and step.position < len(user.inputs)
                    and user.inputs[step.position] is term
                    and (step.output is None or user.attr("index") == step.output)
                ]
        for candidate in candidates:
            if candidate in roots:
                continue
            if compiled.is_symmetric and index.position[candidate] < index.position[roots[-1]]:
                continue
            more = self._align(pattern, candidate)
            if more is not None and all(at.get(p, t) is t for p, t in more.items()):
                yield from self._all_roots(compiled, (*roots, candidate), {**at, **more}, index)
