"""A result as text and as HTML: the verdict in plain words, measured and predicted times told apart."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from superopt.optimizer import Result, RuleAttempts
from superopt.optimizer.result import MEAN_SAVINGS, Latency, Refusal, ReplaySummary, RuleUse
from superopt.optimizer.result_text import verdict


def latency(ratio: float, low: float, high: float, clock: str = "cpu", remembered: bool = False) -> Latency:
    return Latency(2.0 * ratio, 2.0, ratio, low, high, 2.5 * ratio, 2.5, 9, clock, remembered)


def result(changed: bool = True, **more: object) -> Result:
    fields = {"reason": "all rewrites", "cost_before_ms": 3.0, "cost_after_ms": 2.0, **more}
    operators = {"MatMul": 3}, {"MatMul": 1}
    return Result(
        "m.onnx", "out.onnx", changed, provider="cpu", threads=1, seed=0,
        operators_before=operators[0], operators_after=operators[1], **fields,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (
            result(latency=latency(1.5, 1.4, 1.6)),
            "1.500 times as fast (95% interval 1.400 to 1.600, CPU time, measured).",
        ),
        (
            result(latency=latency(1.5, 1.4, 1.6, "wall", True)),
            "1.500 times as fast (95% interval 1.400 to 1.600, wall time, measured by an earlier run).",
        ),
        (
            result(latency=latency(1.0, 0.99, 1.01)),
            "As fast as before, within the noise, and smaller (1.000 times as fast, 95% interval 0.990 to 1.010,"
            " CPU time, measured).",
        ),
        (result(), "Rewritten, and not timed here. Predicted: 1.500 times as fast."),
        (result(False, reason="nothing found"), "The original is kept: nothing found."),
    ],
)
def test_the_verdict_is_one_sentence_and_comes_first(one: Result, said: str) -> None:
    assert verdict(one) == str(one).splitlines()[0] == said


def test_only_times_have_a_ratio() -> None:
    lines = str(result(latency=latency(1.5, 1.4, 1.6))).splitlines()
    rows = {line[:20].strip(): line[20:].split() for line in lines[4:8]}
    assert rows["operators"] == ["3", "1"]
    assert rows["measured CPU time"][-4:] == ["1.500", "(1.400", "to", "1.600)"]
    assert rows["measured wall time"][-1] == "1.500"
    assert rows["predicted time"] == ["3.000", "ms", "2.000", "ms", "1.500"]


def test_weights_are_shown_if_their_size_changes() -> None:
    for before, after, shown in (
        (40e6, 90e6, ["40.0", "MB", "90.0", "MB"]),
        (1408, 1184, ["1.4", "kB", "1.2", "kB"]),
        (278_528, 262_144, ["278.5", "kB", "262.1", "kB"]),
        (40e6, 40.1e6, None),
        (0, 0, None),
        (None,) * 3,
    ):
        lines = str(result(weight_bytes_before=before, weight_bytes_after=after)).splitlines()
        rows = {line.split()[0]: line.split()[1:] for line in lines if line.strip()}
        assert rows.get("weights") == shown


def test_rules_are_named() -> None:
    """The id comes first, as in the list of `superopt rules`; of a long equation, the beginning is shown."""
    left = "Conv(x, w)"
    for right, shown in (("y", f"abc  {left} = y"), ("y" * 400, "yyy ...")):
        one = result(rules=[RuleUse("abc", left, right, 2)])
        (line,) = [line for line in str(one).splitlines() if line.startswith("    2 x abc  ")]
        assert line.endswith(shown) and len(line) < 350 and shown in one._repr_html_()


def test_forms_of_a_long_rule_are_one_line() -> None:
    """They differ behind what is shown of them."""
    one = result(rules=[RuleUse("abc", "Conv(x, w)", f"{'y' * 400}{end}", 2) for end in "ab"])
    assert str(one).count("abc") == one._repr_html_().count("abc") == 1
    assert "    4 x abc  Conv(x, w)" in str(one)


def test_explain_is_short() -> None:
    attempts = [RuleAttempts(f"{n:012}", "Relu(Relu(x)) = Relu(x)", n, n, 0, int(n == 3), 0.5) for n in range(30)]
    text = str(result(attempts=attempts)).splitlines()
    shown = [line for line in text if "= Relu(x)" in line]
    assert len(shown) == 10 and shown[0].split()[:6] == ["000000000003", "3", "3", "0", "1", "0.500"]
    assert any("20 more rules (all are in --json)" in line for line in text)


def test_savings_on_several_devices_are_no_part_of_the_times_of_one() -> None:
    attempts = [RuleAttempts("0123456789ab", "Relu(Relu(x)) = Relu(x)", 1, 1, 0, 1, 0.5)]
    for note, shown in ((MEAN_SAVINGS, "mean saving on all devices"), ("", "predicted saving")):
        text = str(result(attempts=attempts, cost_source=f"analytic, A; no slower by those for B{note}"))
        assert f"used  {shown}\n" in text and "no slower by those for B\n" in text


def test_a_refused_candidate_is_no_result() -> None:
    text = str(result(False, latency=latency(0.8, 0.7, 0.9), refused=[Refusal("all rewrites", "slower: 0.8")]))
    assert text.startswith("The original is kept") and "\nCPU time, refused candidate " in text
    assert max(map(len, text.split("predicted times")[0].splitlines()[2:])) <= 80
    assert "\npredicted time, refused candidate " in text
    assert "\npredicted time  " in str(result(False))  # nothing was refused: both times are the original's
    assert "refused: " not in text  # once more: the verdict says it
    assert text.endswith("written, not rewritten: out.onnx")
    others = [Refusal("all rewrites", "slower: 0.8"), Refusal("rule abc", "not surely faster: 1.001")]
    assert "refused: rule abc: not surely faster: 1.001" in str(result(False, refused=others))


@pytest.mark.parametrize(
    ("saved_ms", "shown"),
    [(0.5, "0.500 ms"), (25.0, "25.0 ms"), (0.0004, "0.4 us"), (-0.0001, "-0.1 us"), (-1e-9, " 0 us"), (0.0, " 0 us")],
)
def test_short_times_are_not_shown_as_none(saved_ms: float, shown: str) -> None:
    assert shown in str(result(attempts=[RuleAttempts("0123456789ab", "Relu(x) = x", 1, 1, 0, 1, saved_ms)]))


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (0.0144, 0.0062, ["14.4", "us", "6.2", "us"]),
        (0.2, 0.05, ["200", "us", "50", "us"]),
        (0.5, 0.2, ["0.500", "ms", "0.200", "ms"]),
        (0.99996, 0.05, ["1000", "us", "50", "us"]),
        (20.0, 0.002, ["20.0", "ms", "2", "us"]),
        (0.5, 0.0, ["0.500", "ms", "0", "us"]),
    ],
)
def test_times_of_one_row_have_one_unit(before: float, after: float, shown: list[str]) -> None:
    lines = str(result(cost_before_ms=before, cost_after_ms=after)).splitlines()
    (row,) = (line.split()[2:6] for line in lines if line.startswith("predicted time "))
    assert row == shown


def test_a_run_that_ended_before_the_provider_was_chosen_names_none() -> None:
    one = result(False)
    one.provider = "auto"
    assert " on auto" not in str(one)


def test_the_file_of_weights_and_the_notices_are_told() -> None:
    lines = str(result(out_weights="out.onnx.0123.data", notices=["mind the gap"])).splitlines()
    assert lines[-2:] == ["its weights: out.onnx.0123.data (move both files together)", "notice: mind the gap"]


def test_a_clean_up_promises_no_speed() -> None:
    text = str(result(cost_after_ms=3.0, proof=ReplaySummary(0, 0, 0, 0), error_factor=1.0))
    assert text.startswith("Cleaned up, and not timed here. No gain in speed is predicted.") and "proven" not in text


@pytest.mark.parametrize(
    ("factor", "shown"), [(1.0, "is no larger than the original's"), (2.5, "is at most 2.5 times the original's")]
)
def test_a_bound_that_stays_is_no_multiple(factor: float, shown: str) -> None:
    rules = [RuleUse("0123456789ab", "Relu(Relu(x))", "Relu(x)", 1)]
    assert f"the bound on rounding errors {shown}" in str(result(rules=rules, error_factor=factor))


def test_html_is_closed_and_escaped() -> None:
    class Reader(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []
            self.words = ""

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

        def handle_data(self, data: str) -> None:
            self.words += data

    one = result(latency=latency(1.5, 1.4, 1.6), notices=["a < b"])
    one.model = "<script>.onnx"
    one.rules = [RuleUse("0123456789ab", "Less(a, b)", "a<b>", 2)]
    reader = Reader()
    reader.feed(one._repr_html_())
    assert not reader.open and "script" not in one._repr_html_().replace("&lt;script&gt;", "")
    for words in ("1.500 times as fast", "<script>.onnx", "Less(a, b) = a<b>", "predicted time", "notice: a < b"):
        assert words in reader.words
