"""Measures single operators in ONNX Runtime on the target.

One model contains several copies of the operator side by side, so that the fixed cost of a run vanishes. The time of
the same model without the operator is subtracted. Constant inputs are constants of the model, because the runtime
prepacks constants. On the CPU each operator is timed against a reference computation, so that times taken while the
machine is slow are comparable with times taken while it is fast.

On CUDA inputs are copied to the device in each run, and outputs from it, which takes far longer than most operators and
varies as much. So all operands of one type are there the elements of one input, which the device expands to their
shapes, and all outputs of one type are joined to one. And one process starts kernels faster than the next one, so the
models with and without the operator run in turns in one process.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence

from superopt.ir.infer import make
from superopt.ir.term import Term, values_of, var
from superopt.ir.types import TensorType
from superopt.runtime import CannotRun, Target, reference_time, sample_times
from superopt.search.cost.analytic import CostModel
from superopt.search.cost.measurement_key import conditions
from superopt.search.cost.microbench import Array, Unmeasurable, Unrunnable, random_array, single_element, timed_model
from superopt.search.cost.work import bytes_of
from superopt.store import CalibrationKey, ResultStore, Seconds

__all__ = ["OperatorTimer"]

_SAMPLES = 8
_SAMPLE_SECONDS = {"cpu": 0.001, "cuda": 0.004}
_REFERENCE_SAMPLES = 50
_SINGLE_COPY_SECONDS = 50e-6  # operators that take longer are measured as one copy
_COPIES = 12
_MAX_BYTES_OF_COPIES = 1 << 28
_MAX_BYTES_OF_OPERATOR = 1 << 30  # larger operators would fill the memory
# Bytes of constants of all copies together; each copy has constants of its own. So even small operators read constants
# from the cache level that many operators share. From a nearer cache, two halves of an operator would look cheaper than
# the whole.
_MAX_WEIGHT_BYTES = 1 << 23
_MIN_OPERATOR_SECONDS = 3e-7  # the least time to start an operator


class OperatorTimer:
    """Measures operators on one target. Reference times are kept in `store`.

    `estimate` is a cost model that gives a rough time for an operator.
    """

    def __init__(self, target: Target, opset: int, store: ResultStore, estimate: CostModel) -> None:
        self.target, self.opset, self.store, self.estimate = target, opset, store, estimate
        self._seconds_without: dict[tuple[Term, ...], float] = {}  # of models that only read operands, on the CPU

    def seconds(self, alone: Term) -> float:
        """Return the seconds of an isolated operator. Raises Unmeasurable."""
        moved = sum(map(bytes_of, alone.types)) + sum(bytes_of(i.type) for i in alone.inputs if i is not None)
        if moved > _MAX_BYTES_OF_OPERATOR:
            raise Unmeasurable(f"{alone.op} of {moved} bytes")
        weights = sum(bytes_of(i.type) for i in alone.inputs if i is not None and i.op == "Const")
        copies = min(_COPIES, _MAX_BYTES_OF_COPIES // max(1, moved), max(1, _MAX_WEIGHT_BYTES // max(1, weights)))
        if copies < 2 or self.estimate.cost(alone) > 10 * _SINGLE_COPY_SECONDS:
            seconds = self._seconds_of_copy(alone, 1)
            if seconds > _SINGLE_COPY_SECONDS or copies < 2:
                return seconds
        return max(self._seconds_of_copy(alone, copies), _MIN_OPERATOR_SECONDS)

    def _seconds_of_copy(self, alone: Term, copies: int) -> float:
        """Return the seconds of one of `copies` operators side by side, without the rest of the model."""
        weights: dict[str, Array] = {}
        outputs: list[Term] = []
        read = [used for used in dict.fromkeys(alone.inputs) if used is not None and used.op == "Var"]
        operands = self._operands([used.type for used in read if used.type is not None] * copies)
        rest = [single_element(operand) for operand in operands]
        for copy in range(copies):
            inputs = {used: used for used in alone.inputs if used is not None}
            inputs |= zip(read, operands[copy * len(read) :], strict=False)
            for used in alone.inputs:
                if used is not None and used.op == "Const":
                    assert used.type is not None
                    name = f"{used.attr('hash')}_{copy}"
                    inputs[used] = Term.of("Const", (), {"hash": name}, used.types)
                    weights.setdefault(name, random_array(used.type, len(weights)))
            node = make(alone.op, (None if i is None else inputs[i] for i in alone.inputs), dict(alone.attrs))
            outputs += map(single_element, values_of(node))
        _read_alike(outputs, rest, operands)
        if self.target.provider == "cpu":
            (whole,), empty = self._seconds_of_models([outputs], weights), self._seconds_of_rest(tuple(rest))
        else:
            whole, empty = self._seconds_of_models([outputs, rest], weights)
        return (whole - empty) / copies

    def _seconds_of_rest(self, rest: tuple[Term, ...]) -> float:
        """Return the seconds of a model without the operators. Operators with operands of the same types share it."""
        if rest not in self._seconds_without:
            (self._seconds_without[rest],) = self._seconds_of_models([rest], {})
        return self._seconds_without[rest]

    def _operands(self, types: Sequence[TensorType]) -> list[Term]:
        """Return values of these types that are computed in each run: inputs, or on CUDA expanded elements of some."""
        operands = [var(f"x{k}", type) for k, type in enumerate(types)]
        if self.target.provider == "cpu":
            return operands
        for dtype in dict.fromkeys(type.dtype for type in types):
            own = [k for k, type in enumerate(types) if type.dtype == dtype and type.shape]
            elements = _elements(var(f"x_{dtype}", TensorType(dtype, (len(own),))), len(own))
            for k, element in zip(own, elements, strict=True):
                operands[k] = make("Expand", (element,), {"shape": types[k].concrete() or ()})
        return operands

    def _seconds_of_models(self, outputs_of: Sequence[Sequence[Term]], weights: Mapping[str, Array]) -> list[float]:
        """Return the seconds of the model of each sequence of outputs."""
        joined = outputs_of if self.target.provider == "cpu" else [_joined(outputs) for outputs in outputs_of]
        models = [timed_model(outputs, weights, opset=self.opset) for outputs in joined]
        try:
            samples_of = sample_times(models, self.target, _SAMPLES, _SAMPLE_SECONDS[self.target.provider])
        except CannotRun as error:
            raise Unrunnable(str(error)) from error
        leasts = [[min(sample[k] for sample in samples) for k in (0, 1)] for samples in samples_of]
        if not self.target.cpu_clock:
            return [least for least, _ in leasts]
        # seconds = (least of the operator / least of the reference) x usual seconds of the reference
        return [least / least_reference * self._reference for least, least_reference in leasts]

    @functools.cached_property
    def _reference(self) -> float:
        """Seconds of the reference computation when something was first measured on this machine."""
        key = CalibrationKey(conditions(self.target, self.opset), "reference")
        row = self.store.calibrations.get(key)
        if row is None:
            row = Seconds(reference_time(_REFERENCE_SAMPLES))
            self.store.calibrations.put(key, row)
        return row.seconds


def _read_alike(outputs: list[Term], rest: list[Term], operands: Sequence[Term]) -> None:
    """Let the models with and without the operators read as many elements, by reading more of the operands.

    To read an element is a kernel, which may take as long as an operator.
    """
    kernels = sum(output.op == "Slice" for output in outputs) - sum(read.op == "Slice" for read in rest)
    if kernels < 0:
        outputs += [read for read in rest if read.op == "Slice"][:-kernels]
    sizes = [math.prod(operand.type.concrete() or ()) if operand.type is not None else 1 for operand in operands]
    more = (
        single_element(operand, element)
        for element in range(1, max(sizes, default=1))
        for operand, size in zip(operands, sizes, strict=True)
        if element < size
    )
    rest += itertools.islice(more, max(0, kernels))


def _elements(vector: Term, count: int) -> list[Term]:
    """Return the elements of a vector, as vectors of one element."""
    if count <= 1:
        return [vector] * count
    split = make("Split", (vector,), {"axis": -1, "split": (1,) * count})
    return [split.out(k) for k in range(count)]


def _joined(outputs: Sequence[Term]) -> list[Term]:
    """Return the outputs, with vectors of one type in one."""
    groups: dict[object, list[Term]] = {}
    for output in outputs:
        shape = None if output.type is None else output.type.shape
        groups.setdefault(output.type if shape else output, []).append(output)
    return [make("Concat", group, {"axis": -1}) if len(group) > 1 else group[0] for group in groups.values()]
