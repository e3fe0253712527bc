"""Laws of two steps in time as laws of n.

Where one application of an operator takes the outputs of another as its state, and the law joins the two,

    (f(q, f(p, s)), f(p, s).1) = (f(Concat(p, q), s), part 0 of Split[split=[1, 1]](f(Concat(p, q), s)))

the same holds for a chain of n: p, q, p3, ... are the steps' own operands. As in `superopt.rulebook.variadic`,
everything here proposes: a law of n is proven as any other before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from superopt.ir.infer import make
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.rulebook.variadic import Reading, schema_of

__all__ = ["StepLaw", "step_law"]


def step_law(rule: Rule) -> StepLaw | None:
    """The rule as a law of any number of steps, or None where its left side is no two of them."""
    nodes = [t for t in topological(rule.lhs) if t.op not in ("Var", "Out")]
    if len(nodes) != 2 or nodes[0].op != nodes[1].op or any(root.op != "Out" for root in rule.lhs):
        return None
    first, second = nodes
    if any(i is None or i.op != "Var" for i in first.inputs) or first.attrs != second.attrs:
        return None
    own: list[int] = []
    states: dict[int, int] = {}
    for place, (before, after) in enumerate(zip(first.inputs, second.inputs, strict=True)):
        if after is not before and after is not None and after.op == "Out" and after.inputs[0] is first:
            states[place] = int(str(after.attr("index")))
        elif after is not before and after is not None and after.op == "Var":
            own.append(place)
        elif after is not before:
            return None
    law = StepLaw(rule, first, second, tuple(own), states)
    return law if own and states and rule.applicable else None


@dataclass(frozen=True, eq=False)
class StepLaw:
    """A law of two steps, `first` and `second`: operands of their own stand at `own`, and the state that output
    `states[place]` of the step before is at `place`."""

    rule: Rule
    first: Term
    second: Term
    own: tuple[int, ...]
    states: dict[int, int]

    def of(self, n: int, wanted: Sequence[tuple[int, int]]) -> Rule | None:
        """The law of `n` steps, of the outputs `wanted`: (number of the step, number of the output), each of which the
        law of two speaks of. None where it does not, or is no law of n."""
        if self._reading is None:
            return None
        steps = [self.first]
        for k in range(1, n):
            inputs = list(self.first.inputs)
            for place in self.own:
                inputs[place] = self._operand(place, k)
            for place, output in self.states.items():
                inputs[place] = steps[-1].out(output)
            steps.append(make(self.first.op, inputs, dict(self.first.attrs)))
        lhs, rhs = [], []
        parts = any(step < n - 1 for step, _ in wanted)  # then the last is one, too
        for step, output in wanted:
            known = self._last if step == n - 1 and not (parts and output in self._before) else self._before
            if output not in known:
                return None
            lhs.append(steps[step].out(output))
            rhs.append(self._reading.built(known[output], step, n))
        return Rule(tuple(lhs), tuple(rhs))

    def before(self, node: Term) -> Term | None:
        """The step before an application of the operator to one step, where its state and all but its own is that
        one's."""
        found = {i.inputs[0] for place in self.states if (i := node.inputs[place]) is not None and i.op == "Out"}
        if len(found) != 1 or (one := found.pop()) is None or one.op != node.op or one.attrs != node.attrs:
            return None
        if any(node.inputs[place] is not one.out(output) for place, output in self.states.items()):
            return None
        shared = (place for place in range(len(node.inputs)) if place not in self.states and place not in self.own)
        return one if all(node.inputs[place] is one.inputs[place] for place in shared) else None

    @cached_property
    def _reading(self) -> Reading | None:
        """What says how the right side reads for n."""
        after = {str(self._var(self.first, place)): str(self._var(self.second, place)) for place in self.own}
        return Reading(schema_of(self.rule), after, set()) if len(after) == len(self.own) else None

    def _operand(self, place: int, k: int) -> Term:
        assert self._reading is not None and self.first.inputs[place] is not None
        return self._reading.built(self.first.inputs[place], k, 0)  # type: ignore[arg-type]

    @staticmethod
    def _var(node: Term, place: int) -> str:
        used = node.inputs[place]
        assert used is not None
        return str(used.attr("name"))

    @cached_property
    def _last(self) -> dict[int, Term]:
        return self._sides(self.second)

    @cached_property
    def _before(self) -> dict[int, Term]:
        return self._sides(self.first)

    def _sides(self, node: Term) -> dict[int, Term]:
        """By the number of an output of `node` what it becomes."""
        pairs = zip(self.rule.lhs, self.rule.rhs, strict=True)
        return {int(str(left.attr("index"))): right for left, right in pairs if left.inputs[0] is node}
