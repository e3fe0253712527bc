"""A device description fitted to measurements of single operators, and its file.

Each figure of the description is read off a few operators that depend on nearly that figure alone. Then operators of
models tell which kernels are slower than the description predicts.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from superopt.ir.infer import make
from superopt.ir.term import Term, topological, var
from superopt.ir.types import TensorType
from superopt.onnx_io import ModelError, read_simplified
from superopt.runtime import Target
from superopt.search import AnalyticCost, Device, MeasuredCost
from superopt.search.cost.operator_form import lookup_key
from superopt.search.cost.work import work
from superopt.store import ResultStore

__all__ = ["Calibration", "Seconds", "calibrate", "fitted", "to_toml"]

Seconds = Callable[[Term], float | None]  # measured seconds of an operator; None if it cannot be measured

# Sizes of the probes by provider (small on the CPU, for dry runs): of square matrices, of the images of a depthwise
# Conv, and bytes beyond all caches.
_MATRIX = {"cpu": 256, "cuda": 4096}
_CHANNELS, _IMAGE, _KERNEL = {"cpu": 64, "cuda": 512}, 56, 7
_MEMORY_BYTES = {"cpu": 1 << 26, "cuda": 3 << 28}
_ROWS, _DEPTH = 64, 4096  # of a product with few results
_FLOATS = ("float16", "bfloat16", "double")
# Kernels are slow if they take longer than predicted by this factor, in the median over at least as many operators.
_SLOW, _MIN_OPERATORS = 1.5, 3


@dataclass(frozen=True)
class Calibration:
    """A fitted description, the figures that were measured, and the number of operators of models behind `slower`."""

    device: Device
    measured: Mapping[str, float] = field(default_factory=dict)
    operators: int = 0


def calibrate(target: Target, prior: Device, models: Iterable[Path], name: str, budget_s: float) -> Calibration:
    """Measure on `target`: the figures first, then operators of `models` until `budget_s` seconds have passed.

    Figures that cannot be measured are those of `prior`.
    """
    begun = time.monotonic()
    with ResultStore() as store:
        seconds = _measurement(target, prior, store)
        device, measured = fitted(seconds, dataclasses.replace(prior, name=name))
        samples: list[tuple[Term, float]] = []
        for term in _operators(models, device, begun + budget_s / 2):
            if time.monotonic() - begun > budget_s:
                break
            if (measurement := seconds(term)) is not None:
                samples.append((term, measurement))
    return Calibration(dataclasses.replace(device, slower=slower(device, samples)), measured, len(samples))


def fitted(seconds: Seconds, prior: Device) -> tuple[Device, dict[str, float]]:
    """Return `prior` with the figures that `seconds` tells, without `slower`, and those figures by name."""
    found: dict[str, float] = {}
    if times := _known(seconds, [make(op, (_value("float", 64),)) for op in ("Relu", "Sigmoid", "Neg", "Abs")]):
        found["overhead"] = statistics.median(times)
    overhead = found.get("overhead", prior.overhead)

    def rate(amount: float, term: Term) -> float | None:
        measured = seconds(term)
        return None if measured is None or measured <= overhead else amount / (measured - overhead)

    large, near = _MEMORY_BYTES[prior.provider], prior.cache_bytes / 2
    for name, touched in (("bandwidth", large), ("cache_bandwidth", near)):
        addition = make("Add", (_value("float", count := max(1, int(touched) // 12)), _value("float", count, name="y")))
        found |= _entry(name, rate(12 * count, addition) if touched else None)
    channels, size = _CHANNELS[prior.provider], _MATRIX[prior.provider]
    kernel = _weight("float", channels, 1, _KERNEL, _KERNEL)
    attributes = {"group": channels, "pads": (_KERNEL // 2,) * 4, "strides": (1, 1), "dilations": (1, 1)}
    depthwise = make("Conv", (_value("float", 1, channels, _IMAGE, _IMAGE), kernel), attributes)
    found |= _entry("scalar", rate(work(depthwise).dense, depthwise))
    found |= _entry("dense", rate(2.0 * size**3, _product("float", size, size, size)))
    of_types = {dtype: rate(2.0 * size**3, _product(dtype, size, size, size)) for dtype in _FLOATS}
    found |= {f"dense_of.{dtype}": value for dtype, value in of_types.items() if value is not None}
    dense = found.get("dense", prior.dense)
    if prior.provider != "cpu":  # a small product takes (FLOP / dense) * (full / results)
        few = rate(2.0 * _ROWS * _DEPTH * _ROWS, _product("float", _ROWS, _DEPTH, _ROWS))
        found |= _entry("full", None if few is None else max(1.0, round(_ROWS * _ROWS * dense / few)))
    plain = {key: value for key, value in found.items() if "." not in key and key != "full"}
    return (
        dataclasses.replace(
            prior,
            **plain,
            full=int(found.get("full", prior.full)),
            dense_of={**prior.dense_of, **{dtype: v for dtype, v in of_types.items() if v is not None}},
            slower={},
        ),
        found,
    )


def slower(device: Device, samples: Sequence[tuple[Term, float]]) -> dict[str, float]:
    """Return the factors of kernels that are slower than `device`, which has none, predicts.

    Operators whose start takes longer than their work tell nothing.
    """
    cost = AnalyticCost(device)
    factors: dict[str, list[float]] = {}
    for term, seconds in samples:
        predicted = cost.cost(term) - device.overhead
        if predicted > device.overhead:
            factors.setdefault(term.op, []).append((seconds - device.overhead) / predicted)
    medians = {op: statistics.median(own) for op, own in sorted(factors.items()) if len(own) >= _MIN_OPERATORS}
    return {op: round(factor, 2) for op, factor in medians.items() if factor >= _SLOW}


def to_toml(device: Device, heading: str) -> str:
    """Return the description as the text of its file, as `read_device` reads it; `heading` becomes a comment."""
    lines = [f"# {line}" for line in heading.splitlines()]
    tables: list[str] = []
    for key in (
        "name",
        "provider",
        *(f.name for f in dataclasses.fields(device) if f.name not in ("name", "provider")),
    ):
        value = getattr(device, key)
        if isinstance(value, Mapping):
            if value:
                tables += ["", f"[{key}]", *(f"{name} = {_number(number)}" for name, number in value.items())]
        else:
            lines.append(f"{key} = {json.dumps(value) if isinstance(value, str) else _number(value)}")
    return "\n".join([*lines, *tables, ""])


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}".replace("e+", "e")


def _entry(name: str, value: float | None) -> dict[str, float]:
    return {} if value is None else {name: value}


def _known(seconds: Seconds, terms: Iterable[Term]) -> list[float]:
    return [value for term in terms if (value := seconds(term)) is not None]


def _measurement(target: Target, prior: Device, store: ResultStore) -> Seconds:
    """Return the function that measures an operator on `target`, or looks it up in `store`."""

    def seconds(term: Term) -> float | None:
        costs = MeasuredCost(target, store=store, fallback=AnalyticCost(prior), present=(term,))
        value = costs.cost(term)
        return None if costs.counts.estimated else value

    return seconds


def _operators(models: Iterable[Path], device: Device, end: float) -> list[Term]:
    """Return the different operators of the models that were read until `end`, the most expensive kinds first."""
    cost = AnalyticCost(device)
    found: dict[tuple[object, ...], Term] = {}
    for path in models:
        if time.monotonic() > end:
            break
        try:
            outputs = read_simplified(path).outputs
        except ModelError:
            continue
        for term in topological(outputs):
            if not term.is_constant and term.op not in ("Var", "Out"):
                found.setdefault(lookup_key(term), term)
    return sorted(found.values(), key=cost.cost, reverse=True)


def _value(dtype: str, *shape: int, name: str = "x") -> Term:
    return var(name, TensorType(dtype, shape))


def _weight(dtype: str, *shape: int) -> Term:
    return Term.of("Const", (), {"hash": "w"}, (TensorType(dtype, shape),))


def _product(dtype: str, rows: int, depth: int, columns: int) -> Term:
    return make("MatMul", (_value(dtype, rows, depth), _weight(dtype, depth, columns)))
