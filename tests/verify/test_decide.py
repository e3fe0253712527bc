"""Verdicts with counterexamples and weakest guards: what they may depend on, and what they may not decide."""

from __future__ import annotations

import subprocess
import sys

import pytest

from superopt.ir.notation import parse_rule
from tests.support.paths import ROOT
from verify.diagnose.decide import decide
from verify.proof_book import ProofBook, prove_at
from verify.verdict import Counterexample, Proved, Refuted, Unknown

TRUE = parse_rule("Add(x, y) = Add(y, x) @ x[_,_] y[_,_]")
FALSE = parse_rule("Sub(x, y) = Sub(y, x) @ x[_,_] y[_,_]")

# The examples are sizes that satisfy nonlinear conditions; which ones Z3 finds first depends on what it did before.
WEAKEST = """
import sys
from superopt.ir.notation import parse_rule
from verify.diagnose.decide import certify
for text in sys.argv[2:int(sys.argv[1]) + 2]:
    certify(parse_rule(text))
certificate, _ = certify(parse_rule(sys.argv[-1]))
print([proved.weakest for _, proved in certificate.proofs])
"""
WARM_UP = (
    "MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c)) @ a[_,_] b[_,_] c[_,_]",
    "Reshape[shape=[x.shape[0], -1]](Relu(x)) = Relu(Reshape[shape=[x.shape[0], -1]](x)) @ x[_,_,_]",
)
ASKED = "Mul(Reshape[shape=z](x), s) = Reshape[shape=z](Mul(x, s)) @ s[_,1] x[_,_] z=[_,_]"


def test_a_counterexample_has_a_veto_only() -> None:
    example = Counterexample({}, {}, {}, 0, (), "1", "2")
    for answer in (None, example):
        assert not isinstance(prove_at(FALSE, FALSE.signatures[0], refute=lambda *_, a=answer: a), Proved)
        assert isinstance(prove_at(TRUE, TRUE.signatures[0], refute=lambda *_, a=answer: a), Proved)
    assert prove_at(FALSE, FALSE.signatures[0], refute=lambda *_: example) == Refuted("the values differ", example)


def test_without_a_search_for_counterexamples_nothing_more_is_proven() -> None:
    assert isinstance(decide(FALSE, FALSE.signatures[0]), Refuted)
    assert isinstance(prove_at(FALSE, FALSE.signatures[0]), Unknown)
    assert isinstance(ProofBook().verdict(FALSE, FALSE.signatures[0]), Unknown)


@pytest.mark.slow
def test_weakest_guards_do_not_depend_on_earlier_proofs() -> None:
    answers = set()
    for count in range(len(WARM_UP) + 1):
        command = [sys.executable, "-c", WEAKEST, str(count), *WARM_UP, ASKED]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        answers.add(done.stdout)
    assert len(answers) == 1
