"""The sizes at which a model with dynamic sizes is measured: named once, runnable, in reach of time and memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import helper

from superopt.onnx_io import read_model
from superopt.optimizer import Options, optimize
from superopt.optimizer.input_sizes import InputSizes, sizes_between
from superopt.optimizer.measured_sizes import bytes_of_run, choose_shapes
from superopt.runtime import CannotRun, Feeds, InputError, InputShapes, InputSpec, Timing, Unfeedable
from tests.support.models import floats, lora, model

TWO = [InputSpec("a", 1, (None, 4), ("batch", None)), InputSpec("b", 1, (None, None), ("batch", "length"))]


def chosen(
    specs: list[InputSpec],
    given: dict[str, object],
    refuses: Callable[[InputShapes], bool] = lambda _: False,
    seconds: Callable[[InputShapes], float] = lambda _: 0.001,
    needed: Callable[[InputShapes], int] = lambda _: 0,
    limit_s: float = math.inf,
) -> list[InputShapes]:
    def run(shapes: InputShapes) -> float:
        if refuses(shapes):
            raise CannotRun("no")
        return seconds(shapes)

    return choose_shapes(InputSizes(specs, given), run, needed, limit_s=limit_s)[0]  # type: ignore[arg-type]


def test_a_name_has_one_size_in_all_inputs() -> None:
    sizes = InputSizes(TWO, {"a": (7, 4)})
    assert sizes.open == {"length": False}
    assert sizes.shapes({"length": 3}) == {"a": (7, 4), "b": (7, 3)}
    with pytest.raises(InputError, match=r"batch is given as 7, and as 1\.\.8 by the shape of input b"):
        InputSizes(TWO, {"a": (7, 4), "b": ((1, 8), 5)})
    assert InputSizes(TWO, {"a": ((1, 8), 4), "b": ((1, 8), 5)}).ranges == {"batch": (1, 8)}


def test_a_size_that_its_name_computes_from_others() -> None:
    """As the mask of a decoder with a cache: at other sizes the model would not run."""

    def specs(name: str) -> list[InputSpec]:
        ids, past = InputSpec("ids", 7, (None, None), ("b", "s")), InputSpec("past", 1, (None, 4, None), ("b", "", "p"))
        return [InputSpec("mask", 7, (None, None), ("b", name)), ids, past]

    for name, total in (("p + s", 7), ("p+1", 5), ("2 * s + p", 10)):
        sizes = InputSizes(specs(name), {})
        assert sizes.open == {"b": True, "s": False, "p": False}
        assert sizes.shapes({"b": 2, "s": 3, "p": 4})["mask"] == (2, total)
    assert InputSizes(specs("p + s"), {"ids": (1, 3)}).shapes({"p": 4})["mask"] == (1, 7)
    assert InputSizes(specs("p + s"), {"mask": (1, 9)}).shapes({"s": 3, "p": 4})["mask"] == (1, 9)
    assert chosen(specs("p + s"), {"past": (1, 4, (1, 64))}, needed=lambda shapes: shapes["ids"][1] << 30)[0] == {
        "mask": (1, 2), "ids": (1, 1), "past": (1, 4, 1),
    }  # fmt: skip
    for other in ("p + t", "p / s", "p - s", "p + s +"):  # of no input, or nothing that is computed here
        assert other in InputSizes(specs(other), {}).open


@pytest.mark.parametrize("token", ["s", 1])
def test_a_size_that_is_the_sum_of_others_without_saying_so(token: str | int) -> None:
    """As the `total` of a decoder's mask: the model ran at no size, so nothing was compared or measured."""
    ids = InputSpec("ids", 7, (None, None if token == "s" else 1), ("b", "s"))
    past = InputSpec("past", 1, (None, 4, None), ("b", "", "p"))
    specs = [InputSpec("mask", 7, (None, None), ("b", "total")), ids, past]

    def refuses(shapes: InputShapes) -> bool:
        return shapes["mask"][0] != 1 or shapes["mask"][1] != shapes["ids"][1] + shapes["past"][2]

    points = chosen(specs, {}, refuses, needed=lambda shapes: shapes["past"][2] << 22)
    assert len(points) == 3
    assert points[0] == {"mask": (1, 2), "ids": (1, 1), "past": (1, 4, 1)}
    assert all(not refuses(shapes) for shapes in points)
    assert chosen(specs, {"mask": (1, 2)}, refuses)[0]["past"] == (1, 4, 1)
    values = InputSpec("values", 1, (None, 4, None), ("b", "", "p2"))  # the same size by another name
    points = chosen([*specs, values], {}, lambda shapes: refuses(shapes) or shapes["values"] != shapes["past"])
    assert points[0] == {"mask": (1, 2), "ids": (1, 1), "past": (1, 4, 1), "values": (1, 4, 1)}
    assert len(points) > 1
    points = chosen(specs, {}, lambda shapes: refuses(shapes) or shapes["ids"][1] > 1)  # one token at a time
    assert points[0] == {"mask": (1, 2), "ids": (1, 1), "past": (1, 4, 1)}
    with pytest.raises(CannotRun):
        chosen(specs, {}, lambda shapes: shapes["mask"][1] != 5 * shapes["past"][2])


