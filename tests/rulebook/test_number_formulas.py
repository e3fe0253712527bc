"""Numbers that rules know by a formula: the float nearest to the root of 2 is read as that root."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from superopt.ir.infer import replace
from superopt.ir.notation import parse_rule
from superopt.ir.term import Term, topological
from superopt.onnx_io import read_model
from superopt.optimizer import Result, optimize
from superopt.optimizer.rule_reading import with_formulas
from superopt.runtime import Feeds, Timing
from tests.support.certified import certified
from tests.support.models import model

GELU = (
    "Mul(x, Add(Erf(Div(x, Sqrt(ConstantOfShape[shape=[], value=2.0]))), Ones[shape=[]])) = "
    'Add(Gelu[approximate="none"](x), Gelu[approximate="none"](x)) @ x[_,_]\n'
)
TYPES = {"float": onnx.TensorProto.FLOAT, "double": onnx.TensorProto.DOUBLE, "float16": onnx.TensorProto.FLOAT16}


def divided_by(number: np.ndarray) -> onnx.ModelProto:
    """Return x * (1 + erf(x / number)), as exporters write it."""
    elem_type = helper.np_dtype_to_tensor_dtype(number.dtype)
    nodes = [
        helper.make_node("Div", ["x", "c"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["s"]),
        helper.make_node("Mul", ["x", "s"], ["y"]),
    ]
    constants = [("c", number), ("one", np.ones((), number.dtype))]
    values = [helper.make_tensor_value_info(name, elem_type, (256, 512)) for name in ("x", "y")]
    return model(nodes, values[:1], values[1:], constants, opset=17)


def roots(source: onnx.ModelProto) -> list[Term]:
    read = with_formulas(read_model(source), [parse_rule(GELU)])
    return [term for term in topological(read.outputs) if term.op == "Sqrt"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_the_number_nearest_to_a_root_is_the_root(dtype: str) -> None:
    source = divided_by(np.sqrt(np.array(2, dtype)))
    (root,) = roots(source)
    assert root.type is not None and root.type.shape == ()
    original = read_model(source)
    number = next(term for term in topological(original.outputs) if not term.inputs and term.op not in ("Ones", "Var"))
    read = with_formulas(original, [parse_rule(GELU)])
    assert replace(read.outputs, {root: number}) == original.outputs


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_other_number_is_a_root(dtype: str) -> None:
    root = np.sqrt(np.array(2, dtype))
    for other in (np.nextafter(root, 2, dtype=dtype), np.nextafter(root, 1, dtype=dtype), root / 2, -root):
        assert not roots(divided_by(np.array(other, dtype)))
    assert not roots(divided_by(np.sqrt(np.array([[2]], dtype)) + np.zeros((256, 512), dtype)))  # no single number
    untouched = read_model(divided_by(root))
    assert with_formulas(untouched, []) is untouched


def test_equations_about_the_root_hold_for_the_number(tmp_path: Path) -> None:
    """A written-out Gelu is found, though the model's opset has none; the result is the original's."""

    def faster(original: bytes | Path, candidate: bytes | Path, feeds: Feeds, budget_s: float) -> Timing:
        return Timing(1.5, 1.0, 1.5, 1.5, 1.5, 1.5, 1.0, 9, "cpu")

    rule = (
        "Mul(x, Mul(ConstantOfShape[shape=z, value=0.5], Add(Erf(Div(x, Sqrt(ConstantOfShape[shape=z, value=2.0]))), "
        'Ones[shape=z]))) = Gelu[approximate="none"](x) @ x[_,_] z=[]\n'
    )
    source = divided_by(np.sqrt(np.array(2, np.float32)))
    source.graph.node.insert(3, helper.make_node("Mul", ["half", "s"], ["h"]))
    source.graph.node[-1].input[1] = "h"
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0.5, np.float32), "half"))

    def run(**options: object) -> Result:
        rules = certified(tmp_path / "own.rules", rule)
        return optimize(source, None, ep="cpu", rules=rules, budget=4.0, timer=faster, cost="analytic", **options)  # type: ignore[arg-type]

    result = run()
    assert result.operators_after == {"com.microsoft::Gelu": 1} and result.difference is not None
    assert not run(domains="onnx").changed  # Gelu is new in opset 20
    assert not run(numerics="exact").changed
