"""The rules found by the enumeration so far, used to skip larger graphs that they rewrite.

A pair of equal graphs becomes a conjecture only if no smaller rule rewrites the larger graph at its root. If a rule
rewrites it, the rewritten graph is enumerated as well, and is equal to the same class. Rules are applied from larger to
smaller graphs in one fixed order (levels, then operators, then operands from the left, as in a Knuth-Bendix order), so
explanations are never circular. A rule that only permutes its operands, such as commutativity, is applied only towards
smaller operands.

In this file, a rule is a pair of graphs with equal fingerprints, without a proof. If the pair is not proven later, its
instances would not be proven either.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

import numpy as np
import numpy.typing as npt

from superopt.generate.enumeration.classes import Classes, Ids, Rows
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.ir.infer import IllTyped
from superopt.ir.term import Term, var
from superopt.ir.types import TensorType

__all__ = ["KnownRule", "KnownRules"]

# A variable or constant (number of the leaf), or an operator over patterns.
Tree: TypeAlias = Union[int, tuple[int, tuple["Tree", ...]]]
Bool = npt.NDArray[np.bool_]
_MAX_OPERAND_ORDERS = 16  # operand orders of a rule with commutative operators that are matched


@dataclass(frozen=True)
class KnownRule:
    """A rewrite of instances of `left` to instances of `right`.

    An `ordered` rule applies only if the operands of the left side come after those of the right side, compared from
    left to right.
    """

    left: Tree
    right: Tree
    ordered: bool
    folds: bool  # some operator on either side works on weights alone

    @property
    def use(self) -> int:
        """The operator at the root of the left side."""
        assert isinstance(self.left, tuple)
        return self.left[0]

    @property
    def operands(self) -> tuple[Tree, ...]:
        """The operands of the left side."""
        assert isinstance(self.left, tuple)
        return self.left[1]


class KnownRules:
    """The rules found so far, by the operator at the root of the left side."""

    def __init__(self, classes: Classes, evaluator: Evaluator) -> None:
        self.classes, self.evaluator = classes, evaluator
        self.found: dict[KnownRule, None] = {}
        self._by_use: dict[int, list[KnownRule]] = {}
        self._known: dict[tuple[KnownRule, tuple[int, ...]], bool] = {}  # True if the rule holds at these shapes

    def learn(self, rows: Rows, same: Ids) -> None:
        """Add rules from graphs to the smaller classes (`same`) that they are equal to."""
        for k in range(len(rows)):
            children = tuple(self.tree(int(c)) for c in rows.children[k] if c >= 0)
            right, shrinks = self.tree(int(same[k])), self._shrinks(rows, k, same)
            for left in itertools.islice(self._commuted((int(rows.use[k]), children)), _MAX_OPERAND_ORDERS):
                rule = self._oriented(left, right, shrinks)
                if rule is not None and rule not in self.found:
                    self.found[rule] = None
                    self._by_use.setdefault(rule.use, []).append(rule)

    def _shrinks(self, rows: Rows, k: int, same: Ids) -> bool:
        """Return True if graph k has more operators than the class that it is equal to."""
        c, other = self.classes.rows, int(same[k])
        left = (int(rows.runtime[k]), int(rows.folded[k]))
        return left > (int(c.runtime[other]), int(c.folded[other]))

    def tree(self, number: int) -> Tree:
        """Return the representative of a class as a tree."""
        if number < len(self.classes.leaves):
            return number
        children = self.classes.rows.children[number]
        return int(self.classes.rows.use[number]), tuple(self.tree(int(c)) for c in children if c >= 0)

    def _commuted(self, tree: Tree) -> Iterator[Tree]:
        """Yield the pattern with the operands of commutative operators in every order, itself first."""
        if isinstance(tree, int):
            yield tree
            return
        use, operands = tree
        for chosen in itertools.product(*(list(self._commuted(operand)) for operand in operands)):
            yield use, chosen
            if len(chosen) == 2 and self.classes.family.uses[use].spec.commutative and chosen[0] != chosen[1]:
                yield use, chosen[::-1]

    def _oriented(self, left: Tree, right: Tree, shrinks: bool) -> KnownRule | None:
        """Return the rule from `left` to `right`, or None if it may lead to a larger graph."""
        if Counter(_leaves(right)) - Counter(_leaves(left)):
            return None  # an instance of the right side may be larger
        folds = self._folds(left) or self._folds(right)
        if shrinks or _larger(left, right):
            return KnownRule(left, right, False, folds)
        if _skeleton(left) == _skeleton(right):
            return KnownRule(left, right, True, folds)
        return None

    def _folds(self, tree: Tree) -> bool:
        """Return True if some operator works on weights alone."""
        if isinstance(tree, int):
            return False
        return any(map(self._folds, tree[1])) or all(self.classes.weight[leaf] for leaf in _leaves(tree))

    def explained(self, rows: Rows) -> Bool:
        """Return True for each graph that some rule rewrites at its root."""
        result = np.zeros(len(rows), np.bool_)
        if not len(rows):
            return result
        below = np.where(rows.children >= 0, self.classes.rows.use[rows.children], -1)
        arity = (rows.children >= 0).sum(axis=1, keepdims=True)
        table = np.concatenate([rows.use[:, None], arity, below], axis=1)
        order = np.lexsort(table.T[::-1])
        table = table[order]
        starts = np.flatnonzero(np.concatenate([[True], (table[1:] != table[:-1]).any(axis=1)]))
        for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
            left = order[start:stop]
            use, count, *uses = table[start].tolist()
            for rule in self._by_use.get(use, ()):
                if not len(left):
                    break
                if len(rule.operands) == count and all(
                    isinstance(t, int) or t[0] == u for t, u in zip(rule.operands, uses, strict=False)
                ):
                    hit = self._rewrites(rule, rows.children[left])
                    result[left[hit]] = True
                    left = left[~hit]
        return result

    def _rewrites(self, rule: KnownRule, children: Ids) -> Bool:
        """Return True for each graph over `children` that the rule rewrites at its root."""
        bound: dict[int, Ids] = {}
        good = np.ones(len(children), np.bool_)
        for slot, operand in enumerate(rule.operands):
            good &= self._matches(operand, children[:, slot], bound)
        if rule.ordered:
            good &= _later([bound[v] for v in _leaves(rule.left)], [bound[v] for v in _leaves(rule.right)])
        elif not any(isinstance(operand, tuple) for operand in rule.operands):
            # If every variable is bound to a leaf, the graph is the rule itself and not a larger instance.
            good &= np.any([ids >= len(self.classes.leaves) for ids in bound.values()], axis=0)
        return good & self._fits(rule, bound, good)

    def _matches(self, tree: Tree, ids: Ids, bound: dict[int, Ids]) -> Bool:
        """Return True for each class that the pattern matches; `bound` gets the classes of its leaves."""
        c = self.classes
        if isinstance(tree, int):
            if tree in bound:
                return np.asarray(bound[tree] == ids)
            bound[tree] = ids
            if tree >= len(c.family.variables):
                return np.asarray(ids == tree)
            return np.ones(len(ids), np.bool_)
        use, operands = tree
        good = np.asarray((c.rows.use[ids] == use) & (ids >= len(c.leaves)))
        for slot, operand in enumerate(operands):
            below = c.rows.children[ids, slot]
            good &= below >= 0
            good &= self._matches(operand, np.where(good, below, 0), bound)
        return good

    def _fits(self, rule: KnownRule, bound: dict[int, Ids], good: Bool) -> Bool:
        """Return True for each match at which the rule applies.

        The rule must hold at the shapes of its variables, and the grammar must accept the right side. Variables for
        weights must be bound to weights: otherwise an operator that is folded in the rule may not be folded in the
        instance.
        """
        c = self.classes
        variables = [v for v in bound if v < len(c.family.variables)]
        result = np.zeros(len(good), np.bool_)
        at = np.flatnonzero(good)
        if rule.folds:
            for v in variables:
                at = at[c.weight[bound[v][at]] == c.weight[v]]
        for use, slot, v in _places(rule.right):
            if v in variables:
                at = at[self._accepted(use, slot, bound[v][at])]
        if not len(at) or not variables:
            result[at] = True
            return result
        shapes, inverse = np.unique(
            np.stack([c.shape[bound[v][at]] for v in variables], 1), axis=0, return_inverse=True
        )
        fits = np.array([self._holds(rule, variables, shape) for shape in shapes.tolist()])
        result[at] = fits[inverse.reshape(-1)]
        return result

    def _accepted(self, use: int, slot: int, ids: Ids) -> Bool:
        """Return True for each class that the grammar accepts at this operand, or at the other one if they commute."""
        c, wanted = self.classes, self.classes.family.uses[use]
        slots = (slot, 1 - slot) if wanted.spec.commutative and slot < 2 else (slot,)
        kinds, inverse = np.unique(
            np.stack([c.weight[ids], c.rows.folded[ids], c.maker[ids]], 1).astype(np.int32), axis=0, return_inverse=True
        )
        fits = [
            any(wanted.accepts(at, bool(weight), folded, *c.makers[maker]) for at in slots)
            for weight, folded, maker in kinds.tolist()
        ]
        return np.array(fits, np.bool_)[inverse.reshape(-1)]

    def _holds(self, rule: KnownRule, variables: list[int], shapes: list[int]) -> bool:
        """Return True if the rule holds at these shapes of its variables, by fingerprints."""
        key = (rule, tuple(shapes))
        if key not in self._known:
            c = self.classes
            terms = {v: var(f"v{v}", TensorType("float", c.shapes[k])) for v, k in zip(variables, shapes, strict=True)}
            terms |= {k: term for k, term in enumerate(c.leaves) if k >= len(c.family.variables)}
            try:
                left, right = (self._term(side, terms) for side in (rule.left, rule.right))
                self._known[key] = left.type == right.type and self.evaluator.key(left) == self.evaluator.key(right)
            except IllTyped:
                self._known[key] = False
            self.evaluator.forget()
        return self._known[key]

    def _term(self, tree: Tree, leaves: Mapping[int, Term]) -> Term:
        if isinstance(tree, int):
            return leaves[tree]
        operands = [self._term(operand, leaves) for operand in tree[1]]
        shapes = tuple((o.type.concrete() if o.type is not None else None) or () for o in operands)
        return self.classes.family.uses[tree[0]].term(operands, shapes)

    def irreducible(self, use: int, slot: int, operands: Sequence[Ids]) -> Ids:
        """Return the classes for operand `slot`, without those with which a rule rewrites every graph of the block.

        Such a rule matches whatever the classes of the other operands are.
        """
        ids = operands[slot]
        for rule in self._by_use.get(use, ()):
            if rule.ordered or len(rule.operands) != len(operands) or not isinstance(rule.operands[slot], tuple):
                continue
            inner = rule.operands[slot]
            others = {k: o for k, o in enumerate(rule.operands) if k != slot}
            free = [o for o in others.values() if isinstance(o, int) and o < len(self.classes.family.variables)]
            if len(free) < len(others) or len(set(free)) < len(free) or set(free) & set(_leaves(inner)):
                continue
            if rule.folds and any(len(set(self.classes.weight[operands[k]].tolist())) > 1 for k in others):
                continue
            bound: dict[int, Ids] = {}
            good = self._matches(inner, ids, bound)
            for k, other in others.items():
                assert isinstance(other, int)
                bound[other] = np.full(len(ids), operands[k][0], np.int32)  # all of one shape
            ids = ids[~(good & self._fits(rule, bound, good))]
        return ids


def _leaves(tree: Tree) -> Iterator[int]:
    """Yield the leaves from left to right."""
    if isinstance(tree, int):
        yield tree
    else:
        for operand in tree[1]:
            yield from _leaves(operand)


def _places(tree: Tree) -> Iterator[tuple[int, int, int]]:
    """Yield (operator, operand number, leaf) for each leaf below an operator."""
    if isinstance(tree, tuple):
        for slot, operand in enumerate(tree[1]):
            if isinstance(operand, int):
                yield tree[0], slot, operand
            else:
                yield from _places(operand)


def _skeleton(tree: Tree) -> object:
    """Return the tree without its leaves."""
    return None if isinstance(tree, int) else (tree[0], tuple(_skeleton(t) for t in tree[1]))


def _size(tree: Tree) -> int:
    """Return the number of operators."""
    return 0 if isinstance(tree, int) else 1 + sum(map(_size, tree[1]))


def _larger(left: Tree, right: Tree) -> bool:
    """Return True if every instance of `left` is larger than the instance of `right` with the same variables.

    `right` must have as many operators as `left`, and no more leaves.
    """
    if isinstance(left, int) or isinstance(right, int):
        return _contains(left, right)
    if left[0] != right[0]:
        return left[0] > right[0]
    for one, other in zip(left[1], right[1], strict=False):
        if one != other:
            if _contains(one, other):
                return True
            smaller = not Counter(_leaves(other)) - Counter(_leaves(one))
            return smaller and _size(one) >= _size(other) and (_size(one) > _size(other) or _larger(one, other))
    return False


def _contains(tree: Tree, part: Tree) -> bool:
    """Return True if `part` is a proper part of `tree`."""
    return isinstance(tree, tuple) and any(t == part or _contains(t, part) for t in tree[1])


def _later(one: Sequence[Ids], other: Sequence[Ids]) -> Bool:
    """Return True for each row in which `one` comes after `other`, compared from the left."""
    result = np.zeros(len(one[0]), np.bool_)
    open_ = np.ones(len(one[0]), np.bool_)
    for a, b in zip(one, other, strict=True):
        result |= open_ & (a > b)
        open_ &= a == b
    return result
