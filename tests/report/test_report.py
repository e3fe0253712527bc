"""The verification report: complete, well-formed, self-contained, and the same in HTML and JSON."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from superopt.cli import main
from superopt.ir.dim import symbol
from superopt.ir.notation import parse_condition, parse_rule, parse_terms
from superopt.ir.operator import OPERATORS
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.report import SCHEMA_VERSION, Pages, Report, ReportError, collect, render
from superopt.report.data import CASES, SLOW_CASES, RuleEntry
from superopt.report.drawing import draw
from superopt.report.drawing_layout import Box, Edge, lay_out
from superopt.report.page import REFUSED
from superopt.rulebook.loading import beside, certified_rules, load_rules, rule_files, shipped_rules
from tests.support.certified import certified
from tests.support.html_reader import Reader
from tests.support.paths import TESTS
from verify.certificates import Certificate, rule_kernel_hash
from verify.verdict import NUMERICS, Counterexample, Proved


@pytest.fixture(scope="module")
def report() -> Report:
    listed, certificates = certified_rules()
    families: dict[str, list[tuple[int, Rule]]] = {file.stem: [] for file in rule_files()}
    for entry in listed:
        families[entry.file.stem].append((entry.line, entry.rule))
    return collect(families, certificates, partial(beside, None))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the command writes about the shipped rules."""
    folder = tmp_path_factory.mktemp("report")
    done = CliRunner().invoke(main, ["report", "-o", f"{folder}/report.html", "--json", f"{folder}/report.json"])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(scope="module")
def pages(written: Path) -> Pages:
    details = {path.name: path.read_text(encoding="utf-8") for path in (written / "report_rules").iterdir()}
    return Pages((written / "report.html").read_text(encoding="utf-8"), details)


@pytest.fixture(scope="module")
def readers(pages: Pages) -> dict[str, Reader]:
    """The pages as read, by their paths."""
    found = {"../report.html": read(pages.front)}
    return found | {f"report_rules/{name}": read(page) for name, page in pages.details.items()}


def whole(report: Report) -> str:
    """All pages of a report, one after the other."""
    pages = render(report)
    return "".join((pages.front, *pages.details.values()))


def read(page: str) -> Reader:
    found = Reader()
    found.feed(page)
    found.close()
    return found


def test_pages_are_well_formed_and_load_nothing(pages: Pages, readers: dict[str, Reader]) -> None:
    """Links lead to files of the report and to places in them."""
    places = {name: set(reader.ids) for name, reader in readers.items()}
    for name, reader in readers.items():
        assert reader.open == []
        assert len(reader.ids) == len(set(reader.ids))
        assert [load for load in reader.loads if load != "data:,"] == []
        for target in reader.targets:
            file, _, place = target.partition("#")
            assert not place or place in places[file or name]
            assert not file or file in readers
    for page in (pages.front, *pages.details.values()):
        assert not re.search(r"https?://|@import|url\(|@font-face", page)
    assert pages.front.count("<script") == 1


def test_every_rule_is_there(pages: Pages, report: Report, readers: dict[str, Reader]) -> None:
    assert {rule.id for rule in load_rules()} == {entry.id for entry in report.rules}
    drawings = sum(page.count("<svg") for page in pages.details.values())
    assert drawings == 2 * (len(report.rules) + len(report.candidates))
    texts = {name: " ".join("".join(reader.text).split()) for name, reader in readers.items()}
    for family, entries in _by_family(report):
        name = f"report_rules/{family}.html"
        ids, text = set(readers[name].ids), texts[name]
        for entry in entries:
            assert entry.id in ids
            assert f"{entry.left} = {entry.right}" in text
            assert all(proof.signature in text for proof in entry.proofs)
    front = texts["../report.html"]
    place = 0
    for entry in report.rules:  # in this order
        place = front.index(f"{entry.left} = {entry.right}", place)


def _by_family(report: Report) -> Iterator[tuple[str, list[RuleEntry]]]:
    for family in sorted({entry.family for entry in report.rules}):
        yield family, [entry for entry in report.rules if entry.family == family]


def test_the_index_is_small(pages: Pages) -> None:
    """It opens at once: everything that is drawn is on other pages."""
    assert pages.front.count("<svg") == 1
    assert len(pages.front) < sum(map(len, pages.details.values())) / 10


def test_every_rule_says_what_its_proof_is(pages: Pages, report: Report) -> None:
    assert all(entry.kernel == rule_kernel_hash(parse_rule(entry.equation)) for entry in report.rules)
    assert report.classes == {name: sum(entry.numerics == name for entry in report.rules) for name in NUMERICS}
    assert sum(report.classes.values()) == len(report.rules)
    for family, entries in _by_family(report):
        page = pages.details[f"{family}.html"]
        for entry in entries:
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


def test_refused_candidates_come_with_their_counterexample(pages: Pages, report: Report) -> None:
    page = pages.details[REFUSED]
    refused = [line for line in (shipped_rules() / "refused.jsonl").read_text().splitlines() if line]
    assert len(report.candidates) == len(refused)
    for candidate in report.candidates:
        assert candidate.reason in page
        if candidate.counterexample is not None:
            assert candidate.counterexample.left != candidate.counterexample.right
            assert candidate.counterexample.sizes


