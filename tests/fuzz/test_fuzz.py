"""A fixed sample of what `scripts/fuzz.py` does at length, and the cases that it has found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from scripts.fuzzing.attacks import Log
from scripts.fuzzing.cases import outcome, replay, write_case
from scripts.fuzzing.damage import damaged
from scripts.fuzzing.feeds import Subject
from scripts.fuzzing.growth import random_model
from scripts.fuzzing.judge import Judge
from scripts.fuzzing.nodes import NODES
from scripts.fuzzing.opaque_nodes import OPAQUE
from scripts.fuzzing.reading import base_models, command, read_damaged
from superopt.ir.infer import OPERATORS
from superopt.ir.term import CLOSED_FORM

DAMAGED = sorted((Path(__file__).parent / "damaged").glob("*.onnx"))
CASES = sorted((Path(__file__).parent / "cases").glob("*.onnx"))


@pytest.fixture(autouse=True)
def _no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_every_operator_is_tried() -> None:
    assert OPERATORS.keys() - CLOSED_FORM - {"Constant"} <= NODES.keys()
    assert not OPERATORS.keys() & OPAQUE.keys() - CLOSED_FORM


@pytest.mark.parametrize("part", range(4))
def test_random_graphs(part: int) -> None:
    log = Log()
    for seed in range(1030 + 15 * part, 1045 + 15 * part):
        subject = random_model(seed)
        for attack in ("sized", "written", "walked"):
            assert outcome(subject, attack, log) is None, (seed, attack)
    assert log.counts["steps"] > 20


def test_random_graphs_optimized() -> None:
    log = Log()
    for seed in range(2000, 2008):
        assert outcome(random_model(seed), "optimized", log) is None, seed
    assert log.counts["optimized"]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_cases(path: Path) -> None:
    assert replay(path) is None


def test_damaged_files() -> None:
    models = base_models(count=12)
    for seed in range(250):
        assert read_damaged(damaged(models, seed)) is None, seed


@pytest.mark.parametrize("path", DAMAGED, ids=lambda path: path.stem)
def test_damaged_files_that_were_not_read(path: Path) -> None:
    """Each once ended in a traceback, or not at all."""
    assert read_damaged(path.read_bytes()) is None


def test_damaged_files_for_the_command() -> None:
    models = base_models(count=12)
    for seed in range(12):
        assert command(damaged(models, seed)) is None, seed


def test_graphs_are_repeatable() -> None:
    assert random_model(7) == random_model(7)
    assert damaged(base_models(count=3), 5) == damaged(base_models(count=3), 5)


def model(op: str, weight: np.ndarray, **attrs: object) -> onnx.ModelProto:
    kind = helper.np_dtype_to_tensor_dtype(weight.dtype)
    x, y = (helper.make_tensor_value_info(name, kind, None if name == "y" else [*weight.shape]) for name in "xy")
    nodes = [helper.make_node(op, ["x", "w"], ["t"], **attrs), helper.make_node("Identity", ["t"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(
    ("ours", "same"),
    [
        (model("MatMul", np.eye(3, dtype=np.float32)), True),
        (model("MatMul", np.eye(3, dtype=np.float32) * np.float32(1 + 1e-7)), True),
        (model("MatMul", np.eye(3, dtype=np.float32) * np.float32(1 + 1e-4)), False),
        (model("Add", np.eye(3, dtype=np.float32)), False),
        (model("MatMul", np.full((3, 3), np.nan, np.float32)), False),
        (model("Gemm", np.eye(3, dtype=np.float32), transB=1), True),
    ],
)
def test_the_judge_tells_roundings_from_differences(ours: onnx.ModelProto, same: bool) -> None:
    original = model("MatMul", np.eye(3, dtype=np.float32))
    judge = Judge(original, Subject(original, "plain", {}, 0).feeds())
    assert (judge.problem(ours) is None) is same


def test_the_judge_compares_integers_exactly() -> None:
    original, other = (model("Add", np.full((2, 3), n, np.int64)) for n in (2**60, 2**60 + 1))
    judge = Judge(original, Subject(original, "plain", {}, 0).feeds())
    assert judge.problem(original) is None
    assert "differs" in str(judge.problem(other))


@pytest.mark.parametrize("bounded", [True, False])
def test_rules_without_a_bound_may_lose_all_digits(bounded: bool) -> None:
    """(x + 1e18) - 1e18 is 0, and x over the real numbers."""
    weight = np.full((2, 3), 1e18, np.float32)
    original, other = model("Add", np.zeros_like(weight)), model("Add", weight)
    other.graph.node.insert(1, helper.make_node("Sub", ["t", "w"], ["u"]))
    other.graph.node[2].input[0] = "u"
    judge = Judge(original, Subject(original, "plain", {}, 0).feeds(), bounded=bounded)
    assert (judge.problem(other) is None) is not bounded


def test_a_fault_is_found_shrunk_and_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that loses a Relu is shown by little more than a Relu."""
    from scripts.fuzzing import attacks

    right = attacks.write_model

    def wrong(terms: object, **options: object) -> onnx.ModelProto:
        made = right(terms, **options)  # type: ignore[arg-type]
        for node in made.graph.node:
            node.op_type = "Identity" if node.op_type == "Relu" else node.op_type
        return made

    monkeypatch.setattr(attacks, "write_model", wrong)
    seed = next(seed for seed in range(3000, 3100) if outcome(random_model(seed), "written", Log()) is not None)
    problem = outcome(random_model(seed), "written", Log())
    assert problem is not None
    path = write_case(tmp_path, random_model(seed), "written", problem, 30.0, Log())
    operators = [node.op_type for node in onnx.load(path).graph.node]
    assert "Relu" in operators
    assert len(operators) <= 2
    assert replay(path) is not None
    monkeypatch.setattr(attacks, "write_model", right)
    assert replay(path) is None
