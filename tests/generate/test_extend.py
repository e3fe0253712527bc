"""Rules of two operands extended to n: which rules can be, to which rules, and that all extensions are proven."""

from __future__ import annotations

import pytest

from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.generalise.sampling_check import SamplingCheck
from superopt.generate.prove.more_operands import extensions
from superopt.generate.prove.shipped_signatures import variations
from superopt.ir.notation import parse_rule, parse_terms, show_rule, show_signature, show_terms
from superopt.ir.pattern import instantiate, match
from superopt.ir.rule import Rule, Signature
from superopt.ir.types import tensor
from superopt.rulebook.loading import load_rules
from superopt.rulebook.variadic import extended, schema_of
from verify.diagnose.decide import decide
from verify.verdict import Proved, Unknown, Verdict

_CONV = "Conv[dilations=[1, 1], group=1, pads=p, strides=st]"
_MERGED = "Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, c)))"
_MERGED_3 = "Split[axis=-1, split=[b.shape[-1], c.shape[-1], b3.shape[-1]]](MatMul(a, Concat[axis=-1](b, c, b3)))"
_RELU = "Split[axis=-1, split=[x.shape[-1], y.shape[-1]]](Relu(Concat[axis=-1](x, y)))"
_RELU_3 = "Split[axis=-1, split=[x.shape[-1], y.shape[-1], x3.shape[-1]]](Relu(Concat[axis=-1](x, y, x3)))"
_PARTS = "Split[axis=i, split=n]"

