"""The verification report: complete, well-formed, self-contained, and the same in HTML and JSON."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

from superopt.cli import main
from superopt.ir.dim import symbol
from superopt.ir.notation import parse_condition, parse_rule, parse_terms
from superopt.ir.operator import OPERATORS
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.optimizer.equations import show_sides
from superopt.optimizer.result import Difference, Latency, LatencyAtSize, Refusal, ReplaySummary, Result, RuleUse
from superopt.report import SCHEMA_VERSION, Report, ReportError, collect, render, render_run
from superopt.report.data import CASES, SLOW_CASES
from superopt.report.drawing import draw
from superopt.report.drawing_layout import Box, Edge, lay_out
from superopt.report.interval import draw_interval
from superopt.rulebook.loading import beside, certified_rules, load_rules, rule_files, shipped_rules
from tests.support.certified import certified
from tests.support.models import lora
from tests.support.paths import TESTS
from verify.certificates import Certificate, rule_kernel_hash
from verify.verdict import NUMERICS, Counterexample, Proved

VOID = {"meta", "link", "input", "br", "hr", "img"}


@pytest.fixture(scope="module")
def report() -> Report:
    listed, certificates = certified_rules()
    families: dict[str, list[tuple[int, Rule]]] = {file.stem: [] for file in rule_files()}
    for entry in listed:
        families[entry.file.stem].append((entry.line, entry.rule))
    return collect(families, certificates, partial(beside, None))


@pytest.fixture(scope="module")
def page(report: Report) -> str:
    return render(report)


class Reader(HTMLParser):
    """Checks that elements nest, and keeps ids and everything that an attribute could load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.loads: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("src", "srcset", "data", "action", "poster") or (tag != "a" and "href" in name):
                self.loads.append(value or "")
            elif tag == "a" and name == "href":
                self.targets.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


@pytest.fixture(scope="module")
def reader(page: str) -> Reader:
    found = Reader()
    found.feed(page)
    found.close()
    return found


def test_page_is_well_formed(reader: Reader) -> None:
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    assert {target.removeprefix("#") for target in reader.targets} <= set(reader.ids)


def test_page_loads_nothing(page: str, reader: Reader) -> None:
    assert [load for load in reader.loads if load != "data:,"] == []
    assert not re.search(r"https?://|@import|url\(|@font-face", page)
    assert page.count("<script") == 1


def test_every_rule_is_there(page: str, reader: Reader, report: Report) -> None:
    rules = load_rules()
    assert {rule.id for rule in rules} == {entry.id for entry in report.rules} <= set(reader.ids)
    assert page.count("<svg") == 1 + 2 * (len(report.rules) + len(report.candidates))
    text = " ".join("".join(reader.text).split())
    for entry in report.rules:
        assert f"{entry.left} = {entry.right}" in text
        for proof in entry.proofs:
            assert proof.signature in text


def test_every_rule_says_what_its_proof_is(page: str, report: Report) -> None:
    assert all(entry.kernel == rule_kernel_hash(parse_rule(entry.equation)) for entry in report.rules)
    assert report.classes == {name: sum(entry.numerics == name for entry in report.rules) for name in NUMERICS}
    assert sum(report.classes.values()) == len(report.rules)
    for entry in report.rules:
        assert entry.text in page and entry.certificate in page
        assert entry.seconds is not None
        assert entry.numerics == max((proof.numerics for proof in entry.proofs), key=NUMERICS.index)
        assert all((proof.error is None) == (proof.numerics == "exact") for proof in entry.proofs)
        if entry.errors:
            assert f"<code>({entry.errors[0]})·u·Σ|summands|</code>" in page
    assert sum(total.signatures for total in report.totals) == report.stages["total"]["signatures"]
    assert {total.family: total.rules for total in report.totals} == {
        family: counts["rules"] for family, counts in report.stages.items() if family != "total"
    }


def test_refused_candidates_come_with_their_counterexample(page: str, report: Report) -> None:
    refused = [line for line in (shipped_rules() / "refused.jsonl").read_text().splitlines() if line]
    assert len(report.candidates) == len(refused)
    for candidate in report.candidates:
        assert candidate.reason in page
        if candidate.counterexample is not None:
            assert candidate.counterexample.left != candidate.counterexample.right
            assert candidate.counterexample.sizes


def _all_sides() -> Iterator[tuple[Term, ...]]:
    for rule in load_rules():
        yield from (rule.lhs, rule.rhs)


