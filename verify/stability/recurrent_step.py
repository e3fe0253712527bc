"""One step of a recurrent layer as a term of simpler operators: error bounds then go operand by operand.

The equations are those of `superopt.ops.recurrent`, in ONNX Runtime's order of rounding: where both biases of a gate go
into one sum, they are added to each other first.
"""

from __future__ import annotations

from dataclasses import dataclass

from superopt.ir.dim import Size
from superopt.ir.infer import make
from superopt.ir.term import Term, node_of, output_index

__all__ = ["recurrent_step"]


def recurrent_step(output: Term) -> Term | None:
    """Return an output of a recurrent layer over one step as a term of its gates, or None for any other term."""
    node = node_of(output)
    if node is output or node.op not in _STEPS or None in node.inputs:
        return None
    x, _, r, *_ = operands = [i for i in node.inputs if i is not None]
    if x.type is None or x.type.shape is None or x.type.shape[0] != 1 or r.type is None or r.type.shape is None:
        return None
    step, gates = _STEPS[node.op]
    states = step(_Layer(node, operands, gates, r.type.shape[2]))
    index = output_index(output)
    return make("Unsqueeze", (states[max(index - 1, 0)],), {"axes": (-3,) if index else (-4, -3)})


@dataclass(frozen=True)
class _Layer:
    """The operands of a layer of one step, and the names of its gates in the order of their rows in W, R and B."""

    node: Term
    operands: list[Term]
    gates: str
    size: Size

    def state(self, number: int = 0) -> Term:
        """Return an initial state."""
        return _squeezed(self.operands[4 + number], -3)

    def read(self, gate: str) -> Term:
        """Return the product of the step's input with the weights of a gate."""
        return self._product(_squeezed(self.operands[0], -3), 1, gate)

    def kept(self, gate: str, state: Term) -> Term:
        """Return the product of a state with the weights of a gate."""
        return self._product(state, 2, gate)

    def biases(self, gate: str) -> tuple[Term, Term]:
        """Return the biases of a gate that belong to W and to R."""
        number, b = self.gates.index(gate), _squeezed(self.operands[3], -2)
        return self._rows(b, number, -1), self._rows(b, number + len(self.gates), -1)

    def total(self, gate: str, state: Term) -> Term:
        """Return the sum of both products and both biases."""
        return _add(_add(self.read(gate), self.kept(gate, state)), _add(*self.biases(gate)))

    def gate(self, name: str) -> Term:
        return make("Sigmoid", (self.total(name, self.state()),))

    def _product(self, state: Term, operand: int, gate: str) -> Term:
        rows = self._rows(_squeezed(self.operands[operand], -3), self.gates.index(gate), -2)
        return make("MatMul", (state, make("Transpose", (rows,), {"perm": (1, 0)})))

    def _rows(self, term: Term, number: int, axis: int) -> Term:
        attrs = {"axes": (axis,), "starts": (self.size * number,), "ends": (self.size * (number + 1),), "steps": (1,)}
        return make("Slice", (term,), attrs)


def _lstm(layer: _Layer) -> tuple[Term, ...]:
    h, c = layer.state(0), layer.state(1)
    new = make("Tanh", (layer.total("c", h),))
    cell = _add(_multiply(layer.gate("f"), c), _multiply(layer.gate("i"), new))
    return _multiply(layer.gate("o"), make("Tanh", (cell,))), cell


def _gru(layer: _Layer) -> tuple[Term, ...]:
    h, z, r = layer.state(), layer.gate("z"), layer.gate("r")
    if layer.node.attr("linear_before_reset"):
        of_input, of_state = layer.biases("n")
        reset = _multiply(r, _add(layer.kept("n", h), of_state))
        total = _add(_add(layer.read("n"), reset), of_input)
    else:
        total = layer.total("n", _multiply(r, h))
    assert h.type is not None
    one = make("ConstantOfShape", (), {"shape": (), "value": 1.0}, h.type.dtype)
    left = make("Sub", (one, z))
    return (_add(_multiply(left, make("Tanh", (total,))), _multiply(z, h)),)


_STEPS = {"GRU": (_gru, "zrn"), "LSTM": (_lstm, "iofc")}


def _add(left: Term, right: Term) -> Term:
    return make("Add", (left, right))


def _multiply(left: Term, right: Term) -> Term:
    return make("Mul", (left, right))


def _squeezed(term: Term, axis: int) -> Term:
    return make("Squeeze", (term,), {"axes": (axis,)})
