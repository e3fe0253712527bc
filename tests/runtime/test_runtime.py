"""The instrument: feeds that models accept, tolerances that mean something, fair timing, no silent fallback."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from superopt.runtime import (
    CannotRun,
    InputError,
    InputSpec,
    RuntimeUnavailable,
    Target,
    Timing,
    Tolerance,
    Unfeedable,
    calibrate,
    compare,
    feed_candidates,
    input_specs,
    interleaved,
    open_session,
    parse_shape,
    resolve_target,
    show_shape,
    time_contest,
    time_interleaved,
    time_models,
    unit_roundoff,
    worst_of,
)
from superopt.runtime import sessions as sessions_module
from superopt.runtime.intervals import median_interval
from superopt.runtime.student import student_quantile
from tests.support.models import floats, lora, model, weights

TIGHT = Tolerance(depth=10, length=100)


SIZES = st.integers(0, 200) | st.lists(st.integers(1, 200), min_size=2, max_size=2).map(sorted).map(tuple)


@given(st.text("abc:/.=_", min_size=1), st.lists(SIZES, max_size=6))
def test_shapes_read_back(name: str, sizes: list[int | tuple[int, int]]) -> None:
    assert parse_shape(f"{name}={show_shape(tuple(sizes))}") == (name, tuple(sizes))


def test_two_feeds_take_both_sides_of_a_condition() -> None:
    """A branch that no feed takes would count as compared."""
    specs, shapes = [InputSpec("c", TensorProto.BOOL, ()), InputSpec("m", TensorProto.BOOL, (3,))], {"c": (), "m": (3,)}
    for seed in range(4):
        first, second = (next(feed_candidates(specs, shapes, seed, index)) for index in (0, 1))
        assert all((first[name] != second[name]).all() for name in shapes)


@pytest.mark.parametrize("text", ["", "x", "=1x2", "x=1x", "x=-1", "x=1x2y", "x= 1", "x=1...4", "x=1..", "x=..4"])
def test_shapes_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="1x3x224x224"):
        parse_shape(text)


@pytest.mark.parametrize("text", ["x=4..1", "x=0..4", "x=1x0..0"])
def test_ranges_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="begins at 1 or more"):
        parse_shape(text)


@pytest.mark.parametrize(("confidence", "degrees", "t"), [
    (0.95, 1, 12.706), (0.95, 3, 3.182), (0.95, 7, 2.365), (0.95, 11, 2.201), (0.99, 7, 3.499), (0.9, 5, 2.015),
])  # fmt: skip
def test_quantiles_of_student(confidence: float, degrees: int, t: float) -> None:
    assert student_quantile(confidence, degrees) == pytest.approx(t, abs=1e-3)


def test_an_interval_is_wider_at_a_higher_confidence() -> None:
    timing = Timing(1.1, 1.0, 1.1, 1.05, 1.15, 1.1, 1.0, 9, "cpu", pairs=8)
    assert timing.low_at(0.95) == pytest.approx(1.05) and 1.0 < timing.low_at(0.99) < 1.05


def test_inputs_with_defaults_are_left_out() -> None:
    proto = lora()
    proto.graph.input.append(floats("W", 64, 64))
    assert [spec.name for spec in input_specs(proto)] == ["x"]


def test_huge_inputs_are_refused() -> None:
    huge = InputSpec("x", TensorProto.FLOAT, (10**12, 10**12))
    with pytest.raises(Unfeedable, match="input x of shape 1000000000000x1000000000000 has more than"):
        next(feed_candidates([huge], {"x": (10**12, 10**12)}, 0, 0))


def test_feeds_depend_on_seed_index_and_name_only() -> None:
    one, other = InputSpec("a", TensorProto.FLOAT, (3,)), InputSpec("b", TensorProto.FLOAT, (3,))
    shapes = {"a": (3,), "b": (3,)}
    both = next(feed_candidates([one, other], shapes, 5, 0))
    assert np.array_equal(next(feed_candidates([one], shapes, 5, 0))["a"], both["a"])
    assert not np.array_equal(both["a"], both["b"])
    assert not np.array_equal(next(feed_candidates([one], shapes, 6, 0))["a"], both["a"])
    assert not np.array_equal(next(feed_candidates([one], shapes, 5, 1))["a"], both["a"])


NUMERIC = [
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT8,
    TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.COMPLEX64,
]  # fmt: skip


@pytest.mark.parametrize("elem_type", [*NUMERIC, TensorProto.STRING])
def test_every_element_type_is_drawn(elem_type: int) -> None:
    for feeds in feed_candidates([InputSpec("a", elem_type, (2, 3))], {"a": (2, 3)}, 0, 0):
        assert feeds["a"].dtype == helper.tensor_dtype_to_np_dtype(elem_type)
        assert feeds["a"].shape == (2, 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_tolerance_grows_with_roundoff_and_depth(dtype: Any) -> None:
    tight, loose = (Tolerance(d, d).relative(np.dtype(dtype)) for d in (4, 400))
    assert 0 < tight < loose < 1
    roundoff = unit_roundoff(np.dtype(dtype))
    assert Tolerance(4, 4, own_spread=0.3).relative(np.dtype(dtype)) == max(tight, roundoff**0.5)


def test_rounding_of_real_models_is_within_tolerance() -> None:
    """Both orders of multiplication in float32, many sizes: always within, and not by more than a hundred times."""
    rng = np.random.default_rng(0)
    for size in (8, 64, 256):
        x, a, b = (rng.standard_normal((size, size)).astype(np.float32) for _ in range(3))
        found = compare([(x @ a) @ b], [x @ (a @ b)], Tolerance(2, 2 * size))
        assert found.ok, found
        assert found.worst > 0.01


def test_real_differences_are_found() -> None:
    a = np.linspace(-1, 1, 100, dtype=np.float32)
    assert compare([a], [a], TIGHT).ok
    assert not compare([a], [a * np.float32(1.001)], TIGHT).ok
    assert not compare([a], [a.astype(np.float64)], TIGHT).ok
    assert not compare([a], [a[:99]], TIGHT).ok
    assert not compare([a], [a, a], TIGHT).ok
    assert not compare([a, a], [a, -a], TIGHT).ok
    assert compare([a, a], [a, -a], TIGHT).output == 1


@pytest.mark.parametrize(("bad", "same"), [(np.nan, np.nan), (np.inf, np.inf), (-np.inf, -np.inf)])
def test_specials_must_agree(bad: float, same: float) -> None:
    a = np.array([1.0, 2.0], np.float32)
    with_bad = np.array([1.0, bad], np.float32)
    assert not compare([a], [with_bad], TIGHT).ok
    assert not compare([with_bad], [a], TIGHT).ok
    assert compare([with_bad], [np.array([1.0, same], np.float32)], TIGHT).ok
    assert not compare([np.array([1.0, np.inf], np.float32)], [np.array([1.0, -np.inf], np.float32)], TIGHT).ok


def test_integers_are_equal_unless_the_original_is_not_itself() -> None:
    a, b = np.arange(100), np.arange(100)
    b[3] += 1
    assert not compare([a], [b], TIGHT).ok
    assert compare([a], [b], TIGHT, [a != b]).ok
    assert not compare([a], [b + 1], TIGHT, [a != b]).ok


def test_spread_widens_the_tolerance() -> None:
    a = np.ones(4, np.float32)
    widened = calibrate(TIGHT, [a], [a + np.float32(2e-5)])
    assert compare([a], [a + np.float32(6e-5)], widened).ok
    assert not compare([a], [a + np.float32(2e-4)], widened).ok


def test_no_spread_excuses_a_difference_in_the_upper_half_of_the_digits() -> None:
    a = np.ones(4, np.float32)
    widened = calibrate(TIGHT, [a], [a + np.float32(0.5)])
    assert compare([a], [a + np.float32(2e-4)], widened).ok
    assert not compare([a], [a + np.float32(3e-4)], widened).ok
    quantized = replace(widened, coarsest=2.0**-8)
    assert compare([a], [a + np.float32(0.05)], quantized).ok
    assert not compare([a], [a + np.float32(0.1)], quantized).ok


def test_strings_sequences_and_empty_outputs() -> None:
    words, empty = np.array(["a", "b"], dtype=object), np.zeros((0, 3), np.float32)
    assert compare([words, [empty, words], empty], [words, [empty, words], empty], TIGHT).ok
    assert not compare([words], [np.array(["a", "c"], dtype=object)], TIGHT).ok
    assert not compare([[empty]], [[empty, empty]], TIGHT).ok
    assert worst_of([]).ok


class Clock:
    """A clock that only simulated work moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def process_time(self) -> float:
        return self.now

    perf_counter = process_time

    def work(self, seconds: float) -> None:
        self.now += seconds