def test_drawings_have_every_operator_and_variable_once() -> None:
    for roots in _all_sides():
        drawing = ET.fromstring(draw(roots, "left side").svg)
        ops = Counter(text.text for text in drawing.iter("text") if text.get("class") == "op")
        variables = [text.text for text in drawing.iter("text") if text.get("class") == "var"]
        terms = list(topological(roots))
        assert ops == Counter(term.op for term in terms if term.op not in ("Var", "Out"))
        assert sorted(map(str, variables)) == sorted(str(t.attr("name")) for t in terms if t.op == "Var")
        assert len([c for c in drawing.iter("circle") if c.get("class") == "end"]) == len(roots)
        edges = [path for path in drawing.iter("path") if path.get("class") == "e"]
        assert len(edges) == len(roots) + sum(i is not None for t in terms if t.op != "Out" for i in t.inputs)


def test_drawings_stay_within_their_frame_and_boxes_apart() -> None:
    for roots in _all_sides():
        drawing = ET.fromstring(draw(roots, "left side").svg)
        width, height = float(drawing.attrib["width"]), float(drawing.attrib["height"])
        boxes = []
        for rect in drawing.iter("rect"):
            x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
            boxes.append((x, y, x + w, y + h))
        for oval in drawing.iter("ellipse"):
            x, y, rx, ry = (float(oval.attrib[name]) for name in ("cx", "cy", "rx", "ry"))
            boxes.append((x - rx, y - ry, x + rx, y + ry))
        for number, a in enumerate(boxes):
            assert a[0] >= 0 and a[1] >= 0 and a[2] <= width and a[3] <= height
            for b in boxes[:number]:
                assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_operands_enter_in_their_order() -> None:
    a, b, c = Box("a", 40, 20), Box("b", 40, 20), Box("c", 60, 20)
    edges = [Edge(b, c, enter=-10), Edge(a, c, enter=10)]
    size = lay_out([a, b, c], edges)
    assert b.x < c.x < a.x  # b is the first operand: left, without a crossing
    assert edges[0].path[-1][0] < edges[1].path[-1][0]
    assert a.y == b.y < c.y < size.height


def test_long_edges_pass_beside_the_boxes() -> None:
    drawing = draw(parse_terms("Add(x, Relu(Relu(x)))"), "left side").svg
    assert re.search(r'class="e" d="M[^"]*V[^"]*V', drawing)


def test_texts_are_escaped(report: Report) -> None:
    rule = parse_rule("Relu(x) = Relu(x) @ x[_]")
    certificate = Certificate.of(rule, [(rule.signatures[0], Proved((), (), 1, "exact"))])
    shown = render(collect({"<script>": [(1, rule)]}, {rule: certificate}, Path("nowhere").joinpath))
    assert "<script>" not in shown.split("<script>\n//")[0]


def entry_of(proof: Proved, tmp_path: Path) -> Report:
    """A report on one rule that is proven so at its one signature."""
    rule = parse_rule("Mul(Div(x, y), y) = x @ x[_] y[_]")
    certificate = Certificate.of(rule, [(rule.signatures[0], proof)])
    return collect({"mine": [(1, rule)]}, {rule: certificate}, tmp_path.joinpath)


def test_numerics_bounds_and_times_are_shown(tmp_path: Path) -> None:
    guard = parse_condition("x.shape[0] == y.shape[0]")
    k = symbol("x.shape[0]")
    report = entry_of(Proved((guard,), (guard,), 1, "real-only", (k + 1, 2), True), tmp_path)
    (entry,) = report.rules
    assert (entry.numerics, entry.errors, entry.seconds, entry.weakest) == (
        "real-only",
        ("x.shape[0] + 3",),
        None,
        None,
    )
    page = render(report)
    for expected in ("(x.shape[0] + 3)·u·Σ|summands|", "where the left side is defined", entry.text, entry.certificate):
        assert expected in page
    assert "weaker ones" not in page
    (tmp_path / "times.json").write_text(json.dumps({entry.id: 0.25}))
    assert "0.25 s" in render(entry_of(Proved((), (), 1, "exact"), tmp_path))


@pytest.mark.parametrize(("weakest", "text"), [(True, "no weaker ones would do"), (False, "weaker ones might do")])
def test_weakest_guards_are_shown_where_known(tmp_path: Path, weakest: bool, text: str) -> None:
    guard = parse_condition("x.shape[0] == y.shape[0]")
    report = entry_of(Proved((guard,), (guard,), 1, "exact"), tmp_path)
    (entry,) = report.rules
    known = replace(entry, proofs=(replace(entry.proofs[0], weakest=weakest),))
    assert known.weakest is weakest
    assert text in render(replace(report, rules=(known,)))


