"""`superopt verify`: verdicts, default signatures, several processes, JSON, the second solver."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from superopt.cli import main, proving
from superopt.cli.default_signatures import SignatureNeeded, default_signatures
from superopt.cli.terminal import ProgressLines
from superopt.ir.notation import parse_rule, show_signature
from verify.diagnose.second_opinion import Opinion
from verify.verdict import NUMERICS

MINE = """\
# rules of my own
Add(a, b) = Add(b, a)
Split[axis=-1, split=n](Concat[axis=-1](x, y)).0 = x @ x[_,_] y[_,_] n=[_,_]
MatMul(a, b) = MatMul(b, a)
Transpose[perm=p](Transpose[perm=p](x)) = x
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["verify", *map(str, arguments)])


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.rules"
    path.write_text(MINE)
    return path


def timeless(text: str) -> str:
    return re.sub(r" *\d+\.\d\d(?=\D|$)", " T", text)


def test_every_rule_is_reported(mine: Path) -> None:
    result = run(mine)
    assert result.exit_code == 1
    first, second, third, fourth = re.split(r"(?m)^\S*mine\.rules:\d: ", result.stdout)[1:]
    assert "proven in" in first and "at a[] b[] | a[_] b[_] | a[_,_] b[_,_]" in first
    assert "at x[_,_] y[_,_] n=[_,_] where y.shape[1] == n[1]" in second
    assert "refuted in" in third and "counterexample with" in third
    assert "not proven: needs a signature, such as `@ x[_,_] p=...`" in fourth
    assert "2 rules proven at 6 signatures, 2 rules not" in result.stdout


