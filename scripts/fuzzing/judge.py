"""If two models compute the same, by ONNX Runtime alone.

Integers, truth values and shapes must be equal. For real numbers the judge measures how much roundings matter, instead
of assuming it: every real operand and result of every node is multiplied by random numbers that differ from 1 by a few
roundings, and the spread of the outputs says how far roundings may carry each element. Two outputs may differ by a
multiple of the spreads of both models. An integer or a truth value that the noise changes (a rounded number, a
comparison) is not compared. The spread of the original is its own loss. As in `superopt optimize`, that of the result
excuses no difference in the upper half of an output's digits (`superopt.runtime.Tolerance.largest`), unless the rules
that were applied have no bound on roundings. If everything may cancel, as in the mean of x - mean(x), an output has no
digits but roundings; then these are the digits of the largest number in the graph (`cancels`).

Nothing is claimed about results that are computed from NaN or infinities. With `exact` these are compared as well, bit
for bit; but not with ONNX Runtime's optimizations, whose own fusions round. Rules without a bound on roundings are true
of real numbers, so nothing is claimed either where a result rewritten by them computes too large a number on its way:
x * y + x * z may overflow where x * (y + z) is 0. What the specification leaves open is never compared.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import onnx
import onnxruntime as ort
from onnx import NodeProto, ValueInfoProto, helper

from superopt.optimizer.tolerance import derive_tolerance
from superopt.runtime import Tolerance

from .graphs import elem_type, reads
from .unspecified import steps_before_rounding, unspecified
from .values import Array, largest
from .workers import runs_original

__all__ = ["Feeds", "Judge", "NotRun", "run"]

Feeds = Mapping[str, Array]

_LEVELS = {"none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL, "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL}
_ROUNDOFF = {"float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}
_NO_KERNEL = "NOT_IMPLEMENTED"
_MISPLANNED = "Shape mismatch attempting to re-use buffer"
_NOISE = 8  # roundings; of one only it would be lost in the numbers that noise itself rounds to
# Rounds of noise. Where the operands of a comparison are equal, each round changes the result with probability 1/2. So
# there are more rounds before a difference is claimed.
_ROUNDS = 5, 40
_FACTOR = 8.0  # of the spread
_ANY = np.array(np.inf)  # the spread of an output whose sizes the noise decides
# Operands that are no numbers to compute with: noise there asks for another computation.
_PARAMETERS = {"Resize", "Upsample", "Range", "Pow", "Dropout", "OneHot", "QuantizeLinear", "DequantizeLinear"}
# Functions that the runtime approximates with an absolute error, so that small results have few digits.
_APPROXIMATE = {
    "Sigmoid", "Tanh", "Erf", "Softplus", "Mish", "Elu", "Celu", "Selu", "Gelu", "FastGelu", "QuickGelu", "BiasGelu",
    "LSTM", "GRU", "RNN", "FusedConv", "FusedGemm", "Softmax", "LogSoftmax", "HardSwish", "Log", "Exp", "If", "Loop",
    "Sin", "Cos",
}  # fmt: skip
# Sums and products: an infinity that they make of finite numbers is a number too large for its type.
_POLYNOMIAL = {"Add", "Sub", "Mul", "Sum", "MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "ReduceSum", "CumSum"}


class NotRun(Exception):
    """ONNX Runtime refuses the model, or fails on the inputs."""


def run(model: onnx.ModelProto, feeds: Feeds, level: str = "none") -> list[Array]:
    """Return the outputs. Raises NotRun.

    ONNX Runtime plans its memory by sizes that the file states and that it infers. Those of an Einsum that broadcasts a
    size of 1 it infers wrongly. If it fails without the statements too, then it runs without a plan.
    """
    try:
        return _run(model, feeds, level)
    except NotRun as error:
        if _MISPLANNED not in str(error):
            raise
        unstated = _without_sizes(model)
        try:
            _run(unstated, feeds, level)
        except NotRun as without:
            if _MISPLANNED in str(without):
                return _run(unstated, feeds, level, reuse=False)
        raise


def _without_sizes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without what it states about the sizes of tensors that it computes."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.graph.value_info[:]
    for value in found.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return found


def _run(model: onnx.ModelProto, feeds: Feeds, level: str, reuse: bool = True) -> list[Array]:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.graph_optimization_level, options.enable_mem_reuse = _LEVELS[level], reuse
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        names = {value.name for value in session.get_inputs()}
        return [np.asarray(v) for v in session.run(None, {k: v for k, v in feeds.items() if k in names})]
    except Exception as error:  # noqa: BLE001  the runtime's exceptions share no other base class
        raise NotRun(" ".join(str(error).split())) from None


class _Run:
    """One model on one input: its outputs, those that nothing is claimed about, and how far roundings carry them."""

    def __init__(self, model: onnx.ModelProto, feeds: Feeds) -> None:
        self.model, self.feeds = model, feeds
        self.names = [value.name for value in model.graph.output]
        made = [n for node in model.graph.node for n in node.output if n and n not in self.names]
        wide = onnx.ModelProto()
        wide.CopyFrom(model)
        wide.graph.output.extend(ValueInfoProto(name=name) for name in dict.fromkeys(made))
        values = run(wide, feeds)
        self.values = dict(zip([*self.names, *dict.fromkeys(made)], values, strict=True))
        self.values.update((t.name, onnx.numpy_helper.to_array(t)) for t in model.graph.initializer)
        self.values.update(feeds)
        self.outputs = values[: len(self.names)]
        infinite = {name for name, v in self.values.items() if v.dtype.kind == "f" and not np.isfinite(v).all()}
        self.unspecified = self._below(set(unspecified(model, self.values)))
        self.stepped = self._below(set(steps_before_rounding(model, self.values)))
        self.undefined = self._below(infinite) | self.unspecified | self.stepped
        self.overflowed = self._below(
            {
                name
                for node in model.graph.node
                if node.op_type in _POLYNOMIAL and infinite.isdisjoint(node.input)
                for name in infinite.intersection(node.output)
            }
        )

    @cached_property
    def optimized(self) -> list[Array] | None:
        """The outputs with ONNX Runtime's optimizations, or None if the model does not run with them."""
        try:
            with runs_original():
                return run(self.model, self.feeds, "all")
        except NotRun:
            return None

    @cached_property
    def largest(self) -> float:
        """The largest absolute value of a real number in the graph, tensors with infinities and NaN left out."""
        return max(filter(math.isfinite, map(largest, self.values.values())), default=0.0)

    @cached_property
    def approximated(self) -> float:
        """The number to whose digits the runtime approximates functions, 0 if the graph has no such function."""
        return 1.0 if any(node.op_type in _APPROXIMATE for node in self.model.graph.node) else 0.0

    def _below(self, bad: set[str]) -> set[str]:
        """Return `bad` and all tensors that are computed from it."""
        found = set(bad)
        for node in self.model.graph.node:
            if not found.isdisjoint(reads(node)):
                found.update(node.output)
        return found

    def spreads(self, seed: int, rounds: int) -> list[Array]:
        """Return for each output, element by element, the largest change by noise; 1 for an integer that changes.

        It is one infinity where the noise decides a size.
        """
        rng = np.random.default_rng(seed)
        noisy, slots = self._instrumented()
        found: list[Array] = [np.zeros(o.shape) for o in self.outputs]
        for _ in range(rounds):
            noise = {name: _noise(rng, like, absolute) for name, (like, absolute) in slots.items()}
            try:
                changed = run(noisy, {**self.feeds, **noise})
            except NotRun:
                return [np.full(o.shape, np.inf) for o in self.outputs]
            for k, (a, b) in enumerate(zip(self.outputs, changed, strict=True)):
                if found[k] is _ANY or a.shape != b.shape:
                    found[k] = _ANY
                    continue
                with np.errstate(all="ignore"):
                    step = np.abs(a.astype(float) - b.astype(float)) if a.dtype.kind == "f" else (a != b).astype(float)
                found[k] = np.maximum(found[k], np.where(np.isnan(step), np.inf, step))
        return found

    def _instrumented(self) -> tuple[onnx.ModelProto, dict[str, tuple[Array, bool]]]:
        """Return the model with noise as additional inputs, and the tensor that each noise belongs to."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        del model.graph.node[:]
        slots: dict[str, tuple[Array, bool]] = {}

        def noise(name: str, result: str, absolute: bool = False) -> NodeProto:
            slot = f"noise_{len(slots)}"
            slots[slot] = self.values[name], absolute
            return helper.make_node("Add" if absolute else "Mul", [name, slot], [result])

        real = {name for name, value in self.values.items() if value.dtype.name in _ROUNDOFF}
        for old in self.model.graph.node:
            node = NodeProto()
            node.CopyFrom(old)
            for k, name in enumerate(node.input):
                if name in real and old.op_type != "Constant" and not (k and old.op_type in _PARAMETERS):
                    node.input[k] = f"{name}_in_{len(slots)}"
                    model.graph.node.append(noise(name, node.input[k]))
            after: list[NodeProto] = []
            for k, name in enumerate(node.output):
                if name in real and old.op_type != "Constant":
                    node.output[k] = f"{name}_out_{len(slots)}"
                    after.append(noise(name, name))
                    after[-1].input[0] = node.output[k]
                    if old.op_type in _APPROXIMATE:
                        after[-1].output[0] = f"{name}_mid_{len(slots)}"
                        after.append(noise(name, name, absolute=True))
                        after[-1].input[0] = after[-2].output[0]
            model.graph.node.extend([node, *after])
        model.graph.input.extend(
            helper.make_tensor_value_info(slot, elem_type(like.dtype.name), like.shape)
            for slot, (like, _) in slots.items()
        )
        return model, slots


def _noise(rng: np.random.Generator, like: Array, absolute: bool) -> Array:
    size = _NOISE * _ROUNDOFF[like.dtype.name]
    return np.asarray(rng.uniform(-size, size, like.shape) + (0 if absolute else 1)).astype(like.dtype)


class Judge:
    """The original on several inputs. `exact` compares bits, and undefined results as well; `cancels` as above.

    If not `bounded`, a spread excuses any difference, and so does an overflow in the result. Where half of the digits
    differ, a `quick` judge does not ask for the spread of the original, which takes many runs. Raises NotRun if the
    original runs on none of them.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        inputs: Sequence[Feeds],
        exact: bool = False,
        seed: int = 0,
        cancels: bool = False,
        bounded: bool = True,
        quick: bool = False,
    ) -> None:
        self.exact, self.seed, self.cancels, self.quick = exact, seed, cancels, quick
        self.tolerance = derive_tolerance(model) if bounded else None
        self.runs: list[_Run] = []
        problem = NotRun("no inputs")
        for feeds in inputs:
            try:
                with runs_original():
                    self.runs.append(_Run(model, feeds))
            except NotRun as error:
                problem = error
        if not self.runs:
            raise problem
        self._spreads: dict[tuple[int, int], list[Array]] = {}

    def tensors(self) -> Iterator[tuple[Mapping[str, Array], Feeds]]:
        """Yield the values of all tensors by name, and the inputs, for each input on which the original runs."""
        for found in self.runs:
            yield found.values, found.feeds

    def problem(self, candidate: onnx.ModelProto, levels: Sequence[str] = ("none", "all")) -> str | None:
        """Return where the candidate differs from the original, in one line, or None."""
        for number, original in enumerate(self.runs):
            try:
                ours = _Run(candidate, original.feeds)
            except NotRun as error:
                if _NO_KERNEL in str(error):
                    return None  # the runtime lacks an operator for a type: the candidate is of no use, not wrong
                if original.optimized is None:
                    continue  # the runtime refuses the original, too, as soon as it folds constants itself
                return f"does not run: {error}"
            found = self._differs(number, original.outputs, ours.outputs, original, ours, self.exact)
            if found is not None:
                return found
            if "all" not in levels or original.optimized is None:
                continue
            if self._differs(number, original.outputs, original.optimized, original, original) is not None:
                continue  # the runtime's own optimizer changes the original
            try:
                outputs = run(candidate, original.feeds, "all")
            except NotRun as error:
                return f"runtime: does not run with ONNX Runtime's optimizations: {error}"
            found = self._differs(number, original.outputs, outputs, original, ours)
            if found is not None:
                return f"runtime: with ONNX Runtime's optimizations {found}"
        return None

    def _differs(
        self,
        number: int,
        expected: Sequence[Array],
        got: Sequence[Array],
        original: _Run,
        ours: _Run,
        exact: bool = False,
    ) -> str | None:
        if len(expected) != len(got):
            return f"{len(got)} outputs instead of {len(expected)}"
        excused = ours.stepped | ours.overflowed if self.tolerance is None else ours.stepped
        spreads = functools.cache(lambda rounds: self._both_spreads(number, original, ours, rounds))
        for k, (a, b) in enumerate(zip(expected, got, strict=True)):
            name = original.names[k]
            if name in original.unspecified:
                continue
            defined = name not in original.undefined and ours.names[k] not in excused
            if a.dtype != b.dtype or len(a.shape) != len(b.shape) or (a.shape != b.shape and exact):
                return f"output {name} is {_sizes(b)} instead of {_sizes(a)}"
            if a.shape != b.shape:
                if defined and not any(spreads(rounds)[0][k] is _ANY for rounds in _ROUNDS):
                    return f"output {name} is {_sizes(b)} instead of {_sizes(a)}"
                continue
            if _same_bits(a, b):
                continue
            if exact:
                return f"output {name} has other bits: {_worst(a, b)}"
            if not defined or (a.dtype.kind == "f" and np.array_equal(a, b)):
                continue
            digits = max(largest(a), original.approximated)
            if _within(a, b, np.zeros(a.shape), self.tolerance, digits):
                continue
            if self.quick and not _within(
                a, b, np.full(a.shape, np.inf), self.tolerance, max(digits, original.largest)
            ):
                return f"output {name} differs: {_worst(a, b)}"
            for rounds in _ROUNDS:
                own, spread = (found[k] for found in spreads(rounds))
                is_noise = a.dtype.kind == "f" and bool(np.all(np.abs(a.astype(float)) <= _FACTOR * spread))
                most = original.largest if self.cancels or is_noise else digits
                if _within(a, b, spread, self.tolerance, most, own):
                    break
            else:
                return f"output {name} differs: {_worst(a, b)}"
        return None

    def _both_spreads(self, number: int, original: _Run, ours: _Run, rounds: int) -> tuple[list[Array], list[Array]]:
        """Return the spreads of the original and the sums of those of both models, for each output."""
        if (number, rounds) not in self._spreads:
            with runs_original():
                self._spreads[number, rounds] = original.spreads(self.seed, rounds)
        own = self._spreads[number, rounds]
        if ours is original:
            return own, own
        theirs = ours.spreads(self.seed + 1, rounds)
        return own, [a + b if a.shape == b.shape else _ANY for a, b in zip(own, theirs, strict=True)]


