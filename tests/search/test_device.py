"""Device descriptions, and the costs that the analytic model computes from them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from superopt.ir.dim import symbol
from superopt.ir.infer import make
from superopt.ir.term import Attr, Term, var
from superopt.ir.types import TensorType, tensor
from superopt.search import CPU, AnalyticCost, Device, DeviceError, device_of, find_device, shipped_devices
from superopt.search.cost.graph_cost import GraphCost
from tests.support.search_graphs import Graphs, image

COST = AnalyticCost()


def price(*outputs: Term, device: Device = CPU) -> float:
    return GraphCost(AnalyticCost(device)).price(outputs).time_ps * 1e-12


def split(x: Term, *sizes: int) -> list[Term]:
    parts = make("Split", (x,), {"axis": -3, "split": sizes})
    return [parts.out(k) for k in range(len(sizes))]


def test_shipped_descriptions_can_be_read() -> None:
    assert {"cpu", "cuda", "cuda_h100", "cuda_h200"} <= set(shipped_devices())
    for name in shipped_devices():
        device = find_device(name)
        assert device.name and device.provider == name.partition("_")[0]
    assert device_of("cuda") == find_device("cuda")


def test_constants_are_read_at_one_rate_however_many_operators_share_them() -> None:
    """Two products of 2 MB of weights each read as much as one of 4 MB, whatever fits into the cache."""
    graphs, x = Graphs(), var("x", tensor(1, 512))
    apart = [make("MatMul", (x, graphs.const(512, 1024))) for _ in range(2)]
    assert price(make("MatMul", (x, graphs.const(512, 2048)))) < price(*apart)
    assert price(*apart) > price(make("MatMul", (x, var("y", tensor(512, 1024))))) + 4 * 512 * 1024 / CPU.bandwidth


def test_a_description_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("dense = 1e12\nscalar = 1e11\nbandwidth = 1e11\noverhead = 1e-6\n[dense_of]\nfloat16 = 2e12\n")
    device = find_device(path)
    assert (device.name, device.provider, device.dense_rate("float16")) == ("mine", "cpu", 2e12)
    assert device.byte_rate(1) == 1e11  # no cache is told of
    half = make("MatMul", (var("x", tensor(512, 512, dtype="float16")), var("y", tensor(512, 512, dtype="float16"))))
    full = make("MatMul", (var("x", tensor(512, 512)), var("y", tensor(512, 512))))
    assert AnalyticCost(device).cost(half) < AnalyticCost(device).cost(full)


@pytest.mark.parametrize(
    "text",
    [
        "dense = ",
        "dense = 1e12\nscalar = 1e11\nbandwidth = 1e11",
        "dense = 0\nscalar = 1e11\nbandwidth = 1e11\noverhead = 1e-6",
        "dense = nan\nscalar = 1e11\nbandwidth = 1e11\noverhead = 1e-6",
        "dense = 'fast'\nscalar = 1e11\nbandwidth = 1e11\noverhead = 1e-6",
        "dense = 1e12\nscalar = 1e11\nbandwidth = 1e11\noverhead = -1",
        "dense = 1e12\nscalar = 1e11\nbandwidth = 1e11\noverhead = 0\nprovider = 'tpu'",
        "dense = 1e12\nscalar = 1e11\nbandwidth = 1e11\noverhead = 0\nspeed = 1",
        "dense = 1e12\nscalar = 1e11\nbandwidth = 1e11\noverhead = 0\nslower = 2",
        "dense = 1e12\nscalar = 1e11\nbandwidth = 1e11\noverhead = 0\n[slower]\nConv = 0",
    ],
)
def test_an_unusable_description_is_one_line_with_its_place(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(text)
    with pytest.raises(DeviceError, match=r"odd\.toml") as caught:
        find_device(path)
    assert "\n" not in str(caught.value)


def test_a_description_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no device \(cpu, cuda, .*none\.toml"):
        find_device(tmp_path / "none.toml")


def test_sizes_of_symbols_count() -> None:
    dynamic = make("Relu", (var("x", TensorType("float", (symbol("n"), 64))),))
    for rows in (2, 4096):
        assert AnalyticCost(sizes={"n": rows}).cost(dynamic) == COST.cost(make("Relu", (var("x", tensor(rows, 64)),)))


def test_an_empty_value_costs_its_start() -> None:
    assert COST.cost(make("Relu", (var("x", tensor(0, 64)),))) == CPU.overhead


def test_few_results_leave_a_large_device_idle() -> None:
    device = dataclasses.replace(CPU, provider="cuda", full=100_000, overhead=0.0)
    inner = 4096
    small, large = (make("MatMul", (var("x", tensor(rows, inner)), Graphs().const(inner, 64))) for rows in (64, 1024))
    assert AnalyticCost(device).cost(large) == pytest.approx(AnalyticCost(device).cost(small), rel=0.01)
    assert AnalyticCost(device, threads=8).cost(large) == AnalyticCost(device).cost(large)


def test_a_slow_kernel_is_avoided() -> None:
    """ONNX Runtime's SkipLayerNormalization is slower on the CPU than the two operators that it fuses. It does not fuse
    a Sum."""
    x, y, w, b = var("x", tensor(1, 128, 768)), var("y", tensor(1, 128, 768)), Graphs().const(768), Graphs().const(768)
    fused = make("SkipLayerNormalization", (x, y, w, b), {"epsilon": 1e-5})
    attrs = {"axis": -1, "epsilon": 1e-5}
    parts = make("LayerNormalization", (make("Sum", (x, y)), w, b), attrs)
    assert price(fused) == price(make("LayerNormalization", (make("Add", (x, y)), w, b), attrs))
    assert price(fused) > price(parts)
    assert price(fused, device=device_of("cuda")) < price(parts, device=device_of("cuda"))


@pytest.mark.parametrize(
    ("channels", "size", "branches"), [(192, 35, (64, 48, 64)), (256, 56, (64, 256)), (64, 55, (64, 64))]
)
def test_parallel_pointwise_convs_are_not_worth_merging_on_the_cpu(
    channels: int, size: int, branches: tuple[int, ...]
) -> None:
    """As in Inception, ResNet, SqueezeNet: leaving the blocked layout costs more than merging saves."""
    graphs = Graphs()
    x = image(channels, size)
    apart = [make("Relu", (graphs.conv(x, 1, branch),)) for branch in branches]
    merged = split(make("Relu", (graphs.conv(x, 1, sum(branches)),)), *branches)
    assert price(*merged) > 1.1 * price(*apart)
    gpu = device_of("cuda")
    small = [graphs.conv(image(channels, 7), 1, branch) for branch in branches]
    together = split(graphs.conv(image(channels, 7), 1, sum(branches)), *branches)
    assert price(*together, device=gpu) < 1.1 * price(*small, device=gpu)  # starts of kernels count for more there


def test_a_pointwise_conv_is_not_worth_padding_into_its_neighbour() -> None:
    """SqueezeNet's expand layers: Concat(Conv1x1, Conv3x3) as one Conv3x3."""
    graphs = Graphs()
    x = image(16, 55)
    apart = make("Concat", (graphs.conv(x, 1, 64), graphs.conv(x, 3, 64)), {"axis": -3})
    assert price(graphs.conv(x, 3, 128)) > 1.1 * price(apart)