def test_what_onnx_runtime_said_is_shown(tmp_path: Path) -> None:
    example = Counterexample({"x.shape[0]": 1}, {"x": [-1.0]}, {}, 0, (0,), "0", "-1")
    refused = {
        "rule": "Relu(x) = x",
        "signature": "x[_]",
        "verdict": "Refuted",
        "reason": "the values differ",
        "counterexample": str(example),
        "confirmation": {"outcome": "the values differ", "left": "-0", "right": "-1", "reason": ""},
    }
    (tmp_path / "refused.jsonl").write_text(json.dumps(refused) + "\n")
    page = render(collect({}, {}, tmp_path.joinpath))
    assert "<dt>ONNX Runtime</dt>" in page and "left <b>-0</b>" in page


def test_what_is_said_of_the_tests_is_so(report: Report, page: str) -> None:
    tests = (TESTS / "ops" / "test_semantics.py").read_text(encoding="utf-8")
    assert f"range({CASES})" in tests and f"range({CASES}, {CASES + SLOW_CASES})" in tests
    assert report.tested.operators == len(OPERATORS)
    assert f"{len(OPERATORS) * CASES:,} in all" in page


@pytest.mark.parametrize("name", ["refused.jsonl", "summary.json", "times.json"])
def test_an_unreadable_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("[]\n")
    with pytest.raises(ReportError, match=re.escape(name)):
        collect({}, {}, tmp_path.joinpath)


def test_command_writes_page_and_json(tmp_path: Path) -> None:
    out, data = tmp_path / "report.html", tmp_path / "report.json"
    done = CliRunner().invoke(main, ["report", "-o", str(out), "--json", str(data)])
    assert done.exit_code == 0, done.output
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    content = json.loads(data.read_text(encoding="utf-8"))
    assert content["schema_version"] == SCHEMA_VERSION
    assert {entry["id"] for entry in content["rules"]} == {rule.id for rule in load_rules()}
    again = tmp_path / "again.html"
    assert CliRunner().invoke(main, ["report", "-o", str(again)]).exit_code == 0
    assert again.read_bytes() == out.read_bytes()


