"""Conjectures: equal pairs of an enumeration, without renamed duplicates and special cases, as equations of terms.

An equation is still ground: its variables have the sizes at which it was found. `generalise` makes rules of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from superopt.generate.conjectures.equation import Equation, variables
from superopt.generate.enumeration.classes import ARITY, Classes, Ids, leaves_of, mixed
from superopt.generate.enumeration.deduplicate import patterns
from superopt.generate.enumeration.enumerator import Enumeration
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.field import KERNELS
from superopt.ir.infer import make
from superopt.ir.term import Term, topological

__all__ = ["conjectures", "joint"]

_STEP = 1 << 14  # values cut into halves at once


def _is_special(equation: Equation) -> bool:
    """Whether an operator of a large equation has one value as two operands: some equation with two values is meant."""
    if equation.size[1] <= 2:
        return False
    for term in topological(equation.lhs + equation.rhs):
        operands = [i for i in term.inputs if i is not None and (i.inputs or i.op == "Var")]
        if term.op != "BatchNormalization" and len(operands) > len(set(operands)):
            return True
    return False


def conjectures(state: Enumeration, evaluator: Evaluator) -> list[Equation]:
    """Equations of one output and of two, smallest first."""
    build = _Builder(state.classes)
    found: dict[tuple[Term, Term], Equation] = {}
    for use, children, same in zip(state.rows.use.tolist(), state.rows.children, state.same.tolist(), strict=True):
        left, right = build.graph(use, children), build.of(same)
        if left is not right:
            found[left, right] = Equation((left,), (right,), state.classes.family)
    equations = list(found.values())
    if state.classes.family.joint:
        equations = _together(equations, state.classes.family.joint)
    for axis in state.classes.family.split_axes:
        equations += _halved(state, evaluator, build, axis)
    return sorted((e for e in equations if not _is_special(e)), key=lambda e: e.size)


def joint(equations: Sequence[Equation], op: str) -> Iterator[Equation]:
    """Rules of several outputs: equations in which the same application of `op` stands on one side, as one."""
    by_node: dict[Term, dict[Term, Term]] = {}  # what is made of the node's outputs, and what else that is
    for equation in equations:
        for (apart,), (of_node,) in ((equation.lhs, equation.rhs), (equation.rhs, equation.lhs)):
            nodes = [t for t in topological((of_node,)) if t.op == op]
            needed = set(variables((apart,)))
            if len(nodes) == 1 and needed <= set(variables(nodes)) and nodes[0] not in topological((apart,)):
                sides = by_node.setdefault(nodes[0], {})
                if apart not in sides.values():  # the smallest that it is equal to
                    sides.setdefault(of_node, apart)
    for sides in by_node.values():
        if len(sides) > 1:
            yield Equation(tuple(sides.values()), tuple(sides), equations[0].family)


def _together(equations: Sequence[Equation], op: str) -> list[Equation]:
    """With those of several outputs instead of their parts; a law of an output of `op` itself stays, as it may hold at
    sizes at which the others do not."""
    several = list(joint(equations, op))
    parts = set[tuple[Term, Term]]()
    for apart, of_node in (pair for e in several for pair in zip(e.lhs, e.rhs, strict=True)):
        if of_node.inputs[0] is None or of_node.inputs[0].op != op:
            parts |= {(apart, of_node), (of_node, apart)}
    return [*(e for e in equations if (e.lhs[0], e.rhs[0]) not in parts), *several]


class _Builder:
    """Terms of classes, made when they are asked for."""

    def __init__(self, classes: Classes) -> None:
        self.classes = classes
        self.terms: dict[int, Term] = dict(enumerate(classes.leaves))

    def of(self, number: int) -> Term:
        """The representative of a class."""
        if number not in self.terms:
            rows = self.classes.rows
            self.terms[number] = self.graph(int(rows.use[number]), rows.children[number])
        return self.terms[number]

    def graph(self, use: int, children: npt.NDArray[np.int32]) -> Term:
        """The graph of one operator over representatives."""
        inputs = [int(c) for c in children if c >= 0]
        shapes = tuple(self.classes.shapes[self.classes.shape[c]] for c in inputs)
        return self.classes.family.uses[use].term([self.of(c) for c in inputs], shapes)


def _halved(state: Enumeration, evaluator: Evaluator, build: _Builder, axis: int) -> Iterator[Equation]:
    """Rules of two outputs from a common core: both halves of a value along `axis` are known graphs."""
    classes = state.classes
    others = _without_split(state)

    def parts_of(number: int) -> Term | None:
        """What a class is, other than a part of a Split or a leaf."""
        if number < len(classes.leaves):
            return None
        if classes.family.uses[int(classes.rows.use[number])].op != "Split":
            return build.of(number)
        return build.graph(*others[number]) if number in others else None

    for number, shape in enumerate(classes.shapes):
        if len(shape) < -axis or shape[axis] % 2 or not len(classes.members[number]):
            continue
        ids = classes.members[number]
        ids = ids[~classes.weight[ids] & (classes.rows.runtime[ids] > 0)]
        half = (*shape[: len(shape) + axis], shape[axis] // 2, *shape[len(shape) + axis + 1 :])
        for start in range(0, len(ids), _STEP):
            some = ids[start : start + _STEP]
            sides = []
            for index in (0, 1):
                attrs = {"axis": axis, "split": (half[axis], half[axis]), "index": index}
                cut = KERNELS["Split"]([classes.value(some)], [shape], attrs, half)
                sides.append(classes.lookup(half, evaluator.hasher.keys(cut, half)))
            yield from _cores(classes, some, sides, build, parts_of, axis, half[axis])


def _cores(
    classes: Classes,
    ids: Ids,
    sides: list[Ids],
    build: _Builder,
    parts_of: Callable[[int], Term | None],
    axis: int,
    half: int,
) -> Iterator[Equation]:
    rows = np.flatnonzero((sides[0] >= 0) & (sides[1] >= 0))
    children = np.full((len(rows), ARITY), -1, dtype=np.int32)
    children[:, 0], children[:, 1], children[:, 2] = sides[0][rows], sides[1][rows], ids[rows]
    sequence, fits = leaves_of(classes, children)
    table = [classes.structure[children[:, :3]], patterns(sequence).astype(np.uint64)]
    _, first = np.unique(mixed(np.concatenate(table, axis=1)), return_index=True)
    for row in np.sort(first).tolist():
        core = build.of(int(children[row, 2]))
        if core.op == "Concat" or not fits[row]:
            continue  # these parts are those of the Concat
        node = make("Split", (core,), {"axis": axis, "split": (half, half)})
        left = (parts_of(int(children[row, 0])), parts_of(int(children[row, 1])))
        if left[0] is not None and left[1] is not None and left[0] is not left[1]:
            yield Equation((left[0], left[1]), (node.out(0), node.out(1)), classes.family)


def _without_split(state: Enumeration) -> dict[int, tuple[int, npt.NDArray[np.int32]]]:
    """For each class the first graph in it, its representative aside, that is not a part of a Split."""
    splits = [number for number, use in enumerate(state.classes.family.uses) if use.op == "Split"]
    found: dict[int, tuple[int, npt.NDArray[np.int32]]] = {}
    for row in np.flatnonzero(~np.isin(state.rows.use, splits)):
        found.setdefault(int(state.same[row]), (int(state.rows.use[row]), state.rows.children[row]))
    return found
