"""The cases as terms."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from onnx import helper

from superopt.evaluate import dtype_name
from superopt.ir.infer import make
from superopt.ir.term import Term, values_of, var
from superopt.ir.types import TensorType
from tests.support.semantic_cases import CASES
from tests.support.semantic_cases.case import Array, Case
from tests.support.semantic_cases.constants import CONSTANTS

__all__ = ["canonical", "example", "leaf", "leaves", "outputs_of"]


def example(op: str, rng: random.Random) -> Case:
    """A random use of any operator of the table."""
    return (CASES.get(op) or CONSTANTS[op])(rng)


def leaf(position: int, array: Array) -> Term:
    """The variable that stands for an input of the case."""
    dtype = dtype_name(int(helper.np_dtype_to_tensor_dtype(array.dtype)))
    return var(f"x{position}", TensorType(dtype, array.shape))


def leaves(case: Case) -> dict[Term, Array]:
    """The variables of the case, with their values."""
    return {leaf(k, array): array for k, array in enumerate(case.arrays) if array is not None}


def outputs_of(op: str, case: Case, attrs: dict[str, Any] | None = None) -> tuple[Term, ...]:
    """The operator of the case, applied to variables."""
    inputs = [None if array is None else leaf(k, array) for k, array in enumerate(case.arrays)]
    term = make(op, inputs, case.attrs if attrs is None else attrs)
    return values_of(term)


def canonical(op: str, case: Case) -> tuple[Term, ...]:
    """Return the term that a file with the case is read as: real attributes are float32, in canonical form."""
    attrs = {k: float(np.float32(v)) if isinstance(v, float) else v for k, v in case.attrs.items()}
    if attrs.get("axes") == ():
        return outputs_of("Identity", case, {})
    if op == "Gather":
        size = np.shape(case.arrays[0])[attrs["axis"]]
        places = attrs["indices"]
        attrs["indices"] = tuple(p % size for p in places) if isinstance(places, tuple) else places % size
    if op == "Expand":
        attrs["shape"] = np.broadcast_shapes(attrs["shape"], np.shape(case.arrays[0]))
    if op == "Reshape":
        attrs["allowzero"] *= int(0 in attrs["shape"])
    if op == "AveragePool":
        attrs["count_include_pad"] *= int(any(attrs["pads"]))
    return outputs_of(op, case, attrs)
