"""Forms that poolings take in the opsets, and the one form that terms have."""

from __future__ import annotations

import pytest

from superopt.ir.dim import symbol
from superopt.ir.infer import IllTyped, make
from superopt.ir.term import var
from superopt.ir.types import tensor
from superopt.onnx_io import ModelError, new_model, write_model
from tests.support.canonical_nodes import read, shown
from tests.support.simplified import parsed


def pooled(op: str, opset: int, attributes: str, x: str = "1, 2, 8, 9") -> str:
    y = ", ".join("abcdef"[: x.count(",") + 1])
    return shown(read(parsed(f"g (float[{x}] x) => (float[{y}] y) {{ y = {op}<{attributes}>(x) }}", opset)))


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("opset", [7, 11, 22])
@pytest.mark.parametrize(
    ("attributes", "pads", "strides"),
    [
        ("kernel_shape = [2, 3]", (0, 0, 0, 0), (1, 1)),
        ("kernel_shape = [2, 3], strides = [2, 1], pads = [1, 0, 1, 2]", (1, 0, 1, 2), (2, 1)),
        ('kernel_shape = [2, 3], auto_pad = "VALID", strides = [3, 3]', (0, 0, 0, 0), (3, 3)),
        ('kernel_shape = [2, 3], auto_pad = "SAME_UPPER"', (0, 1, 1, 1), (1, 1)),
        ('kernel_shape = [2, 3], auto_pad = "SAME_LOWER", strides = [1, 2]', (1, 1, 0, 1), (1, 2)),
    ],
)
def test_forms(op: str, opset: int, attributes: str, pads: tuple[int, ...], strides: tuple[int, ...]) -> None:
    counted = "count_include_pad=0 " if op == "AveragePool" else ""
    expected = f"{op} {counted}dilations=(1, 1) kernel_shape=(2, 3) pads={pads} strides={strides}"
    assert pooled(op, opset, attributes) == expected


@pytest.mark.parametrize(("op", "opset"), [("MaxPool", 10), ("MaxPool", 12), ("AveragePool", 19), ("AveragePool", 22)])
def test_dilations(op: str, opset: int) -> None:
    assert "dilations=(2, 1)" in pooled(op, opset, "kernel_shape = [2, 3], dilations = [2, 1]")
    attrs = {"dilations": (2,), "kernel_shape": (2,), "pads": (0, 0), "strides": (1,)}
    term = make(op, [var("x", tensor(1, 1, 4))], {**attrs, "count_include_pad": 0} if op == "AveragePool" else attrs)
    write_model(new_model([term], opset=opset))
    with pytest.raises(ModelError, match=op):
        write_model(new_model([term], opset=opset - 1 if op == "AveragePool" and opset == 19 else 9))


@pytest.mark.parametrize(
    ("attributes", "counted"),
    [
        ("kernel_shape = [2, 3]", 0),  # nothing to count
        ("kernel_shape = [2, 3], pads = [1, 0, 0, 0]", 1),
        ('kernel_shape = [2, 3], auto_pad = "SAME_UPPER"', 1),
    ],
)
def test_count_of_the_padding(attributes: str, counted: int) -> None:
    text = pooled("AveragePool", 17, f"count_include_pad = 1, {attributes}")
    assert text.startswith(f"AveragePool count_include_pad={counted} ")


@pytest.mark.parametrize(("kernel", "stride", "known"), [(1, 2, True), (1, 4, False), (3, 4, True)])
def test_padding_of_windows_far_apart(kernel: int, stride: int, known: bool) -> None:
    """SAME asks for -1 and -3 elements more on 8 with windows of 1 at steps of 2 and 4."""
    attributes = f'auto_pad = "SAME_UPPER", kernel_shape = [{kernel}], strides = [{stride}]'
    assert pooled("AveragePool", 22, attributes, "1, 2, 8").startswith("AveragePool " if known else "ai.onnx::")
    body = f"g (float[1, 2, 8] x, float[1, 2, {kernel}] w) => (float[1, 1, a] y)"
    node = f"Conv<{attributes}>(x, w)"
    assert read(parsed(f"{body} {{ y = {node} }}", 17)).op == ("Conv" if known else "ai.onnx::Conv")


