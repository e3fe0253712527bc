"""The grammar of recurrent layers: a step written out, and steps one after the other. Data only.

Gates have ONNX's names: input, output, forget and cell (g) of LSTM; update (z), reset and hidden (n) of GRU.
"""

from __future__ import annotations

from typing import Any

from superopt.generate.grammar import (
    Family,
    Use,
    Variable,
    axes,
    concat,
    gather,
    inputs,
    splits,
    transpose,
    unary,
)
from superopt.ops.recurrent import RECURRENT as OPERATORS

__all__ = ["RECURRENT"]

_GATES = {"GRU": "zrn", "LSTM": "iofg"}  # in the order of the operator
_TORCH = {"GRU": "rzn", "LSTM": "ifgo"}  # in one matrix for all gates, as in PyTorch
_ATTRS = {"GRU": {"linear_before_reset": 1}, "LSTM": {}}  # as in PyTorch
_ROWS, _INPUTS, _HIDDEN = 3, 4, 2  # of a batch, of the input and of the state
_STATE = (_ROWS, _HIDDEN)


def _weights(name: str, *shape: int) -> tuple[Variable, ...]:
    """Return weights of each gate. They are not interchangeable: each has its place in the operator's weights."""
    return tuple(Variable(f"{name}{gate}", shape, f"{name}{gate}", True) for gate in _GATES["LSTM"])


def _gate(gate: str) -> tuple[Use, ...]:
    """Return a w + h u + b, the input of a gate's activation. The enumeration finds which gate has which role."""
    return (
        Use("MatMul", {}, (2,), ("a", f"w{gate}"), made=f"a w{gate}"),
        Use("MatMul", {}, (2,), ("h", f"u{gate}"), made=f"h u{gate}"),
        Use("Add", {}, (2,), (f"a w{gate}", f"h u{gate}"), made=f"sum {gate}"),
        Use("Add", {}, (2,), (f"sum {gate}", f"b{gate}"), made="gate"),
    )


def _folded(op: str, made: str, *slots: str, arity: int = 1, **attrs: Any) -> Use:
    return Use(op, attrs, (arity,), slots, run=False, fold=True, made=made)


def _beside(op: str, name: str, made: str, axis: int) -> Use:
    """Return the concatenation of all gates' parameters, in the operator's order."""
    gates = _GATES[op]
    return _folded("Concat", made, *(f"{name}{gate}" for gate in gates), arity=len(gates), axis=axis)


def _parameters(name: str) -> tuple[Use, ...]:
    """Return the matrices of all gates as one operand: their transposes, one below the other."""
    return (
        _beside("LSTM", name, f"{name} beside", -1),
        _folded("Transpose", f"{name} below", f"{name} beside", perm=(1, 0)),
        _folded("Unsqueeze", f"{name} parameter", f"{name} below", axes=(-3,)),
    )


def _outputs(op: str, *slots: str) -> tuple[Use, ...]:
    """Return all outputs of the operator."""
    count = len(OPERATORS[op].states) + 1
    return tuple(Use(op, _ATTRS[op], (len(slots),), slots, index=k, made=f"{op}.{k}") for k in range(count))


def _parts(op: str, name: str, axis: int, made: str, **kinds: Any) -> tuple[Use, ...]:
    """Return the gates as parts of a value that holds all of them."""
    gates = _TORCH[op]
    return tuple(
        Use("Split", {"axis": axis}, (1,), (name,), index=k, parts=len(gates), made=f"{made}{gate}", **kinds)
        for k, gate in enumerate(gates)
    )


