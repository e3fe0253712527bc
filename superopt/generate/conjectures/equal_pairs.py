"""Makes equations from the equal pairs of an enumeration, without renamed duplicates and special cases.

The equations are ground: their variables have the sizes at which they were found. `superopt.generate.generalise` turns
equations into rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from superopt.evaluate.modular import compute
from superopt.generate.conjectures.ground_equation import GroundEquation, variables
from superopt.generate.enumeration.classes import ARITY, Classes, Ids, leaves_of, mixed
from superopt.generate.enumeration.deduplicate import patterns
from superopt.generate.enumeration.enumerator import Enumeration
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.ir.infer import make
from superopt.ir.term import Term, topological
from superopt.properties import joins

__all__ = ["Builder", "conjectures", "joint"]

_CHUNK = 1 << 14  # number of values that are cut into halves at once


def _is_special(equation: GroundEquation) -> bool:
    """Return True if an operator of a large equation has the same value as two operands.

    Such an equation is a special case of one with two values.
    """
    if equation.size[1] <= 2:
        return False
    for term in topological(equation.lhs + equation.rhs):
        operands = [i for i in term.inputs if i is not None and (i.inputs or i.op == "Var")]
        if term.op != "BatchNormalization" and len(operands) > len(set(operands)):
            return True
    return False


def conjectures(state: Enumeration, evaluator: Evaluator) -> list[GroundEquation]:
    """Return the equations with one output and with two outputs, smallest first."""
    build = Builder(state.classes)
    found: dict[tuple[Term, Term], GroundEquation] = {}
    for use, children, same in zip(state.rows.use.tolist(), state.rows.children, state.same.tolist(), strict=True):
        left, right = build.graph(use, children), build.of(same)
        if left is not right:
            found[left, right] = GroundEquation((left,), (right,), state.classes.family)
    equations = list(found.values())
    if state.classes.family.joint:
        equations = _with_joint(equations, state.classes.family.joint)
    for axis in state.classes.family.split_axes:
        equations += _halved(state, evaluator, build, axis)
    return sorted((e for e in equations if not _is_special(e)), key=lambda e: e.size)


def joint(equations: Sequence[GroundEquation], op: str) -> Iterator[GroundEquation]:
    """Yield equations with several outputs, each combining equations with the same application of `op` on one side."""
    by_node: dict[Term, dict[Term, Term]] = {}  # graph over the node's outputs -> equal graph without the node
    for equation in equations:
        for (apart,), (of_node,) in ((equation.lhs, equation.rhs), (equation.rhs, equation.lhs)):
            nodes = [t for t in topological((of_node,)) if t.op == op]
            needed = set(variables((apart,)))
            if len(nodes) == 1 and needed <= set(variables(nodes)) and nodes[0] not in topological((apart,)):
                sides = by_node.setdefault(nodes[0], {})
                if apart not in sides.values():  # keep the smallest equal graph
                    sides.setdefault(of_node, apart)
    for sides in by_node.values():
        if len(sides) > 1:
            yield GroundEquation(tuple(sides.values()), tuple(sides), equations[0].family)


def _with_joint(equations: Sequence[GroundEquation], op: str) -> list[GroundEquation]:
    """Return the equations, with the joint equations in place of the equations that they combine.

    An equation for an output of `op` itself is kept, because it may hold at sizes at which the joint one does not.
    """
    several = list(joint(equations, op))
    parts = set[tuple[Term, Term]]()
    for apart, of_node in (pair for e in several for pair in zip(e.lhs, e.rhs, strict=True)):
        if of_node.inputs[0] is None or of_node.inputs[0].op != op:
            parts |= {(apart, of_node), (of_node, apart)}
    return [*(e for e in equations if (e.lhs[0], e.rhs[0]) not in parts), *several]


class Builder:
    """Builds the terms of classes on demand."""

    def __init__(self, classes: Classes) -> None:
        self.classes = classes
        self.terms: dict[int, Term] = dict(enumerate(classes.leaves))

    def of(self, number: int) -> Term:
        """Return the representative of a class as a term."""
        if number not in self.terms:
            rows = self.classes.rows
            self.terms[number] = self.graph(int(rows.use[number]), rows.children[number])
        return self.terms[number]

    def graph(self, use: int, children: npt.NDArray[np.int32]) -> Term:
        """Return the graph of one operator over representatives as a term."""
        inputs = [int(c) for c in children if c >= 0]
        shapes = tuple(self.classes.shapes[self.classes.shape[c]] for c in inputs)
        return self.classes.family.uses[use].term([self.of(c) for c in inputs], shapes)


def _halved(state: Enumeration, evaluator: Evaluator, build: Builder, axis: int) -> Iterator[GroundEquation]:
    """Yield equations of two outputs, the halves of one value along `axis`.

    There is such an equation for each value whose halves are both equal to known graphs.
    """
    classes = state.classes
    others = _without_split(state)

    def parts_of(number: int) -> Term | None:
        """Return a graph of the class that is neither a leaf nor a part of a Split, or None."""
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
        for start in range(0, len(ids), _CHUNK):
            some = ids[start : start + _CHUNK]
            sides = []
            for index in (0, 1):
                attrs = {"axis": axis, "split": (half[axis], half[axis]), "index": index}
                cut = compute("Split", [classes.value(some)], [shape], attrs, half)
                sides.append(classes.lookup(half, evaluator.hasher.keys(cut, half)))
            yield from _cores(classes, some, sides, build, parts_of, axis, half[axis])


def _cores(
    classes: Classes,
    ids: Ids,
    sides: list[Ids],
    build: Builder,
    parts_of: Callable[[int], Term | None],
    axis: int,
    half: int,
) -> Iterator[GroundEquation]:
    """Yield the equations for the values `ids`, whose halves are in the classes `sides`, without renamed duplicates."""
    rows = np.flatnonzero((sides[0] >= 0) & (sides[1] >= 0))
    children = np.full((len(rows), ARITY), -1, dtype=np.int32)
    children[:, 0], children[:, 1], children[:, 2] = sides[0][rows], sides[1][rows], ids[rows]
    sequence, fits = leaves_of(classes, children)
    table = [classes.structure[children[:, :3]], patterns(sequence).astype(np.uint64)]
    _, first = np.unique(mixed(np.concatenate(table, axis=1)), return_index=True)
    for row in np.sort(first).tolist():
        core = build.of(int(children[row, 2]))
        if joins(core.op) or not fits[row]:
            continue  # trivial: the value is a Concat of its halves
        node = make("Split", (core,), {"axis": axis, "split": (half, half)})
        left = (parts_of(int(children[row, 0])), parts_of(int(children[row, 1])))
        if left[0] is not None and left[1] is not None and left[0] is not left[1]:
            yield GroundEquation((left[0], left[1]), (node.out(0), node.out(1)), classes.family)


def _without_split(state: Enumeration) -> dict[int, tuple[int, npt.NDArray[np.int32]]]:
    """Return, for each class, the first graph after its representative that is not a part of a Split."""
    splits = [number for number, use in enumerate(state.classes.family.uses) if use.op == "Split"]
    found: dict[int, tuple[int, npt.NDArray[np.int32]]] = {}
    for row in np.flatnonzero(~np.isin(state.rows.use, splits)):
        found.setdefault(int(state.same[row]), (int(state.rows.use[row]), state.rows.children[row]))
    return found
