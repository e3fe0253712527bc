"""The section "Add an operator" of superopt/README.md, carried out as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import onnx
import onnxruntime
import pytest

from superopt.evaluate import can_evaluate, evaluate
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.ir.infer import make
from superopt.ir.notation import parse_rules
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from superopt.onnx_io import new_model, read_model, write_model
from superopt.ops import scalar
from superopt.search.cost.analytic import AnalyticCost
from tests.support.definition_check import check_definition
from tests.support.paths import ROOT
from tests.support.registration import unregistered_afterwards
from tests.support.semantic_cases import CASES
from tests.support.semantic_cases import scalar as scalar_cases
from verify.proof_book import prove_at
from verify.verdict import Proved

SECTION = re.search(r"^## Add an operator\n(.*?)^## ", (ROOT / "superopt/README.md").read_text("utf-8"), re.S | re.M)
assert SECTION is not None
PRIMITIVE, COMPOSITE, ROWS = re.findall(r"```python\n(.*?)```", SECTION[1], re.S)
(RULES,) = re.findall(r"```text\n(.*?)```", SECTION[1], re.S)
NAMES = ("Shrink", "Cosh")
X = var("x", tensor(2, 3))


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The entries and the rows of the section, for one test."""
    assert not set(NAMES) & OPERATORS.keys()
    with unregistered_afterwards():
        exec(PRIMITIVE + COMPOSITE, dict(vars(scalar)))
        rows = eval("{" + ROWS + "}", dict(vars(scalar_cases)))
        for name, maker in rows.items():
            monkeypatch.setitem(CASES, name, maker)
        assert set(NAMES) == set(rows) == set(OPERATORS) & set(NAMES)
        yield


def terms() -> list[Term]:
    return [make("Shrink", (X,), {"bias": 0.25, "lambd": 0.5}), make("Cosh", (X,))]


def test_it_is_typed() -> None:
    assert [term.types for term in terms()] == [(X.type,), (X.type,)]


@pytest.mark.parametrize("name", NAMES)
def test_it_means_what_onnx_says(name: str) -> None:
    for seed in range(15):
        check_definition(name, seed)


def test_it_is_read_and_written() -> None:
    model = write_model(new_model(terms(), opset=17))
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == list(NAMES)
    assert list(read_model(model).outputs) == terms()


def test_defaults_are_those_of_the_file() -> None:
    nodes = [onnx.helper.make_node("Shrink", ["x"], ["y"])]
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    assert read_model(model).outputs == (make("Shrink", (X,), {"bias": 0.0, "lambd": 0.5}),)


def test_it_is_evaluated() -> None:
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    assert all(map(can_evaluate, terms()))
    session = onnxruntime.InferenceSession(
        write_model(new_model(terms(), opset=17)).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for ours, theirs in zip(evaluate(terms(), {X: x}, {}), session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_it_has_fingerprints() -> None:
    shrink, cosh = terms()
    flipped = make("Neg", (X,))
    evaluator = Evaluator(seed=0)
    assert evaluator.key(make("Cosh", (flipped,))) == evaluator.key(cosh)
    odd = make("Neg", (make("Shrink", (flipped,), dict(shrink.attrs)),))
    assert evaluator.key(odd) == evaluator.key(shrink) != evaluator.key(cosh)


def test_rules_over_it_are_proven() -> None:
    for rule in parse_rules(RULES):
        (signature,) = rule.signatures
        assert isinstance(prove_at(rule, signature), Proved)
    (false,) = parse_rules("Cosh(Neg(x)) = Neg(Cosh(x)) @ x[_]")
    assert not isinstance(prove_at(false, false.signatures[0]), Proved)


def test_it_has_a_cost() -> None:
    relu, *costs = map(AnalyticCost().cost, (make("Relu", (X,)), *terms()))
    assert all(relu <= cost < 1 for cost in costs)
