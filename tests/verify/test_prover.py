"""The prover on equations that are true and on equations that are false, one a line in prover/*.rules."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.ir.dim import symbol
from superopt.ir.notation import parse_rule, parse_rules, parse_terms, show_rule
from superopt.ir.pattern import match
from superopt.ir.rule import Rule
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from superopt.ops.algebra import Guard, at_least, below
from tests.support.paths import TESTS
from verify.certificates import Certificate, load_certificates, rule_kernel_hash
from verify.diagnose.decide import certify, decide
from verify.proof_book import ProofBook, prove_at
from verify.prove.assumptions import Given
from verify.prove.bijection import pairings
from verify.prove.compare import Comparison
from verify.prove.facts import Facts
from verify.prove.prover import prove
from verify.prove.sums import Access
from verify.prove.symbolic import Symbolic
from verify.verdict import Proved, Refuted, Unknown

CASES = TESTS / "prover"


def _rules(name: str) -> list[Rule]:
    return parse_rules((CASES / name).read_text(), name)


@pytest.mark.parametrize("rule", _rules("proved.rules"), ids=show_rule)
def test_true_equations_are_proved(rule: Rule) -> None:
    assert isinstance(decide(rule, rule.signatures[0]), Proved)


@pytest.mark.parametrize("rule", [r for r in _rules("proved.rules") if r.reversed().applicable], ids=show_rule)
def test_true_equations_are_proved_right_to_left(rule: Rule) -> None:
    assert isinstance(decide(rule.reversed(), rule.signatures[0]), Proved)


@pytest.mark.parametrize("rule", _rules("refuted.rules"), ids=show_rule)
def test_false_equations_are_refuted(rule: Rule) -> None:
    assert isinstance(decide(rule, rule.signatures[0]), Refuted)


@pytest.mark.parametrize("rule", _rules("not_proved.rules"), ids=show_rule)
def test_equations_that_look_true_are_not_proved(rule: Rule) -> None:
    for signature in rule.signatures:
        verdict = decide(rule, signature)
        assert not isinstance(verdict, Proved)
        assert isinstance(verdict, Unknown) or verdict.counterexample is not None


@pytest.mark.parametrize(
    ("line", "numerics"),
    [
        ("Transpose[perm=[1, 0]](Transpose[perm=[1, 0]](x)) = x @ x[_,_]", "exact"),
        ("Relu(Concat[axis=-1](a, b)) = Concat[axis=-1](Relu(a), Relu(b)) @ a[_,_] b[_,_]", "exact"),
        ("Relu(Relu(x)) = Relu(x) @ x[_]", "exact"),
        ("Add(a, b) = Add(b, a) @ a[_] b[_]", "exact"),
        ("Sub(a, b) = Add(a, Neg(b)) @ a[_] b[_]", "exact"),
        ("Add(Add(a, b), c) = Add(a, Add(b, c)) @ a[_] b[_] c[_]", "reassociating"),
        ("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c)) @ a[_,_] b[_,_] c[_,_]", "reassociating"),
        ("Sigmoid(Concat[axis=-1](a, b)) = Concat[axis=-1](Sigmoid(a), Sigmoid(b)) @ a[_,_] b[_,_]", "reassociating"),
        # Zeros of two signs, and the one of a maximum, which IEEE 754 leaves open.
        ("Add(x, Zeros[shape=[]]) = Add(x, ConstantOfShape[shape=[], value=-0.0]) @ x[_]", "reassociating"),
        ("Relu(x) = Max(x, Zeros[shape=[]]) @ x[_]", "reassociating"),
        ("Abs(x) = Max(x, Neg(x)) @ x[_]", "reassociating"),
        # What cancels, or is multiplied by 0, must be finite; what is divided by must not be 0.
        ("Sub(a, a) = Zeros[shape=a.shape] @ a[_]", "real-only"),
        ("Mul(a, Zeros[shape=[]]) = Zeros[shape=a.shape] @ a[_]", "real-only"),
        ("Where(c, Sub(Add(x, y), x), z) = Where(c, y, z) @ c:bool[_] x[_] y[_] z[_]", "real-only"),
        ("Where(c, Div(x, x), Ones[shape=[]]) = Ones[shape=[x.shape[0]]] @ c:bool[_] x[_]", "real-only"),
        (
            'Add(Mul(Cast[to="float"](c), Div(x, f)), y) = Where(c, Add(Div(x, f), y), y) @ c:bool[_] f[1] x[_] y[_]',
            "real-only",
        ),
        ("ReduceMax[axes=[-1]](Sqrt(x)) = Sqrt(ReduceMax[axes=[-1]](x)) @ x[_,_]", "real-only"),
        ("Max(Expand[shape=[x.shape[0]]](c), x) = Max(c, x) @ c[1] x[_]", "reassociating"),
    ],
)
def test_the_class_of_numerics(line: str, numerics: str) -> None:
    rule = parse_rule(line)
    verdict = decide(rule, rule.signatures[0])
    assert isinstance(verdict, Proved)
    assert verdict.numerics == numerics
    assert (verdict.roundings is None) == (numerics == "exact")


def test_what_is_divided_by_is_at_least_1() -> None:
    """Tile divides the index by the size: where an attribute can make that 0, a guard says that it does not."""
    tile = "Tile[repeats=[2]](Slice[axes=[0], starts=[0], ends=[n], steps=[1]](x))"
    rule = parse_rule(
        f"Relu({tile}) = Tile[repeats=[2]](Relu(Slice[axes=[0], starts=[0], ends=[n], steps=[1]](x))) @ x[_] n=_"
    )
    verdict = decide(rule, rule.signatures[0])
    assert isinstance(verdict, Proved)
    assert [str(guard) for guard in verdict.guards] == ["1 <= n"]


def test_the_error_bound_counts_all_summands() -> None:
    rule = parse_rule("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c)) @ a[_,_] b[_,_] c[_,_]")
    verdict = decide(rule, rule.signatures[0])
    assert isinstance(verdict, Proved) and verdict.roundings is not None
    # k products, k - 1 additions; one more product; n - 1 additions
    assert str(verdict.roundings[0]) == "b.shape[0] + c.shape[0]"


def test_an_index_is_split_into_its_remainders_by_a_number() -> None:
    """A convolution of elements that are repeated 3 times along both axes: 9 phases, each by other taps."""
    edges = ((1, 0, 2, 1), (0, 0, 0, 0), (0, 1, 1, 2))  # pads of the phase and of the sums of taps, at both ends

    def phase(row: tuple[int, ...], column: tuple[int, ...]) -> str:
        pads, taps = ([row[k], column[k], row[k + 1], column[k + 1]] for k in (0, 2))
        window = f"count_include_pad=1, dilations=[1, 1], kernel_shape=[3, 3], pads={taps}, strides=[3, 3]"
        sums = f"Mul(ConstantOfShape[shape=[], value=9.0], AveragePool[{window}](w))"
        return f"Conv[dilations=[1, 1], group=1, pads={pads}, strides=[1, 1]](x, {sums})"

    phases = [phase(row, column) for row in edges for column in edges]
    left = "Conv[dilations=[1, 1], group=1, pads=[1, 1, 1, 1], strides=[1, 1]](Resize[scales=[3, 3]](x), w)"
    right = f'DepthToSpace[blocksize=3, mode="DCR"](Concat[axis=-3]({", ".join(phases)}))'
    rule = parse_rule(f"{left} = {right} @ x[_,_,_,_] w[_,_,3,3]")
    assert isinstance(prove_at(rule, rule.signatures[0]), Proved)


def test_guards_are_inferred() -> None:
    """Summing two kernels needs equal kernel shapes, which the left side's typing does not give."""
    conv = "Conv[dilations=d, group=g, pads=p, strides=s]"
    rule = parse_rule(
        f"Add({conv}(x, w), {conv}(x, v)) = {conv}(x, Add(w, v)) "
        "@ x[_,_,_,_] w[_,_,_,_] v[_,_,_,_] d=[1,1] g=_ p=[1,1,1,1] s=[2,2]"
    )
    verdict = decide(rule, rule.signatures[0])
    assert isinstance(verdict, Proved)
    assert {str(guard) for guard in verdict.guards} == {"w.shape[2] == v.shape[2]", "w.shape[3] == v.shape[3]"}
    book = ProofBook()
    conv = "Conv[dilations=[1, 1], group=1, pads=[1, 1, 1, 1], strides=[2, 2]]"
    for kernel, allowed in ((3, True), (4, False)):  # 3 and 4 give the same output shape here
        types = {"x": tensor(1, 2, 8, 8), "w": tensor(5, 2, 3, 3), "v": tensor(5, 2, kernel, kernel)}
        found = match(rule.lhs, parse_terms(f"Add({conv}(x, w), {conv}(x, v))", types))
        assert found is not None
        assert (book.check(rule, found) is not None) == allowed