def test_storage_order_bears_on_the_indices_only() -> None:
    assert pooled("MaxPool", 12, "kernel_shape = [2, 2], storage_order = 1").startswith("MaxPool ")
    body = "g (float[1, 1, 4, 4] x) => (float[1, 1, 3, 3] y, int64[1, 1, 3, 3] z)"
    assert read(parsed(f"{body} {{ y, z = MaxPool<kernel_shape = [2, 2]>(x) }}", 12)).op == "ai.onnx::MaxPool"


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("opset", "size", "attributes", "pads"),
    [
        (10, 7, "kernel_shape = [3], strides = [2]", (0, 0)),  # the windows fit
        (10, 8, "kernel_shape = [3], strides = [2]", (0, 1)),
        (17, 8, "kernel_shape = [3], strides = [2], pads = [1, 1]", (1, 2)),
        (22, 7, "kernel_shape = [2], strides = [3], pads = [1, 0]", (1, 0)),
        (22, 2, "kernel_shape = [2], strides = [3], pads = [1, 1]", (1, 1)),  # the last one would start in the padding
        (17, 2, "kernel_shape = [2], strides = [3], pads = [1, 1]", None),
        (22, 5, 'kernel_shape = [2], strides = [3], auto_pad = "VALID"', None),
        (22, "n", "kernel_shape = [2], strides = [3]", None),
    ],
)
def test_ceil_mode_is_padding(
    op: str, opset: int, size: int | str, attributes: str, pads: tuple[int, int] | None
) -> None:
    text = pooled(op, opset, f"ceil_mode = 1, {attributes}", f"1, 2, {size}")
    assert text.startswith(f"ai.onnx::{op}") if pads is None else f"pads={pads}" in text


def test_ceil_mode_that_does_not_count_what_lies_beyond_the_padding() -> None:
    text = pooled(
        "AveragePool", 17, "ceil_mode = 1, count_include_pad = 1, kernel_shape = [3], strides = [2]", "1, 2, 8"
    )
    assert text.startswith("ai.onnx::AveragePool")


@pytest.mark.parametrize(
    ("kernel", "pads", "size", "dilation"),
    [
        (2, (2, 0), 5, 1),  # a window in the padding
        (2, (0, 2), 5, 2),
        (2, (1, 1), 1, 2),  # a window that steps over x
        (3, (0, 0), 2, 1),  # no window at all
        (0, (0, 0), 2, 1),
        (2, (-1, 0), 5, 1),
    ],
)
def test_windows_without_an_element(kernel: int, pads: tuple[int, int], size: int, dilation: int) -> None:
    attrs = {"dilations": (dilation,), "kernel_shape": (kernel,), "pads": pads, "strides": (1,)}
    with pytest.raises(IllTyped):
        make("MaxPool", [var("x", tensor(1, 1, size))], attrs)


def test_symbolic_sizes() -> None:
    n = symbol("n")
    attrs = {"dilations": (1,), "kernel_shape": (3,), "pads": (1, 1), "strides": (2,)}
    term = make("MaxPool", [var("x", tensor(n, 2, 2 * n))], attrs)
    assert term.type == tensor(n, 2, n + (-1) // 2 + 1)


@pytest.mark.parametrize("op", ["GlobalMaxPool", "GlobalAveragePool"])
@pytest.mark.parametrize("opset", [7, 22])
def test_global_pooling(op: str, opset: int) -> None:
    assert shown(read(parsed(f"g (float[2, 3, 4, 5] x) => (float[2, 3, 1, 1] y) {{ y = {op}(x) }}", opset))) == f"{op} "
