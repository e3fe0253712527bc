"""The grammar of recurrent layers: a step written out, and steps one after the other. Data only.

Gates are called by ONNX's names: input, output, forget and cell (g).
"""

from __future__ import annotations

from typing import Any

from superopt.generate.grammar import Family, Use, Variable, axes, concat, gather, inputs, unary

__all__ = ["RECURRENT"]

_GATES = "iofg"
_ROWS, _INPUTS, _HIDDEN = 2, 3, 2  # in a batch, read and kept
_STATE = (_ROWS, _HIDDEN)


def _weights(name: str, *shape: int) -> tuple[Variable, ...]:
    """Weights of each gate, which are not interchangeable: each has its place in the operator's own."""
    return tuple(Variable(f"{name}{gate}", shape, f"{name}{gate}", True) for gate in _GATES)


def _gate(gate: str) -> tuple[Use, ...]:
    """a w + h u + b, before its activation; which gate acts as what is left to the enumeration."""
    return (
        Use("MatMul", {}, (2,), ("a", f"w{gate}"), made=f"a w{gate}"),
        Use("MatMul", {}, (2,), ("h", f"u{gate}"), made=f"h u{gate}"),
        Use("Add", {}, (2,), (f"a w{gate}", f"h u{gate}"), made=f"sum {gate}"),
        Use("Add", {}, (2,), (f"sum {gate}", f"b{gate}"), made="gate"),
    )


def _gates(name: str) -> tuple[str, ...]:
    return tuple(f"{name}{gate}" for gate in _GATES)


def _folded(op: str, made: str, *slots: str, arity: int = 1, **attrs: Any) -> Use:
    return Use(op, attrs, (arity,), slots, run=False, fold=True, made=made)


def _parameters(name: str) -> tuple[Use, ...]:
    """A matrix for each gate as one operand: their transposes, one below the other."""
    return (
        _folded("Concat", f"{name} beside", *_gates(name), arity=4, axis=-1),
        _folded("Transpose", f"{name} below", f"{name} beside", perm=(1, 0)),
        _folded("Unsqueeze", f"{name} parameter", f"{name} below", axes=(-3,)),
    )


def _lstm(*slots: str) -> tuple[Use, ...]:
    """All three outputs."""
    return tuple(Use("LSTM", {}, (6,), slots, index=k, made=f"LSTM.{k}") for k in range(3))


_TORCH = "ifgo"  # the order of gates in one matrix for all of them, as PyTorch has it


def _merged(name: str, axis: int) -> tuple[Use, ...]:
    """One operand of all gates, in the operator's own order of them."""
    parts = (
        Use("Split", {"axis": axis}, (1,), (name,), run=False, fold=True, index=k, parts=4, made=f"{name}{gate}")
        for k, gate in enumerate(_TORCH)
    )
    return (*parts, _folded("Concat", f"{name} sorted", *_gates(name), arity=4, axis=axis))


