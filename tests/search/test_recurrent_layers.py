"""GRU and LSTM: proofs about them, the rules that the generator finds, and unrolled layers that are rolled up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from superopt.evaluate import evaluate
from superopt.generate.pipeline import choose, generate
from superopt.ir.infer import make
from superopt.ir.notation import parse_rules
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term, node_of, topological, var
from superopt.ir.trace import Trace
from superopt.ir.types import tensor
from superopt.ops.recurrent import RECURRENT
from superopt.rulebook.chain import ChainRule, chain_rule
from superopt.rulebook.loading import certified_rules, load_rules, shipped_rules
from superopt.search import AnalyticCost, search
from superopt.search.apply import AppliedTrace
from superopt.search.strategy import effort_budget
from superopt.search.strategy.recurrent_layers import RecurrentLayers
from verify.diagnose.decide import decide
from verify.proof_book import ProofBook
from verify.replay import replay
from verify.verdict import Proved, Refuted, Verdict

_SHIPPED = shipped_rules() / "recurrent.rules"
# Products in the cells that the generator finds: for GRU as PyTorch exports it; for LSTM with both states, with gates
# from one sum and each gate from its own.
_CELLS = {"GRU": [2], "LSTM": [2, 8]}
_OPERATORS = ("GRU[linear_before_reset=0]", "GRU[linear_before_reset=1]", "LSTM")


def _verdict(text: str) -> Verdict:
    (rule,) = parse_rules(text)
    return decide(rule, rule.signatures[0])


def _states(op: str) -> str:
    return "hc" if op == "LSTM" else "h"


def _applied(op: str, x: str, *states: str, bias: str = "b") -> str:
    return f"{op}({x}, w, r, {bias}, {', '.join(states or _states(op))})"


def _second(op: str) -> str:
    """Return the second step, on the states that the first one computes."""
    return _applied(op, "q", *(f"{_applied(op, 'p')}.{k + 1}" for k in range(len(_states(op)))))


def _both(op: str, order: str = "p, q") -> str:
    return _applied(op, f"Concat[axis=-3]({order})")


def _sizes(op: str, steps: str) -> str:
    states = " ".join(f"{state}[1,_,_]" for state in _states(op))
    return f"p[{steps},_,_] q[{steps},_,_] w[1,_,_] r[1,_,_] b[1,_] {states}"


@pytest.mark.parametrize("op", _OPERATORS)
def test_two_sequences_of_any_length_are_one(op: str) -> None:
    both = _both(op)
    split = f"Split[axis=-4, split=[p.shape[-3], q.shape[-3]]]({both}.0)"
    left = f"({_applied(op, 'p')}.0, {_second(op)}.0, {_second(op)}.1)"
    verdict = _verdict(f"{left} = ({split}.0, {split}.1, {both}.1) @ {_sizes(op, '_')}")
    assert isinstance(verdict, Proved)
    assert verdict.numerics == "reassociating"


@pytest.mark.parametrize("op", _OPERATORS)
@pytest.mark.parametrize(
    "wrong",
    [
        lambda op: f"{_second(op)}.1 = {_both(op, 'q, p')}.1",
        lambda op: f"{_applied(op, 'q')}.1 = {_both(op)}.1",
        lambda op: f"Squeeze[axes=[-3]]({_second(op)}.0) = {_applied(op, 'q')}.1",
    ],
)
def test_false_equations_are_refuted(op: str, wrong: Callable[[str], str]) -> None:
    assert isinstance(_verdict(f"{wrong(op)} @ {_sizes(op, '1')}"), Refuted)


@pytest.mark.parametrize(
    "wrong",
    [
        f"{_second('LSTM')}.1 = {_both('LSTM')}.2",
        f"{_applied('LSTM', 'q', _applied('LSTM', 'p') + '.1', 'c')}.1 = {_both('LSTM')}.1",
        f"{_applied('LSTM', 'p')}.1 = {_applied('LSTM', 'p', 'c', 'h')}.1",
        f"Squeeze[axes=[-3]]({_applied('LSTM', 'p')}.0) = {_applied('LSTM', 'p')}.2",
    ],
)
def test_two_states_are_not_mixed_up(wrong: str) -> None:
    assert isinstance(_verdict(f"{wrong} @ {_sizes('LSTM', '1')}"), Refuted)


@pytest.mark.parametrize("steps", [1, 2])
def test_reset_before_and_after_the_product_differ(steps: int) -> None:
    """They agree for a state of zeros without a bias."""
    after, before, _ = _OPERATORS
    sizes = _sizes(after, str(steps))
    assert isinstance(_verdict(f"{_applied(after, 'p')}.1 = {_applied(before, 'p')}.1 @ {sizes}"), Refuted)
    zeros = "Zeros[shape=[1, p.shape[-2], r.shape[-1]]]"
    left, right = (f"{_applied(op, 'p', zeros, bias='_')}.1" for op in (after, before))
    verdict = _verdict(f"{left} = {right} @ p[{steps},_,_] w[1,_,_] r[1,_,_]")
    assert isinstance(verdict, Proved if steps == 1 else Refuted)


def test_one_step_of_lstm_is_what_onnx_defines() -> None:
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


@pytest.mark.parametrize("after", [0, 1])
def test_one_step_of_gru_is_what_onnx_defines(after: int) -> None:
    """With gates z, r, h in this order, in W, R and B, whose first half is W's."""

    def part(of: str, k: int, parts: int = 3) -> str:
        return f"Split[axis=-2, split=[{', '.join('n' * parts)}]]({of}).{k}"

    def product(x: str, of: str, k: int, bias: int) -> str:
        matrix = f"Transpose[perm=[1, 0]](Squeeze[axes=[-3]]({part(of, k)}))"
        return f"Add(MatMul({x}, {matrix}), Squeeze[axes=[-1]]({part('Unsqueeze[axes=[-1]](b)', bias, 6)}))"

    def step(z: int, r: int) -> str:
        read = [product("x", "w", k, k) for k in range(3)]
        kept = [product("h", "r", k, k + 3) for k in range(3)]
        update, reset = (f"Sigmoid(Add({read[k]}, {kept[k]}))" for k in (z, r))
        left = f"Mul({reset}, {kept[2]})" if after else product(f"Mul({reset}, h)", "r", 2, 5)
        return f"Add(Mul(Sub(Ones[shape=[]], {update}), Tanh(Add({read[2]}, {left}))), Mul({update}, h))"

    x, h, b = "Unsqueeze[axes=[-3]](x)", "Unsqueeze[axes=[-3]](h)", "Unsqueeze[axes=[-2]](b)"
    made = f"Squeeze[axes=[-3]](GRU[linear_before_reset={after}]({x}, w, r, {b}, {h}).1)"
    sizes = "x[_,_] h[_,_] w[1,_,_] r[1,_,_] b[_] n=_"
    assert isinstance(_verdict(f"{made} = {step(0, 1)} @ {sizes}"), Proved)
    assert isinstance(_verdict(f"{made} = {step(1, 0)} @ {sizes}"), Refuted)