def test_copies_across_channels_leave_the_blocked_layout() -> None:
    graphs = Graphs()
    conv, given = make("Relu", (graphs.conv(image(16, 28), 3, 32),)), image(32, 28)
    assert COST.cost(make("Split", (conv,), {"axis": -3, "split": (16, 16)})) > COST.cost(
        make("Split", (given,), {"axis": -3, "split": (16, 16)})
    )
    rows: dict[str, Attr] = {"axis": -2, "split": (14, 14)}
    assert COST.cost(make("Split", (conv,), rows)) == COST.cost(make("Split", (given,), rows))

    def joined(*channels: int) -> float:
        return COST.cost(make("Concat", tuple(graphs.conv(image(16, 28), 1, c) for c in channels), {"axis": -3}))

    assert joined(24, 24) > joined(16, 32)  # whole blocks stay as they are


def test_means_of_images_leave_the_blocked_layout_unless_they_pool() -> None:
    graphs, axes = Graphs(), {"axes": (-2, -1), "keepdims": 1}
    conv, given = make("Relu", (graphs.conv(image(16, 28), 3, 32),)), image(32, 28)
    assert COST.cost(make("ReduceMean", (conv,), axes)) > COST.cost(make("ReduceMean", (given,), axes))
    assert COST.cost(make("GlobalAveragePool", (conv,))) == COST.cost(make("GlobalAveragePool", (given,)))


def test_groups_of_few_channels_are_slow() -> None:
    """ResNeXt on the CPU: kernels of 16 channels a group do twice the arithmetic of those of 8 in less time."""
    graphs = Graphs()
    x = image(256, 28)
    eight, sixteen = (COST.cost(graphs.conv(x, 3, 256, group=256 // channels)) for channels in (8, 16))
    assert sixteen < eight < COST.cost(graphs.conv(x, 3, 256))


@pytest.mark.parametrize("name", shipped_devices())
@pytest.mark.parametrize(("heads", "tokens", "size"), [(1, 4, 8), (12, 128, 64), (8, 512, 128)])
def test_einsum_is_no_faster_than_transposes_and_a_product(name: str, heads: int, tokens: int, size: int) -> None:
    x, y = (var(operand, tensor(1, tokens, heads, size)) for operand in "xy")
    first, second = make("Transpose", (x,), {"perm": (0, 2, 1, 3)}), make("Transpose", (y,), {"perm": (0, 2, 3, 1)})
    einsum = make("Einsum", (x, y), {"equation": "abcd,aecd->acbe"})
    device = find_device(name)
    assert price(einsum, device=device) >= price(make("MatMul", (first, second)), device=device)


def test_a_reduction_to_few_results_keeps_a_large_device_busy() -> None:
    device = dataclasses.replace(CPU, provider="cuda", full=100_000, overhead=0.0, bandwidth=1e15, cache_bandwidth=1e15)
    attrs: dict[str, Attr] = {"axes": (-1,), "keepdims": 0}
    operands = [var("x", tensor(*shape)) for shape in ((8, 1 << 20), (1 << 20, 8))]
    few, many = (make("ReduceSum", (operand,), attrs) for operand in operands)
    assert AnalyticCost(device).cost(few) == pytest.approx(AnalyticCost(device).cost(many), rel=0.2)
