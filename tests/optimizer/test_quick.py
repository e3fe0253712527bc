"""`--quick`: nothing is timed and nothing is proven for the search; what is found is a gain on all devices."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

from superopt.cli import optimize_command, optimize_main
from superopt.cli.terminal import ProgressLines
from superopt.ir.infer import make
from superopt.ir.notation import parse_rule, parse_signature
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from superopt.optimizer import Options, Result, optimize, validator
from superopt.optimizer.proof_cache import ProofCache
from superopt.rulebook.loading import certified_rules
from superopt.runtime import Feeds, Timing
from superopt.search import AnalyticCost, Device, SearchResult, find_device, search, shipped_devices
from superopt.search.cost.over_sizes import RESOLUTION, SizeGuard
from superopt.store import ResultStore
from tests.support.models import branches, floats, lora, model
from tests.support.search_graphs import Graphs, operators
from tests.support.search_rules import RULES, believe
from verify.verdict import Proved, Unknown

X = var("x", tensor(16, 64))


def never(original: bytes | Path, candidate: bytes | Path, feeds: Feeds, budget_s: float) -> Timing:
    raise AssertionError("timed")


def quick(source: onnx.ModelProto, rules: Path, **options: object) -> Result:
    return optimize(source, None, ep="cpu", rules=rules, quick=True, timer=never, **options)


def test_rewritten_compared_and_not_timed(lora_rules: Path) -> None:
    result = quick(lora(), lora_rules)
    assert result.changed and result.operators_after == {"MatMul": 1, "Relu": 1}
    assert result.latency is None and result.difference is not None and result.proof is not None
    assert all(find_device(name).name in result.cost_source for name in shipped_devices())
    assert [notice for notice in result.notices if notice.startswith("not timed")]


def test_predicted_times_are_those_of_the_named_device(lora_rules: Path) -> None:
    """Not a mean over all devices: a second run on the result begins where the first one ends."""
    first = quick(lora(), lora_rules)
    assert first.proto is not None
    second = quick(first.proto, lora_rules)
    assert first.cost_after_ms == pytest.approx(second.cost_before_ms, rel=1e-3)


def test_without_evaluations_in_float64_the_budget_is_not_to_blame(lora_rules: Path) -> None:
    difference = quick(lora(), lora_rules).difference
    assert difference is not None
    assert {one.no_reference for one in difference.accuracy} == {"not computed in a quick run"}


def test_progress_of_a_clean_up_speaks_of_no_rewrites(lora_rules: Path) -> None:
    told: list[str] = []
    nodes = [helper.make_node("Dropout", ["x"], ["d"]), helper.make_node("Tanh", ["d"], ["y"])]
    source = model(nodes, [floats("x", 2, 3)], [floats("y", 2, 3)])
    assert quick(source, lora_rules, progress=told.append).reason.startswith("folding only")
    assert "preparing the cleaned-up model" in told and not any(line.startswith("replaying") for line in told)


def test_branches_of_convolutions_are_merged_by_the_shipped_rules() -> None:
    source = branches()
    result = optimize(source, None, ep="cpu", quick=True, timer=never)
    before, after = (sum(counts.values()) for counts in (result.operators_before, result.operators_after))
    assert result.changed and after < before / 2
    assert "BatchNormalization" not in result.operators_after


def test_a_result_with_other_outputs_is_refused(lora_rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from superopt.optimizer import candidate_check

    def spoiled(*arguments: object, **options: object) -> onnx.ModelProto:
        written = write(*arguments, **options)  # type: ignore[arg-type]
        for node in written.graph.node:
            node.op_type = "Sigmoid" if node.op_type == "Relu" else node.op_type
        return written

    write = candidate_check.write_model
    monkeypatch.setattr(candidate_check, "write_model", spoiled)
    result = quick(lora(), lora_rules)
    assert not result.changed and "outputs differ" in result.reason


def test_a_model_that_cannot_be_run_is_rewritten(lora_rules: Path) -> None:
    source = lora()
    source.graph.node.append(onnx.helper.make_node("Unheard", ["y"], ["z"], domain="nobody"))
    source.opset_import.append(onnx.helper.make_opsetid("nobody", 1))
    source.graph.output.append(floats("z"))
    result = quick(source, lora_rules)
    assert result.changed and any("cannot be run here" in notice for notice in result.notices)


def test_nothing_to_gain_keeps_the_original(lora_rules: Path) -> None:
    source = model([onnx.helper.make_node("Relu", ["x"], ["y"])], [floats("x", 4)], [floats("y", 4)])
    assert not quick(source, lora_rules).changed


def test_what_another_option_asks_for_stays() -> None:
    given = Options(quick=True, budget=1000, effort=3, numerics="exact", timeout=60.0)
    paced = given.as_run()
    assert (paced.cost, paced.numerics, paced.timeout, paced.is_timed) == ("analytic", "exact", 60.0, False)
    assert given.budget_s < 10


def test_the_search_extends_no_certificate(tmp_path: Path) -> None:
    _, certificates = certified_rules()
    rule, signature = parse_rule('FastGelu(a) = Gelu[approximate="tanh"](a)'), parse_signature("a[_,_,_,_,_]")
    assert rule in certificates
    with ResultStore(tmp_path / "store.sqlite") as store:
        without = ProofCache(store, certificates, proves=False)
        assert isinstance(without.verdict(rule, signature), Unknown) and without.uncertified == {rule}
        assert isinstance(ProofCache(store, certificates).verdict(rule, signature), Proved)
        assert isinstance(ProofCache(store, certificates, proves=False).verdict(rule, signature), Proved)


def test_the_search_proves_what_no_certificate_lists(tmp_path: Path) -> None:
    rule = parse_rule("Add(x, y) = Add(y, x) @ x[_,_] y[_,_]")
    with ResultStore(tmp_path / "store.sqlite") as store:
        proofs = ProofCache(store, certified_rules()[1], proves=False)
        assert isinstance(proofs.verdict(rule, rule.signatures[0]), Proved)


def found(output: Term, *devices: Device) -> SearchResult:
    return search((output,), RULES, believe, SizeGuard(list(map(AnalyticCost, devices))), position={}, efforts=0)


def test_a_gain_on_one_device_only_is_not_made() -> None:
    """Two products through 8 channels have less arithmetic than one of 64 x 64, and one operator more."""
    graphs = Graphs()
    output = make("Relu", (make("MatMul", (make("MatMul", (X, graphs.const(64, 8))), graphs.const(8, 64))),))
    starts_slowly = Device(1e13, 1e13, 1e12, 1e-4)
    computes_slowly = Device(1e6, 1e6, 1e12, 1e-9)
    for devices, products in (
        ((starts_slowly,), 1),
        ((computes_slowly,), 2),
        ((starts_slowly, computes_slowly), 2),
        ((computes_slowly, starts_slowly), 2),
    ):
        assert operators(found(output, *devices).outputs).count("MatMul") == products


def test_a_gain_by_itself_is_made_without_an_effort() -> None:
    result = found(make("Relu", (make("Relu", (X,)),)), find_device("cpu"), find_device("cuda"))
    assert operators(result.outputs) == ["Relu"] and result.complete


def test_costs_without_noise_are_compared_exactly() -> None:
    class Flat:
        seconds_per_weight_byte = 0.0

        def __init__(self, more: float) -> None:
            self.more = more

        def cost(self, term: Term) -> float:
            return 0.0 if term.op == "Var" else 1.0 + self.more * (term.op == "Sigmoid")

    before, after = (make(op, (X,)) for op in ("Relu", "Sigmoid"))
    for more, resolution, slower in ((0.004, RESOLUTION, False), (0.004, 1e-9, True), (0.0, 1e-9, False)):
        guard = SizeGuard([Flat(more), Flat(0.0)], resolution)
        assert guard.is_slower([after], [before]) is slower


def test_the_command(tmp_path: Path, lora_rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its progress says nothing of a budget, as --budget has no effect here."""
    monkeypatch.setattr(optimize_command, "ProgressLines", partial(ProgressLines, 0.0))
    onnx.save(lora(), tmp_path / "model.onnx")
    arguments = [tmp_path / "model.onnx", "-o", tmp_path / "fast.onnx", "--quick", "--rules", lora_rules, "--ep", "cpu"]
    done = CliRunner().invoke(optimize_main.command, list(map(str, arguments)))
    assert done.exit_code == 0 and "measured" not in done.stdout and "Predicted: " in done.stdout
    assert "not timed" in done.stderr and "budget" not in done.stderr
    assert len(onnx.load(tmp_path / "fast.onnx").graph.node) == 2


def test_large_weights_are_in_a_file_of_their_own_meanwhile(lora_rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime maps them. The result has them inside, and the measured form of a candidate has them, too."""
    usual = quick(lora(), lora_rules, remeasure=True)
    monkeypatch.setattr(validator, "_MAX_INLINE_BYTES", 0)
    spilled = quick(lora(), lora_rules, remeasure=True)
    assert spilled.changed and spilled.difference == usual.difference and spilled.proto == usual.proto
    with validator.runnable_form(lora(), is_timed=False) as files:
        assert isinstance(files, Path) and (files.parent / "weights").stat().st_size > 64 * 64 * 4
    with validator.runnable_form(lora()) as content:
        assert content == lora().SerializeToString()