@pytest.mark.slow
def test_the_family_gives_cells_and_steps(tmp_path: Path) -> None:
    generate(tmp_path / "rules", families=choose(["recurrent"]))
    listed, _ = certified_rules(tmp_path / "rules")
    rules = [rule for entry in listed for rule in (entry.rule, entry.rule.reversed())]
    for op, cells in _CELLS.items():
        applied = "GRU[linear_before_reset=l]" if op == "GRU" else op
        before, after, both = _applied(applied, "p"), _second(applied), _both(applied)
        (chain,) = parse_rules(f"{after}.1 = {both}.1")
        assert chain in rules
        last = range(1, 1 + len(_states(op)))
        left, right = (", ".join(f"{state}.{k}" for k in last) for state in (after, both))
        (chain,) = parse_rules(
            f"({left}, {before}.1) = ({right}, Split[axis=-3, split=[1, 1]](Squeeze[axes=[-3]]({both}.0)).0)"
        )
        assert chain in rules
        found = [rule for rule in rules if op in _operators(rule.rhs) and "Sigmoid" in _operators(rule.lhs)]
        assert sorted(sum(t.op in ("Gemm", "MatMul") for t in topological(cell.lhs)) for cell in found) == cells
        assert all(_operators(cell.rhs).count(op) == 1 and len(cell.lhs) == len(_states(op)) for cell in found)


def _operators(terms: tuple[Term, ...]) -> list[str]:
    return [term.op for term in topological(terms)]


def _chain_rule(op: str) -> ChainRule:
    chains = [
        chain for rule in load_rules(_SHIPPED) if (chain := chain_rule(rule)) is not None and chain.first.op == op
    ]
    return max(chains, key=lambda chain: len(chain.rule.lhs))


@pytest.mark.parametrize(("op", "attrs"), [("GRU", (("l", 0),)), ("GRU", (("l", 1),)), ("LSTM", ())])
@pytest.mark.parametrize("n", [3, 20, 100])
def test_a_chain_rule_for_many_steps_is_proven_during_the_search(
    op: str, attrs: tuple[tuple[str, int], ...], n: int
) -> None:
    last = [(n - 1, 2)] if op == "LSTM" else []
    rule = _chain_rule(op).for_steps(n, [*last, *((k, 1) for k in range(n))])
    assert rule is not None
    names = sorted({str(t.attr("name")) for t in topological(rule.lhs) if t.op == "Var"})
    shapes = tuple((name, (1, None) if name == "b" else (1, None, None)) for name in names)
    assert isinstance(decide(rule, Signature(shapes, attrs)), Proved)


