"""Verdicts belong to a rule's sides, never to its short id, and only the prover writes proofs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from superopt.ir.notation import parse_rule, show_rule
from superopt.ir.rule import Rule
from superopt.optimizer.proof_cache import ProofCache
from superopt.rulebook.loading import RulesError, certified_rules
from superopt.store import ResultStore
from tests.support.certified import vouched
from tests.support.paths import ROOT
from verify.certificates import CertifiedBook
from verify.proof_book import ProofBook
from verify.verdict import Proved

TRUE = parse_rule("Add(x, y) = Add(y, x) @ x[_,_] y[_,_]")
FALSE = parse_rule("Sub(x, y) = Sub(y, x) @ x[_,_] y[_,_]")


@pytest.fixture
def one_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id has 48 bits: a false rule with that of a true one is a minute's search."""
    monkeypatch.setattr(Rule, "id", property(lambda rule: "0" * 12))


@pytest.mark.parametrize("rules", [(TRUE, FALSE), (FALSE, TRUE)])
def test_rules_of_one_id_share_no_verdict(one_id: None, tmp_path: Path, rules: tuple[Rule, Rule]) -> None:
    path = tmp_path / "store.sqlite"
    for book in (ProofBook(), ProofCache(ResultStore(path)), ProofCache(ResultStore(path))):
        for rule in rules:
            assert isinstance(book.verdict(rule, rule.signatures[0]), Proved) is (rule is TRUE)
            assert isinstance(book.verdict(rule.reversed(), rule.signatures[0]), Proved) is (rule is TRUE)


def test_rules_of_one_id_share_no_certificate(one_id: None, tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    (certificate,) = vouched(TRUE).values()
    (tmp_path / "mine.certificates.jsonl").write_text(certificate.to_json() + "\n")
    path.write_text(f"{show_rule(TRUE)}\n{show_rule(FALSE)}\n")
    with pytest.raises(RulesError, match=r"mine\.rules:2: .*altered since it was certified"):
        certified_rules(path)
    path.write_text(f"{show_rule(TRUE)}\n")
    certificates = certified_rules(path)[1]
    assert TRUE in certificates and FALSE not in certificates
    for book in (CertifiedBook(certificates), ProofCache(ResultStore(tmp_path / "store.sqlite"), certificates)):
        assert isinstance(book.verdict(TRUE, TRUE.signatures[0]), Proved)
        assert not isinstance(book.verdict(FALSE, FALSE.signatures[0]), Proved)


def test_rules_of_one_id_have_a_certificate_each(one_id: None, tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    rules = TRUE, parse_rule("Relu(Relu(x)) = Relu(x) @ x[_]")
    path.write_text("".join(f"{show_rule(rule)}\n" for rule in rules))
    lines = [vouched(rule, obligations=number)[rule].to_json() for number, rule in enumerate(rules)]
    (tmp_path / "mine.certificates.jsonl").write_text("\n".join(lines) + "\n")
    certificates = certified_rules(path)[1]
    assert [certificates[rule].proofs[0][1].obligations for rule in rules] == [0, 1]


def test_nobody_else_writes_into_a_book_of_proofs() -> None:
    with pytest.raises(TypeError, match="no subclasses"):
        type("Mine", (ProofBook,), {})
    inside = [path for path in ROOT.glob("superopt/**/*.py") if re.search(r"(book|own)\._\w", path.read_text())]
    assert inside == []
