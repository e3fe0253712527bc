"""Convs in the runtime's blocked layout: which have a kernel there, as the runtime says, and what others move."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

from superopt.ir.infer import make
from superopt.ir.term import Attr, Term, var
from superopt.ir.types import tensor
from superopt.onnx_io import write_model
from superopt.onnx_io.build import new_model
from superopt.search.cost.blocked_layout import (
    has_blocked_kernel,
    is_blocked,
    reordered_bytes,
    share_in_blocks,
    unfolded_bytes,
)
from tests.support.prices import price
from tests.support.search_graphs import Graphs, image

BLOCK = 16


def conv(x: Term, kernel: Term, group: int = 1) -> Term:
    assert kernel.type is not None and kernel.type.shape is not None
    axes = len(kernel.type.shape) - 2
    ones: dict[str, Attr] = dict.fromkeys(("strides", "dilations"), (1,) * axes)
    return make("Conv", (x, kernel), {**ones, "group": group, "pads": (1,) * (2 * axes)})


def runs_in_blocks(channels: int, results: int, group: int, tmp_path: Path, *, computed: bool = False) -> bool:
    """Return True if ONNX Runtime runs a 3x3 Conv in blocks where the Convs before and after it run in them."""
    around = numpy_helper.from_array(np.ones((channels, 16, 3, 3), np.float32), "before")
    behind = numpy_helper.from_array(np.ones((16, results, 3, 3), np.float32), "behind")
    kernel = np.ones((results, channels // group, 3, 3), np.float32)
    pads = {"pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "before"], ["a"], **pads),
        helper.make_node("Conv", ["a", "kernel"], ["b"], group=group, **pads),
        helper.make_node("Conv", ["b", "behind"], ["y"], **pads),
    ]
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 16, 8, 8])]
    weights = [around, behind]
    if computed:
        inputs.append(helper.make_tensor_value_info("kernel", onnx.TensorProto.FLOAT, kernel.shape))
    else:
        weights.append(numpy_helper.from_array(kernel, "kernel"))
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    model = helper.make_model(
        helper.make_graph(nodes, "convs", inputs, outputs, weights),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
    )  # fmt: skip
    _, middle, _ = (node for node in optimized(model, tmp_path) if node.op_type == "Conv")
    return bool(middle.domain)


def optimized(model: onnx.ModelProto, tmp_path: Path) -> list[onnx.NodeProto]:
    """Return the operators that ONNX Runtime runs."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(onnx.load(tmp_path / "optimized.onnx").graph.node)