@pytest.mark.parametrize(
    ("axis", "part", "whole", "sizes"),
    [
        (-3, "Split[axis=-3, split={ones}](x).{k}", "x", "{n},_,_"),
        (-3, "Unsqueeze[axes=[-3]](Gather[axis=-3, indices={k}](x))", "x", "{n},_,_"),
        (-3, "Unsqueeze[axes=[-3]](Gather[axis=-2, indices={k}](x))", "Transpose[perm=[1, 0, 2]](x)", "_,{n},_"),
        (
            -2,
            "Unsqueeze[axes=[-2]](Squeeze[axes=[-3]](Split[axis=-3, split={ones}](x).{k}))",
            "Transpose[perm=[1, 0, 2]](x)",
            "{n},_,_",
        ),
    ],
)
@pytest.mark.parametrize("n", [3, 100, 200])
def test_a_value_cut_into_steps_and_joined_again_is_the_value(
    n: int, axis: int, part: str, whole: str, sizes: str
) -> None:
    """Or the value transposed. Case distinctions nest as deep as the logarithm of their number."""
    parts = [part.format(ones=[1] * n, k=k) for k in range(n)]
    where = f"= {whole} @ x[{sizes.format(n=n)}]"
    assert isinstance(_verdict(f"Concat[axis={axis}]({', '.join(parts)}) {where}"), Proved)
    parts[n // 3], parts[n // 2] = parts[n // 2], parts[n // 3]
    if n == 100:
        assert isinstance(_verdict(f"Concat[axis={axis}]({', '.join(parts)}) {where}"), Refuted)


_FORMS = ("LSTM", "LSTM xh", "LSTM hx", "GRU")


class _Layer:
    """A layer of cells written out as one of the forms: LSTM gate by gate, or with all gates in one sum of products of
    "xh" or, as PyTorch exports its cells, "hx"; GRU as PyTorch exports it."""

    def __init__(self, form: str, number: int, inputs: int, hidden: int) -> None:
        self.form, self.number, self.inputs, self.hidden = form, number, inputs, hidden

    def step(self, x: Term, h: Term, c: Term) -> tuple[Term, Term]:
        """Return the states after a step."""
        if self.form == "GRU":
            return self._gru(x, h), c
        new = make("Mul", (self._gate("Sigmoid", "i", x, h), self._gate("Tanh", "g", x, h)))
        c = make("Add", (make("Mul", (self._gate("Sigmoid", "f", x, h), c)), new))
        return make("Mul", (self._gate("Sigmoid", "o", x, h), make("Tanh", (c,)))), c

    def _gru(self, x: Term, h: Term) -> Term:
        (xr, xz, xn), (hr, hz, hn) = (
            [make("Split", (product,), {"axis": -1, "split": (self.hidden,) * 3}).out(k) for k in range(3)]
            for product in self._products(x, h, 3)
        )
        r, z = make("Sigmoid", (make("Add", (hr, xr)),)), make("Sigmoid", (make("Add", (hz, xz)),))
        n = make("Tanh", (make("Add", (xn, make("Mul", (hn, r)))),))
        return make("Add", (make("Mul", (make("Sub", (h, n)), z)), n))

    def _gate(self, op: str, name: str, x: Term, h: Term) -> Term:
        form, hidden = self.form.removeprefix("LSTM").strip(), self.hidden
        if form:
            products = dict(zip("xh", self._products(x, h, 4), strict=True))
            parts = make("Split", (make("Add", [products[of] for of in form]),), {"axis": -1, "split": (hidden,) * 4})
            return make(op, (parts.out("ifgo".index(name)),))
        w, u = (self._constant(f"{k}{name}", n, hidden) for k, n in (("w", self.inputs), ("u", hidden)))
        total = make("Add", (make("MatMul", (x, w)), make("MatMul", (h, u))))
        return make(op, (make("Add", (total, self._constant(f"b{name}", hidden))),))

    def _products(self, x: Term, h: Term, gates: int) -> tuple[Term, Term]:
        rows, attrs = gates * self.hidden, {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
        read = make("Gemm", (x, self._constant("w", rows, self.inputs), self._constant("b", rows)), attrs)
        return read, make("Gemm", (h, self._constant("u", rows, self.hidden), self._constant("d", rows)), attrs)

    def _constant(self, name: str, *shape: int) -> Term:
        return Term.of("Const", (), {"hash": f"{name}{self.number}"}, (tensor(*shape),))


def _unrolled(values: list[Term], form: str, layers: int, inputs: int, hidden: int) -> list[Term]:
    """Return the state after each step of the last layer; the first layer reads `values` of one row."""
    for number in range(layers):
        layer = _Layer(form, number, hidden if number else inputs, hidden)
        h = c = var("start", tensor(1, hidden))
        after = []
        for x in values:
            h, c = layer.step(x, h, c)
            after.append(h)
        values = after
    return values


def _layer_rules() -> list[Rule]:
    """Return the shipped rules for layers, and those by which movements cancel each other."""
    return [*load_rules(_SHIPPED), *(rule for rule in load_rules() if rule.rhs[0].op == "Var" and len(rule.lhs) == 1)]


def _rolled_up(given: Term) -> tuple[Term, ...]:
    """Roll up the graph, replay the traces in the kernel, and compare the values."""
    book = ProofBook()
    rules = _layer_rules()
    known, outputs, traces = RecurrentLayers(rules), (given,), list[Trace]()
    while (trace := known.next_trace(outputs, book.check)) is not None:
        traces.append(trace)
        outputs = AppliedTrace(outputs, trace, {}).outputs
    replayed: tuple[Term, ...] = (given,)
    for trace in traces:
        replayed = replay(replayed, trace, book)
    assert replayed == outputs
    draw = np.random.default_rng(0)
    leaves = [t for t in topological((given,)) if t.op in ("Const", "Var")]
    env = {t: draw.standard_normal(t.type.concrete() or ()) for t in leaves if t.type is not None}
    (before,), (after,) = evaluate((given,), env, {}), evaluate(outputs, env, {})
    np.testing.assert_allclose(after, before, rtol=1e-12)
    return outputs


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("layers", [1, 2])
def test_unrolled_cells_become_one_operator_a_layer(layers: int, form: str) -> None:
    sequence = [var(f"x{t}", tensor(1, 4)) for t in range(3)]
    outputs = _rolled_up(_unrolled(sequence, form, layers, 4, 5)[-1])
    assert _operators(outputs).count(form.split()[0]) == layers
    left = {t.op for t in topological(outputs) if not t.is_constant}
    assert not {"Sigmoid", "Gemm", "MatMul", "Split"} & left


@pytest.mark.parametrize("is_ended", [False, True])
def test_layers_are_rolled_up_whole(monkeypatch: pytest.MonkeyPatch, is_ended: bool) -> None:
    """Also if the time ends while the cells are replaced by operators of one step, which may be slower than they."""
    now, book = 0.0, ProofBook()
    monkeypatch.setattr(effort_budget, "time", SimpleNamespace(monotonic=lambda: now))

    def check(rule: Rule, bindings: Bindings) -> Signature | None:
        nonlocal now
        now = 2.0 if is_ended else 0.0
        return book.check(rule, bindings)

    given = _unrolled([var(f"x{t}", tensor(1, 64)) for t in range(3)], "LSTM", 1, 64, 64)[-1]
    result = search((given,), _layer_rules(), check, AnalyticCost(), position={}, deadline=1.0)
    assert _operators(result.outputs).count("LSTM") == 1


def test_all_layers_are_joined_at_once() -> None:
    book, rules = ProofBook(), _layer_rules()
    outputs: tuple[Term, ...] = (_unrolled([var(f"x{t}", tensor(1, 4)) for t in range(3)], "LSTM", 4, 4, 5)[-1],)
    joined: list[int] = []
    while (trace := RecurrentLayers(rules).next_trace(outputs, book.check)) is not None:
        before = {node_of(root).op for one in trace.applications for root in one.rewrite.before}
        joined += [len(trace.applications)] if before <= set(RECURRENT) else []
        outputs = AppliedTrace(outputs, trace, {}).outputs
    assert joined == [4]


@pytest.mark.parametrize("form", _FORMS)
def test_no_unavailable_operator_is_introduced(form: str) -> None:
    cell = tuple(_unrolled([var("x", tensor(1, 4))], form, 1, 4, 5))
    op, rules, check = form.split()[0], load_rules(_SHIPPED), ProofBook().check
    assert RecurrentLayers(rules, lambda made: made.op == op).next_trace(cell, check) is not None
    assert RecurrentLayers(rules, lambda made: made.op != op).next_trace(cell, check) is None


@pytest.mark.parametrize("form", ["LSTM hx", "GRU"])
def test_sequences_with_the_batch_first_are_transposed(form: str) -> None:
    x = var("x", tensor(1, 3, 4))
    steps = [make("Gather", (x,), {"axis": -2, "indices": k}) for k in range(3)]
    shown = [make("Unsqueeze", (h,), {"axes": (-2,)}) for h in _unrolled(steps, form, 1, 4, 5)]
    outputs = _rolled_up(make("Concat", shown, {"axis": -2}))
    left = sorted(t.op for t in topological(outputs) if not t.is_constant and t.op not in ("Out", "Var"))
    assert left == sorted([form.split()[0], "Squeeze", "Transpose", "Transpose", *left[4:]])