def test_command_takes_a_file_of_ones_own(tmp_path: Path) -> None:
    certified(tmp_path / "mine.rules", "Transpose[perm=[1, 0]](Transpose[perm=[1, 0]](x)) = x @ x[_,_]\n")
    out = tmp_path / "mine.html"
    done = CliRunner().invoke(main, ["report", "--rules", str(tmp_path / "mine.rules"), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "1 certified rules (1 exact, 0 reassociating, 0 real-only)" in done.output
    assert "Transpose[perm=[1, 0]](x)" in out.read_text(encoding="utf-8")


def test_errors_are_one_line(tmp_path: Path) -> None:
    missing = CliRunner().invoke(main, ["report", "--rules", str(tmp_path / "none")])
    assert missing.exit_code == 2
    rules = certified(tmp_path / "mine.rules", "Relu(Relu(x)) = Relu(x) @ x[_]\n")
    (tmp_path / "mine.refused.jsonl").write_text("{}\n")
    broken = CliRunner().invoke(main, ["report", "--rules", str(rules), "-o", str(tmp_path / "r.html")])
    assert broken.exit_code == 2
    assert not (tmp_path / "r.html").exists()


def _run(**more: object) -> Result:
    same = {"MatMul": 3, "Add": 2}
    return Result("folder/m<o>del.onnx", None, False, "nothing found", "cpu", 1, 0, same, same, **more)  # type: ignore[arg-type]


def test_page_on_a_run_that_changed_something() -> None:
    result = _run(
        numerics="real-only",
        cost_before_ms=2.0,
        cost_after_ms=1.0,
        latency=Latency(4.0, 2.0, 2.0, 1.9, 2.1, 4.5, 2.25, 9, "cpu"),
        difference=Difference(1e-6, 2e-7, 3e-5, float("nan"), 3),
        rules=[
            RuleUse(
                "0123456789ab",
                "MatMul(MatMul(a, b), c)",
                "MatMul(a, MatMul(b, c))",
                7,
                ["/a", "/b"],
                ["Gemm_0123456789ab"],
            )
        ],
        proof=ReplaySummary(1, 2, 7, 5),
        refused=[Refusal("all rewrites", "slower")],
        versions={"onnx": "1"},
    )
    result.changed, result.operators_after = True, {"MatMul": 1, "Gemm": 2}
    page = render_run(json.loads(result.to_json()))
    reader = Reader()
    reader.feed(page)
    assert reader.open == [] and reader.loads == ["data:,"]
    text = " ".join(" ".join(reader.text).split())
    for expected in (
        "m<o>del.onnx",
        "7 times",
        "5 places",
        "all rewrites slower The prediction was wrong",
        "2 nodes before /a /b",
        "1 node after Gemm_0123456789ab",
        "2.000 times as fast",
        "(real-only or stricter)",
        "not a number",
        "2.000 (1.900 to 2.1",
    ):
        assert expected in text
    assert page.count("<svg") == 3  # both sides of the rule, and the interval
    assert re.findall(r"(MatMul|Gemm|Add) (\d) (\d) ([−+]\d)", text) == [
        ("Add", "2", "0", "−2"), ("Gemm", "0", "2", "+2"), ("MatMul", "3", "1", "−2")
    ]  # fmt: skip


def test_page_and_table_on_a_run_at_several_sizes() -> None:
    sizes = [LatencyAtSize({"x": (n, 64), "y": (n,)}, 4.0, 2.0, 2.0, 1.9, 2.1) for n in (1, 512)]
    result = _run(latency=Latency(4.0, 2.0, 2.0, 1.9, 2.1, 4.5, 2.25, 9, "cpu", False, sizes))
    page = render_run(json.loads(result.to_json()))
    for text in (page, str(result)):
        assert "at x=1x64, y=1" in text and "at x=512x64, y=512" in text and "mean over sizes" in text


def test_page_on_a_run_that_kept_the_original() -> None:
    page = render_run(json.loads(_run().to_json()))
    assert "The original is kept</h1>" in page and "Nothing found." in page
    assert "<svg" not in page


def test_optimize_writes_the_page(tmp_path: Path, lora_rules: Path, short_measurements: None) -> None:
    onnx.save(lora(batch=256, size=128, rank=128), tmp_path / "model.onnx")
    out = tmp_path / "run.html"
    arguments = ["optimize", tmp_path / "model.onnx", "-o", tmp_path / "fast.onnx", "--rules", lora_rules]
    arguments += ["--ep", "cpu", "--budget", "2", "--report", out]
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    page = out.read_text(encoding="utf-8")
    assert "model.onnx" in page and "Time of each operator" in page
    late = CliRunner().invoke(main, [*map(str, arguments[:-1]), str(tmp_path / "none" / "run.html")])
    assert late.exit_code == 2 and "is no folder to write to" in late.output


@pytest.mark.parametrize(("low", "high"), [(0.5, 0.9), (0.98, 1.01), (0.999, 1.0), (1.02, 1.03), (2.0, 80.0)])
def test_an_interval_is_drawn_within_its_frame(low: float, high: float) -> None:
    """The ratio lies inside the range, the range inside the frame, and 1 has its tick."""
    drawing = ET.fromstring(draw_interval((low * high) ** 0.5, low, high))

    def percent(item: ET.Element, key: str) -> float:
        return float(item.attrib[key].removesuffix("%"))

    (bar,) = (item for item in drawing.iter("rect") if item.get("class") == "range")
    (dot,) = drawing.iter("circle")
    assert 0 <= percent(bar, "x") < percent(dot, "cx") < percent(bar, "x") + percent(bar, "width") <= 100
    assert "1×" in [text.text for text in drawing.iter("text")]
    (one,) = (item for item in drawing.iter("line") if item.get("class") == "one")
    assert (percent(one, "x1") < percent(bar, "x")) == (low > 1)


def test_page_on_a_run_with_a_rule_too_large_for_trees() -> None:
    """A recurrent network is one long chain; its rule is written as assignments, which no tree can draw."""
    (chain,) = parse_terms("x")
    for _ in range(12):
        chain = Term.of("Add", (chain, chain), {})
    left, right = show_sides(Rule((chain,), (Term.of("Neg", (chain,), {}),)))
    assert left.count(";") == 12
    page = render_run(json.loads(_run(rules=[RuleUse("0123456789ab", left, right, 1)]).to_json()))
    assert "too large to draw" in page and "t11 = Add(t10, t10); return t11" in page
    assert "<svg" not in page
