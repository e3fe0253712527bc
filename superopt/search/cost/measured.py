"""What an operator costs, measured through ONNX Runtime on the target and remembered.

An operator is run by itself, several copies side by side in one model so that the cost of a run vanishes, and
the same model without it is subtracted. Constant inputs are constants there too (the runtime prepacks them). On the CPU
each is timed against a reference, so that what is measured in a slow minute compares with what is in a quick one.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from superopt.ir.infer import OPERATORS, IllTyped, make
from superopt.ir.term import Term, repr_attrs, var
from superopt.ir.types import TensorType, tensor
from superopt.runtime import Target
from superopt.runtime.reference import reference_seconds
from superopt.search.cost.analytic import AnalyticCost, CostModel
from superopt.search.cost.cache import CostCache
from superopt.search.cost.device import device_of
from superopt.search.cost.measurement_key import conditions
from superopt.search.cost.microbench import (
    Array,
    Unmeasurable,
    Unrunnable,
    concrete,
    concrete_attrs,
    random_array,
    runner,
    tiny,
)
from superopt.search.cost.work import bytes_of

__all__ = ["MeasuredCost"]

_FORMAT = 4  # of the measurement; a change makes old entries void
_SAMPLES = 8
_SAMPLE_S = 0.001
_REFERENCES = 50
_SMALL_S = 50e-6  # what is faster is measured in copies
_COPIES = 12
_LARGEST_BYTES = 1 << 28  # all copies together
_MOST_BYTES = 1 << 30  # of one operator: what moves more is estimated, it would fill the memory
# The same of constants alone, each copy's its own. So those of a small operator, too, come from the cache that many
# operators share: read again and again from a nearer one, they would make two halves look cheaper than the whole.
_WEIGHT_BYTES = 1 << 23
_TRANSPOSED = ("transA", "transB")
_LEAST_S = 3e-7  # no operator is started for less
# A measurement reads weights from a warm cache; a model streams them from memory at 36 to 44 GB/s, where tried.
_SECONDS_PER_WEIGHT_BYTE = 2.5e-11
# What an operator costs that the runtime does not run: none that it runs takes as long.
_UNRUNNABLE_S = 1e3


@dataclass
class _Counts:
    """Where costs came from."""

    measured: int = 0
    cached: int = 0
    estimated: int = 0


class MeasuredCost:
    """Costs by measurement for operators that rules mention; by the analytic model for all others, and where an
    operator cannot be run by itself or the time for measuring (`budget_s`) is used up.

    Estimates for an operator some of which were measured are scaled by the ratio found there. What was estimated for
    want of time is remembered for the repetition of the same run, which `run` names, so that it sees the same costs.
    What the runtime does not run costs more than anything gains, unless it is one of the operators `present` in the
    model, which runs. `sizes` are values of symbolic sizes. `counts` and `notices` tell where costs came from.
    """

    seconds_per_weight_byte = _SECONDS_PER_WEIGHT_BYTE

    def __init__(
        self,
        target: Target,
        *,
        sizes: Mapping[str, int] | None = None,
        opset: int = 17,
        cache: CostCache | None = None,
        fallback: CostModel | None = None,
        budget_s: float = math.inf,
        run: str = "",
        present: Iterable[Term] = (),
    ) -> None:
        self.target, self.sizes, self.opset, self.budget_s = target, dict(sizes or {}), opset, budget_s
        self.run = run
        self._present = {_kernel(term) for term in present}
        self.fallback = fallback or AnalyticCost(device_of(target.provider), target.threads, self.sizes)
        self.cache = cache or CostCache()
        self.counts = _Counts()
        self.spent_s = 0.0
        self._known: dict[str, float] = {}
        self._keys: dict[tuple[object, ...], str] = {}  # of operators that were asked for, by what they are alike in
        self._ratios: dict[str, list[float]] = {}

    @property
    def notices(self) -> list[str]:
        """What the user should know of these costs."""
        return [self.cache.problem] if self.cache.problem else []

    def cost(self, term: Term) -> float:
        """Seconds for the one operator `term`."""
        if term.weight_only or term.op in ("Var", "Out"):
            return 0.0
        if term.op not in OPERATORS:
            return self.fallback.cost(term)
        alike = _alike(term)
        key = self._keys.get(alike)
        if key is not None and (seconds := self._known.get(key)) is not None:
            return seconds
        try:
            alone, key = self._alone(term)
        except Unmeasurable:
            return self._estimate(term)
        self._keys[alike] = key
        if key not in self._known:
            self._known[key] = self._look_up(term, alone, key)
        return self._known[key]

    def _look_up(self, term: Term, alone: Term, key: str) -> float:
        """What the cache has, else a measurement, else an estimate."""
        estimate = f"{_FORMAT}|estimate|{self.run}|{key}"
        if self.run and (seconds := self.cache.get(estimate)) is not None:  # whatever other runs have measured since
            self.counts.estimated += 1
            return seconds
        seconds = self.cache.get(key)
        if seconds is not None:
            self.counts.cached += 1
        elif self.spent_s > self.budget_s:
            seconds = self._estimate(term)
            if self.run:
                self.cache.put(estimate, seconds)
            return seconds
        else:
            begun = time.monotonic()
            try:
                seconds = self._measure(alone)
                self.counts.measured += 1
            except Unrunnable:
                seconds = _UNRUNNABLE_S
            except Unmeasurable:
                seconds = math.inf
            self.cache.put(key, seconds)
            self.spent_s += time.monotonic() - begun
        if seconds == _UNRUNNABLE_S and _kernel(term) not in self._present:
            return seconds
        if seconds == _UNRUNNABLE_S or math.isinf(seconds):
            return self._estimate(term)
        self._ratios.setdefault(term.op, []).append(seconds / self.fallback.cost(term))
        return seconds

    def _estimate(self, term: Term) -> float:
        self.counts.estimated += 1
        ratios = self._ratios.get(term.op)
        return self.fallback.cost(term) * (statistics.median(ratios) if ratios else 1.0)

    def _alone(self, term: Term) -> tuple[Term, str]:
        """The operator over leaves of concrete type, and the key of its cost."""
        term = _plain(term)
        leaves: dict[Term, Term] = {}
        for used in term.inputs:
            if used is not None and used not in leaves:
                type = concrete(used.type, self.sizes)
                if not used.weight_only:
                    leaves[used] = var(f"x{len(leaves)}", type)
                elif used.op in ("Zeros", "Ones"):  # the runtime knows what to do with them
                    leaves[used] = Term.of(used.op, (), {"shape": type.shape or ()}, (type,))
                else:
                    leaves[used] = Term.of("Const", (), {"hash": f"w{len(leaves)}"}, (type,))
        inputs = tuple(None if i is None else leaves[i] for i in term.inputs)
        try:
            alone = make(term.op, inputs, concrete_attrs(term.attrs, self.sizes))
        except IllTyped as error:
            raise Unmeasurable(f"{term.op} at the sizes to be measured: {error}") from error
        alone = _flat(alone)
        inputs = alone.inputs
        shown = " ".join("-" if i is None else f"{i.op}{i.attrs[0][1]}:{i.type}" for i in inputs)
        where = conditions(self.target, self.opset)
        return alone, f"{_FORMAT}|{where}|{term.op}[{repr_attrs(alone.attrs)}]({shown})"

    def _measure(self, alone: Term) -> float:
        moved = sum(map(bytes_of, alone.types)) + sum(bytes_of(i.type) for i in alone.inputs if i is not None)
        if moved > _MOST_BYTES:
            raise Unmeasurable(f"{alone.op} of {moved} bytes")
        weights = sum(bytes_of(i.type) for i in alone.inputs if i is not None and i.op == "Const")
        copies = min(_COPIES, _LARGEST_BYTES // max(1, moved), max(1, _WEIGHT_BYTES // max(1, weights)))
        if copies < 2 or self.fallback.cost(alone) > 10 * _SMALL_S:
            seconds = self._copies(alone, 1)
            if seconds > _SMALL_S or copies < 2:
                return seconds
        return max(self._copies(alone, copies), _LEAST_S)

    def _copies(self, alone: Term, copies: int) -> float:
        """Seconds of one of `copies` operators side by side, the rest of the model subtracted."""
        weights: dict[str, Array] = {}
        outputs: list[Term] = []
        rest: list[Term] = []
        for copy in range(copies):
            inputs: dict[Term, Term] = {}
            for used in alone.inputs:
                if used is None:
                    continue
                assert used.type is not None
                inputs[used] = used
                if used.op == "Var":
                    inputs[used] = var(f"{used.attr('name')}_{copy}", used.type)
                    rest.append(tiny(inputs[used]))
                elif used.op == "Const":
                    name = f"{used.attr('hash')}_{copy}"
                    inputs[used] = Term.of("Const", (), {"hash": name}, used.types)
                    weights.setdefault(name, random_array(used.type, len(weights)))
            node = make(alone.op, (None if i is None else inputs[i] for i in alone.inputs), dict(alone.attrs))
            outputs += [tiny(node.out(k)) for k in range(len(node.types))] if len(node.types) > 1 else [tiny(node)]
        whole, empty = self._seconds(outputs, weights), self._seconds(rest, {})
        sinks = len(outputs) - len(rest)
        return (whole - empty - (sinks * self._sink if sinks else 0.0)) / copies

    @functools.cached_property
    def _sink(self) -> float:
        """Seconds that reading one element of a tensor takes: models that are compared differ in how often they do."""
        key = f"{_FORMAT}|{conditions(self.target, self.opset)}|sink"
        seconds = self.cache.get(key)
        if seconds is None:
            inputs = [tiny(var(f"x{k}", tensor(8))) for k in range(_COPIES + 1)]
            seconds = (self._seconds(inputs, {}) - self._seconds(inputs[:1], {})) / _COPIES
            self.cache.put(key, seconds)
        return seconds

    def _seconds(self, outputs: Sequence[Term], weights: Mapping[str, Array]) -> float:
        run = runner(outputs, weights, self.target, opset=self.opset)
        if not self.target.cpu_clock:
            return min(seconds for seconds, _ in _samples(run, time.perf_counter, lambda: 0.0))
        # seconds = (least of the operator / least of the reference) x usual seconds of the reference
        samples = _samples(run, time.thread_time, reference_seconds)
        least, slow = (min(sample[k] for sample in samples) for k in (0, 1))
        return least / slow * self._reference

    @functools.cached_property
    def _reference(self) -> float:
        """Seconds of the reference, when something was first measured on this machine."""
        key = f"{_FORMAT}|{conditions(self.target, self.opset)}|reference"
        seconds = self.cache.get(key)
        if seconds is None:
            seconds = min(reference_seconds() for _ in range(_REFERENCES))
            self.cache.put(key, seconds)
        return seconds


def _kernel(term: Term) -> tuple[str, str | None]:
    return term.op, None if term.type is None else term.type.dtype


def _alike(term: Term) -> tuple[object, ...]:
    """What operators of one cost have in common, in the time that it takes to look at them: attributes, the types of
    operands, which of them are constants, and which are the same."""
    places = {used: place for place, used in reversed(list(enumerate(term.inputs)))}
    shown = [
        None if i is None else (i.types, i.weight_only, i.op in ("Zeros", "Ones") and i.op, places[i])
        for i in term.inputs
    ]
    return (term.op, term.attrs, *shown)


def _plain(term: Term) -> Term:
    """The simplest operator of the same cost, so that noise does not make one of two equal things look cheaper.

    A constant bias is free. A product of matrices with a constant one, which the runtime packs beforehand, costs the
    same as MatMul and as Gemm, transposed or not; a FusedMatMul that transposes nothing is MatMul's kernel.
    """
    if term.op == "FusedMatMul" and not any(term.attr(name) for name in _TRANSPOSED):
        return make("MatMul", term.inputs)
    if term.op not in ("Conv", "Gemm"):
        return term
    inputs = term.inputs
    if len(inputs) > 2 and (inputs[2] is None or inputs[2].weight_only):
        inputs = inputs[:2]
    weight = inputs[1]
    if term.op == "Gemm" and len(inputs) == 2 and not term.attr("transA") and weight is not None and weight.weight_only:
        if term.attr("transB"):
            weight = make("Transpose", (weight,), {"perm": (1, 0)})
        return make("MatMul", (inputs[0], weight))
    return make(term.op, inputs, dict(term.attrs))


def _flat(alone: Term) -> Term:
    """A product of an array and a matrix as that of two matrices: the runtime computes them alike."""
    if alone.op != "MatMul":
        return alone
    a, b = alone.inputs
    assert a is not None and b is not None and a.type is not None and b.type is not None
    shape, matrix = a.type.concrete(), b.type.concrete()
    if shape is None or len(shape) < 3 or matrix is None or len(matrix) != 2 or a.op != "Var":
        return alone
    rows = TensorType(a.type.dtype, (math.prod(shape[:-1]), shape[-1]))
    return make("MatMul", (var(str(a.attr("name")), rows), b))


def _samples(
    run: Callable[[], object], clock: Callable[[], float], reference: Callable[[], float]
) -> list[tuple[float, float]]:
    """Seconds of a call, in samples of a millisecond or more, each with what the reference takes at that time.

    The least of them count, as disturbances only ever add.
    """
    run()
    begun = time.perf_counter()
    run()
    calls = max(1, math.ceil(_SAMPLE_S / max(time.perf_counter() - begun, 1e-7)))
    samples = []
    for _ in range(_SAMPLES):
        begun = clock()
        for _ in range(calls):
            run()
        samples.append(((clock() - begun) / calls, reference()))
    return samples
