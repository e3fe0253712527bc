"""Weights that one model folded: shipped rules rewrite the left cone until its constants are those of the right one.

BatchNormalization(Conv(x, w), s, o, m, v) and Conv(x, w', b') have no equation over variables: w' and b' are numbers. A
rule turns the first into Conv(x, f(w, s, v), g(s, o, m, v)). Then f and g are compared with w' and b' by value.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeAlias

from superopt.check.constants import Constants
from superopt.check.deadline import Deadline
from superopt.check.sweep import Claim, holds, known_sizes
from superopt.ir.dim import Size
from superopt.ir.infer import IllTyped, replace
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term, repr_attrs, topological, var
from superopt.ir.trace import Rewrite, Step
from superopt.search.match.graph_index import GraphIndex, run_time_terms
from superopt.search.match.matcher import Matcher
from superopt.search.match.rule_index import RuleIndex
from verify.proof_book import Book
from verify.replay import ReplayError, replay_rewrite

__all__ = ["Folding", "Rewriting", "folding_holds"]

_Applied: TypeAlias = tuple[Rule, Bindings, tuple[Term, ...]]  # and the terms that the rule replaces
_State: TypeAlias = tuple[Term, tuple[_Applied, ...]]  # a graph, and the path to it

_STEPS = 20
_BEAM = 16  # graphs of one depth that are rewritten further
_ALIKE = 2  # of these, with the same operators: many rules change attributes and types only
_PATIENCE = 5  # steps without a graph nearer to the goal than all before
_MOST_STATES = 4000
_SECONDS = 5.0  # of CPU time for one cone
_MOST_GRAPHS = 16  # that one rule after the other makes on a path that was taken before


@dataclass(frozen=True)
class Folding:
    """`left` equals `right`: `steps` rewrite it to `after`, and this equals `right` with other constants.

    `constants` has a constant of `right`, the constant of `after` that is equal within a bound, and the bound. With
    these constants, `right` is `after` itself if `last` is None, or equal by the equation of `last`.
    """

    left: Term
    right: Term
    steps: tuple[Step, ...]
    after: Term
    constants: tuple[tuple[Term, Term, float], ...]
    last: Claim | None

    @property
    def error(self) -> float:
        """The largest bound of the relative error of a constant."""
        return max((bound for _, _, bound in self.constants), default=0.0)


def folding_holds(folding: Folding, book: Book, constants: Constants) -> bool:
    """Return True if the kernel proves each step, and the constants agree within the stated bounds."""
    try:
        replay_rewrite(Rewrite((folding.left,), folding.steps, (folding.after,)), book, known_sizes(folding.left))
    except ReplayError:
        return False
    for ours, theirs, bound in folding.constants:
        found = constants.difference(theirs, ours) if ours.is_constant and theirs.is_constant else None
        if found is None or found > bound:
            return False
    (right,) = replace((folding.right,), {ours: theirs for ours, theirs, _ in folding.constants})
    if folding.last is None:
        return right is folding.after
    last = folding.last
    return last.left is folding.after and last.right is right and holds(last, book)


class Rewriting:
    """Searches for foldings by `rules`. `check` returns a signature at which a rule may be applied, `close` a claim."""

    def __init__(
        self,
        rules: Callable[[], list[Rule]],
        constants: Constants,
        check: Callable[[Rule, Bindings, Collection[Size]], Signature | None],
        close: Callable[[Term, Term], Claim | None],
    ) -> None:
        self._rules, self._constants, self._check, self._close = rules, constants, check, close
        self._compared: dict[tuple[Term, Term], float | None] = {}
        self._taken: dict[tuple[Rule, ...], Matcher] = {}  # rules that led to a goal, and what finds these alone

    @cached_property
    def _matcher(self) -> Matcher:
        return Matcher(RuleIndex(self._rules()))

    def load(self) -> None:
        """Read the rules, unless they are read."""
        _ = self._matcher

    def find(self, left: Term, right: Term, leaves: Set[Term], own: Set[Term], deadline: Deadline) -> Folding | None:
        """Return a folding of two cones over `leaves`, or None. `own` are the constants that only `right` has.

        The search ends at `deadline`, or when it has used its own CPU time.
        """
        names = {leaf: var(f"x{k}", leaf.type) for k, leaf in enumerate(sorted(leaves, key=lambda t: t.digest))}
        back = {name: leaf for leaf, name in names.items()}
        try:
            start, goal = replace((left, right), names)
        except IllTyped:
            return None
        self.load()  # its rules are read once, which is not part of the search
        end = time.process_time() + _SECONDS
        for state, path in chain(self._again(start), self._reached(start, goal, deadline, end)):
            if time.process_time() > end:
                return None
            pairs = self._paired(state, own)
            if pairs is None:
                continue
            (wanted,) = replace((goal,), {ours: theirs for ours, theirs, _ in pairs})
            last = None if wanted is state else self._close(state, wanted)
            steps = self._proven(path, known_sizes(left)) if wanted is state or last is not None else None
            if steps is not None:
                self._remember(tuple(step.rule for step in steps))
                return _over(Folding(start, goal, steps, state, pairs, last), left, right, back)
        return None

    def _remember(self, rules: tuple[Rule, ...]) -> None:
        known = self._taken.pop(rules, None)
        self._taken[rules] = known or Matcher(RuleIndex(list(dict.fromkeys(rules))))

    def _again(self, start: Term) -> Iterator[_State]:
        """Yield what the rules that led to a goal before make of `start`: most layers of a model are alike."""
        for rules, matcher in reversed(tuple(self._taken.items())):
            layer: list[_State] = [(start, ())]
            for rule in rules:
                layer = [
                    (new, (*path, step))
                    for state, path in layer
                    for new, step in _applied(matcher, state)
                    if step[0] == rule
                ][:_MOST_GRAPHS]
            yield from layer

    def _reached(self, start: Term, goal: Term, deadline: Deadline, end: float) -> Iterator[_State]:
        """Yield graphs that rules make of `start`, with their steps; those with operators like `goal`'s first.

        A Conv with the goal's pads and kernel is nearer to it than any Conv, and this nearer than another operator.
        """
        wanted = _operators(goal)

        def distance(term: Term) -> int:
            found = _operators(term)
            return sum(((found - wanted) + (wanted - found)).values())

        layer: list[_State] = [(start, ())]
        seen = {start}
        yield start, ()
        nearest, since = distance(start), 0
        for _ in range(_STEPS):
            reached: list[_State] = []
            for state, path in layer:
                for new, step in _applied(self._matcher, state):
                    if deadline.is_over or time.process_time() > end or len(seen) > _MOST_STATES:
                        break
                    if new not in seen:
                        seen.add(new)
                        reached.append((new, (*path, step)))
            reached.sort(key=lambda item: distance(item[0]))
            yield from reached
            layer = _varied(reached)
            best = min((distance(state) for state, _ in layer), default=nearest)
            nearest, since = (best, 0) if best < nearest else (nearest, since + 1)
            if since == _PATIENCE:
                return

    def _paired(self, state: Term, own: Set[Term]) -> tuple[tuple[Term, Term, float], ...] | None:
        """Return an equal constant of `state` for each constant that only the right model has, or None."""
        ours = [term for term in topological((state,)) if term.is_constant]
        found: list[tuple[Term, Term, float]] = []
        for theirs in sorted(own, key=lambda term: term.digest):
            for one in reversed(ours):
                if one.type != theirs.type:
                    continue
                if (one, theirs) not in self._compared:
                    self._compared[one, theirs] = self._constants.difference(one, theirs)
                error = self._compared[one, theirs]
                if error is not None:
                    found.append((theirs, one, error))
                    break
            else:
                return None
        return tuple(found)

    def _proven(self, path: tuple[_Applied, ...], not_negative: Collection[Size]) -> tuple[Step, ...] | None:
        steps: list[Step] = []
        for rule, bindings, roots in path:
            signature = self._check(rule, bindings, not_negative)
            if signature is None:
                return None
            steps.append(Step(rule, signature, roots))
        return tuple(steps)


def _applied(matcher: Matcher, state: Term) -> Iterator[tuple[Term, _Applied]]:
    """Yield each graph that one rule makes of `state`, and how."""
    for found in matcher.matches(GraphIndex((state,))):
        with contextlib.suppress(IllTyped):
            (new,) = replace((state,), dict(zip(found.roots, found.results, strict=True)))
            yield new, (found.compiled.rule, found.bindings, found.roots)


def _varied(reached: list[_State]) -> list[_State]:
    """Return the graphs of a depth that are rewritten further, of those with the same operators the first ones.

    HardSigmoid becomes a Clip of an Add of a Mul, farther from a goal that is a Clip; more graphs than a beam holds are
    nearer, and differ in their pads only.
    """
    alike: Counter[tuple[str, ...]] = Counter()
    chosen: list[_State] = []
    for state, path in reached:
        operators = tuple(sorted(one.op for one in run_time_terms((state,))))
        alike[operators] += 1
        if alike[operators] <= _ALIKE:
            chosen.append((state, path))
    return chosen[:_BEAM]


def _operators(term: Term) -> Counter[tuple[object, ...]]:
    """Return the operators that run, once by name and once with their attributes and the types of their constants."""
    found: Counter[tuple[object, ...]] = Counter()
    for one in run_time_terms((term,)):
        found[one.op,] += 1
        types = tuple(i.type for i in one.inputs if i is not None and i.is_constant)
        found[one.op, repr_attrs(one.attrs), types] += 1
    return found


def _over(folding: Folding, left: Term, right: Term, leaves: dict[Term, Term]) -> Folding:
    """Return the folding with the models' terms for its leaves."""

    def placed(term: Term) -> Term:
        return replace((term,), leaves)[0]

    steps = tuple(Step(s.rule, s.signature, tuple(map(placed, s.roots))) for s in folding.steps)
    last = folding.last
    if last is not None:
        last = Claim(placed(last.left), placed(last.right), last.rule, last.signature, last.reading)
    return Folding(left, right, steps, placed(folding.after), folding.constants, last)
