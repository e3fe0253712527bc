"""Counterexamples in ONNX Runtime: confirmed, contradicted, or why it cannot say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from superopt.cli import main, proving
from superopt.diagnose import confirmation as module
from superopt.diagnose.confirmation import (
    CANNOT_RUN,
    ONE_SIDE_FAILS,
    SIDES_AGREE,
    TYPES_DIFFER,
    VALUES_DIFFER,
    Confirmation,
    confirm,
)
from superopt.generate import Summary, families, generate
from superopt.generate.pipeline import CounterexampleCheck
from superopt.ir.notation import parse_rule, show_rule, show_signature
from superopt.ir.rule import Rule
from verify.verdict import Counterexample, Refuted, Verdict


def said(rule: str, example: Counterexample) -> Confirmation:
    parsed = parse_rule(rule)
    return confirm(parsed, parsed.signatures[0], example)


SQUARE = {f"{name}.shape[{k}]": 2 for name in "ab" for k in range(2)}
MATRICES = {"a": [[4.0, 4.0], [1.0, 3.0]], "b": [[5.0, 4.0], [4.0, 3.0]]}


def test_values_that_differ() -> None:
    example = Counterexample(SQUARE, MATRICES, {}, 0, (0, 0), "36", "24")
    found = said("MatMul(a, b) = MatMul(b, a) @ a[_,_] b[_,_]", example)
    assert found == Confirmation(VALUES_DIFFER, "36", "24")
    assert str(found) == "confirmed by ONNX Runtime: left 36, right 24"


def test_values_that_agree_contradict_the_kernel() -> None:
    example = Counterexample(SQUARE, MATRICES, {}, 0, (0, 0), "36", "24")
    found = said("Add(a, b) = Add(b, a) @ a[_,_] b[_,_]", example)
    assert found == Confirmation(SIDES_AGREE, "9", "9")
    assert found.contradicts
    assert "error of the kernel" in str(found)


def test_a_difference_below_float32_says_nothing() -> None:
    example = Counterexample(SQUARE, MATRICES, {}, 0, (0, 0), "9", "9.0000001")
    found = said("Add(a, b) = Add(b, a) @ a[_,_] b[_,_]", example)
    assert found.outcome == CANNOT_RUN
    assert "float32" in str(found)


def test_real_attributes_and_integers_are_filled_in() -> None:
    rule = "Gemm[alpha=r, beta=1.0, transA=0, transB=0](a, b) = MatMul(a, b) @ a[_,_] b[_,_] r=*"
    found = said(rule, Counterexample(SQUARE, MATRICES, {"r": 0.5}, 0, (0, 0), "18", "36"))
    assert found == Confirmation(VALUES_DIFFER, "18", "36")
    split = "Split[axis=-1, split=n](a).0 = Split[axis=-1, split=n](a).1 @ a[_,_] n=[_,_]"
    sizes = {"a.shape[0]": 2, "a.shape[1]": 2, "n[0]": 1, "n[1]": 1}
    found = said(split, Counterexample(sizes, {"a": MATRICES["a"]}, {}, 0, (1, 0), "1", "3"))
    assert found == Confirmation(VALUES_DIFFER, "1", "3")


def test_integer_tensors_stay_integers() -> None:
    rule = "Add(a, b) = a @ a:int64[_] b:int64[_]"
    example = Counterexample({"a.shape[0]": 1, "b.shape[0]": 1}, {"a": [7.0], "b": [2.0]}, {}, 0, (0,), "9", "7")
    assert said(rule, example) == Confirmation(VALUES_DIFFER, "9", "7")


def test_shapes() -> None:
    sizes = {"x.shape[0]": 2, "y.shape[0]": 3}
    example = Counterexample(sizes, {}, {}, 0, (), "shape [5]", "shape [2]")
    assert said("Concat[axis=-1](x, y) = x @ x[_] y[_]", example) == Confirmation(TYPES_DIFFER, "[5]", "[2]")
    wrong = said("Add(x, x) = x @ x[_] y[_]", example)
    assert wrong.contradicts


def test_one_side_has_no_type() -> None:
    sizes = {"x.shape[0]": 2, "y.shape[0]": 3}
    example = Counterexample(sizes, {}, {}, 0, (), "well-typed", "ill-typed")
    found = said("(Relu(x), Relu(y)) = (Add(x, y), Relu(y)) @ x[_] y[_]", example)
    assert found.outcome == ONE_SIDE_FAILS
    assert "the right side has no type" in str(found)


def test_what_is_left_open_cannot_be_run() -> None:
    found = said("Relu(x) = x @ x[_]", Counterexample({}, {}, {}, 0, (), "1", "2"))
    assert found.outcome == CANNOT_RUN
    assert "left open" in found.reason


def test_what_the_runtime_does_not_load_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from superopt.runtime import CannotRun

    def fails(*arguments: object, **options: object) -> None:
        raise CannotRun("no\nkernel")

    monkeypatch.setattr(module, "open_session", fails)
    example = Counterexample(SQUARE, MATRICES, {}, 0, (0, 0), "36", "24")
    found = said("MatMul(a, b) = MatMul(b, a) @ a[_,_] b[_,_]", example)
    assert (found.outcome, found.reason) == (CANNOT_RUN, "left: no kernel; right: no kernel")


# In the commands


def test_verify_confirms(tmp_path: Path) -> None:
    rules = tmp_path / "bad.rules"
    rules.write_text("MatMul(a, b) = MatMul(b, a) @ a[_,_] b[_,_]\n")
    done = CliRunner().invoke(main, ["verify", str(rules)])
    assert done.exit_code == 1
    assert "confirmed by ONNX Runtime: left " in done.stdout
    data = json.loads(CliRunner().invoke(main, ["verify", str(rules), "--json"]).stdout)
    confirmation = data["rules"][0]["signatures"][0]["confirmation"]
    assert confirmation["outcome"] == VALUES_DIFFER
    assert confirmation["left"] != confirmation["right"]


def wrong(*arguments: object) -> Verdict:
    """A kernel that refutes what is true."""
    tensors = {"a": [1.0], "b": [2.0]}
    example = Counterexample({"a.shape[0]": 1, "b.shape[0]": 1}, tensors, {}, 0, (0,), "3", "4")
    return Refuted("the values differ", example)


def test_a_contradiction_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "decide", wrong)
    rules = tmp_path / "good.rules"
    rules.write_text("Add(a, b) = Add(b, a) @ a[_] b[_]\n")
    done = CliRunner().invoke(main, ["verify", str(rules)])
    assert done.exit_code == 1
    assert f"error: {rules}:1:" in done.stderr
    assert "error of the kernel" in done.stderr


def test_a_contradiction_fails_generate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = parse_rule("Add(a, b) = Add(b, a) @ a[_] b[_]")

    def found(out: Path, seed: int, progress: object, *, confirm: CounterexampleCheck, **_: object) -> Summary:
        refuted = wrong()
        assert isinstance(refuted, Refuted) and refuted.counterexample is not None
        said = confirm(rule, rule.signatures[0], refuted.counterexample)
        assert said["outcome"] == SIDES_AGREE
        entry = {"rule": show_rule(Rule(rule.lhs, rule.rhs)), "signature": show_signature(rule.signatures[0])}
        (out / "refused.jsonl").write_text(json.dumps({**entry, "confirmation": said}) + "\n")
        return Summary(seed)

    monkeypatch.setattr("superopt.generate.generate", found)
    done = CliRunner().invoke(main, ["generate", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "error: Add(a, b) = Add(b, a) @ a[_] b[_]: CONTRADICTED" in done.stderr


def test_generate_confirms_counterexamples(tmp_path: Path) -> None:
    asked = []

    def confirm(rule: object, signature: object, example: Counterexample) -> dict[str, str]:
        asked.append(example)
        return {"outcome": "seen", "left": "1", "right": "2", "reason": ""}

    def sceptic(rule: object, signature: object) -> Verdict:
        return wrong()

    family = next(family for family in families.FAMILIES if family.name == "elementwise")
    generate(tmp_path, families=(family,), prover=sceptic, confirm=confirm)
    refused = [json.loads(line) for line in (tmp_path / "refused.jsonl").read_text().splitlines()]
    assert len(asked) == len(refused) > 0
    assert all(entry["confirmation"]["outcome"] == "seen" for entry in refused)
    assert json.loads((tmp_path / "times.json").read_text()) == {}
