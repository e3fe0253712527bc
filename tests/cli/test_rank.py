"""`superopt rules rank`: where rules match in models, what traces use, and what is unusable."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import helper

from superopt.cli import main
from superopt.ir.infer import make
from superopt.ir.notation import parse_rule
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from superopt.onnx_io import read_model
from superopt.optimizer.trace_json import traces_to_json
from superopt.rulebook.loading import certified_rules, load_rules
from superopt.search import AnalyticCost, search
from superopt.search.match.rule_index import RuleIndex
from superopt.search.match_counts import count_matches
from tests.support.certified import certified
from tests.support.models import LORA_RULES, floats, model, weights
from tests.support.search_rules import believe
from verify.certificates import CertifiedBook, kernel_hash

UNUSED = "Transpose[perm=[1, 0]](Transpose[perm=[1, 0]](x)) = x @ x[_,_]\n"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["rules", "rank", *map(str, arguments)])


def chain(blocks: int = 2, size: int = 64, rank: int = 4, lead: tuple[int, ...] = ()) -> onnx.ModelProto:
    """x = Relu(W x + x A B), again and again: two products in a row and a sum of products a block, the latter as
    `Add(x A B, x W)`, which is not the order of the rules."""
    nodes, values = [], []
    for k in range(blocks):
        x, y = (f"x{k}", f"x{k + 1}") if k else ("x", "x1")
        nodes += [
            helper.make_node("MatMul", [x, f"A{k}"], [f"down{k}"]),
            helper.make_node("MatMul", [f"down{k}", f"B{k}"], [f"up{k}"]),
            helper.make_node("MatMul", [x, f"W{k}"], [f"base{k}"]),
            helper.make_node("Add", [f"up{k}", f"base{k}"], [f"sum{k}"]),
            helper.make_node("Relu", [f"sum{k}"], [y]),
        ]
        values += [(f"A{k}", weights(size, rank)), (f"B{k}", weights(rank, size)), (f"W{k}", weights(size, size))]
    return model(nodes, [floats("x", *lead, 16, size)], [floats(f"x{blocks}", *lead, 16, size)], values)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    return certified(tmp_path / "three.rules", UNUSED + LORA_RULES)


@pytest.fixture
def twice(tmp_path: Path) -> Path:
    path = tmp_path / "twice.onnx"
    onnx.save(chain(), path)
    return path


@pytest.fixture
def once(tmp_path: Path) -> Path:
    path = tmp_path / "once.onnx"
    onnx.save(chain(1), path)
    return path


@pytest.fixture
def trace(twice: Path, rules: Path, tmp_path: Path) -> tuple[Path, dict[str, int]]:
    """A trace of the model, and how often it uses each rule."""
    listed, certificates = certified_rules(rules)
    read = read_model(twice)
    found = search(
        read.outputs,
        [entry.rule for entry in listed],
        CertifiedBook(certificates).check,
        AnalyticCost(),
        position=read.position,
        max_expansions=400,
    )
    path = tmp_path / "trace.json"
    path.write_text(traces_to_json(found.traces, read.names, found.rule_ids))
    return path, found.rule_uses


def table(result: Result) -> dict[str, tuple[int, int, int]]:
    rows = [line.split(maxsplit=4) for line in result.stdout.splitlines() if " = " in line]
    return {row[0]: (int(row[1]), int(row[2]), int(row[3])) for row in rows}


def test_sites_and_models(rules: Path, twice: Path, once: Path) -> None:
    unused, associative, distributive = (rule.id for rule in load_rules(rules))
    result = run(twice, "--rules", rules)
    assert (result.exit_code, result.stderr) == (0, "")
    # The sum of products is one only after the products in a row have become one.
    assert list(table(result).items()) == [(associative, (0, 1, 2))]
    assert result.stdout.splitlines()[0].split() == ["rule", "uses", "models", "sites", "equation"]
    assert result.stdout.splitlines()[1].endswith("  MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))")
    assert result.stdout.splitlines()[-1] == "2 of 3 rules match nowhere"
    assert table(run(once, twice, "--rules", rules)) == {associative: (0, 2, 3)}
    data = json.loads(run(once, twice, "--rules", rules, "--json").stdout)
    assert [(one["id"], one["sites_by_model"]) for one in data["rules"]] == [
        (associative, [1, 2]),
        (unused, [0, 0]),
        (distributive, [0, 0]),
    ]


def test_steps_of_traces_come_first(rules: Path, twice: Path, once: Path, trace: tuple[Path, dict[str, int]]) -> None:
    path, uses = trace
    _, associative, distributive = (rule.id for rule in load_rules(rules))
    assert uses == {associative: 2, distributive: 2}
    result = run(once, "--rules", rules, "--trace", path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert list(table(result).items()) == [(associative, (2, 1, 1)), (distributive, (2, 0, 0))]
    assert result.stdout.splitlines()[-1] == "2 of 3 rules match nowhere, 1 of them used in traces"
    again = run(once, "--rules", rules, "--trace", path, "--trace", path)
    assert table(again) == {associative: (4, 1, 1), distributive: (4, 0, 0)}
    # What is used stands before what only matches.
    text = json.loads(path.read_text())
    for rewrite in text["rewrites"]:
        rewrite["steps"] = [step for step in rewrite["steps"] if "Add" in step["rule"]]
    path.write_text(json.dumps(text))
    assert list(table(run(twice, "--rules", rules, "--trace", path))) == [distributive, associative]


def test_steps_of_other_rules_are_told(
    rules: Path, twice: Path, tmp_path: Path, trace: tuple[Path, dict[str, int]]
) -> None:
    other = certified(tmp_path / "other.rules", UNUSED)
    result = run(twice, "--rules", other, "--trace", trace[0])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == ["1 of 1 rules match nowhere", "4 of 4 steps in traces use other rules"]


def test_json(rules: Path, twice: Path, once: Path, trace: tuple[Path, dict[str, int]]) -> None:
    arguments = (once, twice, "--rules", rules, "--trace", trace[0], "--json")
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    unused, associative, distributive = (rule.id for rule in load_rules(rules))
    assert json.loads(result.stdout) == {
        "schema_version": 1,
        "kernel": kernel_hash(),
        "models": [str(once), str(twice)],
        "traces": [{"path": str(trace[0]), "steps": 4, "foreign_steps": 0}],
        "totals": {"rules": 3, "match_nowhere": 2, "match_nowhere_but_used": 1},
        "rules": [
            {
                "id": associative,
                "equation": "MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))",
                "uses": 2,
                "models": 2,
                "sites": 3,
                "sites_by_model": [1, 2],
            },
            {
                "id": distributive,
                "equation": "Add(MatMul(a, b), MatMul(a, c)) = MatMul(a, Add(b, c))",
                "uses": 2,
                "models": 0,
                "sites": 0,
                "sites_by_model": [0, 0],
            },
            {
                "id": unused,
                "equation": "Transpose[perm=[1, 0]](Transpose[perm=[1, 0]](x)) = x",
                "uses": 0,
                "models": 0,
                "sites": 0,
                "sites_by_model": [0, 0],
            },
        ],
    }
    assert result.stdout == run(*arguments, "--top", "1").stdout


def test_top(rules: Path, twice: Path, trace: tuple[Path, dict[str, int]]) -> None:
    result = run(twice, "--rules", rules, "--trace", trace[0], "--top", "1")
    assert list(table(result)) == [load_rules(rules)[1].id]
    assert result.stdout.splitlines()[-1] == "2 of 3 rules match nowhere, 1 of them used in traces"


def test_shipped_rules(twice: Path) -> None:
    result = run(twice, "--json")
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert {one["id"] for one in data["rules"]} == {rule.id for rule in load_rules()}
    order = [(one["uses"], one["models"], one["sites"]) for one in data["rules"]]
    assert order == sorted(order, reverse=True)
    assert order[0] > (0, 0, 0)


def test_signatures_are_certified(rules: Path, tmp_path: Path) -> None:
    onnx.save(chain(lead=(3,)), tmp_path / "three_axes.onnx")  # certified at two
    assert table(run(tmp_path / "three_axes.onnx", "--rules", rules)) == {}
    proven = run(tmp_path / "three_axes.onnx", "--rules", rules, "--prove")
    assert table(proven) == {load_rules(rules)[1].id: (0, 1, 2)}


@pytest.mark.parametrize(("width", "sites"), [(8, 1), (1, 0)])
def test_conditions_hold(width: int, sites: int, tmp_path: Path) -> None:
    """x B + x C, where the second product is broadcast unless it has the width of the first."""
    nodes = [
        helper.make_node("MatMul", ["x", "B"], ["b"]),
        helper.make_node("MatMul", ["x", "C"], ["c"]),
        helper.make_node("Add", ["c", "b"], ["y"]),
    ]
    values = [("B", weights(6, 8)), ("C", weights(6, width, seed=1))]
    onnx.save(model(nodes, [floats("x", 5, 6)], [floats("y", 5, 8)], values), tmp_path / "sum.onnx")
    one = certified(tmp_path / "one.rules", LORA_RULES.splitlines()[1] + "\n")
    assert [counts[2] for counts in table(run(tmp_path / "sum.onnx", "--rules", one)).values()] == [sites] * sites


def test_a_site_is_a_set_of_operators() -> None:
    associative = parse_rule("Add(Add(a, b), c) = Add(a, Add(b, c))")
    x, y, z, w = (var(name, tensor(2)) for name in "xyzw")

    def count(*outputs: Term) -> int:
        return count_matches(outputs, RuleIndex([associative]), believe)[associative.id]

    left, right = make("Add", (x, y)), make("Add", (z, w))
    assert count(make("Add", (left, z))) == 1  # whatever the order of operands, and in both directions
    assert count(make("Add", (left, right))) == 2
    assert count(make("Relu", (left,))) == 0


def test_weights_are_leaves() -> None:
    rule = parse_rule(
        "MatMul(a, Transpose[perm=[1, 0]](b)) = Transpose[perm=[1, 0]](MatMul(b, Transpose[perm=[1, 0]](a)))"
    )
    weight = Term.of("Const", (), {"hash": "w"}, (tensor(3, 4),))
    for right, sites in ((weight, 0), (var("y", tensor(3, 4)), 1)):
        graph = make("MatMul", (var("x", tensor(2, 4)), make("Transpose", (right,), {"perm": (1, 0)})))
        assert count_matches((graph,), RuleIndex([rule]), believe)[rule.id] == sites


def test_progress_is_on_stderr(
    rules: Path, twice: Path, trace: tuple[Path, dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("superopt.cli.terminal.ProgressLines.__enter__", lambda self: (self._begin(), self)[1])
    result = run(twice, "--rules", rules, "--trace", trace[0])
    assert result.stderr.splitlines() == [f"reading traces: {trace[0]} ...", f"matching: {twice} (1 of 1) ..."]


def test_what_is_unusable_is_one_line(rules: Path, twice: Path, tmp_path: Path) -> None:
    broken, listing, loose = tmp_path / "broken.json", tmp_path / "list.json", tmp_path / "loose.json"
    empty, deep = tmp_path / "empty.json", tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    empty.write_text("{}")
    broken.write_text('{"schema_version": 1,')
    listing.write_text("[]")
    loose.write_text('{"schema_version": 1, "rewrites": [], "passes": [[{"rewrite": 0, "leaves": {}}]]}')
    text, mine, missing = tmp_path / "text.onnx", tmp_path / "mine.rules", tmp_path / "missing"
    text.write_text("This is not a model.\n")
    mine.write_text(UNUSED)
    for arguments, mention in (
        ((missing, "--rules", rules), "missing"),
        ((text, "--rules", rules), "text.onnx"),
        ((twice, text, "--rules", rules), "text.onnx"),
        ((twice, "--rules", missing), "missing"),
        ((twice, "--rules", mine), "mine.rules:1"),  # not certified
        ((twice, "--rules", rules, "--trace", missing), "missing"),
        ((twice, "--rules", rules, "--trace", tmp_path), str(tmp_path)),
        ((twice, "--rules", missing, "--trace", empty), "empty.json: not a trace"),  # told before rules are read
        ((twice, "--rules", rules, "--trace", broken), "broken.json: not a trace"),
        ((twice, "--rules", rules, "--trace", listing), "list.json: not a trace"),
        ((twice, "--rules", rules, "--trace", loose), "loose.json: not a trace"),
        ((twice, "--rules", rules, "--trace", deep), "deep.json: not a trace"),
        ((twice, "--rules", rules, "--trace", twice), "twice.onnx: not a trace"),
    ):
        result = run(*arguments)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), arguments
        assert result.stderr.startswith("error: ") and mention in result.stderr, result.stderr
        assert "Error" not in result.stderr  # the name of an exception


def test_usage(twice: Path) -> None:
    assert run().exit_code == 2
    assert run(twice, "--top", "0").exit_code == 2
    assert "Examples:" in run("--help").stdout