RECURRENT: tuple[Family, ...] = (
    Family(  # a step with a bias for each gate
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
            *(use for gate in _GATES for use in _gate(gate)),
            *unary("Sigmoid Tanh", slots=("gate",)),
            Use("Mul", {}, (2,), ("Sigmoid", "c"), made="kept"),
            Use("Mul", {}, (2,), ("Sigmoid", "Tanh"), made="new"),
            Use("Add", {}, (2,), ("kept", "new"), made="state"),
            *unary("Tanh", slots=("state",), made="bounded"),
            Use("Mul", {}, (2,), ("Sigmoid", "bounded"), made="shown"),
            *_parameters("w"),
            *_parameters("u"),
            _folded("Concat", "b beside", *_gates("b"), arity=4, axis=-1),
            _folded("Concat", "b twice", "b beside", "Zeros", arity=5, axis=-1),
            _folded("Unsqueeze", "b parameter", "b twice", axes=(-2,)),
            *axes("Unsqueeze", (-3,), slots=("a|h|c",), made="unsqueezed"),
            *_lstm("unsqueezed", "w parameter", "u parameter", "b parameter", "unsqueezed", "unsqueezed"),
            *axes("Squeeze", (-3,), slots=("LSTM.1|LSTM.2",)),
        ),
        constants=(("Zeros", {"shape": (_HIDDEN,)}),),
        runtime=25,
        folded=(3, 0, 0, 0, 9, 9, *[0] * 20),
        elements=48,
        unfolded=True,  # Y_h is made of what Y_c is equal to
        joint="LSTM",
        lifts="",
    ),
    Family(  # a step whose gates are parts of one sum
        "recurrent",
        (
            *inputs("a", (_ROWS, _INPUTS)),
            *inputs("h", _STATE),
            *inputs("c", _STATE),
            *inputs("wa", (4 * _HIDDEN, _INPUTS), "wa", True),
            *inputs("wh", (4 * _HIDDEN, _HIDDEN), "wh", True),
            *inputs("b", (4 * _HIDDEN,), "b", True),
            *inputs("d", (4 * _HIDDEN,), "d", True),
        ),
        (
            Use("Gemm", {"transB": 1}, (3,), ("a", "wa", "b"), made="read"),
            Use("Gemm", {"transB": 1}, (3,), ("h", "wh", "d"), made="kept"),
            Use("Add", {}, (2,), ("read", "kept"), made="gates"),
            *(
                Use("Split", {"axis": -1}, (1,), ("gates",), index=k, parts=4, made=f"gate {gate}")
                for k, gate in enumerate(_TORCH)
            ),
            *unary("Sigmoid", slots=("gate i|gate f|gate o",)),
            *unary("Tanh", slots=("gate g",)),
            Use("Mul", {}, (2,), ("Sigmoid", "c"), made="left"),
            Use("Mul", {}, (2,), ("Sigmoid", "Tanh"), made="new"),
            Use("Add", {}, (2,), ("left", "new"), made="state"),
            *unary("Tanh", slots=("state",), made="bounded"),
            Use("Mul", {}, (2,), ("Sigmoid", "bounded"), made="shown"),
            *_merged("wa", -2),
            *_merged("wh", -2),
            *_merged("b", -1),
            *_merged("d", -1),
            _folded("Unsqueeze", "wa parameter", "wa sorted", axes=(-3,)),
            _folded("Unsqueeze", "wh parameter", "wh sorted", axes=(-3,)),
            _folded("Concat", "both", "b sorted", "d sorted", arity=2, axis=-1),
            _folded("Unsqueeze", "b parameter", "both", axes=(-2,)),
            *axes("Unsqueeze", (-3,), slots=("a|h|c",), made="unsqueezed"),
            *_lstm("unsqueezed", "wa parameter", "wh parameter", "b parameter", "unsqueezed", "unsqueezed"),
            *axes("Squeeze", (-3,), slots=("LSTM.1|LSTM.2",)),
        ),
        runtime=25,
        folded=(12, 0, 0, 0, 24, 24, *[0] * 20),
        elements=48,
        unfolded=True,
        joint="LSTM",
        lifts="",
    ),
    Family(  # two sequences, one after the other
        "recurrent",
        (
            *inputs("p", (1, _ROWS, _INPUTS)),
            *inputs("q", (1, _ROWS, _INPUTS)),
            *inputs("w", (1, 4 * _HIDDEN, _INPUTS), "w", True),
            *inputs("r", (1, 4 * _HIDDEN, _HIDDEN), "r", True),
            *inputs("b", (1, 8 * _HIDDEN), "b", True),
            *inputs("h", (1, *_STATE)),
            *inputs("c", (1, *_STATE)),
        ),
        (
            Use("Concat", {"axis": -3}, (2,), ("p", "q")),
            *_lstm("p|q|Concat", "w", "r", "b", "h|LSTM.1", "c|LSTM.2"),
            *axes("Squeeze", (-3,), slots=("LSTM.0",)),
            *(Use("Split", {"axis": -3}, (1,), ("Squeeze",), index=k, thin=True) for k in (0, 1)),
        ),
        runtime=4,
        elements=48,
        joint="LSTM",
        lifts="",
    ),
    Family(  # between them: a state with an axis of directions
        "recurrent",
        inputs("x", (1, 2, 3)),
        (*axes("Unsqueeze", (-3,), slots=("Squeeze",)), *axes("Squeeze", (-3,), slots=("x",))),
        runtime=2,
        lifts="axes",
    ),
    Family(  # before them: a sequence, place by place
        "recurrent",
        inputs("x", (2, 2, 3)),
        (
            *gather(-3, 0, 1),
            *axes("Unsqueeze", (-3,), slots=("Gather",)),
            *concat(-3, slots=("Unsqueeze",)),
        ),
        runtime=5,
        lifts="",
    ),
)
