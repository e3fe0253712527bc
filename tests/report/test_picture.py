"""The picture in the README is what the code draws today, of a rule that ships."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from superopt.ir.notation import parse_rule
from superopt.ir.rule import Rule
from superopt.report.picture import picture
from superopt.rulebook.loading import load_rules
from tests.support.paths import ROOT

LORA = parse_rule("Add(MatMul(x, w), MatMul(MatMul(x, u), t)) = MatMul(x, Add(w, MatMul(u, t)))")


def test_the_readme_shows_a_shipped_rule_as_it_is_drawn() -> None:
    assert (LORA.lhs, LORA.rhs) in {(rule.lhs, rule.rhs) for rule in load_rules()}
    assert (ROOT / "scripts" / "rewrite.svg").read_text(encoding="utf-8") == picture(LORA)
    assert "scripts/rewrite.svg" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_picture_is_a_whole_svg_file_that_loads_nothing() -> None:
    text = picture(parse_rule("Relu(Mul[](x, ConstantOfShape[shape=[2], value=2.0])) = Relu(x)"))
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert len(list(root)) >= 5
    assert "href" not in text
    assert "&lt;" not in text


def test_both_sides_are_named_for_screen_readers() -> None:
    titles = [e.text for e in ElementTree.fromstring(picture(LORA)).iter() if e.tag.endswith("title")]
    before, after = "Add(MatMul(x, w), MatMul(MatMul(x, u), t))", "MatMul(x, Add(w, MatMul(u, t)))"
    assert titles == [f"before: {before}", f"after: {after}"]


def test_a_rule_of_two_outputs_has_both() -> None:
    rule = parse_rule("(MatMul(x, a), MatMul(x, b)) = (MatMul(x, a), MatMul(x, b))")
    assert picture(Rule(rule.lhs, rule.rhs)).count('class="no"') == 4