def _average(kernel: int, stride: int, of: str) -> str:
    window = f"kernel_shape=[{kernel}, {kernel}], pads=[0, 0, 0, 0], strides=[{stride}, {stride}]"
    return f"AveragePool[count_include_pad=0, dilations=[1, 1], {window}]({of})"


@pytest.mark.parametrize(
    "equation",
    [
        f"{_average(2, 2, _average(2, 2, 'x'))} = {_average(4, 2, 'x')} @ x[_,_,_,_]",  # 4 or 5 rows and columns
        f"{_average(4, 2, 'x')} = {_average(2, 2, _average(2, 2, 'x'))} @ x[_,_,_,_]",
        f"{_average(2, 2, 'x')} = ReduceMean[axes=[-2, -1], keepdims=1]({_average(2, 2, 'x')}) @ x[_,_,_,_]",
        "Slice[axes=[-1], ends=[9], starts=[0], steps=[1]](x) = x @ x[_,_]",
        # 6 rows and columns in all
        "Slice[axes=[-2], ends=[x.shape[-1]], starts=[0], steps=[1]](Pad[pads=[0, 6, 6, 0], value=0.0](x)) "
        "= Slice[axes=[-2], ends=[6 - x.shape[-2]], starts=[0], steps=[1]](Pad[pads=[0, 6, 6, 0], value=0.0](x)) "
        "@ x[_,_]",
    ],
)
def test_guards_that_bound_a_size_are_refused(equation: str) -> None:
    """Each of these holds at a few sizes, whatever the other sizes are."""
    rule = parse_rule(equation)
    assert not isinstance(decide(rule, rule.signatures[0]), Proved)