def _merged(op: str) -> tuple[tuple[Variable, ...], tuple[Use, ...]]:
    """Return the variables and operators of a step with one matrix for all gates.

    These are the step's operands, the contributions of the input and of the state, and the operator over the gates in
    its own order.
    """
    rows = len(_GATES[op]) * _HIDDEN
    parameters = {"wa": (rows, _INPUTS), "wh": (rows, _HIDDEN), "b": (rows,), "d": (rows,)}
    states = "hc"[: len(OPERATORS[op].states)]
    variables = (
        *inputs("a", (_ROWS, _INPUTS)),
        *(variable for state in states for variable in inputs(state, _STATE)),
        *(variable for name, shape in parameters.items() for variable in inputs(name, shape, name, True)),
    )
    uses = (
        Use("Gemm", {"transB": 1}, (3,), ("a", "wa", "b"), made="read"),
        Use("Gemm", {"transB": 1}, (3,), ("h", "wh", "d"), made="kept"),
        *(
            use
            for name, shape in parameters.items()
            for use in (
                *_parts(op, name, -len(shape), name, run=False, fold=True),
                _beside(op, name, f"{name} sorted", -len(shape)),
            )
        ),
        _folded("Unsqueeze", "wa parameter", "wa sorted", axes=(-3,)),
        _folded("Unsqueeze", "wh parameter", "wh sorted", axes=(-3,)),
        _folded("Concat", "both", "b sorted", "d sorted", arity=2, axis=-1),
        _folded("Unsqueeze", "b parameter", "both", axes=(-2,)),
        *axes("Unsqueeze", (-3,), slots=("|".join(("a", *states)),), made="unsqueezed"),
        *_outputs(op, "unsqueezed", "wa parameter", "wh parameter", "b parameter", *["unsqueezed"] * len(states)),
        *axes("Squeeze", (-3,), slots=("|".join(f"{op}.{k + 1}" for k in range(len(states))),)),
    )
    return variables, uses


def _sequences(op: str) -> Family:
    """Return the family that joins two sequences, one after the other, into one sequence."""
    rows, states = len(_GATES[op]) * _HIDDEN, "hc"[: len(OPERATORS[op].states)]
    before = (f"{state}|{op}.{k + 1}" for k, state in enumerate(states))
    return Family(
        "recurrent",
        (
            *inputs("p", (1, _ROWS, _INPUTS)),
            *inputs("q", (1, _ROWS, _INPUTS)),
            *inputs("w", (1, rows, _INPUTS), "w", True),
            *inputs("r", (1, rows, _HIDDEN), "r", True),
            *inputs("b", (1, 2 * rows), "b", True),
            *(variable for state in states for variable in inputs(state, (1, *_STATE))),
        ),
        (
            Use("Concat", {"axis": -3}, (2,), ("p", "q")),
            *_outputs(op, "p|q|Concat", "w", "r", "b", *before),
            *axes("Squeeze", (-3,), slots=(f"{op}.0",)),
            *splits(-3, slots=("Squeeze",), thin=True),
        ),
        runtime=4,
        elements=48,
        joint=op,
        variation="",
    )


_LSTM, _GRU = _merged("LSTM"), _merged("GRU")