def test_faster_is_measured_as_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, clock = random.Random(0), Clock()
    monkeypatch.setattr(interleaved, "time", clock)
    timing = time_interleaved(
        lambda: clock.work(4.0 * rng.uniform(0.9, 1.1)),
        lambda: clock.work(1.0 * rng.uniform(0.9, 1.1)),
        budget_s=300.0,
        cpu_clock=True,
    )
    assert 4.0 * 0.9 / 1.1 < timing.ratio < 4.0 * 1.1 / 0.9
    assert timing.low <= timing.ratio <= timing.high
    assert timing.before > timing.after > 0


def test_other_work_on_the_machine_changes_no_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, clock = random.Random(0), Clock()

    def run(seconds: float) -> None:
        clock.work(seconds + (rng.expovariate(1.0) if rng.random() < 0.5 else 0.0))

    monkeypatch.setattr(interleaved, "time", clock)
    timing = time_interleaved(lambda: run(1.0), lambda: run(0.8), budget_s=40.0, cpu_clock=True)
    assert timing.ratio == pytest.approx(1.25)
    assert timing.low <= timing.ratio <= timing.high
    standings = time_contest([lambda: lambda: run(1.0), lambda: lambda: run(0.8)], budget_s=400.0, cpu_clock=True)
    assert standings[1].timing.ratio == pytest.approx(1.25)
    assert standings[1].timing.after == pytest.approx(0.8)