def test_an_assumed_sum_is_said() -> None:
    specs = [InputSpec(name, 1, (None, None), ("b", name)) for name in ("x", "y", "z")]

    def run(shapes: InputShapes) -> float:
        if shapes["y"][1] != shapes["x"][1] + shapes["z"][1]:
            raise CannotRun("no")
        return 1.0

    assert choose_shapes(InputSizes(specs, {}), run, lambda _: 0)[1] == [
        "dynamic sizes were measured at b = 1, 32, 1024; x = 1, 32, 1024; z = 1, 32, 1024; y = x + z"
        " (set them with --shape)"
    ]


def test_a_placeholder_is_no_name() -> None:
    specs = [InputSpec(name, 1, (None, None), ("?", "?")) for name in "ab"]
    assert InputSizes(specs, {"a": (2, 3)}).open == {"b[0]": True, "b[1]": False}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"c": (1,)}, "no input 'c'"),
        ({"a": (1, 4, 4)}, "has shape batch x 4, not 1 x 4 x 4"),
        ({"a": (1, (1, 8))}, r"has shape batch x 4, not 1 x 1\.\.8"),
        ({"a": ()}, r"has shape batch x 4, not \(\)"),
        ({"a": (-1, 4)}, "negative"),
        ({"a": ((8, 1), 4)}, "begins at 1 or more"),
        ({"a": ((0, 8), 4)}, "begins at 1 or more"),
    ],
)
def test_shapes_that_cannot_be(given: dict[str, tuple[int, ...]], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        InputSizes(TWO, given)


def test_unknown_rank_needs_a_shape() -> None:
    spec = InputSpec("a", 1, None)
    with pytest.raises(Unfeedable, match="--shape"):
        InputSizes([spec], {})
    assert chosen([spec], {"a": (2,)}) == [{"a": (2,)}]
    assert chosen([spec], {"a": ((2, 3),)}) == [{"a": (2,)}, {"a": (3,)}]


def test_both_ends_of_ranges_and_the_middle() -> None:
    found = chosen(TWO, {"a": ((1, 64), 4), "b": ((1, 64), (128, 512))})
    assert [shapes["b"] for shapes in found] == [(1, 128), (8, 256), (64, 512)]
    assert all(shapes["a"] == (shapes["b"][0], 4) for shapes in found)
    assert sizes_between({"n": 128}, {"n": 512}) is None


def test_a_middle_that_the_model_refuses_is_left_out() -> None:
    found = chosen(TWO, {"a": ((1, 64), 4), "b": ((1, 64), 5)}, refuses=lambda shapes: shapes["a"][0] == 8)
    assert [shapes["a"][0] for shapes in found] == [1, 64]


def test_an_end_that_the_model_refuses_is_named() -> None:
    for end in (1, 64):
        with pytest.raises(InputError, match=rf"at an end of the given range, a={end}x4, b={end}x5: no"):
            chosen(TWO, {"a": ((1, 64), 4), "b": (1, 5)} | {"b": ((1, 64), 5)}, lambda s, end=end: s["a"][0] == end)


def test_open_sizes_grow_together_until_time_is_over() -> None:
    found = chosen(TWO, {}, seconds=lambda shapes: 0.001 * shapes["b"][0] * shapes["b"][1])
    assert [shapes["b"] for shapes in found] == [(1, 1), (8, 8)]
    slow = chosen(TWO, {}, seconds=lambda shapes: 3.0 * shapes["a"][0])
    assert [shapes["b"] for shapes in slow] == [(1, 1)]


def test_open_sizes_grow_until_memory_is_full() -> None:
    found = chosen(TWO, {}, needed=lambda shapes: shapes["a"][0] << 27)
    assert [shapes["b"][0] for shapes in found] == [1, 8]


@pytest.mark.parametrize(("least", "found"), [(500, 1024), (1025, 16384)])
def test_a_signal_that_must_be_longer_than_an_image(least: int, found: int) -> None:
    batch = InputSpec("x", 1, (None, None), ("batch", "samples"))
    assert chosen([batch], {}, lambda shapes: shapes["x"][1] < least)[0] == {"x": (1, found)}
    alone = InputSpec("x", 1, (None,), ("samples",))
    assert chosen([alone], {}, lambda shapes: shapes["x"][0] < least)[0] == {"x": (found,)}


def test_an_image_is_not_tried_at_the_length_of_a_signal() -> None:
    tried: list[int] = []

    def refuses(shapes: InputShapes) -> bool:
        tried.append(shapes["x"][1])
        return True

    image = InputSpec("x", 1, (3, None, None), ("", "h", "w"))
    with pytest.raises(CannotRun):
        chosen([image], {}, refuses, needed=lambda shapes: 2048 * shapes["x"][1] * shapes["x"][2])
    assert tried == [1, 32, 224]


def test_a_bounded_size_does_not_keep_others_small() -> None:
    found = chosen(TWO, {}, refuses=lambda shapes: shapes["b"][1] > 16)
    assert found[-1]["b"] == (1024, 16)


def test_late_sizes_are_doubled_together_only() -> None:
    found = chosen(TWO, {}, refuses=lambda shapes: shapes["b"][1] > 16, limit_s=0.0)
    assert found[-1] == {"a": (16, 4), "b": (16, 16)}


def test_given_sizes_stay() -> None:
    assert chosen(TWO, {"a": (2, 4), "b": (2, 3)}) == [{"a": (2, 4), "b": (2, 3)}]


def test_a_network_that_needs_large_sizes_begins_there() -> None:
    image = [InputSpec("x", 1, (None, 3, None, None), ("n", None, "h", "w"))]
    found = chosen(image, {}, lambda s: s["x"][2] < 32, seconds=lambda s: s["x"][2] / 1000)
    assert found == [{"x": (1, 3, 32, 32)}, {"x": (4, 3, 128, 128)}]


def test_what_does_not_fit_into_memory_is_said() -> None:
    with pytest.raises(CannotRun, match="does not fit into memory"):
        chosen([InputSpec("x", 1, (10**12, 10**12))], {})


def test_bytes_of_a_run_grow_with_its_sizes() -> None:
    terms = read_model(lora("batch"))
    one, many = (bytes_of_run(terms, {"x": (batch, 64)}) for batch in (1, 100))
    assert many == 100 * one > 0


def tied() -> onnx.ModelProto:
    """Sizes that are tied by arithmetic: y = Reshape(x, [batch * length]) + z."""
    nodes = [helper.make_node("Reshape", ["x", "flat"], ["r"]), helper.make_node("Add", ["r", "z"], ["y"])]
    flat = onnx.numpy_helper.from_array(onnx.numpy_helper.np.array([-1]), "flat")
    proto = model(nodes, [floats("x", "b", "s"), floats("z", "t")], [floats("y", "t")])
    proto.graph.initializer.append(flat)
    return proto


def test_sizes_tied_by_arithmetic_are_given_as_they_are(lora_rules: Path) -> None:
    result = optimize(tied(), ep="cpu", rules=lora_rules, cost="analytic", shapes={"x": (2, 3), "z": (6,)})
    assert "cannot be run" not in result.reason
    with pytest.raises(InputError, match="x=4x3, z=6"):
        optimize(tied(), ep="cpu", rules=lora_rules, cost="analytic", shapes={"x": ((2, 4), 3), "z": (6,)})


def test_a_candidate_is_refused_if_it_is_slower_at_any_size(lora_rules: Path) -> None:
    def timer(original: object, candidate: object, feeds: Feeds, budget_s: float) -> Timing:
        ratio = 0.9 if len(feeds["x"]) == slow else 2.0
        return Timing(ratio, 1.0, ratio, ratio, ratio, ratio, 1.0, 9, "cpu")

    options = Options(ep="cpu", rules=lora_rules, budget=5.0, cost="analytic", shapes={"x": ((1, 64), 64)})
    for slow in (1, 8, 64):
        result = optimize(lora("batch"), None, options, timer=timer)
        assert not result.changed and f"0.900 (0.900 to 0.900) at x={slow}x64" in result.reason
    slow = 0
    result = optimize(lora("batch"), None, options, timer=timer)
    assert result.changed and result.latency is not None and result.latency.ratio == pytest.approx(2.0)
    assert [one.shapes for one in result.latency.sizes] == [{"x": (size, 64)} for size in (1, 8, 64)]
    assert result.difference is not None and result.difference.inputs == 5 + 2