RECURRENT: tuple[Family, ...] = (
    # A step of LSTM written out, with a bias for each gate.
    Family(
        "recurrent",
        (
            *inputs("a", (_ROWS, _INPUTS)),
            *inputs("h", _STATE),
            *inputs("c", _STATE),
            *_weights("w", _INPUTS, _HIDDEN),
            *_weights("u", _HIDDEN, _HIDDEN),
            *_weights("b", _HIDDEN),
        ),
        (
            *(use for gate in _GATES["LSTM"] for use in _gate(gate)),
            *unary("Sigmoid Tanh", slots=("gate",)),
            Use("Mul", {}, (2,), ("Sigmoid", "c"), made="kept"),
            Use("Mul", {}, (2,), ("Sigmoid", "Tanh"), made="new"),
            Use("Add", {}, (2,), ("kept", "new"), made="state"),
            *unary("Tanh", slots=("state",), made="bounded"),
            Use("Mul", {}, (2,), ("Sigmoid", "bounded"), made="shown"),
            *_parameters("w"),
            *_parameters("u"),
            _beside("LSTM", "b", "b beside", -1),
            _folded("Concat", "b twice", "b beside", "Zeros", arity=5, axis=-1),
            _folded("Unsqueeze", "b parameter", "b twice", axes=(-2,)),
            *axes("Unsqueeze", (-3,), slots=("a|h|c",), made="unsqueezed"),
            *_outputs("LSTM", "unsqueezed", "w parameter", "u parameter", "b parameter", "unsqueezed", "unsqueezed"),
            *axes("Squeeze", (-3,), slots=("LSTM.1|LSTM.2",)),
        ),
        constants=(("Zeros", {"shape": (_HIDDEN,)}),),
        runtime=25,
        folded=(3, 0, 0, 0, 9, 9, *[0] * 20),
        elements=48,
        unfolded=True,  # Y_h is computed from a graph that is equal to Y_c
        joint="LSTM",
        variation="",
    ),
    # A step of LSTM whose gates are parts of one sum, as in PyTorch's cells.
    Family(
        "recurrent",
        _LSTM[0],
        (
            *_LSTM[1],
            Use("Add", {}, (2,), ("read", "kept"), made="gates"),
            *_parts("LSTM", "gates", -1, "gate "),
            *unary("Sigmoid", slots=("gate i|gate f|gate o",)),
            *unary("Tanh", slots=("gate g",)),
            Use("Mul", {}, (2,), ("Sigmoid", "c"), made="left"),
            Use("Mul", {}, (2,), ("Sigmoid", "Tanh"), made="new"),
            Use("Add", {}, (2,), ("left", "new"), made="state"),
            *unary("Tanh", slots=("state",), made="bounded"),
            Use("Mul", {}, (2,), ("Sigmoid", "bounded"), made="shown"),
        ),
        runtime=25,
        folded=(12, 0, 0, 0, 24, 24, *[0] * 20),
        elements=48,
        unfolded=True,
        joint="LSTM",
        variation="",
    ),
    # A step of GRU that applies a gate to the part of the sum that the state gives, as in PyTorch's cells.
    Family(
        "recurrent",
        _GRU[0],
        (
            *_GRU[1],
            *_parts("GRU", "read", -1, "read "),
            *_parts("GRU", "kept", -1, "kept "),
            *(Use("Add", {}, (2,), (f"read {gate}", f"kept {gate}"), made=f"gate {gate}") for gate in "zr"),
            *unary("Sigmoid", slots=("gate z",), made="update"),
            *unary("Sigmoid", slots=("gate r",), made="reset"),
            Use("Mul", {}, (2,), ("kept n", "reset"), made="left over"),
            Use("Add", {}, (2,), ("read n", "left over"), made="sum"),
            *unary("Tanh", slots=("sum",)),
            Use("Sub", {}, (2,), ("h", "Tanh"), made="change"),
            Use("Mul", {}, (2,), ("change", "update"), made="changed"),
            Use("Add", {}, (2,), ("changed", "Tanh")),
        ),
        runtime=35,
        folded=(10, 0, 0, 20, 20, *[0] * 31),
        elements=48,
        variation="",
    ),
    _sequences("LSTM"),
    _sequences("GRU"),
    # Between steps: a state with an axis of directions.
    Family(
        "recurrent",
        inputs("x", (1, 2, 3)),
        (*axes("Unsqueeze", (-3,), slots=("Squeeze",)), *axes("Squeeze", (-3,), slots=("x",))),
        runtime=2,
        variation="axes",
    ),
    # Before the steps: a sequence, read step by step.
    Family(
        "recurrent",
        inputs("s", (2, 2, 3)),
        (
            *gather(-3, 0, 1, slots=("s",)),
            *axes("Unsqueeze", (-3,), slots=("Gather",)),
            *concat(-3, slots=("Unsqueeze",)),
        ),
        runtime=5,
        variation="",
    ),
    # Before the steps, if the batch axis comes before the time axis: a sequence, read step by step.
    Family(
        "recurrent",
        inputs("s", (3, 2, 4)),
        (
            *gather(-2, 0, 1, slots=("s",)),
            *axes("Unsqueeze", (-3,), slots=("Gather",)),
            *concat(-3, slots=("Unsqueeze",)),
            *transpose((1, 0, 2), slots=("s",)),
        ),
        runtime=5,
        variation="",
    ),
    # After the steps: a sequence put together from steps.
    Family(
        "recurrent",
        inputs("s", (2, 3, 4)),
        (
            *splits(-3, slots=("s",), thin=True),
            *axes("Squeeze", (-3,), slots=("Split",)),
            *axes("Unsqueeze", (-2,), slots=("Squeeze",)),
            *concat(-2, slots=("Unsqueeze",)),
            *transpose((1, 0, 2), slots=("s",)),
        ),
        runtime=7,
        folded=(0,) * 8,
        variation="",
    ),
)
