"""The page on one run of `optimize`: what changed, what it gained, and what was refused."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

from superopt.cli import main
from superopt.ir.notation import parse_terms
from superopt.ir.rule import Rule
from superopt.ir.term import Term
from superopt.optimizer.equations import show_sides
from superopt.optimizer.result import Difference, Latency, LatencyAtSize, Refusal, ReplaySummary, Result, RuleUse
from superopt.report import render_run
from superopt.report.interval import draw_interval
from tests.support.html_reader import Reader
from tests.support.models import lora


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
        "2 nodes where it was applied /a /b",
        "1 node that it made Gemm_0123456789ab",
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


def test_a_refused_candidate_is_not_taken_for_the_result() -> None:
    """Its rows name it, and a comparison that failed has no tick."""
    refused = [Refusal("all rewrites", "outputs differ: output 0 is not bit-identical")]
    unlike = Difference(float("inf"), float("inf"), 3e-5, 0.0, 1)
    latency = Latency(4.0, 2.0, 2.0, 1.9, 2.1, 4.5, 2.25, 9, "cpu")
    result = _run(refused=refused, difference=unlike, latency=latency, cost_before_ms=2.0, cost_after_ms=1.0)
    result.reason = refused[0].reason
    page = render_run(json.loads(result.to_json()))
    for row in ("measured CPU time", "measured wall time", "predicted"):
        assert f"{row}, refused candidate</th>" in page
    assert '<dt class="missing">Compared, and different</dt>' in page and "not a number" not in page
    assert "What it brought" not in page
    result.reason, result.refused = "slower: 0.8", [Refusal("all rewrites", "slower: 0.8")]
    assert '<dt class="passed">Compared</dt>' in render_run(json.loads(result.to_json()))


def test_pages_on_runs_that_timed_nothing_claim_nothing() -> None:
    """A kept original is no result that may be faster, and a cleaned-up one is not predicted to be."""
    kept = render_run(json.loads(_run().to_json()))
    assert "No candidate was timed" in kept and "prediction only" not in kept
    cleaned = _run(cost_before_ms=1.0, cost_after_ms=1.0)
    cleaned.changed = True
    page = render_run(json.loads(cleaned.to_json()))
    assert "Cleaned up, not timed" in page and "prediction only" not in page and "predicts" not in page


def test_a_heading_counts_what_is_drawn() -> None:
    """An operator counts once, also if several outputs share it, or if it has several outputs."""
    left, right = "(Add(Exp(x), y), Mul(Exp(x), y))", "(Split[axis=0, split=n](t).0, Split[axis=0, split=n](t).1)"
    page = render_run(json.loads(_run(rules=[RuleUse("0123456789ab", left, right, 1)]).to_json()))
    assert re.search(r"<h3>(Exp|Add|Mul), (Exp|Add|Mul), (Exp|Add|Mul) <span class=.equals.>→</span> Split <", page)


def test_optimize_writes_the_page(tmp_path: Path, lora_rules: Path, short_measurements: None) -> None:
    onnx.save(lora(batch=256, size=128, rank=1024), tmp_path / "model.onnx")
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
