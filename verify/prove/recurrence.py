"""Recurrent operators as uninterpreted functions, split along the sequence.

The only property used is that states are passed from step to step, whatever a step computes. For LSTM, with two states:

    Y, Y_h, Y_c = LSTM(Concat[axis=0](x1, x2), s)    is    y1, s1 = LSTM(x1, s);  y2, s2 = LSTM(x2, s1);
                                                           Y = Concat[axis=0](y1, y2);  Y_h, Y_c = s2
    and over one step, Y is Y_h with one more axis.

The equation holds for parts of any length, so it covers sequences of symbolic length. An application that occurs on
both sides has the same value there, so a variable may replace it: an equation for all values of the variable holds for
this value. So proofs stay as long as one step, while the expanded definition grows with a power of the number of steps.
"""

from __future__ import annotations

from superopt.ir.infer import OPERATORS, make, remake, replace
from superopt.ir.term import Term, map_terms, topological, var

__all__ = ["INTRODUCED", "apart", "in_steps", "is_recurrent"]

# Operators that a proof about recurrent ones may depend on, though the rule does not mention them.
INTRODUCED = ("Concat", "Unsqueeze")

_TIME = 0  # the axis of steps in X and in Y

Terms = tuple[Term, ...]


def is_recurrent(op: str) -> bool:
    """Return True for operators that pass states from step to step."""
    return op in OPERATORS and bool(OPERATORS[op].states)


def in_steps(terms: Terms) -> Terms:
    """Return equal typed terms in which no recurrent operator reads a Concat along time."""

    def build(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        if old.op == "Out" and (node := inputs[0]) is not None and is_recurrent(node.op):
            return _output(node, int(str(old.attr("index"))))
        return remake(old, inputs)

    return map_terms(terms, build)


def _output(node: Term, index: int) -> Term:
    """Return an output of a recurrent operator, split at the Concat that is its sequence."""
    x = node.inputs[0]
    assert x is not None and x.type is not None and x.type.shape is not None
    if x.op != "Concat" or int(str(x.attr("axis"))) % len(x.type.shape) != _TIME:
        one = x.type.shape[_TIME] == 1
        return make("Unsqueeze", (node.out(1),), {"axes": (-3,)}) if one and not index else node.out(index)
    inputs, parts, places = list(node.inputs), list[Term](), OPERATORS[node.op].states
    for part in x.inputs:
        inputs[0] = part
        step = make(node.op, inputs, dict(node.attrs))
        for output, place in enumerate(places, 1):
            inputs[place] = _output(step, output)
        parts.append(_output(step, 0))
    if index:
        last = inputs[places[index - 1]]
        assert last is not None
        return last
    return parts[0] if len(parts) == 1 else make("Concat", parts, {"axis": -4})


def apart(left: Terms, right: Terms) -> tuple[Terms, Terms]:
    """Replace each output of a recurrent operator that occurs on both sides by a variable."""
    common = set(_outputs(left)) & set(_outputs(right))
    new = {out: var(f"{out.op}!{k}", out.type) for k, out in enumerate(sorted(common))}
    return replace(left, new), replace(right, new)


def _outputs(terms: Terms) -> list[Term]:
    return [t for t in topological(terms) if t.op == "Out" and t.inputs[0] is not None and is_recurrent(t.inputs[0].op)]
