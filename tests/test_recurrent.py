"""LSTM: what the kernel proves of it, the rules that the generator finds, and unrolled cells made one operator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from superopt.evaluate import evaluate
from superopt.generate.pipeline import choose, generate
from superopt.ir.ops import make
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological, var
from superopt.ir.text import parse_rules, show_rule
from superopt.ir.types import tensor
from superopt.rulebook import certified_rules, load_rules
from superopt.search.apply import apply_trace
from superopt.search.recurrences import Recurrences
from superopt.search.steps import StepLaw, step_law
from verify.proofs import ProofBook, prove_at
from verify.replay import replay
from verify.verdict import Proved, Refuted, Verdict

_SIZES = "w[1,_,_] r[1,_,_] b[1,_] h[1,_,_] c[1,_,_]"
_FIRST = "LSTM(p, w, r, b, h, c)"
_SECOND = f"LSTM(q, w, r, b, {_FIRST}.1, {_FIRST}.2)"
_BOTH = "LSTM(Concat[axis=-3](p, q), w, r, b, h, c)"
_SPLIT = f"Split[axis=-4, split=[p.shape[-3], q.shape[-3]]]({_BOTH}.0)"


def _verdict(text: str) -> Verdict:
    (rule,) = parse_rules(text)
    return prove_at(rule, rule.signatures[0])


def test_two_sequences_of_any_length_are_one() -> None:
    sizes = f"p[_,_,_] q[_,_,_] {_SIZES}"
    verdict = _verdict(f"({_FIRST}.0, {_SECOND}.0, {_SECOND}.1) = ({_SPLIT}.0, {_SPLIT}.1, {_BOTH}.1) @ {sizes}")
    assert isinstance(verdict, Proved)
    assert verdict.numerics == "reassociating"


@pytest.mark.parametrize(
    "wrong",
    [
        f"{_SECOND}.1 = {_BOTH}.2 @ p[1,_,_] q[1,_,_] {_SIZES}",
        f"{_SECOND}.1 = LSTM(Concat[axis=-3](q, p), w, r, b, h, c).1 @ p[1,_,_] q[1,_,_] {_SIZES}",
        f"LSTM(q, w, r, b, {_FIRST}.1, c).1 = {_BOTH}.1 @ p[1,_,_] q[1,_,_] {_SIZES}",
        f"{_FIRST}.1 = LSTM(p, w, r, b, c, h).1 @ p[1,_,_] {_SIZES}",
        f"Squeeze[axes=[-3]]({_FIRST}.0) = {_FIRST}.2 @ p[1,_,_] {_SIZES}",
    ],
)
def test_what_is_not_so_is_refuted(wrong: str) -> None:
    assert isinstance(_verdict(wrong), Refuted)


def test_one_step_is_what_onnx_defines() -> None:
    """Without a bias, with gates of one matrix each: i, o, f, c in this order."""
    w = [f"Split[axis=-2, split=[n, n, n, n]](w).{k}" for k in range(4)]
    z = [f"MatMul(Squeeze[axes=[-3]](x), Transpose[perm=[1, 0]](Squeeze[axes=[-3]]({part})))" for part in w]
    zero = "Zeros[shape=[1, x.shape[-2], n]]"
    step = f"LSTM(x, w, Zeros[shape=[1, 4 * n, n]], _, {zero}, {zero})"
    state = f"Mul(Sigmoid({z[0]}), Tanh({z[3]}))"
    sizes = "x[1,_,_] w[1,_,_] n=_"
    assert isinstance(_verdict(f"Squeeze[axes=[-3]]({step}.2) = {state} @ {sizes}"), Proved)
    assert isinstance(_verdict(f"Squeeze[axes=[-3]]({step}.1) = Mul(Sigmoid({z[1]}), Tanh({state})) @ {sizes}"), Proved)
    wrong = f"Mul(Sigmoid({z[2]}), Tanh({z[3]}))"
    assert isinstance(_verdict(f"Squeeze[axes=[-3]]({step}.2) = {wrong} @ {sizes}"), Refuted)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("generated") / "rules"
    generate(out, families=choose(["recurrent"]))
    return out


def test_the_family_gives_cells_and_steps(folder: Path) -> None:
    listed, _ = certified_rules(folder)
    texts = [show_rule(Rule(entry.rule.lhs, entry.rule.rhs)) for entry in listed]
    assert f"{_SECOND}.1 = {_BOTH}.1" in texts
    cells = [entry.rule for entry in listed if len(entry.rule.lhs) == 2]
    products = [sum(t.op in ("Gemm", "MatMul") for t in topological(cell.lhs)) for cell in cells]
    assert sorted(products) == [2, 8]  # gates of one sum, and each by itself
    for cell in cells:
        assert [t.op for t in topological(cell.rhs) if t.op == "LSTM"] == ["LSTM"]


def _law(folder: Path) -> StepLaw:
    laws = [law for rule in load_rules(folder) if (law := step_law(rule)) is not None]
    return max(laws, key=lambda law: len(law.rule.lhs))


@pytest.mark.parametrize("n", [3, 20, 100])
def test_a_law_of_many_steps_is_proven_on_the_spot(folder: Path, n: int) -> None:
    rule = _law(folder).of(n, [(n - 1, 2), *((k, 1) for k in range(n))])
    assert rule is not None
    names = {str(t.attr("name")) for t in topological(rule.lhs) if t.op == "Var"}
    sizes = " ".join(f"{name}[1,_]" if name == "b" else f"{name}[1,_,_]" for name in sorted(names))
    (known,) = parse_rules(f"Relu(a) = Relu(a) @ a[_] {sizes}")
    shapes = tuple(item for item in known.signatures[0].shapes if item[0] != "a")
    assert isinstance(prove_at(rule, type(known.signatures[0])(shapes)), Proved)


@pytest.mark.parametrize("n", [3, 100, 200])
def test_what_is_cut_into_steps_and_put_together_is_what_it_was(n: int) -> None:
    """Cases lie within each other as deep as the logarithm of their number."""
    parts = [f"Split[axis=-3, split={[1] * n}](x).{k}" for k in range(n)]
    steps = [f"Unsqueeze[axes=[-3]](Gather[axis=-3, indices={k}](x))" for k in range(n)]
    for taken in (parts, steps):
        assert isinstance(_verdict(f"Concat[axis=-3]({', '.join(taken)}) = x @ x[{n},_,_]"), Proved)
    steps[n // 3], steps[n // 2] = steps[n // 2], steps[n // 3]
    if n == 100:
        assert isinstance(_verdict(f"Concat[axis=-3]({', '.join(steps)}) = x @ x[{n},_,_]"), Refuted)


def _unrolled(steps: int, layers: int, inputs: int, hidden: int, merged: str) -> tuple[list[Term], Term]:
    """The last state of layers of cells written out, from sequences of one row of their own: gate by gate, or `merged`
    in one sum as PyTorch has it, of products of "xh" or, as it exports its cells, "hx"."""
    sequence = [var(f"x{t}", tensor(1, inputs)) for t in range(steps)]
    values: list[Term] = sequence
    for layer in range(layers):
        size = inputs if layer == 0 else hidden
        h = c = var("start", tensor(1, hidden))
        after = []
        for x in values:

            def constant(name: str, *shape: int, layer: int = layer) -> Term:
                return Term.of("Const", (), {"hash": f"{name}{layer}"}, (tensor(*shape),))

            def product(of: Term, w: Term, b: Term) -> Term:
                return make("Gemm", (of, w, b), {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1})

            def gate(op: str, name: str, x: Term = x, h: Term = h, size: int = size) -> Term:
                if merged:
                    read = product(x, constant("w", 4 * hidden, size), constant("b", 4 * hidden))
                    kept = product(h, constant("u", 4 * hidden, hidden), constant("d", 4 * hidden))
                    total = make("Add", (read, kept) if merged == "xh" else (kept, read))
                    parts = make("Split", (total,), {"axis": -1, "split": (hidden,) * 4})
                    return make(op, (parts.out("ifgo".index(name)),))
                w, u = (constant(f"{k}{name}", n, hidden) for k, n in (("w", size), ("u", hidden)))
                total = make("Add", (make("MatMul", (x, w)), make("MatMul", (h, u))))
                return make(op, (make("Add", (total, constant(f"b{name}", hidden))),))

            new = make("Mul", (gate("Sigmoid", "i"), gate("Tanh", "g")))
            c = make("Add", (make("Mul", (gate("Sigmoid", "f"), c)), new))
            h = make("Mul", (gate("Sigmoid", "o"), make("Tanh", (c,))))
            after.append(h)
        values = after
    return sequence, values[-1]


@pytest.mark.parametrize("merged", ["", "xh", "hx"])
@pytest.mark.parametrize("layers", [1, 2])
def test_unrolled_cells_become_one_operator_a_layer(folder: Path, layers: int, merged: str) -> None:
    _, last = _unrolled(3, layers, 4, 5, merged)
    book = ProofBook({})
    rules = [*load_rules(folder), *(r for r in load_rules() if show_rule(r).startswith("Concat[axis=i](Split["))]
    known, outputs, traces = Recurrences(rules), (last,), []
    while (trace := known.trace(outputs, book.check)) is not None:
        traces.append(trace)
        outputs = apply_trace(outputs, trace)
    assert sum(t.op == "LSTM" for t in topological(outputs)) == layers
    assert not {"Sigmoid", "Gemm", "MatMul", "Split"} & {t.op for t in topological(outputs) if not t.weight_only}
    replayed: tuple[Term, ...] = (last,)
    for trace in traces:
        replayed = replay(replayed, trace, book)
    assert replayed == outputs
    draw = np.random.default_rng(0)
    leaves = [t for t in topological((last,)) if not t.inputs]
    env = {t: draw.standard_normal(t.type.concrete() or ()) for t in leaves if t.type is not None}
    (before,), (after,) = evaluate((last,), env, {}), evaluate(outputs, env, {})
    np.testing.assert_allclose(after, before, rtol=1e-12)
