"""Reshapes and Expands whose target a model computes from the sizes of its inputs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from superopt.check.equality import joined, prove_equal
from superopt.onnx_io import Model, read_simplified
from tests.support.models import floats, model

node = helper.make_node
NUMBERS = {"minus": [-1], "one": [1], "zero": [0], "two": [2]}


def read(*nodes: onnx.NodeProto) -> Model:
    proto = model(list(nodes), [floats("x", "b", "s", 8)], [floats("y", None, None, None, None)], opset=18)
    proto.graph.initializer.extend(numpy_helper.from_array(np.array(v, np.int64), k) for k, v in NUMBERS.items())
    return read_simplified(proto)


def target(op: str, source: str, sizes: list[str], **attrs: int) -> list[onnx.NodeProto]:
    """Nodes that compute the shape of x, join `sizes` (b, s, and the lists in NUMBERS), and apply `op`."""
    return [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["b"], axis=0),
        node("Gather", ["shape", "one"], ["s"], axis=0),
        node("Concat", sizes, ["target"], axis=0),
        node(op, [source, "target"], ["y"], **attrs),
    ]


FLAT = node("Reshape", ["x", "minus"], ["flat"])
HALVES = ["b", "s", "two", "minus"]
CASES = [
    (target("Reshape", "x", HALVES), [FLAT, *target("Reshape", "flat", HALVES)], True),
    (target("Reshape", "x", HALVES, allowzero=1), [FLAT, *target("Reshape", "flat", HALVES)], True),
    (target("Reshape", "x", HALVES), [FLAT, *target("Reshape", "flat", ["s", "b", "two", "minus"])], False),
    (target("Reshape", "x", HALVES), target("Reshape", "x", ["b", "s", "minus", "two"]), False),
    (
        [node("Neg", ["x"], ["n"]), *target("Expand", "n", ["two", "b", "s", "one"])],
        [*target("Expand", "x", ["two", "b", "s", "one"])[:-1], node("Expand", ["x", "target"], ["z"]),
         node("Neg", ["z"], ["y"])],
        True,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "equal"), CASES)
def test_the_shape_of_the_result_says_what_they_do(
    one: list[onnx.NodeProto], other: list[onnx.NodeProto], equal: bool
) -> None:
    left, right = joined(read(*one), read(*other))
    assert prove_equal(left, right, seconds=10).outputs == (equal,)


def test_a_shape_that_values_decide_is_compared_as_a_tensor() -> None:
    """The shape of the result has names of its own in each model, and says nothing of the other's."""
    found = [
        node("NonZero", ["x"], ["places"]),
        node("Shape", ["places"], ["target"]),
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Expand", ["sum", "target"], ["e"]),
    ]
    twice = [node("Neg", ["e"], ["n"]), node("Neg", ["n"], ["m"]), node("Neg", ["m"], ["y"])]
    left, right = joined(read(*found, node("Neg", ["e"], ["y"])), read(*found, *twice))
    assert prove_equal(left, right, seconds=10).outputs == (True,)


def ranged(sizes: list[onnx.NodeProto], size: str) -> Model:
    """Return the model x + (0, 1, ... up to a size that `sizes` compute)."""
    nodes = [*sizes, node("Squeeze", [size], ["limit"]), node("Range", ["start", "limit", "step"], ["counts"])]
    nodes += [node("Cast", ["counts"], ["reals"], to=1), node("Unsqueeze", ["reals", "two"], ["column"])]
    nodes += [node("Add", ["x", "column"], ["y"])]
    proto = model(nodes, [floats("x", 1, "s", "s"), floats("z", "s", "t")], [floats("y", 1, "s", "s")], opset=18)
    numbers = {"one": [1], "two": [1], "start": 0, "step": 1}
    proto.graph.initializer.extend(numpy_helper.from_array(np.array(v, np.int64), k) for k, v in numbers.items())
    return read_simplified(proto)


def part(of: str, start: int) -> list[onnx.NodeProto]:
    return [node("Shape", [of], ["part"], start=start, end=start + 1)]


def test_sizes_are_the_same_however_they_are_computed() -> None:
    first = ranged(part("x", 1), "part")
    turned = [node("Transpose", ["z"], ["turned"]), *part("turned", 1)]
    doubled = [*part("x", 2), node("Add", ["part", "part"], ["twice"]), node("Sub", ["twice", "part"], ["again"])]
    for other, equal in ((ranged(turned, "part"), True), (ranged(doubled, "again"), True)):
        found = joined(first, other)
        assert (found[0].outputs == found[1].outputs) is equal
    other = joined(first, ranged(part("z", 1), "part"))
    assert other[0].outputs != other[1].outputs


def meeting(*nodes: onnx.NodeProto) -> Model:
    """c is x beside every second row of z, where z is as long as x."""
    proto = model(
        [
            node("MaxPool", ["z"], ["h"], kernel_shape=[1], strides=[2]),
            node("Concat", ["x", "h"], ["c"], axis=1),
            *nodes,
        ],
        [floats("x", "b", 2, "s"), floats("z", "b", 4, "r")],
        [floats("y", None, None, None)],
        opset=18,
    )
    given = {"known": [0, 3, -1], "two": [2], "three": [3], "joint": [0, -1]}
    proto.graph.initializer.extend(numpy_helper.from_array(np.array(v, np.int64), k) for k, v in given.items())
    return read_simplified(proto)


def test_sizes_that_meet_in_a_concat() -> None:
    """The sizes s and (r - 1) // 2 + 1 meet, so that the Concat has s rows."""
    computed = [
        node("Shape", ["c"], ["batch"], start=0, end=1),
        node("Shape", ["c"], ["rows"], start=2, end=3),
        node("Mul", ["rows", "two"], ["many"]),
        node("Concat", ["batch", "three", "many"], ["t"], axis=0),
        node("Reshape", ["c", "t"], ["y"]),
    ]
    left, right = joined(meeting(*computed), meeting(node("Reshape", ["c", "known"], ["y"])))
    assert prove_equal(left, right, seconds=10).outputs == (True,)