@pytest.mark.parametrize(
    ("equation", "guarded"),
    [
        (f"{_average(2, 2, _average(2, 2, 'x'))} = {_average(4, 4, 'x')} @ x[_,_,_,_]", False),
        ("Slice[axes=[-1], ends=[p], starts=[0], steps=[1]](x) = x @ x[_,_] p=_", True),  # bounded by another number
        ("Slice[axes=[-1], ends=[9], starts=[0], steps=[1]](x) = "
         "Gather[axis=-1, indices=[0, 1, 2, 3, 4, 5, 6, 7, 8]](x) @ x[_,_]", False),  # bounded from below
        ("MatMul(Split[axis=-1, split=[w.shape[0], v.shape[0]]](x).0, w) = MatMul(Slice[axes=[-1], ends=[w.shape[0]], "
         "starts=[0], steps=[1]](x), w) @ x[_,6] w[_,_] v[_,_]", False),  # bounded by the left side's own typing
    ],
)  # fmt: skip
def test_other_guards_are_not_refused(equation: str, guarded: bool) -> None:
    rule = parse_rule(equation)
    verdict = decide(rule, rule.signatures[0])
    assert isinstance(verdict, Proved)
    assert bool(verdict.guards) == guarded


def test_a_counterexample_names_sizes_tensors_and_both_values() -> None:
    rule = parse_rule("MatMul(a, b) = MatMul(b, a) @ a[_,_] b[_,_]")
    verdict = decide(rule, rule.signatures[0])
    assert isinstance(verdict, Refuted)
    assert verdict.counterexample is not None
    assert verdict.counterexample.sizes.keys() == {"a.shape[0]", "a.shape[1]", "b.shape[0]", "b.shape[1]"}
    assert verdict.counterexample.left != verdict.counterexample.right
    assert "a = [[" in str(verdict.counterexample)


def test_an_operator_without_semantics_is_unknown() -> None:
    x = var("x", tensor(2))
    opaque = Term.of("Hardmax", (x,), {}, (tensor(2),))
    assert isinstance(prove((opaque,), (x,)), Unknown)


def test_conditions_are_checked_at_every_match() -> None:
    rule = parse_rule("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c)) @ a[_,_] b[_,_] c[_,_]")
    types = {"a": tensor(2, 3), "b": tensor(3, 4), "c": tensor(4, 5)}
    found = match(rule.lhs, parse_terms("MatMul(MatMul(a, b), c)", types))
    assert found is not None
    book = ProofBook()
    assert book.check(rule, found) == rule.signatures[0]
    integers = {name: tensor(*(t.shape or ()), dtype="int64") for name, t in types.items()}
    found = match(rule.lhs, parse_terms("MatMul(MatMul(a, b), c)", integers))
    assert found is not None
    signature = book.check(rule, found)  # of its own: integers wrap
    assert signature is not None and dict(signature.dtypes) == dict.fromkeys("abc", "int64")
    dynamic = {"a": tensor(symbol("batch"), 3), "b": tensor(3, symbol("n")), "c": tensor(symbol("n"), 5)}
    found = match(rule.lhs, parse_terms("MatMul(MatMul(a, b), c)", dynamic))
    assert found is not None
    assert book.check(rule, found) is not None


