"""The vectorised enumeration against slow and plain definitions of the same."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from superopt.evaluate.residues import P
from superopt.generate.conjectures.equal_pairs import conjectures
from superopt.generate.derive import Deriver, FingerprintCheck
from superopt.generate.enumeration.blocks import renamed_apart
from superopt.generate.enumeration.classes import Classes, Rows
from superopt.generate.enumeration.enumerator import _Enumerator, enumerate_family
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.enumeration.known_rules import Tree
from superopt.generate.enumeration.modular_matmul import add, product, reduced
from superopt.generate.families import FAMILIES
from superopt.generate.grammar import Family, Use, binary, concat, inputs, splits, transpose, unary
from superopt.ir.infer import IllTyped
from superopt.ir.notation import parse_terms, show_rule, show_terms
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological

MATRICES = Family(
    "matrix",
    inputs("a b c", (2, 2)),
    (*binary("MatMul Add"), *unary("Relu"), *transpose((1, 0)), *concat(-1)),
    runtime=3,
    elements=8,
)


def _every_graph(family: Family, operators: int) -> dict[int, list[Term]]:
    """Return all graphs by number of operators, built one at a time. A shared subgraph counts once for each use."""
    evaluator = Evaluator(0)
    state = enumerate_family(family, evaluator, operators=1)
    levels: dict[int, list[Term]] = {0: list(state.classes.leaves)}
    for count in range(1, operators + 1):
        found: dict[Term, None] = {}
        for use in family.uses:
            for split in itertools.product(range(count), repeat=use.arities[0]):
                if sum(split) == count - 1:
                    for operands in itertools.product(*(levels[k] for k in split)):
                        shapes = tuple(t.type.concrete() or () for t in operands if t.type is not None)
                        try:
                            term = use.term(operands, shapes)
                        except IllTyped:
                            continue
                        if term.type is not None and family.admits(term.type.concrete() or ()):
                            found[term] = None
        levels[count] = list(found)
    return levels


def test_products_are_exact() -> None:
    rng = np.random.default_rng(0)
    for rows, depth, columns in ((3, 1, 2), (5, 32, 4), (2, 33, 3), (4, 200, 5)):
        a = rng.integers(P - 3, P, (rows, depth), dtype=np.uint64)
        b = rng.integers(0, P, (depth, columns), dtype=np.uint64)
        exact = [[sum(int(x) * int(y) for x, y in zip(r, c, strict=True)) % P for c in b.T] for r in a]
        assert product(a, b).tolist() == exact
    assert product(np.zeros((2, 0), np.uint64), np.zeros((0, 3), np.uint64)).tolist() == [[0] * 3] * 2
    edges = np.array([0, 1, P - 1, P, P + 1, 2**53, 2**61 - 1], np.uint64)
    assert reduced(edges.copy()).tolist() == [int(e) % P for e in edges]
    assert add(np.array([P - 1], np.uint64), np.array([P - 1], np.uint64)).tolist() == [P - 2]


_BLOCKS, _ELEMENTS = 40, 20_000  # blocks of a family, and elements of their values: most families have a few hundred
_MODULAR = [k for k, family in enumerate(FAMILIES) if not family.reals]


@pytest.mark.parametrize("number", _MODULAR, ids=lambda k: f"{k}-{FAMILIES[k].name}")
def test_linear_fingerprints_equal_fingerprints_of_values(number: int) -> None:
    """Blocks of every family: fingerprints by matrix products against fingerprints of computed values."""
    evaluator = Evaluator(0)
    worker = _Enumerator(FAMILIES[number], evaluator, (0, 1), 1 << 30)
    worker.run(1)
    rng = np.random.default_rng(number)
    blocks = worker.builder.blocks(1, range(max(FAMILIES[number].folded) + 1))
    for at in rng.permutation(len(blocks))[: min(_BLOCKS, _ELEMENTS // (FAMILIES[number].elements or 1))]:
        flat, keys = zip(*worker.fingerprints.keys(blocks[at]), strict=True)
        flats, key = np.concatenate(flat), np.concatenate(keys)
        assert len(flats) == blocks[at].graphs == len(set(flats.tolist()))
        some = np.sort(rng.permutation(len(flats))[:50])
        values = np.concatenate(list(worker.fingerprints.values(blocks[at], flats[some])))
        np.testing.assert_array_equal(evaluator.hasher.keys(values, blocks[at].out), key[some])


def test_the_enumeration_has_a_class_for_every_graph() -> None:
    evaluator = Evaluator(0)
    state = enumerate_family(MATRICES, evaluator, operators=3)  # the last level has no classes of its own
    for terms in _every_graph(MATRICES, 2).values():
        for term in terms:
            shape, key = evaluator.key(term)
            assert state.classes.lookup(shape, np.array([key], np.uint64))[0] >= 0, term


def test_conjectures_explain_all_equal_graphs() -> None:
    """Conjectures are few, and every pair of equal graphs follows from them.

    Except for rules of a doubled operand, such as MatMul(Add(a, a), b) = MatMul(a, Add(b, b)), which are left out as
    special cases.
    """
    evaluator = Evaluator(0)
    rules = [Rule(e.lhs, e.rhs) for e in conjectures(enumerate_family(MATRICES, evaluator, operators=2), evaluator)]
    assert len(rules) < 20
    plain = [Rule(*(_untyped(side) for side in (rule.lhs, rule.rhs))) for rule in rules]
    deriver = Deriver(plain, FingerprintCheck(evaluator))
    groups: dict[object, list[Term]] = {}
    for terms in _every_graph(MATRICES, 2).values():
        for term in terms:
            groups.setdefault(evaluator.key(term), []).append(term)
    pairs = [(group[0], other) for group in groups.values() for other in group[1:]]
    assert len(pairs) > 100
    for one, other in pairs:
        if deriver.derive((one,), (other,), 4) is None:
            doubled = [t for t in topological((one, other)) if len(t.inputs) == 2 and t.inputs[0] is t.inputs[1]]
            assert doubled, (one, other)


def _untyped(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    return parse_terms(show_terms(terms))


def test_renaming_gives_all_graphs() -> None:
    """Renaming the variables of the enumerated graphs gives every graph of the block."""
    family = Family("f", (*inputs("a b c", (2, 2)), *inputs("s", ())), (Use("MatMul"), Use("Mul", slots=("*", "s"))), 3)
    worker = _Enumerator(family, Evaluator(0), (0, 1), 1 << 30)
    worker.run(2)
    for block in worker.builder.blocks(2, range(1)):
        parts = list(renamed_apart(worker.classes, block))
        assert sum(part.graphs for part in parts) <= block.graphs
        found: set[Tree] = set()
        for part in parts:
            found |= set(_trees(worker.classes, part.rows(np.arange(part.graphs))))
        renamings = [dict(zip((0, 1, 2), image, strict=True)) for image in itertools.permutations((0, 1, 2))]
        everything = set(_trees(worker.classes, block.rows(np.arange(block.graphs))))
        assert {_renamed(tree, names) for tree in found for names in renamings} >= everything


def _trees(classes: Classes, rows: Rows) -> list[Tree]:
    def tree(number: int) -> Tree:
        if number < len(classes.leaves):
            return number
        row = classes.rows
        return (int(row.use[number]), tuple(tree(int(c)) for c in row.children[number] if c >= 0))

    return [
        (int(use), tuple(tree(int(c)) for c in children if c >= 0))
        for use, children in zip(rows.use, rows.children, strict=True)
    ]


def _renamed(tree: Tree, names: dict[int, int]) -> Tree:
    if isinstance(tree, int):
        return names.get(tree, tree)
    return (tree[0], tuple(_renamed(t, names) for t in tree[1]))


@pytest.mark.parametrize("operators", [2, 3, 4])
def test_parts_and_memory_change_nothing(operators: int) -> None:
    family = Family(
        "f", inputs("a b c d", (2, 4)), (*binary("Add Mul"), *unary("Relu"), *concat(-1), *splits(-1)), 4, elements=16
    )
    whole = _found(family, operators, [(0, 1)], None)
    assert whole
    assert _found(family, operators, [(k, 3) for k in range(3)], None) >= whole  # some pairs occur with two namings
    assert _found(family, operators, [(0, 1)], 20_000) == whole


def _found(family: Family, operators: int, parts: list[tuple[int, int]], memory: int | None) -> set[str]:
    found: set[str] = set()
    for part in parts:
        evaluator = Evaluator(0)
        state = enumerate_family(family, evaluator, operators=operators, part=part, memory=memory)
        found |= {_named_in_order(show_rule(Rule(e.lhs, e.rhs))) for e in conjectures(state, evaluator)}
    return found


def _named_in_order(text: str) -> str:
    names = dict.fromkeys(re.findall(r"\b[a-d]\b", text))
    order = {name: f"v{k}" for k, name in enumerate(names)}
    return re.sub(r"\b[a-d]\b", lambda found: order[found[0]], text)


def test_closed_form_constants_and_weights_are_leaves() -> None:
    family = Family("f", inputs("x", (2, 2)), (Use("MatMul"),), 1, constants=(("Eye", {"n": 2}), ("Eye", {"n": 2})))
    state = enumerate_family(family, Evaluator(0))
    assert [t.op for t in state.classes.leaves] == ["Var", "Eye"]  # the second Eye is the same
    assert {t.op for e in conjectures(state, Evaluator(0)) for t in topological(e.lhs)} == {"Var", "Eye", "MatMul"}