def test_progress_has_counts_and_the_time_left(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(ProgressLines, "__call__", lambda _, line: said.append(line))
    run(mine)
    assert said[0] == "proving: 4 rules"
    assert re.fullmatch(r"proving: 1 of 4 rules, about \d+ s left, .*mine.rules", said[1])


def test_all_proven(lora_rules: Path) -> None:
    result = run(lora_rules)
    assert (result.exit_code, result.stderr) == (0, "")


def test_what_a_proof_needs_is_said(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    path.write_text("Squeeze[axes=[i]](Relu(x)) = Relu(Squeeze[axes=[i]](x)) @ x[_,1] i=-1 | x[1] i=-1\n")
    proven = run(path).stdout
    assert re.search(r"proven in \d+\.\d\d s at x\[_,1\] i=-1 \(x\.shape\[1\] = 1, i = -1\)", proven)
    assert re.search(rf"(?m)^  ({'|'.join(NUMERICS)})", proven)
    at = json.loads(run(path, "--json").stdout)["rules"][0]["signatures"][1]
    assert at["literals"] == ["x.shape[0] = 1", "i = -1"]


def test_an_error_bound_is_said(lora_rules: Path) -> None:
    assert re.search(r"reassociating: \|left - right\| <= \(.+\) \* u \* sum of \|summands\|", run(lora_rules).stdout)


def test_summary_counts_by_file(mine: Path, lora_rules: Path) -> None:
    rows = [line.split("│")[1:-1] for line in run(lora_rules, mine).stdout.splitlines() if line.startswith("│")]
    counts = {row[0].strip().rpartition("/")[2]: [cell.strip() for cell in row[1:6]] for row in rows}
    assert counts["lora.rules"] == ["2", "2", "0", "0", "2"]
    assert counts["mine.rules"] == ["4", "2", "1", "1", "6"]
    assert counts["all"] == ["6", "4", "1", "1", "8"]


def test_json(mine: Path) -> None:
    result = run(mine, "--json")
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert (data["schema_version"], data["proven"], data["second_solver"]) == (2, False, None)
    assert [rule["verdict"] for rule in data["rules"]] == ["proven", "proven", "refuted", "unknown"]
    assert [rule["guessed"] for rule in data["rules"]] == [True, False, True, True]
    assert data["rules"][1]["signatures"][0]["guards"] == ["y.shape[1] == n[1]"]
    assert data["rules"][1]["numerics"] in NUMERICS and data["rules"][2]["numerics"] == ""
    assert all("certificate" not in rule for rule in data["rules"])
    refuted = [at for at in data["rules"][2]["signatures"] if at["verdict"] == "refuted"]
    assert refuted[0]["counterexample"]["tensors"].keys() == {"a", "b"}
    assert data["totals"]["signatures"] == 6


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_processes_do_not_matter(mine: Path, lora_rules: Path, options: tuple[str, ...]) -> None:
    one, two = (run(mine, lora_rules, "-j", jobs, *options) for jobs in ("1", "2"))
    assert one.exit_code == two.exit_code == 1
    if options:
        one_data, two_data = (_without_seconds(json.loads(result.stdout)) for result in (one, two))
        assert one_data == two_data
    else:
        assert timeless(one.stdout) == timeless(two.stdout)


def _without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_seconds(item) for key, item in value.items() if key != "seconds"}
    return [_without_seconds(item) for item in value] if isinstance(value, list) else value


def test_second_solver(mine: Path, lora_rules: Path) -> None:
    result = run(mine, lora_rules, "--solver", "cvc5")
    assert result.exit_code == 1
    counted = re.search(r"agrees on (\d+) of (\d+) queries; undecided 0, contradicted 0", result.stdout)
    assert counted is not None
    assert counted[1] == counted[2] != "0"
    data = json.loads(run(lora_rules, "--solver", "cvc5", "--json").stdout)
    assert data["second_solver"].startswith("cvc5 ")
    assert data["totals"]["contradicted"] == 0


def test_contradiction_names_rule_and_query(lora_rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def contradicts(queries: object) -> Opinion:
        return Opinion(1, 0, 0, ("(check-sat)",))

    monkeypatch.setattr(proving, "second_opinion", contradicts)
    result = run(lora_rules, "--solver", "cvc5")
    assert result.exit_code == 1
    before, _, after = result.stdout.partition("contradicted: ")
    assert "lora.rules:1: MatMul(MatMul(a, b), c)" in before
    assert "(check-sat)" in after
    assert json.loads(run(lora_rules, "--solver", "cvc5", "--json").stdout)["proven"] is False


def test_second_solver_is_missing(lora_rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cvc5", None)
    result = run(lora_rules, "--solver", "cvc5")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "superopt[second-opinion]" in result.stderr
    assert run(lora_rules).exit_code == 0


@pytest.mark.parametrize("text", ["# only words\n", "Add(a = b\n"])
def test_nothing_to_prove_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.rules").write_text(text)
    result = run(tmp_path)
    shown = 2 * ("=" in text)  # the line, and a caret
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1 + shown)


@pytest.mark.parametrize(
    ("rule", "signatures"),
    [
        ("Relu(x) = x", "x[] | x[_] | x[_,_] | x[_,_,_] | x[_,_,_,_]"),
        ("Transpose[perm=[1, 0]](x) = x", "x[_,_]"),
        ("Gemm[alpha=r, beta=1.0, transA=0, transB=1](x, w) = MatMul(x, w)", "w[_,_] x[_,_] r=*"),
        ("Neg(ReduceSum[axes=[i], keepdims=1](x)) = x", "x[_] i=-1 | x[_,_] i=-1 | x[_,_] i=-2 | *"),
        ("Squeeze[axes=[-1]](MatMul(x, Unsqueeze[axes=[-1]](v))) = MatMul(x, v)", "v[_] x[_] | *"),
        # No one rank fits a convolution's bias.
        (
            "Conv[dilations=[1, 1], group=g, pads=[q, q, q, q], strides=[1, 1]](x, w, b) = x",
            "b[_] w[_,_,_,_] x[_,_,_,_] g=_ q=_",
        ),
        ("Add(Zeros[shape=[3]], Zeros[shape=[3]]) = Zeros[shape=[3]]", ""),
    ],
)
def test_default_signatures(rule: str, signatures: str) -> None:
    shown = " | ".join(map(show_signature, default_signatures(parse_rule(rule))))
    assert shown.startswith(signatures.rstrip("*")) if signatures.endswith("| *") else shown == signatures


@pytest.mark.parametrize(
    ("rule", "mention"),
    [
        ("Transpose[perm=p](x) = x", "there is no default value for p"),
        ("Pad[pads=p, value=0.0](x) = x", "there is no default value for p"),
        ("Gemm[alpha=1.0, beta=1.0, transA=0, transB=0](x, Concat[axis=-3](x, x)) = x", "cannot be typed"),
    ],
)
def test_signatures_that_cannot_be_guessed_are_asked_for(rule: str, mention: str) -> None:
    with pytest.raises(SignatureNeeded, match=mention):
        default_signatures(parse_rule(rule))
