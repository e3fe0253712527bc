"""Chain rules: a rule that joins two time steps of a recurrent operator, applied to n steps.

In the left side of a chain rule, one application of an operator reads the state outputs of another application:

    (f(q, f(p, s)), f(p, s).1) = (f(Concat(p, q), s), part 0 of Split[split=[1, 1]](f(Concat(p, q), s)))

The same equation holds for a chain of n steps with operands p, q, p3, ... As in `superopt.rulebook.variadic`, this
file only proposes rules: a rule for n steps is proven like any other before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from superopt.ir.infer import make
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.rulebook.variadic import VariadicForm, schema_of

__all__ = ["ChainRule", "chain_rule"]


def chain_rule(rule: Rule) -> ChainRule | None:
    """Return the rule as a chain rule, or None if its left side is not two steps of one operator."""
    nodes = [t for t in topological(rule.lhs) if t.op not in ("Var", "Out")]
    if len(nodes) != 2 or nodes[0].op != nodes[1].op or any(root.op != "Out" for root in rule.lhs):
        return None
    first, second = nodes
    if any(i is None or i.op != "Var" for i in first.inputs) or first.attrs != second.attrs:
        return None
    step_inputs: list[int] = []
    state_inputs: dict[int, int] = {}
    for position, (before, after) in enumerate(zip(first.inputs, second.inputs, strict=True)):
        if after is not before and after is not None and after.op == "Out" and after.inputs[0] is first:
            state_inputs[position] = int(str(after.attr("index")))
        elif after is not before and after is not None and after.op == "Var":
            step_inputs.append(position)
        elif after is not before:
            return None
    chain = ChainRule(rule, first, second, tuple(step_inputs), state_inputs)
    return chain if step_inputs and state_inputs and rule.applicable else None


@dataclass(frozen=True, eq=False)
class ChainRule:
    """A rule for two steps, `first` and `second`, that can be written for any number of steps.

    `step_inputs` are the input positions that differ from step to step. `state_inputs` maps the input position of a
    state to the output of the previous step that is passed there. All other inputs (weights) are shared.
    """

    rule: Rule
    first: Term
    second: Term
    step_inputs: tuple[int, ...]
    state_inputs: dict[int, int]

    def for_steps(self, n: int, wanted: Sequence[tuple[int, int]]) -> Rule | None:
        """Return the rule for `n` steps whose roots are `wanted`: pairs (number of the step, number of the output).

        Returns None if the rule for two steps says nothing about one of these outputs, or does not generalize.
        """
        if self._form is None:
            return None
        steps = [self.first]
        for k in range(1, n):
            inputs = list(self.first.inputs)
            for position in self.step_inputs:
                inputs[position] = self._operand(position, k)
            for position, output in self.state_inputs.items():
                inputs[position] = steps[-1].out(output)
            steps.append(make(self.first.op, inputs, dict(self.first.attrs)))
        lhs, rhs = [], []
        needs_parts = any(step < n - 1 for step, _ in wanted)  # then the last step is a part of the Split as well
        for step, output in wanted:
            use_last = step == n - 1 and not (needs_parts and output in self._inner_outputs)
            known = self._last_outputs if use_last else self._inner_outputs
            if output not in known:
                return None
            lhs.append(steps[step].out(output))
            rhs.append(self._form.build(known[output], step, n))
        return Rule(tuple(lhs), tuple(rhs))

    def predecessor(self, node: Term) -> Term | None:
        """Return the application whose state outputs `node` reads and whose other shared inputs are the same."""
        found = {i.inputs[0] for k in self.state_inputs if (i := node.inputs[k]) is not None and i.op == "Out"}
        if len(found) != 1 or (one := found.pop()) is None or one.op != node.op or one.attrs != node.attrs:
            return None
        if any(node.inputs[position] is not one.out(output) for position, output in self.state_inputs.items()):
            return None
        shared = (k for k in range(len(node.inputs)) if k not in self.state_inputs and k not in self.step_inputs)
        return one if all(node.inputs[k] is one.inputs[k] for k in shared) else None

    @cached_property
    def _form(self) -> VariadicForm | None:
        """The right side in its form for n operands."""
        successor = {self._variable(self.first, k): self._variable(self.second, k) for k in self.step_inputs}
        if len(successor) < len(self.step_inputs):
            return None
        return VariadicForm(schema_of(self.rule), successor, set())

    def _operand(self, position: int, k: int) -> Term:
        assert self._form is not None and self.first.inputs[position] is not None
        return self._form.build(self.first.inputs[position], k, 0)  # type: ignore[arg-type]

    @staticmethod
    def _variable(node: Term, position: int) -> str:
        used = node.inputs[position]
        assert used is not None
        return str(used.attr("name"))

    @cached_property
    def _last_outputs(self) -> dict[int, Term]:
        return self._right_sides(self.second)

    @cached_property
    def _inner_outputs(self) -> dict[int, Term]:
        return self._right_sides(self.first)

    def _right_sides(self, node: Term) -> dict[int, Term]:
        """Map the number of each output of `node` that is a root to its right side."""
        pairs = zip(self.rule.lhs, self.rule.rhs, strict=True)
        return {int(str(left.attr("index"))): right for left, right in pairs if left.inputs[0] is node}
