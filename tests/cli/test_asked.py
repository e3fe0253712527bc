"""`superopt rules asked`, and `superopt generate --asked`: signatures that searches ask for are proven beforehand."""

from __future__ import annotations

from pathlib import Path

import onnx
from click.testing import CliRunner, Result

from superopt.cli import main
from superopt.generate import generate
from superopt.generate.grammar import Family, Use, Variable
from superopt.generate.prove.asked_signatures import with_asked
from superopt.ir.notation import parse_rule, parse_signature, show_rule
from superopt.ir.rule import Rule
from superopt.rulebook.loading import certified_rules, read_rules
from tests.support.certified import certified
from tests.support.models import lora
from verify.diagnose.decide import decide
from verify.proof_book import prove_at
from verify.verdict import Proved

# It merges the product with the update into the weight, and is certified for batches of matrices only.
MERGED = "Add(MatMul(x, w), MatMul(MatMul(x, a), b)) = MatMul(x, Add(w, MatMul(a, b)))"
BATCHES = f"{MERGED} @ a[_,_] b[_,_] w[_,_] x[_,_,_]\n"
DEEP = "x[_,_,_,_,_] p=[0,1,2,4,3]"
MATRICES = "a[_,_] b[_,_] w[_,_] x[_,_]"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_it_lists_what_no_certificate_has(tmp_path: Path) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    rules, out = certified(tmp_path / "own.rules", BATCHES), tmp_path / "asked.rules"
    done = run("rules", "asked", tmp_path / "model.onnx", "-o", out, "--rules", rules, "--device", "cpu")
    assert done.exit_code == 0, done.output
    assert "wrote 1 rule with 1 further signature" in done.stdout
    (found,) = read_rules(out)
    assert found.text == f"{MERGED} @ {MATRICES}"
    assert found.rule == certified_rules(rules)[0][0].rule


def test_it_lists_nothing_that_a_certificate_has(tmp_path: Path) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    rules, out = certified(tmp_path / "own.rules", f"{MERGED} @ {MATRICES}\n"), tmp_path / "asked.rules"
    done = run("rules", "asked", tmp_path / "model.onnx", "-o", out, "--rules", rules)
    assert done.exit_code == 0, done.output
    assert read_rules(out) == []


def test_proven_signatures_are_added_behind_the_others() -> None:
    rule = parse_rule(BATCHES)
    proof = prove_at(rule, rule.signatures[0])
    assert isinstance(proof, Proved)
    known = BATCHES.rstrip().partition(" @ ")[2]
    asked = f"{MERGED} @ {MATRICES} | {known} | a[_] b[_,_] w[_,_] x[_,_]\nRelu(x) = x @ x[_]\n"
    found = with_asked(rule, {rule.signatures[0]: proof}, asked, decide)
    # The second is proven already, and the third is not typed.
    assert list(found) == [rule.signatures[0], parse_signature(MATRICES)]


def test_the_generator_proves_them_and_changes_nothing_else(tmp_path: Path) -> None:
    uses = (Use("MatMul", slots=("x", "w")), Use("Transpose", {"perm": (1, 0)}, (1,)))
    variables = (Variable("x", (2, 2), "x"), Variable("w", (2, 2), "w", True))
    family = Family("turned", variables, uses, runtime=3, variation="matrix")
    generate(tmp_path / "without", families=[family])
    before = [listed.rule for listed in read_rules(tmp_path / "without" / "turned.rules")]
    asked = f"{show_rule(Rule(before[0].lhs, before[0].rhs))} @ {DEEP}\n"
    generate(tmp_path / "with", families=[family], asked=asked)
    after, certificates = certified_rules(tmp_path / "with")
    assert [listed.rule for listed in after] == before
    wide, *others = (listed.rule.signatures for listed in after)
    assert wide == (*before[0].signatures, parse_signature(DEEP))
    assert others == [rule.signatures for rule in before[1:]]
    assert after[0].rule in certificates


def test_a_list_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "asked.rules").write_text("Relu(x) = \n")
    done = run("generate", "--out", tmp_path / "out", "--asked", tmp_path / "asked.rules", "--family", "elementwise")
    assert done.exit_code == 2 and "asked.rules:1" in done.stderr
    assert not (tmp_path / "out").exists()