def test_a_concat_that_is_known_by_its_sizes_alone_must_be_computed_as_often() -> None:
    rows = [node("Concat", ["x", "x"], ["d"], axis=1), node("Shape", ["d"], ["n"], start=2, end=3)]
    rows += [node("Cast", ["n"], ["y"], to=1)]
    needs = [node("Shape", ["c"], ["n"], start=2, end=3), node("Cast", ["n"], ["y"], to=1)]
    for one, other, is_equal in ((rows, needs, False), (needs, rows, True), (needs, needs, True)):
        left, right = joined(meeting(*one), meeting(*other))
        assert prove_equal(left, right, seconds=10).outputs == (is_equal,)


def flattened(*nodes: onnx.NodeProto) -> Model:
    """x as h w rows of 8, one after the other."""
    flat = node("Reshape", ["x", "rows"], ["flat"])
    proto = model([flat, *nodes], [floats("x", "b", "h", "w", 8)], [floats("y", None, None, None, None)], opset=18)
    for name, value in {"rows": [0, -1, 8], "any": [0, 1, -1, 8], "one": [1], "eight": [8]}.items():
        proto.graph.initializer.append(numpy_helper.from_array(np.array(value, np.int64), name))
    return read_simplified(proto)


def test_a_reshape_that_is_defined_for_some_sizes_equals_one_that_is_for_all() -> None:
    """w rows of 8 are all of them for h = 1 only. The other way round, the second model would fail more often."""
    computed = [
        node("Shape", ["x"], ["batch"], start=0, end=1),
        node("Shape", ["x"], ["width"], start=2, end=3),
        node("Concat", ["batch", "one", "width", "eight"], ["t"], axis=0),
        node("Reshape", ["flat", "t"], ["y"]),
    ]
    inferred = [node("Reshape", ["flat", "any"], ["y"])]
    for one, other, is_equal in ((computed, inferred, True), (inferred, computed, False)):
        left, right = joined(flattened(*one), flattened(*other))
        found = prove_equal(left, right, seconds=10)
        assert found.outputs == (is_equal,)
        assert not is_equal or (found.certificate is not None and found.certificate.replay(left, right))


def test_an_expand_that_fails_at_other_sizes_is_not_dropped() -> None:
    """ONNX's inference says that 2 rows expanded to n are 2, and that is n for few n."""
    ends = [floats("t", 2, 4), floats("z", "n", 4)], [floats("y", "a", 4)]
    plain = read_simplified(model([node("Neg", ["t"], ["y"])], *ends))
    nodes = [node("Neg", ["t"], ["u"]), node("Shape", ["z"], ["s"]), node("Expand", ["u", "s"], ["y"])]
    expanded = read_simplified(model(nodes, *ends))
    assert prove_equal(*joined(plain, expanded), seconds=5).outputs == (False,)
    assert prove_equal(*joined(expanded, plain), seconds=5).outputs == (True,)
    assert prove_equal(*joined(expanded, expanded), seconds=5).outputs == (True,)


def of_one_row(*first: onnx.NodeProto) -> Model:
    """Return a model that is defined for h = 1 only: x + t, with t of w elements from f of all (h w) elements of x."""
    nodes = [
        *first,
        node("Reshape", ["f", "rows"], ["flat"]),
        node("Softmax", ["flat"], ["parts"], axis=-1),
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "two"], ["w"], axis=0),
        node("Gather", ["shape", "zero"], ["b"], axis=0),
        node("Concat", ["b", "one", "w", "eight"], ["target"], axis=0),
        node("Reshape", ["parts", "target"], ["t"]),
        node("Concat", ["x", "t"], ["joined"], axis=3),
        node("Sigmoid", ["joined"], ["y"]),
    ]
    proto = model(nodes, [floats("x", "b", "h", "w", 8)], [floats("y", None, None, None, None)], opset=18)
    numbers = {**NUMBERS, "eight": [8], "rows": [0, -1, 8]}
    proto.graph.initializer.extend(numpy_helper.from_array(np.array(v, np.int64), k) for k, v in numbers.items())
    return read_simplified(proto)


def test_a_target_that_one_size_alone_allows_is_read_alike_in_both_models() -> None:
    """(b, h w, 8) becomes (b, 1, w, 8) for h = 1 only; its operand is another operator in each model."""
    silu = [node("Sigmoid", ["x"], ["g"]), node("Mul", ["x", "g"], ["f"])]
    fused = onnx.helper.make_node("QuickGelu", ["x"], ["f"], domain="com.microsoft", alpha=1.0)
    left, right = joined(of_one_row(*silu), of_one_row(fused))
    assert left.other_targets and not right.other_targets
    found = prove_equal(left, right, seconds=20)
    assert found.outputs == (True,) and {match.by for match in found.matches} == {"same", "kernel"}
    assert sum(match.by == "kernel" for match in found.matches) == 1


def test_a_target_that_the_second_model_alone_has_is_not_read_as_another() -> None:
    """The first model is defined for any h."""
    nodes = [node("Concat", ["x", "x"], ["joined"], axis=3), node("Sigmoid", ["joined"], ["y"])]
    any_height = read_simplified(model(nodes, [floats("x", "b", "h", "w", 8)], [floats("y", None, None, None, None)]))
    left, right = joined(any_height, of_one_row(node("Sigmoid", ["x"], ["f"])))
    assert not left.other_targets and not right.other_targets
    assert not prove_equal(left, right, seconds=5).outputs[0]