# A law of two with its signature, and that of three.
_LAWS = {
    "outputs": (
        f"(MatMul(a, b), MatMul(a, c)) = ({_MERGED}.0, {_MERGED}.1) @ a[_,_] b[_,_] c[_,_]",
        f"(MatMul(a, b), MatMul(a, c), MatMul(a, b3)) = ({_MERGED_3}.0, {_MERGED_3}.1, {_MERGED_3}.2)"
        " @ a[_,_] b[_,_] b3[_,_] c[_,_]",
    ),
    "outputs of one operand": (
        f"(Relu(x), Relu(y)) = ({_RELU}.0, {_RELU}.1) @ x[_,_] y[_,_]",
        f"(Relu(x), Relu(y), Relu(x3)) = ({_RELU_3}.0, {_RELU_3}.1, {_RELU_3}.2) @ x[_,_] x3[_,_] y[_,_]",
    ),
    "Concat": (
        "Concat[axis=-1](MatMul(a, b), MatMul(a, c)) = MatMul(a, Concat[axis=-1](b, c)) @ a[_,_] b[_,_] c[_,_]",
        "Concat[axis=-1](MatMul(a, b), MatMul(a, c), MatMul(a, b3)) = MatMul(a, Concat[axis=-1](b, c, b3))"
        " @ a[_,_] b[_,_] b3[_,_] c[_,_]",
    ),
    "Add over Concat": (
        "Add(MatMul(a, b), MatMul(c, d)) = MatMul(Concat[axis=-1](a, c), Concat[axis=-2](b, d))"
        " @ a[_,_] b[_,_] c[_,_] d[_,_]",
        "Add(Add(MatMul(a, b), MatMul(c, d)), MatMul(a3, b3))"
        " = MatMul(Concat[axis=-1](a, c, a3), Concat[axis=-2](b, d, b3))"
        " @ a[_,_] a3[_,_] b[_,_] b3[_,_] c[_,_] d[_,_]",
    ),
    "parts of two Splits": (
        "Concat[axis=i](Split[axis=i, split=n](x).0, Split[axis=i, split=n2](x).1) = x"
        " @ x[_,_] i=-1 n=[_,_,_] n2=[_,_] | x[_,_] i=-1 n=[_,_] n2=[_,_]",
        "Concat[axis=i](Split[axis=i, split=n](x).0, Split[axis=i, split=n](x).1, Split[axis=i, split=n](x).2) = x"
        " @ x[_,_] i=-1 n=[_,_,_]",
    ),
    "Concat over Add": (
        "Concat[axis=i](Add(a, b), Add(c, d)) = Add(Concat[axis=i](a, c), Concat[axis=i](b, d))"
        " @ a[_,_] b[_,_] c[_,_] d[_,_] i=-1",
        "Concat[axis=i](Add(a, b), Add(c, d), Add(a3, b3)) = Add(Concat[axis=i](a, c, a3), Concat[axis=i](b, d, b3))"
        " @ a[_,_] a3[_,_] b[_,_] b3[_,_] c[_,_] d[_,_] i=-1",
    ),
    "right to left": (
        "Gemm[alpha=alpha, beta=beta, transA=0, transB=0](x, Concat[axis=-1](w, u), Concat[axis=-1](b, c)) = Concat"
        "[axis=-1](Gemm[alpha=alpha, beta=beta, transA=0, transB=0](x, w, b), Gemm[alpha=alpha, beta=beta, transA=0, "
        "transB=0](x, u, c)) @ b[_] c[_] u[_,_] w[_,_] x[_,_] alpha=* beta=*",
        "Gemm[alpha=alpha, beta=beta, transA=0, transB=0](x, Concat[axis=-1](w, u, w3), Concat[axis=-1](b, c, b3)) = "
        "Concat[axis=-1](Gemm[alpha=alpha, beta=beta, transA=0, transB=0](x, w, b), Gemm[alpha=alpha, beta=beta, "
        "transA=0, transB=0](x, u, c), Gemm[alpha=alpha, beta=beta, transA=0, transB=0](x, w3, b3))"
        " @ b[_] b3[_] c[_] u[_,_] w[_,_] w3[_,_] x[_,_] alpha=* beta=*",
    ),
    "Conv with biases": (
        f"Add({_CONV}(x, w, b), {_CONV}(y, u, c)) = {_CONV}(Concat[axis=-3](x, y), Concat[axis=-3](w, u), Add(b, c))"
        " @ b[_] c[_] u[_,_,_,_] w[_,_,_,_] x[_,_,_,_] y[_,_,_,_] p=[_,_,_,_] st=[_,_]",
        f"Add(Add({_CONV}(x, w, b), {_CONV}(y, u, c)), {_CONV}(x3, w3, b3))"
        f" = {_CONV}(Concat[axis=-3](x, y, x3), Concat[axis=-3](w, u, w3), Add(Add(b, c), b3))"
        " @ b[_] b3[_] c[_] u[_,_,_,_] w[_,_,_,_] w3[_,_,_,_] x[_,_,_,_] x3[_,_,_,_] y[_,_,_,_] p=[_,_,_,_] st=[_,_]",
    ),
    "Sum": (
        "Sum(x, y) = Add(x, y) @ x[_] y[1]",
        "Sum(x, y, x3) = Add(Add(x, y), x3) @ x[_] x3[1] y[1]",
    ),
    "among other operands": (
        "Sub(Sum(x, y, z), x) = Add(y, z) @ x[_] y[_] z[_]",
        "Sub(Sum(x, y, z, y3), x) = Add(Add(y, z), y3) @ x[_] y[_] y3[_] z[_]",
    ),
    "parts of a Split": (
        f"Concat[axis=i]({_PARTS}(t).0, {_PARTS}(t).1) = t @ t[_,_] i=-1 n=[_,_]",
        f"Concat[axis=i]({_PARTS}(t).0, {_PARTS}(t).1, {_PARTS}(t).2) = t @ t[_,_] i=-1 n=[_,_,_]",
    ),
    "the last part": (
        f"{_PARTS}(MatMul(a, t)).1 = MatMul(a, {_PARTS}(t).1) @ a[_,_] t[_,_] i=-1 n=[_,_]",
        f"{_PARTS}(MatMul(a, t)).2 = MatMul(a, {_PARTS}(t).2) @ a[_,_] t[_,_] i=-1 n=[_,_,_]",
    ),
    "the first part": (
        f"{_PARTS}(Concat[axis=i](x, y)).0 = x @ x[_,_] y[_,_] i=-1 n=[_,_]",
        f"{_PARTS}(Concat[axis=i](x, y, x3)).0 = x @ x[_,_] x3[_,_] y[_,_] i=-1 n=[_,_,_]",
    ),
    "names that are taken": (
        "Concat[axis=-1](MatMul(x3, x), MatMul(x3, y)) = MatMul(x3, Concat[axis=-1](x, y)) @ x[_,_] x3[_,_] y[_,_]",
        "Concat[axis=-1](MatMul(x3, x), MatMul(x3, y), MatMul(x3, x3_)) = MatMul(x3, Concat[axis=-1](x, y, x3_))"
        " @ x[_,_] x3[_,_] x3_[_,_] y[_,_]",
    ),
    "attributes that differ": (
        "Concat[axis=-1](LeakyRelu[alpha=alpha](x), LeakyRelu[alpha=alpha2](y)) = Concat[axis=-1]("
        "LeakyRelu[alpha=alpha](LeakyRelu[alpha=1.0](x)), LeakyRelu[alpha=alpha2](LeakyRelu[alpha=1.0](y)))"
        " @ x[_,_] y[_,_] alpha=* alpha2=*",
        "Concat[axis=-1](LeakyRelu[alpha=alpha](x), LeakyRelu[alpha=alpha2](y), LeakyRelu[alpha=alpha3](x3)) = "
        "Concat[axis=-1](LeakyRelu[alpha=alpha](LeakyRelu[alpha=1.0](x)), LeakyRelu[alpha=alpha2](LeakyRelu[alpha=1.0]"
        "(y)), LeakyRelu[alpha=alpha3](LeakyRelu[alpha=1.0](x3))) @ x[_,_] x3[_,_] y[_,_] alpha=* alpha2=* alpha3=*",
    ),
}

