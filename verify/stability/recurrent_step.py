"""One step of a recurrent layer as a term of simpler operators: error bounds then go operand by operand."""

from __future__ import annotations

from superopt.ir.infer import make
from superopt.ir.term import Term

__all__ = ["lstm_step"]

_GATES = "iofc"


def lstm_step(output: Term) -> Term | None:
    """Return an output of an LSTM over one step as a term of its gates, or None for any other term."""
    node = output.inputs[0] if output.op == "Out" else None
    if node is None or node.op != "LSTM" or None in node.inputs:
        return None
    x, w, r, b, h, c = (i for i in node.inputs if i is not None)
    if x.type is None or x.type.shape is None or x.type.shape[0] != 1 or r.type is None or r.type.shape is None:
        return None
    size = r.type.shape[2]

    def squeezed(term: Term, axis: int) -> Term:
        return make("Squeeze", (term,), {"axes": (axis,)})

    def rows(term: Term, number: int, axis: int) -> Term:
        attrs = {"axes": (axis,), "starts": (size * number,), "ends": (size * (number + 1),), "steps": (1,)}
        return make("Slice", (term,), attrs)

    def part(state: Term, weights: Term, number: int, bias: int) -> Term:
        matrix = make("Transpose", (rows(squeezed(weights, -3), number, -2),), {"perm": (1, 0)})
        product = make("MatMul", (squeezed(state, -3), matrix))
        return make("Add", (product, rows(squeezed(b, -2), bias, -1)))

    def gate(name: str) -> Term:
        number = _GATES.index(name)
        total = make("Add", (part(x, w, number, number), part(h, r, number, number + len(_GATES))))
        return make("Tanh" if name == "c" else "Sigmoid", (total,))

    kept, new = make("Mul", (gate("f"), squeezed(c, -3))), make("Mul", (gate("i"), gate("c")))
    cell = make("Add", (kept, new))
    state = make("Mul", (gate("o"), make("Tanh", (cell,))))
    index = output.attr("index")
    axes = (-4, -3) if index == 0 else (-3,)
    return make("Unsqueeze", (cell if index == 2 else state,), {"axes": axes})