@pytest.mark.parametrize(
    ("channels", "results", "group"),
    [
        (64, 64, 1), (64, 20, 1), (64, 64, 64), (64, 128, 64), (64, 64, 32), (64, 64, 16), (64, 64, 4), (64, 32, 4),
        (64, 4, 4), (20, 32, 1), (22, 32, 1),
    ],
)  # fmt: skip
def test_the_runtime_has_a_kernel_in_blocks(channels: int, results: int, group: int, tmp_path: Path) -> None:
    if not runs_in_blocks(64, 64, 1, tmp_path):
        pytest.skip("ONNX Runtime has no blocked layout on this processor")
    here = 16 if not runs_in_blocks(64, 64, 8, tmp_path) else 8  # a group of 8 channels is a block or is not
    kernel = Graphs().const(results, channels // group, 3, 3)
    expected = has_blocked_kernel(conv(image(channels), kernel, group), here)
    assert runs_in_blocks(channels, results, group, tmp_path) == expected


@pytest.mark.parametrize(
    ("transformation", "nearest", "scales"),
    [
        ("half_pixel", "", (2, 3)), ("asymmetric", "", (2, 3)), ("align_corners", "", (2, 3)),
        ("half_pixel", "", (2, 1.5)),
        ("half_pixel", "round_prefer_floor", (2, 3)), ("asymmetric", "ceil", (2, 3)), ("asymmetric", "floor", (2, 1.5)),
    ],
)  # fmt: skip
def test_resizes_in_blocks(transformation: str, nearest: str, scales: tuple[Attr, Attr], tmp_path: Path) -> None:
    """Repeated elements are written in the one form of several that the runtime has a kernel for."""
    if not runs_in_blocks(64, 64, 1, tmp_path):
        pytest.skip("ONNX Runtime has no blocked layout on this processor")
    kernel = Term.of("Const", (), {"hash": "w"}, (tensor(64, 64, 3, 3),))
    attrs: dict[str, Attr] = {"coordinate_transformation_mode": transformation, "scales": scales}
    if nearest:
        attrs["nearest_mode"] = nearest
    resized = make("Resize" if nearest else "ResizeLinear", (conv(image(64), kernel),), attrs)
    model = write_model(new_model([resized], {"w": np.ones((64, 64, 3, 3), np.float32)}, opset=17))
    runs = any(node.op_type == "Upsample" for node in optimized(model, tmp_path))
    assert is_blocked(resized, BLOCK) == runs
    assert not (runs and reordered_bytes(resized, BLOCK))


def test_a_computed_kernel_is_not_in_blocks(tmp_path: Path) -> None:
    assert not runs_in_blocks(64, 64, 1, tmp_path, computed=True)
    assert not has_blocked_kernel(conv(image(64), var("kernel", tensor(64, 64, 3, 3))), BLOCK)


def test_a_conv_outside_of_blocks_reorders_its_image_and_unfolds_it() -> None:
    graphs, computed = Graphs(), var("kernel", tensor(32, 64, 3, 3))
    before = graphs.conv(image(16), 3, 64)
    inside, outside = graphs.conv(before, 3, 32), conv(before, computed)
    image_bytes, result_bytes = 4 * 64 * 14 * 14, 4 * 32 * 14 * 14
    assert (reordered_bytes(inside, BLOCK), unfolded_bytes(inside, BLOCK)) == (0, 0)
    assert reordered_bytes(outside, BLOCK) == 2 * (image_bytes + result_bytes)
    assert unfolded_bytes(outside, BLOCK) == 2 * 9 * image_bytes
    assert (reordered_bytes(outside, 1), unfolded_bytes(outside, 1)) == (0, 0)
    assert reordered_bytes(conv(image(64), computed), BLOCK) == 0  # the image has never been in blocks
    assert unfolded_bytes(conv(before, var("point", tensor(32, 64, 1, 1))), BLOCK) == 0
    assert unfolded_bytes(conv(var("line", tensor(1, 64, 100)), graphs.const(32, 64, 3)), BLOCK) == 2 * 4 * 64 * 3 * 100


@pytest.mark.parametrize(("dilation", "rows"), [(1, 14 + 13 + 13), (5, 14 + 9 + 9), (14, 14), (36, 14)])
def test_a_kernel_in_blocks_skips_rows_outside_of_the_image(dilation: int, rows: int) -> None:
    def dilated(kernel: Term) -> Term:
        attrs: dict[str, Attr] = {"strides": (1, 1), "dilations": (dilation,) * 2, "pads": (dilation,) * 4, "group": 1}
        return make("Conv", (image(64), kernel), attrs)

    constant, computed = Graphs().const(32, 64, 3, 3), var("kernel", tensor(32, 64, 3, 3))
    assert share_in_blocks(dilated(constant), BLOCK) == rows / (3 * 14)
    assert share_in_blocks(dilated(constant), 1) == share_in_blocks(dilated(computed), BLOCK) == 1


def test_a_kernel_with_a_step_skips_fewer_rows() -> None:
    attrs: dict[str, Attr] = {"strides": (2, 2), "dilations": (1, 1), "pads": (1, 1, 1, 1), "group": 1}
    halved = make("Conv", (image(64), Graphs().const(32, 64, 3, 3)), attrs)
    assert share_in_blocks(halved, BLOCK) == (7 + 7 + 6) / (3 * 7)


@pytest.mark.parametrize(("channels", "computed"), [(32, 32), (16, 16), (4, 16), (20, 32)])
def test_a_kernel_in_blocks_computes_whole_blocks(channels: int, computed: int) -> None:
    conv_1x1 = Graphs().conv(image(64), 1, channels)
    assert share_in_blocks(conv_1x1, BLOCK) == computed / channels
    assert share_in_blocks(conv_1x1, 1) == 1


def test_pairs_of_channels_are_slower_than_one_channel() -> None:
    """EfficientNet: merging the groups of a depthwise Conv in pairs takes 0.85 ms for 0.05 ms (two cores)."""
    graphs, x = Graphs(), image(96, 112)
    assert price(graphs.conv(x, 3, 96, group=48)) > 2 * price(graphs.conv(x, 3, 96, group=96))


def test_constants_are_not_folded_into_a_computed_kernel() -> None:
    graphs = Graphs()
    plain = conv(image(), var("kernel", tensor(8, 8, 3, 3)))
    assert price(graphs.norm(plain)) > price(plain) == price(make("Relu", (plain,)))


def test_an_operator_without_operands_moves_no_image() -> None:
    assert reordered_bytes(Term.of("RandomNormal", (), {}, (tensor(1, 64, 14, 14),)), BLOCK) == 0