def test_budget_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, clock = random.Random(0), Clock()
    monkeypatch.setattr(interleaved, "time", clock)

    def noisy() -> None:
        clock.work(rng.expovariate(100.0))

    time_interleaved(noisy, noisy, budget_s=20.0, cpu_clock=False, min_rounds=2)
    assert 15 < clock.now < 25  # it never settles, and the last round may begin just before the end


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=200))
def test_interval_holds_the_median(values: list[float]) -> None:
    low, high = median_interval(values)
    assert min(values) <= low <= float(np.median(values)) <= high <= max(values)


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_silent_fallback_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime that has no CUDA gives a session on the CPU, and says nothing."""
    monkeypatch.setitem(sessions_module._PROVIDERS, "cuda", "NoSuchExecutionProvider")
    with pytest.raises((RuntimeUnavailable, CannotRun)):
        open_session(lora(), Target("cuda", 1))
    with pytest.raises(RuntimeUnavailable, match="CUDA"):
        resolve_target("cuda")
    assert resolve_target("auto") == Target("cpu", 1)


def test_targets() -> None:
    assert resolve_target("cpu", 4) == Target("cpu", 4)
    with pytest.raises(ValueError, match="tpu"):
        resolve_target("tpu")
    with pytest.raises(ValueError, match="-1"):
        resolve_target("cpu", -1)


def test_both_levels_run() -> None:
    proto = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [floats("x", 2, 3)],
        [floats("y", 2, 4)],
        [("w", weights(3, 4))],
    )
    onnx.checker.check_model(proto)
    x = np.ones((2, 3), np.float32)
    results = [open_session(proto, Target(), level=level).run({"x": x})[0] for level in ("all", "none")]
    np.testing.assert_allclose(*results, rtol=1e-6)


def test_what_is_made_second_gains_nothing_by_it() -> None:
    """The later of two equal sessions tends to be faster; here it is, by a quarter."""
    made: list[int] = []

    def make() -> list[Callable[[], object]]:
        made.append(len(made))
        size = 30_000 if len(made) % 2 else 24_000
        return [lambda: sum(range(size))]

    (timing,) = time_models(make, make, budget_s=0.4, cpu_clock=True)
    assert len(made) % 4 == 0
    assert timing.low < 1 < timing.high
    assert 0.9 < timing.ratio < 1.1


def test_a_measurement_is_ended_by_noise_or_by_its_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choosing measurement may end when its ratio is clear; the accepting one has to be precise as well."""
    drawn = np.random.default_rng(0)

    def pairs(ratio: float, noise: float, *, until_decided: bool) -> int:
        def pair(*_: object, **__: object) -> Timing:
            found = ratio * float(np.exp(noise * drawn.standard_normal()))
            return Timing(found, 1.0, found, found, found, found, 1.0, 3, "cpu")

        monkeypatch.setattr(interleaved, "time_interleaved", pair)
        (timing,) = time_models(
            lambda: [print], lambda: [print], budget_s=60.0, cpu_clock=True, until_decided=until_decided
        )
        return timing.pairs

    assert pairs(1.5, 0.001, until_decided=True) == 2
    assert 2 <= pairs(1.5, 0.1, until_decided=True) < 12
    assert pairs(1.05, 0.1, until_decided=False) == 24
    assert 8 <= pairs(1.5, 0.1, until_decided=False) < 24
    assert pairs(1.0, 0.001, until_decided=False) == 8
    assert pairs(1.5, 0.001, until_decided=False) == pairs(0.7, 0.001, until_decided=False) == 4