def _sizes(a: Array) -> str:
    return f"{a.dtype}{list(a.shape)}"


def _same_bits(a: Array, b: Array) -> bool:
    if a.dtype.kind == "f":  # there are many NaN
        a, b = (np.where(np.isnan(x), np.array(np.nan, x.dtype), x) for x in (a, b))
    return a.tobytes() == b.tobytes()


def _within(
    a: Array, b: Array, spread: Array, tolerance: Tolerance | None, largest: float, own: Array | float = 0.0
) -> bool:
    """Return True if a difference is explained by a spread: as far as `own`, or half of the digits of `largest`.

    Where `own` is infinite, roundings decide if the original is a number at all: its variance may be 0 or below.
    """
    if a.dtype.kind != "f":
        return bool(np.all((a == b) | (spread > 0)))
    x, y = a.astype(float), b.astype(float)
    least = float(np.finfo(a.dtype).smallest_normal)
    with np.errstate(all="ignore"):
        amplified = _FACTOR * spread
        if tolerance is not None:
            most = np.maximum(_FACTOR * own, tolerance.largest(a.dtype) * largest)
            amplified = np.minimum(amplified, most)
        bound = amplified + _FACTOR * _ROUNDOFF[a.dtype.name] * np.abs(x) + least
        return bool(np.all((np.abs(x - y) <= bound) | (x == y) | np.isinf(own)))


def _worst(a: Array, b: Array) -> str:
    with np.errstate(all="ignore"):
        distance = np.where(a != b, 1.0, 0.0) if a.dtype.kind != "f" else np.abs(a.astype(float) - b.astype(float))
    if a.dtype.kind == "f":  # NaN in one of them is the worst
        distance = np.where(np.isnan(a) != np.isnan(b), np.inf, np.nan_to_num(distance, nan=0.0))
    at = np.unravel_index(int(np.argmax(distance)), a.shape) if a.size else ()
    index = [int(i) for i in at]
    return f"{b[at]!s} instead of {a[at]!s} at {index} ({a.dtype})"