def test_drawings_are_complete_and_clear() -> None:
    """Every operator and variable is there once, within the frame, and boxes are apart."""
    for rule in load_rules():
        for roots in (rule.lhs, rule.rhs):
            drawing = ET.fromstring(draw(roots, "left side").svg)
            _assert_complete(drawing, roots)
            _assert_clear(drawing)


def _assert_complete(drawing: ET.Element, roots: tuple[Term, ...]) -> None:
    ops = Counter(text.text for text in drawing.iter("text") if text.get("class") == "op")
    variables = [text.text for text in drawing.iter("text") if text.get("class") == "var"]
    terms = list(topological(roots))
    assert ops == Counter(term.op for term in terms if term.op not in ("Var", "Out"))
    assert sorted(map(str, variables)) == sorted(str(t.attr("name")) for t in terms if t.op == "Var")
    assert len([c for c in drawing.iter("circle") if c.get("class") == "end"]) == len(roots)
    edges = [path for path in drawing.iter("path") if path.get("class") == "e"]
    assert len(edges) == len(roots) + sum(i is not None for t in terms if t.op != "Out" for i in t.inputs)


def _assert_clear(drawing: ET.Element) -> None:
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
    shown = whole(collect({"<script>": [(1, rule)]}, {rule: certificate}, Path("nowhere").joinpath))
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
    page = whole(report)
    for expected in ("(x.shape[0] + 3)·u·Σ|summands|", "where the left side is defined", entry.text, entry.certificate):
        assert expected in page
    assert "weaker ones" not in page
    (tmp_path / "times.json").write_text(json.dumps({entry.id: 0.25}))
    assert "0.25 s" in whole(entry_of(Proved((), (), 1, "exact"), tmp_path))


@pytest.mark.parametrize(("weakest", "text"), [(True, "no weaker ones would do"), (False, "weaker ones might do")])
def test_weakest_guards_are_shown_where_known(tmp_path: Path, weakest: bool, text: str) -> None:
    guard = parse_condition("x.shape[0] == y.shape[0]")
    report = entry_of(Proved((guard,), (guard,), 1, "exact"), tmp_path)
    (entry,) = report.rules
    known = replace(entry, proofs=(replace(entry.proofs[0], weakest=weakest),))
    assert known.weakest is weakest
    assert text in whole(replace(report, rules=(known,)))


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
    page = whole(collect({}, {}, tmp_path.joinpath))
    assert "<dt>ONNX Runtime</dt>" in page and "left <b>-0</b>" in page


def test_what_is_said_of_the_tests_is_so(report: Report, pages: Pages) -> None:
    tests = (TESTS / "ops" / "test_semantics.py").read_text(encoding="utf-8")
    assert f"range({CASES})" in tests and f"range({CASES}, {CASES + SLOW_CASES})" in tests
    assert report.tested.operators == len(OPERATORS)
    assert f"{len(OPERATORS) * CASES:,} in all" in pages.front


@pytest.mark.parametrize("content", [b"[]\n", b"\xff\n", b"[" * 100_000], ids=["empty", "no text", "deep"])
@pytest.mark.parametrize("name", ["refused.jsonl", "summary.json", "times.json"])
def test_an_unreadable_file_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ReportError, match=re.escape(name)):
        collect({}, {}, tmp_path.joinpath)


def test_command_writes_pages_and_json(written: Path, pages: Pages) -> None:
    assert pages.front.startswith("<!doctype html>")
    assert {f"{file.stem}.html" for file in rule_files()} == pages.details.keys() - {REFUSED}
    content = json.loads((written / "report.json").read_text(encoding="utf-8"))
    assert content["schema_version"] == SCHEMA_VERSION
    assert {entry["id"] for entry in content["rules"]} == {rule.id for rule in load_rules()}


def test_command_writes_the_same_again(tmp_path: Path) -> None:
    text = "".join(f"{op}({op}(x)) = {op}(x) @ x[_] | x[_,_]\n" for op in ("Abs", "Ceil", "Floor", "Relu", "Round"))
    rules = certified(tmp_path / "mine.rules", text)
    written = []
    for _ in range(2):
        done = CliRunner().invoke(main, ["report", "--rules", str(rules), "-o", str(tmp_path / "a.html")])
        assert done.exit_code == 0, done.output
        written.append({path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()})
    assert written[0] == written[1] and len(written[0]) > 1


def test_command_takes_a_file_of_ones_own(tmp_path: Path) -> None:
    certified(tmp_path / "mine.rules", "Transpose[perm=[1, 0]](Transpose[perm=[1, 0]](x)) = x @ x[_,_]\n")
    out = tmp_path / "mine.html"
    done = CliRunner().invoke(main, ["report", "--rules", str(tmp_path / "mine.rules"), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "1 certified rule (1 exact, 0 reassociating, 0 real-only)" in done.output
    assert "Transpose[perm=[1, 0]](x)" in out.read_text(encoding="utf-8")


def test_errors_are_one_line(tmp_path: Path) -> None:
    missing = CliRunner().invoke(main, ["report", "--rules", str(tmp_path / "none")])
    assert missing.exit_code == 2
    rules = certified(tmp_path / "mine.rules", "Relu(Relu(x)) = Relu(x) @ x[_]\n")
    (tmp_path / "mine.refused.jsonl").write_text("{}\n")
    broken = CliRunner().invoke(main, ["report", "--rules", str(rules), "-o", str(tmp_path / "r.html")])
    assert broken.exit_code == 2
    assert not (tmp_path / "r.html").exists()
