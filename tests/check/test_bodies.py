"""Nodes with bodies: If and Loop are equal if they read the same tensors and their bodies compute the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import parser

from superopt.check import DIFFERENT, EQUIVALENT, CheckOptions, check
from superopt.check.certificate import Certificate
from superopt.check.equality import joined, prove_equal
from superopt.onnx_io import Model, read_simplified

TWICE, SUM = "{ t = Add(a, a) }", "{ two = Constant<value_float: float = 2.0>() t = Mul(two, a) }"
NOTHING, TWO_SIGNS = "{ e = Identity(b) }", "{ n = Neg(b) e = Neg(n) }"


def branches(then: str, other: str, before: str = "a = Relu(x) b = Exp(x)", condition: str = "c") -> onnx.ModelProto:
    """A model that computes `a` and `b` from x, and takes one of two branches."""
    return parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        agraph (bool c, bool d, float[n, 4] x) => (float[n, 4] y) {{
            {before}
            y = If({condition}) <
                then_branch = inner () => (float[n, 4] t) {then},
                else_branch = outer () => (float[n, 4] e) {other}
            >
        }}"""
    )


def loop(body: str, start: str = "x") -> onnx.ModelProto:
    """A model that applies `body`, which makes `after` of `before` and of the outer `k`, m times."""
    return parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        agraph (int64 m, float[4] x, float[4] k) => (float[4] y) {{
            go = Constant<value_int: int = 0>()
            yes = Equal(go, go)
            y = Loop(m, yes, {start}) <
                body = step (int64 i, bool on, float[4] before) => (bool still, float[4] after) {{
                    still = Identity(on) {body}
                }}
            >
        }}"""
    )


def read(*protos: onnx.ModelProto) -> tuple[Model, Model]:
    one, other = map(read_simplified, protos)
    return joined(one, other)


EQUAL = {
    "both branches": (branches(TWICE, NOTHING), branches(SUM, TWO_SIGNS)),
    "another name outside": (
        branches(TWICE, NOTHING),
        branches(SUM.replace("a)", "other)"), NOTHING, "other = Relu(x) b = Exp(x)"),
    ),
    "what is read is equal, but computed otherwise": (
        branches(TWICE, NOTHING),
        branches(SUM, NOTHING, "r = Relu(x) a = Relu(r) b = Exp(x)"),
    ),
    "a body inside a body": (
        branches(f"{{ t = If(d) < then_branch = p () => (float[n, 4] t1) {TWICE.replace('t =', 't1 =')},"
                 " else_branch = q () => (float[n, 4] t2) { t2 = Identity(b) } > }", NOTHING),
        branches("{ t = If(d) < then_branch = p () => (float[n, 4] t1) { t1 = Sum(a, a) },"
                 " else_branch = q () => (float[n, 4] t2) { t2 = Identity(b) } > }", NOTHING),
    ),
    "each iteration": (
        loop("s = Add(before, k) after = Add(s, s)"),
        loop("b2 = Add(before, before) k2 = Add(k, k) after = Add(b2, k2)"),
    ),
}  # fmt: skip
OTHER = {
    "one branch": (branches(TWICE, NOTHING), branches(SUM, "{ e = Neg(b) }")),
    "the branches exchanged": (branches(TWICE, NOTHING), branches("{ t = Identity(b) }", "{ e = Add(a, a) }")),
    "another condition": (branches(TWICE, NOTHING), branches(TWICE, NOTHING, condition="d")),
    "another tensor outside": (branches(TWICE, NOTHING), branches(TWICE, NOTHING, "a = Relu(x) b = Sinh(x)")),
    "another start": (loop("after = Add(before, k)"), loop("after = Add(k, before)", "k")),
    "another iteration": (loop("after = Add(before, k)"), loop("after = Sub(before, k)")),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_bodies_are_proven_and_the_proof_replays(name: str, tmp_path: Path) -> None:
    pair = read(*EQUAL[name])
    found = prove_equal(*pair, seconds=20)
    assert found.outputs == (True,)
    assert "bodies" in {match.by for match in found.matches}
    assert found.certificate is not None
    found.certificate.write(tmp_path / "proof.json")
    proof = Certificate.read(tmp_path / "proof.json")
    assert proof == found.certificate
    assert proof.replay(*pair)


@pytest.mark.parametrize("name", OTHER)
def test_other_bodies_are_not(name: str) -> None:
    assert prove_equal(*read(*OTHER[name]), seconds=5).outputs == (False,)


def test_a_certificate_of_other_bodies_proves_nothing() -> None:
    then, other = (prove_equal(*read(*EQUAL[name]), seconds=20) for name in ("both branches", "each iteration"))
    pair = read(*OTHER["one branch"])
    assert then.certificate is not None
    assert other.certificate is not None
    assert not then.certificate.replay(*pair)
    ((right, left, proofs),) = then.certificate.bodies
    own = read(*EQUAL["both branches"])
    assert not replace(then.certificate, bodies=((right, left, proofs[::-1]),)).replay(*own)
    assert not replace(then.certificate, bodies=((right, left, proofs[:1]),)).replay(*own)
    assert not replace(then.certificate, bodies=((right, left, other.certificate.bodies[0][2]),)).replay(*own)


def test_the_answer_says_how(tmp_path: Path) -> None:
    answer = check(*EQUAL["both branches"], CheckOptions(seconds=20))
    assert answer.verdict == EQUIVALENT
    assert "equal bodies" in str(answer)
    assert check(*OTHER["one branch"], CheckOptions(seconds=20)).verdict == DIFFERENT


def test_two_random_bodies_are_not_equal() -> None:
    drawn = "{ r = RandomNormalLike(a) t = Add(r, a) }"
    assert prove_equal(*read(branches(drawn, NOTHING), branches(drawn, TWO_SIGNS)), seconds=5).outputs == (False,)
