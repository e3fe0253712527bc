"""Certificates: what they hold, what they count for, and that no rule is used without one that fits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

from superopt.cli import main, proving
from superopt.cli.certifying import write_signatures
from superopt.ir.dim import symbol
from superopt.ir.notation import parse_condition, parse_rule, parse_terms, show_rule
from superopt.ir.pattern import match
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term
from superopt.ir.types import TensorType
from superopt.rulebook.loading import RulesError, certificate_lines, certified_rules, shipped_rules
from tests.support.certified import certified, vouched
from tests.support.models import LORA_RULES, lora
from verify import proof_book
from verify.certificates import Certificate, CertifiedBook, load_certificates
from verify.proof_book import Book
from verify.verdict import NUMERICS, Proved, Unknown, Verdict


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def allows(book: Book, rule: Rule, *terms: Term) -> bool:
    """Return True if the book allows the rule at its own signatures."""
    found = match(rule.lhs, terms)
    return found is not None and any(book.allows(rule, signature, found) for signature in rule.signatures)


def typed(text: str, **types: str) -> tuple[Term, ...]:
    """`text` over matrices of 2 x 3 elements of these types."""
    return parse_terms(text, {name: TensorType(dtype, (2, 3)) for name, dtype in types.items()})


# What they hold


def test_a_certificate_reads_back_whole() -> None:
    rule = parse_rule("Div(x, y) = Div(x, y) @ x[_,_] y[_,1] | x[_] y[_]")
    conditions = (parse_condition("x.shape[0] == y.shape[0]"), parse_condition("0 <= x.shape[1]"))
    k = symbol("x.shape[1]")
    first = Proved(conditions, conditions[:1], 3, "reassociating", (k * k + 1, 2), True)
    second = Proved((), (), 1, "exact", None, False)
    certificate = Certificate.of(rule, zip(rule.signatures, (first, second), strict=True))
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert [proved.obligations for _, proved in again.proofs] == [3, 1]
    assert again.misfit(rule, show_rule(rule)) is None


@pytest.mark.parametrize(
    ("field", "value"), [("numerics", "perhaps"), ("defined_left", 1), ("roundings", ["1"]), ("conditions", ["x"])]
)
def test_what_is_no_certificate_is_not_read(tmp_path: Path, field: str, value: object) -> None:
    rule = parse_rule("Relu(Relu(x)) = Relu(x) @ x[_]")
    data = json.loads(vouched(rule)[rule].to_json())
    data["proofs"][0][field] = value
    (tmp_path / "some.jsonl").write_text(json.dumps(data) + "\n")
    with pytest.raises(ValueError, match=r"some\.jsonl:1: not a certificate"):
        load_certificates(tmp_path / "some.jsonl")


# What they count for


def test_another_kernels_proof_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = parse_rule("Relu(x) = x @ x[_,_]")
    (certificate,) = vouched(rule).values()
    monkeypatch.setattr(proof_book, "prove_at", lambda *_, **__: Unknown("not asked"))
    assert allows(CertifiedBook({rule: certificate}), rule, *typed("Relu(x)", x="float"))
    foreign = Certificate(rule.id, certificate.text, "0" * 32, certificate.solver, certificate.proofs)
    assert not allows(CertifiedBook({rule: foreign}), rule, *typed("Relu(x)", x="float"))


@pytest.mark.parametrize("defined_left", [False, True])
def test_a_proof_that_assumes_its_left_side_defined_has_one_direction(
    defined_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = parse_rule("Mul(Div(x, y), y) = Add(x, x) @ x[_,_] y[_,_]")
    monkeypatch.setattr(proof_book, "prove_at", lambda *_, **__: Unknown("not asked"))
    book = CertifiedBook(vouched(rule, defined_left=defined_left))
    assert isinstance(book.verdict(rule, rule.signatures[0]), Proved)
    assert isinstance(book.verdict(rule.reversed(), rule.signatures[0]), Proved) is not defined_left


def test_looser_classes_are_refused() -> None:
    rule = parse_rule("Relu(x) = x @ x[_,_]")
    books = {(a, p): CertifiedBook(vouched(rule, numerics=p), a) for a in NUMERICS for p in NUMERICS}
    allowed = {key: allows(book, rule, *typed("Relu(x)", x="float")) for key, book in books.items()}
    assert allowed == {(a, p): NUMERICS.index(p) <= NUMERICS.index(a) for a in NUMERICS for p in NUMERICS}


def test_float_stands_for_one_real_type() -> None:
    rule = parse_rule("Add(x, y) = Add(y, x) @ x[_,_] y[_,_]")
    book = CertifiedBook(vouched(rule))
    for dtype in ("float", "double", "float16", "bfloat16"):
        assert allows(book, rule, *typed("Add(x, y)", x=dtype, y=dtype)), dtype
    assert not allows(book, rule, *typed("Add(x, y)", x="int64", y="int64"))
    assert not allows(book, parse_rule("Concat[axis=0](x) = x @ x[_,_]"), *typed("Concat[axis=0](x)", x="string"))


def test_integers_where_the_signature_says_so() -> None:
    rule = parse_rule("Add(x, y) = Add(y, x) @ x:int64[_,_] y:int64[_,_]")
    book = CertifiedBook(vouched(rule))
    assert allows(book, rule, *typed("Add(x, y)", x="int64", y="int64"))
    for dtype in ("float", "int32"):
        assert not allows(book, rule, *typed("Add(x, y)", x=dtype, y=dtype)), dtype


def test_real_types_do_not_mix() -> None:
    rule = parse_rule("(Relu(x), Relu(y)) = (Relu(y), Relu(x)) @ x[_,_] y[_,_]")
    book = CertifiedBook(vouched(rule))
    assert allows(book, rule, *typed("(Relu(x), Relu(y))", x="double", y="double"))
    assert not allows(book, rule, *typed("(Relu(x), Relu(y))", x="double", y="float"))


def test_a_rule_that_names_a_type_is_for_float_only() -> None:
    rule = parse_rule("Cast[to=float](x) = x @ x[_,_]")
    book = CertifiedBook(vouched(rule))
    assert allows(book, rule, *typed("Cast[to=float](x)", x="float"))
    for dtype in ("double", "float16"):
        assert not allows(book, rule, *typed("Cast[to=float](x)", x=dtype)), dtype


def test_constants_have_the_type_of_the_reals() -> None:
    rule = parse_rule("Add(x, Zeros[shape=[]]) = x")
    zero = {dtype: Term.of("Zeros", (), {"shape": ()}, (TensorType(dtype, ()),)) for dtype in ("float", "double")}
    (x,) = typed("x", x="double")
    for dtype, fits in (("double", True), ("float", False)):
        term = Term.of("Add", (x, zero[dtype]), {}, (TensorType("double", (2, 3)),))
        assert (match(rule.lhs, (term,)) is not None) is fits


# Nothing is used without


def optimize(tmp_path: Path, rules: Path) -> Result:
    onnx.save(lora(), tmp_path / "model.onnx")
    files = [tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--rules", rules, "--ep", "cpu", "--budget", 0]
    return run("optimize", *files)


def refused(result: Result, *mentions: str | Path) -> None:
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for mention in mentions:
        assert str(mention) in result.stderr


def test_a_rule_without_certificate_is_refused(tmp_path: Path, short_measurements: None) -> None:
    rules = tmp_path / "mine.rules"
    rules.write_text(f"# mine\n{LORA_RULES}")
    todo = f"superopt verify --certify {rules}"
    for result in (optimize(tmp_path, rules), run("report", "--rules", rules, "-o", tmp_path / "report.html")):
        refused(result, f"{rules}:2: ", "no certificate", todo)
    assert not (tmp_path / "out.onnx").exists() and not (tmp_path / "report.html").exists()
    assert run(*todo.split()[1:]).exit_code == 0
    assert optimize(tmp_path, rules).exit_code == 0
    assert run("report", "--rules", rules, "-o", tmp_path / "report.html").exit_code == 0


@pytest.mark.parametrize(
    ("old", "new"), [("c[_,_]", "c[_,_] "), ("c[_,_]", "c[_,1]"), ("b[_,_] c[_,_]", "b[_,_] c[_,_] | a[] b[] c[]")]
)
def test_an_altered_line_is_refused(tmp_path: Path, old: str, new: str) -> None:
    rules = certified(tmp_path / "mine.rules", LORA_RULES)
    rules.write_text(LORA_RULES.replace(old, new, 1))
    refused(optimize(tmp_path, rules), f"{rules}:1: ", "altered since it was certified")


def test_another_kernels_certificate_is_refused(tmp_path: Path, lora_rules: Path) -> None:
    path = tmp_path / "lora.certificates.jsonl"
    first, *others = path.read_text().splitlines()
    kernel = json.loads(first)["kernel"]
    changed = first.replace(kernel, kernel[:-1] + ("0" if kernel[-1] != "0" else "1"))
    path.write_text("\n".join([changed, *others]) + "\n")
    refused(optimize(tmp_path, lora_rules), f"{lora_rules}:", "certified by another kernel")


@pytest.mark.parametrize("content", [b"{}", b"\xff\xfe", b"[" * 100_000], ids=["empty", "no text", "deep"])
def test_what_cannot_be_read_is_refused(tmp_path: Path, lora_rules: Path, content: bytes) -> None:
    path = tmp_path / "lora.certificates.jsonl"
    path.write_bytes(content + b"\n" + path.read_bytes())
    refused(optimize(tmp_path, lora_rules), "lora.certificates.jsonl:1: not a certificate; prove it anew: ")
    assert run("verify", "--certify", lora_rules).exit_code == 0
    assert optimize(tmp_path, lora_rules).exit_code == 0


@pytest.mark.parametrize(("field", "value"), [("solver", {}), ("analysis", 5), ("conditions", [{}]), ("stability", [])])
def test_what_has_other_types_is_no_certificate(tmp_path: Path, field: str, value: object) -> None:
    rule = parse_rule("Relu(Relu(x)) = Relu(x) @ x[_]")
    data = json.loads(vouched(rule)[rule].to_json())
    (data if field in data else data["proofs"][0])[field] = value
    path = tmp_path / "mine.rules"
    path.write_text(f"{show_rule(rule)}\n")
    (tmp_path / "mine.certificates.jsonl").write_text(json.dumps(data))
    with pytest.raises(RulesError, match=r"mine\.certificates\.jsonl:1: not a certificate"):
        certified_rules(path)[1][rule]
    assert certificate_lines(tmp_path / "mine.certificates.jsonl") == {}


def test_a_certificate_is_read_where_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    rule, other = parse_rule("Relu(Relu(x)) = Relu(x) @ x[_]"), parse_rule("Neg(Neg(x)) = x @ x[_]")
    path.write_text(f"{show_rule(rule)}\n{show_rule(other)}\n")
    lines = [vouched(one)[one].to_json() for one in (rule, other)]
    broken = json.loads(lines[1])
    broken["proofs"][0]["conditions"] = ["x"]
    (tmp_path / "mine.certificates.jsonl").write_text(f"{lines[0]}\n{json.dumps(broken)}\n")
    listed, certificates = certified_rules(path)
    assert [one.rule for one in listed] == [rule, other]
    assert list(certificates) == [rule, other]
    assert certificates[rule] == Certificate.from_json(lines[0])
    with pytest.raises(RulesError, match=r"mine\.certificates\.jsonl:2: not a certificate"):
        certificates[other]


def test_a_signature_may_be_written_in_another_way(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    rule = parse_rule("Relu(Relu(x)) = Relu(x) @ x[_,_]")
    path.write_text(f"{show_rule(rule)}\n")
    text = vouched(rule)[rule].to_json()
    signature = json.loads(text)["proofs"][0]["signature"]
    (tmp_path / "mine.certificates.jsonl").write_text(text.replace(signature, signature.replace("[", "[ ")) + "\n")
    assert certified_rules(path)[1].keys() == {rule}
    (tmp_path / "mine.certificates.jsonl").write_text(text.replace(signature, "x[_]") + "\n")
    with pytest.raises(RulesError, match="altered since it was certified"):
        certified_rules(path)


def test_a_rule_without_signatures_cannot_be_vouched_for(tmp_path: Path) -> None:
    rule = parse_rule("Relu(Relu(x)) = Relu(x)")
    (tmp_path / "mine.rules").write_text(f"{show_rule(rule)}\n")
    (tmp_path / "mine.certificates.jsonl").write_text(Certificate.of(rule, []).to_json() + "\n")
    with pytest.raises(RulesError, match="no signature"):
        certified_rules(tmp_path / "mine.rules")


def test_shipped_rules_are_refused_when_a_byte_differs(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    shutil.copytree(shipped_rules(), folder)
    assert certified_rules(folder)[0]
    file = sorted(folder.glob("*.rules"))[0]
    good = file.read_bytes()
    place = good.rindex(b"_")
    file.write_bytes(good[:place] + b"1" + good[place + 1 :])
    with pytest.raises(RulesError, match="altered since it was certified"):
        certified_rules(folder)
    file.write_bytes(good)
    certificates = folder / "certificates.jsonl"
    good = certificates.read_bytes()
    place = good.index(b'"kernel": "') + len(b'"kernel": "')
    certificates.write_bytes(good[:place] + (b"0" if good[place : place + 1] != b"0" else b"1") + good[place + 1 :])
    with pytest.raises(RulesError, match="certified by another kernel"):
        certified_rules(folder)


# Writing them


def test_certifying_writes_certificates_and_times(tmp_path: Path) -> None:
    rules = tmp_path / "mine.rules"
    rules.write_text(LORA_RULES)
    done = run("verify", rules, "--certify")
    assert done.exit_code == 0, done.output
    ids = {parse_rule(line).id for line in LORA_RULES.splitlines()}
    assert json.loads((tmp_path / "mine.times.json").read_text()).keys() == ids
    first = (tmp_path / "mine.certificates.jsonl").read_bytes()
    assert {one.rule for one in load_certificates(tmp_path / "mine.certificates.jsonl")} == ids
    assert run("verify", rules, "--certify", "-j", "2").exit_code == 0
    assert (tmp_path / "mine.certificates.jsonl").read_bytes() == first


def test_a_folder_has_one_file_of_certificates(tmp_path: Path) -> None:
    first, second = LORA_RULES.splitlines()
    (tmp_path / "a.rules").write_text(first + "\n")
    (tmp_path / "b.rules").write_text(second + "\n")
    assert run("verify", tmp_path, "--certify").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.rules",
        "b.rules",
        "certificates.jsonl",
        "times.json",
    ]
    assert [listed.rule.id for listed in certified_rules(tmp_path)[0]] == [parse_rule(t).id for t in (first, second)]


def test_all_or_nothing_is_certified(tmp_path: Path) -> None:
    rules = certified(tmp_path / "mine.rules", LORA_RULES)
    before = (tmp_path / "mine.certificates.jsonl").read_bytes()
    rules.write_text(LORA_RULES + "MatMul(a, b) = MatMul(b, a) @ a[_,_] b[_,_]\n")
    done = run("verify", rules, "--certify")
    assert done.exit_code == 1 and "not certified: " in done.stderr
    assert (tmp_path / "mine.certificates.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "mention"),
    [
        ("Relu(Relu(x)) = Relu(x) @ x[_]\nRelu(Relu(x)) = Relu(x) @ x[_,_]\n", "the same equation as"),
    ],
)
def test_what_cannot_be_certified(tmp_path: Path, text: str, mention: str) -> None:
    (tmp_path / "mine.rules").write_text(text)
    refused(run("verify", tmp_path / "mine.rules", "--certify"), mention)
    assert not (tmp_path / "mine.certificates.jsonl").exists()


def test_signatures_that_are_proven_are_written(tmp_path: Path) -> None:
    rules = tmp_path / "mine.rules"
    rules.write_bytes(b"# mine\r\nRelu(Relu(x)) = Relu(x)  \r\nAbs(Abs(x)) = Abs(x) @ x[_]\r\n")
    done = run("verify", rules, "--certify")
    assert done.exit_code == 0 and f"signatures written: {rules}" in done.stderr
    head, relu, absolute, end = rules.read_bytes().split(b"\r\n")
    assert (head, absolute, end) == (b"# mine", b"Abs(Abs(x)) = Abs(x) @ x[_]", b"")
    assert relu.startswith(b"Relu(Relu(x)) = Relu(x) @ x[] | x[_] | x[_,_]")
    listed, certificates = certified_rules(rules)
    assert [len(one.rule.signatures) for one in listed] == [5, 1] and all(one.rule in certificates for one in listed)
    written = rules.read_bytes()
    assert run("verify", rules, "--certify").exit_code == 0
    assert rules.read_bytes() == written


def test_nothing_is_written_for_a_rule_that_is_refuted_anywhere(tmp_path: Path) -> None:
    """A transposed matrix of rank 2 is another one; of ranks that the rule does not fit, nothing is said."""
    rules = tmp_path / "mine.rules"
    rules.write_text("Relu(Relu(x)) = Relu(x)\nMatMul(a, b) = MatMul(b, a)\n")
    before = rules.read_bytes()
    assert run("verify", rules, "--certify").exit_code == 1
    assert rules.read_bytes() == before and not (tmp_path / "mine.certificates.jsonl").exists()


def test_signatures_that_are_not_proven_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(rule: Rule, signature: Signature, ask: object = None) -> Verdict:
        return Unknown("too hard") if len(dict(signature.shapes)["x"]) > 1 else decide(rule, signature)

    decide = proving.decide
    monkeypatch.setattr(proving, "decide", gives_up)
    rules = tmp_path / "mine.rules"
    rules.write_text("Relu(Relu(x)) = Relu(x)")
    done = run("verify", rules, "--certify")
    assert done.exit_code == 0 and "not proven at x[_,_]: too hard" in done.stdout
    assert rules.read_text() == "Relu(Relu(x)) = Relu(x) @ x[] | x[_]"
    assert certified_rules(rules)[0]


def test_a_file_that_has_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    rules = tmp_path / "mine.rules"
    rules.write_text("Relu(Relu(x)) = Relu(x)\n")
    reports = list(proving.prove_all(proving.tasks([rules], ask_second=False, signs=True), 1))
    rules.write_text("# new\nRelu(Relu(x)) = Relu(x)\n")
    with pytest.raises(RulesError, match="has changed since it was read"):
        write_signatures(reports)
    assert rules.read_text() == "# new\nRelu(Relu(x)) = Relu(x)\n"


def test_verify_needs_no_certificates(tmp_path: Path) -> None:
    (tmp_path / "mine.rules").write_text(LORA_RULES)
    assert run("verify", tmp_path / "mine.rules").exit_code == 0
