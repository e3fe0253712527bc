"""The description of a machine that is fitted to timings of single operators."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest

from superopt.ir.infer import make
from superopt.ir.term import Attr, Term, var
from superopt.ir.types import TensorType, tensor
from superopt.runtime import Target
from superopt.search import AnalyticCost, Device, calibrate, device_of, find_device, shipped_devices
from superopt.search.cost import calibration
from superopt.search.cost.device import read_device, to_toml
from superopt.search.cost.kernel_kind import kernel_kind, kinds_of
from superopt.search.cost.microbench import Unmeasurable
from superopt.search.cost.operator_timer import OperatorTimer
from superopt.store import ResultStore

CPU = Target("cpu", 1)
DEVICE = Device(1e12, 1e12, 1e10, 1e-6)


@pytest.mark.parametrize("name", shipped_devices())
def test_figures_are_found_again(name: str) -> None:
    """Operators that take as long as a device's description predicts lead back to its figures."""
    device = find_device(name).general
    found = calibration.fitted(AnalyticCost(device).cost, device_of(device.provider))
    assert found.overhead == pytest.approx(device.overhead, rel=0.05)
    assert found.dense == pytest.approx(device.dense, rel=0.1)
    assert found.dense_rate("float16") == pytest.approx(device.dense_rate("float16"), rel=0.1)
    assert found.bandwidth == pytest.approx(device.bandwidth, rel=0.1)
    assert found.full == pytest.approx(device.full, rel=0.1)


def test_slow_kernels_and_slow_starts_are_found() -> None:
    slow = dataclasses.replace(DEVICE, slower={"Erf": 5.0}, starts={"Tanh": 4e-6})
    cost = AnalyticCost(slow)
    terms = [make(op, (var("x", tensor(size, 4096)),)) for op in ("Erf", "Tanh") for size in (1024, 2048)]
    terms += [make("Tanh", (var("x", tensor(size)),)) for size in (1, 2, 3)]
    found = calibration.kinds(DEVICE, DEVICE, [(term, cost.cost(term)) for term in terms])
    assert found.slower == pytest.approx({"Erf": 5.0, "Tanh": 1.0}, rel=0.01)
    assert found.starts == pytest.approx({"Tanh": 2e-6}, rel=0.01)  # half the way, by ratio, to that of all kernels


