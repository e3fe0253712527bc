"""Provenance of terms in a rewritten graph: a new term may be an operator of the old graph on new inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from superopt.ir.infer import remake
from superopt.ir.term import Term, topological

__all__ = ["corresponding_terms"]


def corresponding_terms(
    before: Iterable[Term], after: Iterable[Term], replaced: Mapping[Term, Term]
) -> dict[Term, Term]:
    """Map old terms to the corresponding terms that only the new graph has.

    First all old terms are remade with `replaced`. Then both graphs are traversed together from their outputs, as far
    as operators and attributes agree.
    """
    before, after = tuple(before), tuple(after)
    old, new = set(topological(before)), set(topological(after))
    fresh = new - old
    same: dict[Term, Term] = {}
    if replaced:
        same = {term: now for term, now in _remade(before, replaced).items() if now in fresh}
    reached = set(same.values())
    pairs = [pair for pair in zip(before, after, strict=True) if pair[1] in fresh]
    seen: set[tuple[Term, Term]] = set()
    while pairs:
        then, now = pairs.pop()
        if (then, now) in seen or then.op != now.op or then.attrs != now.attrs or len(then.inputs) != len(now.inputs):
            continue
        seen.add((then, now))
        if then not in same and now not in reached:
            same[then] = now
            reached.add(now)
        for t, n in zip(then.inputs, now.inputs, strict=True):
            if t is not None and n is not None and n in fresh:
                pairs.append((t, n))
    return same


def _remade(roots: tuple[Term, ...], replaced: Mapping[Term, Term]) -> dict[Term, Term]:
    """Remake every term below `roots`, and below the replacements, over the new forms of its inputs."""
    final: dict[Term, Term] = {}
    stack = list(roots)
    opened: set[Term] = set()
    while stack:
        term = stack[-1]
        if term in final:
            stack.pop()
        elif term in replaced and term not in opened:
            opened.add(term)
            stack.append(replaced[term])
        elif term in replaced and replaced[term] in final:
            final[term] = final[replaced[term]]
        elif missing := [i for i in term.inputs if i is not None and i not in final]:
            stack.extend(missing)
        else:  # a replacement may contain the replaced term itself: there it is the old operator
            inputs = tuple(None if i is None else final[i] for i in term.inputs)
            final[term] = term if inputs == term.inputs else remake(term, inputs)
    return final
