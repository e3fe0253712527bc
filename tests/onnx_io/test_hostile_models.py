"""Models that no exporter writes: each is read and written again, or refused in one line; nothing hangs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from superopt.onnx_io import ModelError, read_bodies, read_model, read_simplified, write_model
from superopt.onnx_io.functions import can_be_expanded
from tests.support.function_models import DOUBLING, calling, function
from tests.support.function_models import one_input_model as model

node = helper.make_node


def nested(depth: int, constant: bool) -> ModelProto:
    def body(nodes: list[NodeProto]) -> GraphProto:
        return helper.make_graph(nodes, "body", [], [onnx.ValueInfoProto(name=nodes[-1].output[0])])

    inner = body([node("Neg", ["x"], ["o"])])
    other = body([node("Abs", ["x"], ["e"])])
    for _ in range(depth):
        inner = body([node("If", ["c"], ["o"], then_branch=inner, else_branch=other)])
    made = model([node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)])
    if constant:
        made.graph.initializer.append(numpy_helper.from_array(np.array(True), "c"))
    else:
        made.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    return made


def with_weight(change: Callable[[TensorProto], object]) -> ModelProto:
    made = model([node("Add", ["x", "w"], ["y"])])
    change(made.graph.initializer[0])
    return made


def with_sparse(data_type: int) -> ModelProto:
    made = model([node("MatMul", ["x", "s"], ["y"])])
    sparse = made.graph.sparse_initializer.add(dims=[3, 3])
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(2, np.float32), "s"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([0, 5]), "i"))
    sparse.values.data_type = data_type
    return made


def with_perm(*attributes: onnx.AttributeProto) -> ModelProto:
    made = model([node("Transpose", ["x"], ["y"])])
    made.graph.node[0].attribute.extend(attributes)
    return made


def with_unknown_group() -> ModelProto:
    """A field that Python's protobuf keeps as unknown and that of ONNX's checker does not read."""
    made = model([node("Neg", ["x"], ["y"])])
    del made.opset_import[:]
    import_of_opset_12 = b"\x0b\x00\x10\x0c"  # the start of a group, which does not end
    return onnx.load_from_string(made.SerializeToString() + b"\x42\x04" + import_of_opset_12)


INTS = onnx.AttributeProto.INTS
CASES: dict[str, tuple[ModelProto, str | None]] = {
    "a function that calls itself": (calling(function("A", "A")), None),
    "functions that call each other": (calling(function("A", "B"), function("B", "A")), None),
    "functions that stand for 2^40 nodes": (calling(*DOUBLING), None),
    "nested bodies": (nested(20, constant=False), None),
    "nested bodies of a known condition": (nested(20, constant=True), None),
    "a node that reads its own output": (model([node("Neg", ["y"], ["y"])]), "cycle"),
    "a cycle": (model([node("Neg", ["y"], ["z"]), node("Neg", ["z"], ["y"])]), "cycle"),
    "one output twice": (model([node("Split", ["x"], ["y", "y"], axis=0)]), "defined twice"),
    "a line break in a name": (model([node("Neg", ["no\nsuch"], ["y"])]), "nothing defines"),
    "an absent operand": (model([node("Add", ["x", ""], ["y"])]), None),
    "no operands": (model([node("Add", [], ["y"])]), None),
    "too many operands": (model([node("Neg", ["x"] * 9, ["y"])]), None),
    "an opset of the future": (model([node("Neg", ["x"], ["y"])], opset=10**9), None),
    "an opset below 0": (model([node("Neg", ["x"], ["y"])], opset=-3), None),
    "too little data": (with_weight(lambda w: setattr(w, "raw_data", b"abc")), "'w' is malformed"),
    "too much data": (with_weight(lambda w: setattr(w, "raw_data", b"a" * 99)), "'w' is malformed"),
    "an unknown element type": (with_weight(lambda w: setattr(w, "data_type", 99)), "'w' is malformed"),
    "a size below 0": (with_weight(lambda w: w.dims.__setitem__(0, -2)), "'w' is malformed"),
    "a size beyond memory": (with_weight(lambda w: w.dims.__setitem__(0, 2**62)), "'w' is malformed"),
    "an unknown sparse type": (with_sparse(77), "'s' is malformed"),
    "a sparse weight": (with_sparse(1), None),
    "an attribute of an unknown element type": (
        model([node("Neg", ["x"], ["y"], value=TensorProto(data_type=99, dims=[1], raw_data=b"abcd"))]),
        None,
    ),
    "an axis twice": (with_perm(helper.make_attribute("perm", [0, 0])), None),
    "an attribute of another type": (with_perm(helper.make_attribute("perm", [0.5, 1.5])), None),
    "an attribute without a type": (with_perm(onnx.AttributeProto(name="perm", ints=[1, 0])), None),
    "a reference outside a function": (with_perm(onnx.AttributeProto(name="perm", type=INTS, ref_attr_name="q")), None),
    "an attribute twice": (with_perm(*(helper.make_attribute("perm", p) for p in ([1, 0], [0, 1]))), None),
    "a group without an end": (with_unknown_group(), None),
    "an axis beyond any rank": (model([node("Concat", ["x", "x"], ["y"], axis=2**62)]), None),
}


@pytest.mark.parametrize("name", CASES)
def test_each_is_read_or_refused_in_one_line(name: str) -> None:
    hostile, problem = CASES[name]
    for read in (read_model, read_simplified):
        if problem is None:
            terms = read(hostile)
            assert len(write_model(terms).graph.output) == 1
            list(read_bodies(terms))
        else:
            with pytest.raises(ModelError, match=problem) as refused:
                read(hostile)
            assert "\n" not in str(refused.value)


def test_functions_that_can_be_expanded() -> None:
    assert can_be_expanded(calling(function("A", "B", "C"), function("B", "C"), function("C")))
    assert can_be_expanded(calling(*DOUBLING[30:]))
    assert not can_be_expanded(calling(*DOUBLING))
    assert not can_be_expanded(calling(function("A", "B"), function("B", "C", "B"), function("C")))