_NONE = {
    "one operand": "Relu(Relu(x)) = Relu(x)",
    "Sub": "Sub(ReduceSum[axes=[i], keepdims=1](x), ReduceSum[axes=[i], keepdims=1](y))"
    " = ReduceSum[axes=[i], keepdims=1](Sub(x, y)) @ x[_,_] y[_,_] i=-1",
    "Sub of a sum": "Sub(Add(x, y), x) = y",
    "parts that are not alike": "Relu(Concat[axis=i](x, Relu(y))) = Relu(Concat[axis=i](x, y)) @ x[_] y[_] i=-1",
    "a bias on one side": f"Add({_CONV}(x, w), {_CONV}(y, u, b)) = {_CONV}(Concat[axis=-3](x, y), Concat[axis=-3](w, u)"
    ", b) @ b[_] u[_,_,_,_] w[_,_,_,_] x[_,_,_,_] y[_,_,_,_] p=[_,_,_,_] st=[_,_]",
    "operands in another order": "Add(x, y) = Add(y, x)",
    "nested": "Concat[axis=i](Concat[axis=i](x, y), z) = Concat[axis=i](x, Concat[axis=i](y, z)) @ x[_] y[_] z[_] i=-1",
    "a chain": "Concat[axis=i](Mul(x, y), Mul(y, z)) = Mul(Concat[axis=i](x, y), Concat[axis=i](y, z))"
    " @ x[_] y[_] z[_] i=-1",
    "Add alone": "Add(MatMul(a, b), MatMul(a, c)) = MatMul(a, Add(b, c))",
    "both operands outside": "Slice[axes=[-1], ends=to, starts=[x.shape[-1]], steps=[1]](Concat[axis=-1](x, y)) = y"
    " @ x[_] y[_] to=[_]",
}


def _parts(*names: str) -> str:
    sizes = ", ".join(f"{name}.shape[-1]" for name in names)
    return f"Split[axis=-1, split=[{sizes}]](Concat[axis=-1]({', '.join(names)}))"


@pytest.fixture
def check() -> SamplingCheck:
    return SamplingCheck(Evaluator(0), 0)


@pytest.mark.parametrize(("two", "three"), _LAWS.values(), ids=list(_LAWS))
def test_rule_of_three_operands(two: str, three: str, check: SamplingCheck) -> None:
    schema = extended(parse_rule(two), 3)
    assert schema is not None
    assert f"{show_rule(schema.rule)} @ {show_signature(schema.base)}" == three
    assert schema.open == schema.base and set(schema.kinds) == {name for name, _ in schema.open.attrs}
    assert check.holds(schema.rule, schema.base)
    assert isinstance(decide(schema.rule, schema.base), Proved)


def test_element_types_are_extended() -> None:
    schema = extended(
        parse_rule(
            "Concat[axis=-1](Where(k, a, s), Where(m, b, s)) = Where(Concat[axis=-1](k, m), Concat[axis=-1](a, b), s)"
            " @ a[_] b[_] k:bool[_] m:bool[_] s[]"
        ),
        3,
    )
    assert schema is not None
    assert show_terms(schema.rule.rhs) == "Where(Concat[axis=-1](k, m, k3), Concat[axis=-1](a, b, a3), s)"
    assert show_signature(schema.base) == "a[_] a3[_] b[_] k:bool[_] k3:bool[_] m:bool[_] s[]"
    assert isinstance(decide(schema.rule, schema.base), Proved)


