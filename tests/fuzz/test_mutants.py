"""Single mutations of models, and the reports of `scripts/fuzz.py mutants` on what `superopt check` says of them."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import pytest
from onnx import helper

from scripts.fuzzing import mutants
from scripts.fuzzing.feeds import accepted_feeds
from scripts.fuzzing.judge import run
from scripts.fuzzing.mutants import check_mutant, mutant_of
from scripts.fuzzing.mutations import MUTATIONS
from superopt.check import EQUIVALENT, Answer
from tests.support.models import floats, model, weights

node = helper.make_node


@pytest.fixture(autouse=True)
def _no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _network() -> onnx.ModelProto:
    """A small network with something for each mutation: two sums let a rule about their order match."""
    return model(
        [
            node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
            node("LeakyRelu", ["c"], ["r"], alpha=0.1),
            node("Transpose", ["r"], ["t"], perm=[0, 2, 3, 1]),
            node("Reshape", ["t", "shape"], ["s"]),
            node("MatMul", ["s", "w"], ["m"]),
            node("Sub", ["m", "b"], ["d"]),
            node("Softmax", ["d"], ["y"], axis=-1),
        ],
        [floats("x", 1, 3, 6, 6)],
        [floats("y", 36, 4)],
        [
            ("k", weights(4, 3, 3, 3)),
            ("w", weights(4, 4, seed=1)),
            ("b", weights(4, seed=2)),
            ("shape", (weights(2) * 0 + [36, 4]).astype("int64")),
        ],
    )


@pytest.mark.parametrize("kind", [kind for kind in MUTATIONS if kind != "rule"])
def test_each_mutation_changes_the_model(kind: str) -> None:
    found = _network()
    what = next(filter(None, (MUTATIONS[kind](found, random.Random(seed)) for seed in range(10))), None)
    assert what is not None
    assert found != _network()


def test_mutants_are_models_and_repeatable() -> None:
    network = _network()
    feeds = next(accepted_feeds(network))
    made = [mutant_of(network, feeds, number) for number in range(2 * len(MUTATIONS))]
    assert made == [mutant_of(network, feeds, number) for number in range(2 * len(MUTATIONS))]
    assert len({mutant.kind for mutant in made if mutant is not None}) > len(MUTATIONS) / 2
    for mutant in made:
        assert mutant is not None and mutant.model != network
        assert run(mutant.model, feeds)


def test_a_sample_of_mutants(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    onnx.save(_network(), path)
    for number in range(8):
        said, line, problem = check_mutant(number, [path], tmp_path, 2.0, None)
        assert problem is None, line
        assert said.split(": ")[0] in MUTATIONS


def test_a_wrong_answer_is_reported_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = tmp_path / "network.onnx", tmp_path / "found"
    onnx.save(_network(), path)
    monkeypatch.setattr(mutants, "check", lambda *args: Answer("a", "b", EQUIVALENT))
    _, line, problem = check_mutant(list(MUTATIONS).index("tensor"), [path], tmp_path, 2.0, out)
    assert problem is not None and problem.startswith("called Equivalent, and output y differs"), line
    assert len(list(out.iterdir())) == 3