def test_ending_at_a_clear_ratio_hardly_favours_it(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = np.random.default_rng(0)
    for ratio in (1.02, 1.05, 1.1, 1.3):

        def pair(*_: object, ratio: float = ratio, **__: object) -> Timing:
            found = ratio * float(np.exp(0.03 * drawn.standard_normal()))
            return Timing(found, 1.0, found, found, found, found, 1.0, 3, "cpu")

        monkeypatch.setattr(interleaved, "time_interleaved", pair)
        make: Callable[[], list[Callable[[], object]]] = lambda: [print]  # noqa: E731
        found = [
            time_models(make, make, budget_s=60.0, cpu_clock=True, until_decided=False)[0].ratio for _ in range(1000)
        ]
        assert float(np.exp(np.log(found).mean())) == pytest.approx(ratio, rel=0.002)


@pytest.mark.parametrize(("until_decided", "least"), [(True, 2), (False, 4)])
def test_a_measurement_ends_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch, until_decided: bool, least: int
) -> None:
    drawn = np.random.default_rng(0)

    def pair(*_: object, **__: object) -> Timing:
        found = float(np.exp(0.1 * drawn.standard_normal()))
        return Timing(found, 1.0, found, found, found, found, 1.0, 3, "cpu")

    monkeypatch.setattr(interleaved, "time_interleaved", pair)
    make: Callable[[], list[Callable[[], object]]] = lambda: [print]  # noqa: E731
    (timing,) = time_models(make, make, budget_s=0.0, cpu_clock=True, until_decided=until_decided)
    assert timing.pairs == least and not timing.is_conclusive


def test_a_size_that_is_clear_leaves_its_time_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs at large sizes take long and hardly vary; those at small sizes need more pairs."""
    drawn = np.random.default_rng(0)

    def pair(before: Callable[[], object], after: object, **__: object) -> Timing:
        noise = 0.05 if before() == "small" else 0.002
        found = 1.1 * float(np.exp(noise * drawn.standard_normal()))
        return Timing(found, 1.0, found, found, found, found, 1.0, 3, "cpu")

    monkeypatch.setattr(interleaved, "time_interleaved", pair)
    make: Callable[[], list[Callable[[], object]]] = lambda: [lambda: "small", lambda: "large"]  # noqa: E731
    small, large = time_models(make, make, budget_s=60.0, cpu_clock=True, until_decided=False)
    assert large.pairs == 4 and small.pairs > 8
    assert small.ratio == pytest.approx(1.1, rel=0.05) and large.ratio == pytest.approx(1.1, rel=0.01)
    both = time_models(make, make, budget_s=60.0, cpu_clock=True)
    assert both[0].pairs == both[1].pairs