@pytest.mark.parametrize("text", _NONE.values(), ids=list(_NONE))
def test_rules_without_extension(text: str) -> None:
    assert extended(parse_rule(text), 3) is None


def test_shipped_rules_of_two_operands_are_unchanged() -> None:
    laws = [(rule, two) for rule in load_rules() if (two := extended(rule, 2)) is not None]
    assert laws
    for rule, two in laws:
        own = schema_of(rule)
        assert (two.rule.lhs, two.rule.rhs, two.base) == (own.rule.lhs, own.rule.rhs, own.base)


def test_extensions_are_proven_at_three_and_four(check: SamplingCheck) -> None:
    tried: list[tuple[Rule, Signature, Verdict]] = []

    def prover(rule: Rule, signature: Signature) -> Verdict:
        tried.append((rule, signature, decide(rule, signature)))
        return tried[-1][-1]

    merged, part = (parse_rule(_LAWS[name][0]) for name in ("outputs", "the last part"))
    first, last = (parse_rule(f"{_parts('x', 'y')}.{k} = {v} @ x[_,_] y[_,_]") for k, v in enumerate("xy"))
    found = list(extensions(map(schema_of, (merged, first, last, part)), check, prover))
    assert all(isinstance(verdict, Proved) for _, _, verdict in tried)
    assert [(schema.rule, schema.base) for schema in found] == [(rule, signature) for rule, signature, _ in tried]
    assert [show_terms(schema.rule.lhs) for schema in found] == [
        "(MatMul(a, b), MatMul(a, c), MatMul(a, b3))",
        "(MatMul(a, b), MatMul(a, c), MatMul(a, b3), MatMul(a, b4))",
        *(f"{_parts('x', 'y', 'x3')}.{k}" for k in (0, 1)),
        *(f"{_parts('x', 'y', 'x3', 'x4')}.{k}" for k in (0, 1, 2)),
        f"{_parts('x', 'y', 'x3')}.2",
        f"{_parts('x', 'y', 'x3', 'x4')}.3",
        f"{_PARTS}(MatMul(a, t)).2",
        f"{_PARTS}(MatMul(a, t)).3",
    ]
    assert len({schema.rule.id for schema in found}) == len(found)
    for schema in found:
        assert list(variations(schema, "matrix"))  # the pipeline proves these signatures


def test_false_or_unproven_extensions_are_left_out(check: SamplingCheck) -> None:
    absorbed = parse_rule("Sum(x, y) = Add(x, Add(y, Zeros[shape=y.shape])) @ x[_] y[_]")
    false = parse_rule("Max(x, y) = Sub(Add(x, y), Min(x, y)) @ x[_] y[_]")  # false for three operands
    assert extended(absorbed, 3) is None
    assert extended(false, 3) is not None
    assert list(extensions([schema_of(false)], check, decide)) == []
    concat = schema_of(parse_rule(_LAWS["Concat"][0]))
    assert list(extensions([concat], check, lambda rule, signature: Unknown("not asked"))) == []


def test_a_merge_of_three_is_matched() -> None:
    types = {"q": tensor(2, 3), "u": tensor(3, 4), "v": tensor(3, 5), "w": tensor(3, 6)}
    graph = parse_terms("(MatMul(q, u), MatMul(q, v), MatMul(q, w))", types)
    schema = extended(parse_rule(_LAWS["outputs"][0]), 3)
    assert schema is not None
    bindings = match(schema.rule.lhs, graph)
    assert bindings is not None and schema.base.covers(bindings)
    parts = instantiate(schema.rule.rhs, bindings, "float")
    merged = "Split[axis=-1, split=[4, 5, 6]](MatMul(q, Concat[axis=-1](u, v, w)))"
    assert show_terms(parts) == f"({merged}.0, {merged}.1, {merged}.2)"
    assert [part.type for part in parts] == [term.type for term in graph]
    other = parse_terms("(MatMul(q, u), MatMul(q, v), MatMul(Relu(q), w))", types)
    assert match(schema.rule.lhs, other) is None