def test_arithmetic_and_traffic_may_be_slower_by_different_factors() -> None:
    slow = dataclasses.replace(DEVICE, slower={"MaxPool": 6.0}, slower_traffic={"MaxPool": 2.0})

    def pool(size: int, kernel: int) -> Term:
        attrs: dict[str, Attr] = {"kernel_shape": (kernel,) * 2, "pads": (kernel // 2,) * 4}
        return make("MaxPool", (var("x", tensor(1, 64, size, size)),), attrs | {"dilations": (1, 1), "strides": (1, 1)})

    terms = [pool(256, 3), pool(512, 3), pool(256, 51)]
    found = calibration.kinds(DEVICE, DEVICE, [(term, AnalyticCost(slow).cost(term)) for term in terms])
    assert (found.slower, found.slower_traffic) == (slow.slower, slow.slower_traffic)
    only_small = calibration.kinds(DEVICE, slow, [(term, AnalyticCost(slow).cost(term)) for term in terms[:2]])
    assert (only_small.slower, only_small.slower_traffic) == ({"MaxPool": 2.0}, {})


def test_kinds_of_kernels() -> None:
    def conv(group: int, channels: int, *kernel: int) -> Term:
        sizes = tuple(28 for _ in kernel)
        weight = Term.of("Const", (), {"hash": "w"}, (tensor(32, channels, *kernel),))
        attrs: dict[str, Attr] = {name: (1,) * len(kernel) for name in ("strides", "dilations")}
        return make(
            "Conv", (var("x", tensor(1, 32, *sizes)), weight), {**attrs, "group": group, "pads": (1, 1) * len(kernel)}
        )

    x, row = var("x", tensor(2, 64, 32)), var("r", tensor(32))
    matrix = Term.of("Const", (), {"hash": "m"}, (tensor(32, 8),))
    kinds = {
        "Conv": conv(1, 32, 3, 3),
        "Conv 1x1": conv(1, 32, 1, 1),
        "Conv depthwise": conv(32, 1, 3, 3),
        "Conv grouped": conv(8, 4, 3, 3),
        "Conv grouped in blocks": conv(4, 8, 3, 3),
        "Conv depthwise of a line": conv(32, 1, 3),
        "Conv of a volume": conv(1, 32, 3, 3, 3),
        "Conv by a computed kernel": make(
            "Conv",
            (var("x", tensor(1, 32, 28, 28)), var("k", tensor(8, 32, 3, 3))),
            {"group": 1, "pads": (1, 1, 1, 1), "strides": (1, 1), "dilations": (1, 1)},
        ),
        "MatMul": make("MatMul", (x, matrix)),
        "MatMul of few rows": make("MatMul", (var("y", tensor(1, 32)), matrix)),
        "MatMul stacked": make("MatMul", (x, var("z", tensor(2, 32, 4)))),
        "Add": make("Add", (x, x)),
        "Add broadcast": make("Add", (x, row)),
        "Transpose": make("Transpose", (x,), {"perm": (1, 0, 2)}),
        "Transpose short": make("Transpose", (x,), {"perm": (0, 2, 1)}),
        "Concat": make("Concat", (x, x), {"axis": 1}),
        "Softmax": make("Softmax", (x,), {"axis": -1}),
        "Softmax strided": make("Softmax", (x,), {"axis": 1}),
    }
    assert {kind: kernel_kind(term) for kind, term in kinds.items()} == {kind: kind for kind in kinds}
    unknown = make("Relu", (var("x", TensorType("float", None)),))
    assert kernel_kind(unknown) == "Relu"


def test_probes_are_measured_once_and_as_far_as_time_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[str] = []

    def seconds(self: OperatorTimer, alone: Term) -> float:
        timed.append(alone.op)
        if alone.op == "Mish":
            raise Unmeasurable("no such kernel")
        return 1e-5

    monkeypatch.setattr(OperatorTimer, "seconds", seconds)
    store = ResultStore(tmp_path / "store.sqlite")
    none = calibrate(CPU, DEVICE, store, limit_s=-1.0)
    assert (none.measured, timed) == (0, []) and none.device.dense == DEVICE.dense and none.device.measured
    found = calibrate(CPU, DEVICE, store, limit_s=60.0)
    assert found.measured == found.probes - 1 > 100  # all but one
    count = len(timed)
    assert calibrate(CPU, DEVICE, store, limit_s=-1.0) == found and len(timed) == count
    assert timed.count("Mish") == 2  # at both opsets, and never again
    calibrate(CPU, DEVICE, store, limit_s=60.0, anew=True)
    assert len(timed) == 2 * count


def test_probes_run_here(tmp_path: Path) -> None:
    begun = time.monotonic()
    found = calibrate(CPU, device_of("cpu"), ResultStore(tmp_path / "store.sqlite"), limit_s=0.5)
    assert time.monotonic() - begun < 60 and found.measured < found.probes
    assert found.device.overhead > 0


@pytest.mark.parametrize("name", shipped_devices())
def test_descriptions_are_written_as_they_are_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "again.toml"
    device = dataclasses.replace(find_device(name), starts={"Conv 1x1": 1e-6}, measured=True)
    path.write_text(to_toml(device, "two\nlines"), encoding="utf-8")
    assert read_device(path) == device
    assert dict(read_device(path).slower) == dict(device.slower)
    assert dict(read_device(path).starts) == dict(device.starts)


def test_on_a_gpu_starts_that_differ_little_are_one() -> None:
    gpu = dataclasses.replace(
        DEVICE, provider="cuda", starts={"Relu": 5e-6, "Tanh": 6e-6, "Abs": 4e-6, "FusedConv": 6e-5}
    )
    cost = AnalyticCost(gpu)
    weight = Term.of("Const", (), {"hash": "w"}, (tensor(1, 1, 1, 1),))
    attrs: dict[str, Attr] = {"strides": (1, 1), "dilations": (1, 1), "group": 1, "pads": (0, 0, 0, 0)}
    fused = {**attrs, "activation": "Relu", "activation_alpha": 0.0, "activation_beta": 0.0}
    terms = [make(op, (var("x", tensor(4)),)) for op in ("Relu", "Tanh", "Abs")]
    terms.append(make("FusedConv", (var("x", tensor(1, 1, 2, 2)), weight), fused))
    unknown = dataclasses.replace(gpu, starts={})
    found = calibration.kinds(unknown, unknown, [(term, cost.cost(term)) for term in terms])
    assert found.overhead == pytest.approx(5.5e-6, rel=0.01)  # the median
    usual = dict.fromkeys(("Relu", "Tanh", "Abs"), found.overhead)  # not left to figures of more general kinds
    assert found.starts == pytest.approx({**usual, "FusedConv 1x1": 6e-5}, rel=0.01)
    assert calibration.kinds(unknown, gpu, []).starts == gpu.starts  # no figure is lost by what was not measured
    assert kinds_of(terms[-1]) == ("FusedConv 1x1", "FusedConv", "Conv 1x1", "Conv")
