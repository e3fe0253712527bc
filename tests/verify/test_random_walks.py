"""Random graphs, rewritten at random by all shipped rules wherever the kernel allows it: values must not change.

This drives matching, signatures, conditions and proofs made on the spot together, at sizes and attributes that nobody
chose: sizes of 1 that broadcast, vectors as matrices, odd strides, groups. `superopt.evaluate` is the judge.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from functools import cache

import numpy as np
import pytest

from scripts.fuzzing.instances import concrete
from superopt.evaluate import evaluate
from superopt.ir.dim import symbol, symbols_of
from superopt.ir.infer import IllTyped, make, replace
from superopt.ir.notation import show_graph, show_rule
from superopt.ir.pattern import instantiate
from superopt.ir.rule import Condition, Rule
from superopt.ir.term import Attr, Term, var
from superopt.ir.types import tensor
from superopt.properties import is_real, jumping_operands
from superopt.rulebook.loading import certified_rules, load_rules
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.matcher import Matcher
from superopt.search.match.rule_index import RuleIndex
from tests.support.random_values import random_values, real_type
from verify.certificates import CertifiedBook
from verify.verdict import Proved

UNARY = ["Neg", "Relu", "Sigmoid", "Tanh", "Identity"]


@cache
def rules() -> list[Rule]:
    return load_rules(None)


@cache
def rule_set() -> RuleIndex:
    return RuleIndex(rules())


@cache
def book() -> CertifiedBook:
    return CertifiedBook(certified_rules()[1])


def shape(term: Term) -> tuple[int, ...]:
    assert term.type is not None
    found = term.type.concrete()
    assert found is not None
    return found


def leaves(rng: random.Random) -> list[Term]:
    """Inputs whose sizes are often equal and often 1, so that much fits together."""
    n, c, h = rng.choice([1, 2]), rng.choice([1, 2, 3]), rng.choice([3, 4])
    m, k = rng.choice([1, 2, 3]), rng.choice([2, 3])
    shapes = [(n, c, h, h), (n, c, h, h), (c, c, 3, 3), (c, c, 1, 1), (c, 1, 3, 3), (c, c, 3, 3), (c,), (c,)]
    shapes += [(m, k), (m, k), (k, k), (k, m), (n, m, k), (k,), (1, k), (m, 1), (1,), (), (c, 1, 1), (1, c, 1, 1)]
    found = [var(f"v{i}", tensor(*s, dtype="double")) for i, s in enumerate(shapes)]
    constants: list[tuple[str, dict[str, Attr]]] = [
        ("Zeros", {"shape": (m, k)}), ("Zeros", {"shape": ()}), ("Ones", {"shape": (k,)}), ("Eye", {"n": k}),
        ("Zeros", {"shape": (c,)}), ("Dirac", {"group": c, "shape": (c, 1, 3, 3)}), ("Ones", {"shape": (c, 1, 1, 1)}),
    ]  # fmt: skip
    return found + [make(op, (), attrs, dtype="double") for op, attrs in constants]


def grown(pool: list[Term], rng: random.Random) -> list[Term]:
    """One more operator over values of the pool: its outputs. Raises IllTyped where what was drawn does not fit."""
    x, y, z = (rng.choice(pool) for _ in range(3))
    rank = len(shape(x))
    kind = rng.choice(
        ["unary", "binary", "binary", "matmul", "matmul", "gemm", "layout", "split", "conv", "conv", "bn"]
    )
    if kind == "unary":
        return [make(rng.choice(UNARY), (x,))]
    if kind == "binary":
        return [make(rng.choice(["Add", "Sub", "Mul", "Sum"]), (x, y))]
    if kind == "matmul":
        return [make("MatMul", (x, y))]
    if kind == "gemm":
        attrs: dict[str, Attr] = {"alpha": rng.choice([1.0, 0.5]), "beta": rng.choice([1.0, 2.0])}
        attrs |= {"transA": rng.randint(0, 1), "transB": rng.randint(0, 1)}
        return [make("Gemm", (x, y, z) if rng.random() < 0.5 else (x, y), attrs)]
    if kind == "conv":
        pads = tuple(rng.choice([(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 2, 1)]))
        strides = rng.choice([(1, 1), (1, 1), (2, 2), (1, 2)])
        data = rng.choice([t for t in pool if len(shape(t)) == 4])
        kernel = rng.choice([t for t in pool if len(shape(t)) == 4])
        group = max(1, shape(data)[1] // shape(kernel)[1])
        conv_attrs: dict[str, Attr] = {"dilations": (1, 1), "group": group, "pads": pads, "strides": strides}
        bias = rng.choice([t for t in pool if len(shape(t)) == 1])
        return [make("Conv", (data, kernel, bias) if rng.random() < 0.5 else (data, kernel), conv_attrs)]
    if kind == "bn":
        data = rng.choice([t for t in pool if len(shape(t)) >= 2])
        fits = [t for t in pool if shape(t) == shape(data)[1:2] and t.op == "Var"]
        if not fits:
            raise IllTyped("no parameters")
        return [make("BatchNormalization", (data, *(rng.choice(fits) for _ in range(4))), {"epsilon": 0.25})]
    if rank == 0:
        raise IllTyped("a scalar has no axis")
    axis = rng.randrange(-rank, 0)
    size = shape(x)[axis]
    if kind == "split":
        first = rng.randint(0, size)
        node = make("Split", (x,), {"axis": axis, "split": (first, size - first)})
        return [node.out(0), node.out(1)] if 0 < first < size else []
    how = rng.choice(["Concat", "Transpose", "Pad", "Slice", "Unsqueeze", "Squeeze", "ReduceSum"])
    if how == "Concat":
        return [make("Concat", (x, y), {"axis": axis})]
    if how == "Transpose":
        return [make("Transpose", (x,), {"perm": tuple(rng.sample(range(rank), rank))})]
    if how == "Pad":
        return [make("Pad", (x,), {"pads": tuple(rng.choice([0, 0, 1]) for _ in range(2 * rank)), "value": 0.0})]
    if how == "Slice":
        start = rng.randrange(size)
        where: dict[str, Attr] = {"axes": (axis,), "starts": (start,), "ends": (rng.randint(start + 1, size),)}
        return [make("Slice", (x,), where | {"steps": (1,)})]
    if how == "ReduceSum":
        return [make("ReduceSum", (x,), {"axes": (axis,), "keepdims": rng.randint(0, 1)})]
    return [make(how, (x,), {"axes": (axis,)})]


def graph(rng: random.Random, operators: int) -> tuple[Term, ...]:
    pool = leaves(rng)
    least = len(pool)
    for _ in range(1000):
        if len(pool) >= least + operators:
            break
        try:
            made = grown(pool, rng)
        except IllTyped:
            continue
        pool += [
            t for t in made if np.prod(shape(t)) <= 2000 and len(shape(t)) <= 4
        ] * 2  # new values come up more often
    return tuple(dict.fromkeys(t for t in pool[least:] if not t.is_constant)) or (pool[0],)


def instance(rng: random.Random) -> tuple[Term, ...]:
    """A side of a shipped rule at sizes and symbolic attributes drawn at random from those that its proof allows."""
    rule = rng.choice(rules())
    signature = rng.choice(rule.signatures)
    verdict = book().verdict(rule, signature)
    assert isinstance(verdict, Proved)
    drawn: tuple[Condition, ...] = ()
    symbols = sorted({name for c in verdict.conditions for side in (c.left, c.right) for name in symbols_of(side)})
    for name in rng.sample(symbols, min(4, len(symbols))):
        wanted = (*drawn, Condition("==", symbol(name), rng.choice([1, 1, 2, 3])))
        if concrete(signature, verdict.conditions + wanted, 8, 1, real_type(rule)) is not None:
            drawn = wanted
    bindings = concrete(signature, verdict.conditions + drawn, 8, 1, real_type(rule))
    if bindings is None:  # its proof needs sizes above 8, as a signature that a model asked for may
        return instance(rng)
    return instantiate(rng.choice([rule.lhs, rule.rhs]), bindings, bindings.dtype() or "double")


def decides_at_a_jump(outputs: tuple[Term, ...], env: dict[Term, np.ndarray]) -> bool:
    """True if rounding may decide: two compared numbers are equal, or a number that is rounded is half of an integer.

    Both sides of x <= x + y - y are equal numbers, and so is one of them after any rewrite by a true rule.
    """
    for term in GraphIndex(outputs).computed:
        operands = [operand for operand in jumping_operands(term) if is_real(operand)]
        values = [value.astype(float) for value in evaluate(operands, env, {})]
        distances = [2 * value - np.round(2 * value) for value in values] if len(values) == 1 else []
        distances += [a - b for a, b in itertools.combinations(values, 2)]
        if any((np.abs(distance) <= 1e-7).any() for distance in distances):
            return True
    return False


def walk(seed: int, steps: int, used: Counter[str]) -> None:
    rng = random.Random(seed)
    outputs = instance(rng) if seed % 3 else graph(rng, 12)
    values = np.random.default_rng(seed)
    env = {t: random_values(values, t, 0.5, 1.5) for t in GraphIndex(outputs).position if t.op == "Var"}
    try:
        expected = evaluate(outputs, env, {})
    except IndexError:  # out of range: nothing is claimed
        return
    matcher = Matcher(rule_set())
    for _ in range(steps):
        found = list(matcher.matches(GraphIndex(outputs)))
        rng.shuffle(found)
        found.sort(key=lambda move: used[move.compiled.rule_id])  # rules that have hardly been used first
        for move in found[:40]:
            if book().check(move.compiled.rule, move.bindings) is not None:
                before = outputs
                outputs = replace(outputs, dict(zip(move.roots, move.results, strict=True)))
                used[move.compiled.rule_id] += 1
                break
        else:
            return
        for got, wanted in zip(evaluate(outputs, env, {}), expected, strict=True):
            assert got.shape == wanted.shape
            if np.isfinite(wanted).all():
                scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
                is_close = np.allclose(got, wanted, rtol=1e-7, atol=1e-7 * scale)
                if not is_close and decides_at_a_jump(before, env):
                    return
                assert is_close, f"{show_rule(move.compiled.rule)}\nwith {move.bindings}\nin {show_graph(before)}"
        if len(GraphIndex(outputs).position) > 150:
            return


def test_random_walks_keep_values() -> None:
    used: Counter[str] = Counter()
    for seed in range(60):
        walk(seed, 20, used)
    assert len(used) > 80


@pytest.mark.long
def test_long_random_walks_keep_values() -> None:
    used: Counter[str] = Counter()
    for seed in range(1000, 1400):
        walk(seed, 25, used)
    assert len(used) > 180