def test_broadcasting_is_told_apart_by_signature() -> None:
    """Mul(MatMul(a, b), s) = MatMul(a, Mul(b, s)) holds for s over columns, not for s over rows."""
    rule = parse_rule("Mul(MatMul(a, b), s) = MatMul(a, Mul(b, s))")
    book = ProofBook()
    for shape, allowed in (((), True), ((5,), True), ((1, 5), True), ((1, 1), True), ((2, 1), False), ((2, 5), False)):
        types = {"a": tensor(2, 3), "b": tensor(3, 5), "s": tensor(*shape)}
        found = match(rule.lhs, parse_terms("Mul(MatMul(a, b), s)", types))
        assert found is not None
        assert (book.check(rule, found) is not None) == allowed, shape


def test_certificates_fit_one_equation_and_one_kernel(tmp_path: Path) -> None:
    rule = parse_rule("Relu(Concat[axis=i](a, b)) = Concat[axis=i](Relu(a), Relu(b)) @ a[_,_] b[_,_] i=-1")
    certificate, _ = certify(rule)
    assert certificate is not None
    assert certificate.rule == rule.id
    assert certificate.kernel == rule_kernel_hash(rule)
    assert Certificate.from_json(certificate.to_json()) == certificate
    path = tmp_path / "certificates.jsonl"
    path.write_text(certificate.to_json() + "\n")
    assert load_certificates(path) == [certificate]
    line = show_rule(rule)
    assert certificate.misfit(rule, line) is None
    assert certificate.misfit(rule, line + " ") is not None
    path.write_text(certificate.to_json().replace(rule_kernel_hash(rule), "0" * 32) + "\n")
    assert load_certificates(path)[0].misfit(rule, line) == "certified by another kernel"


def test_a_rule_that_is_false_at_one_signature_gets_no_certificate() -> None:
    rule = parse_rule("Mul(MatMul(a, b), s) = MatMul(a, Mul(b, s)) @ a[_,_] b[_,_] s[] | a[_,_] b[_,_] s[_,1]")
    certificate, verdicts = certify(rule)
    assert certificate is None
    assert [type(v) for _, v in verdicts] == [Proved, Refuted]


@settings(max_examples=60, deadline=None)
@given(st.integers(-3, 3), st.integers(-3, 3), st.integers(-6, 6), st.integers(0, 4), st.integers(1, 4))
def test_entailment_agrees_with_enumeration(a: int, b: int, c: int, low: int, width: int) -> None:
    """An entailed fact holds at every point of a box; a fact that is not entailed fails at one."""
    x, y = symbol("x"), symbol("y")
    box = [at_least(x, low), below(x, low + width), at_least(y, 0), below(y, 3)]
    values = [a * p + b * q + c for p in range(low, low + width) for q in range(3)]
    value = a * x + b * y + c
    assert Facts(box).entails(Guard("<=", value)) == all(v >= 0 for v in values)
    assert Facts(box).refutes(Guard("==", value)) == all(v != 0 for v in values)


def test_a_bijection_must_be_one() -> None:
    """sum over k < 2n of f(k) is not sum over k < n of f(2k), though each index can be matched."""
    algebra = Symbolic()
    n = symbol("n")
    facts = Facts([at_least(n, 2)])
    whole = algebra.summation(n, lambda k: algebra.access("f", (k,)))
    doubled = algebra.summation(n, lambda k: algebra.access("f", (2 * k,)))
    shifted = algebra.summation(n, lambda k: algebra.access("f", (n - 1 - k,)))
    assert not Comparison(algebra).equal(Given(facts), whole, doubled)
    assert Comparison(algebra).equal(Given(facts), whole, shifted)


def test_multiplying_a_sum_by_itself_keeps_bound_variables_apart() -> None:
    algebra = Symbolic()
    total = algebra.summation(symbol("n"), lambda k: algebra.access("f", (k,)))
    (square,) = algebra.multiply(total, total)
    assert len(set(square.binders)) == 2
    assert algebra.constant(Fraction(0)) == ()


def test_pairings_are_made_one_by_one() -> None:
    factors = tuple(Access("a", (k,)) for k in range(30))  # 30! pairings
    assert next(pairings(factors, factors[::-1])) == list(zip(factors, factors[::-1], strict=True))
