"""Cones: the operators between two tensors and the nearest tensors below that both models have, as an equation.

The tensors at the cut become variables, weights too, and so do free sizes. So equal cones of several layers are one
equation, which is proven once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Set
from dataclasses import dataclass

from superopt.ir.dim import Atom, Dim, Quotient, Size, floor_div, symbol
from superopt.ir.infer import OPERATORS, make
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import Bindings, pattern_names
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import CLOSED_FORM, Attr, Term, node_of, var
from superopt.ir.types import FLOAT_DTYPES
from verify.propose.signatures import literal_signatures

__all__ = ["Cone", "cones", "signatures"]

_MAX_OPERATORS = 60  # in both sides of a cone
_LEVELS = 3


@dataclass(frozen=True)
class Cone:
    """An equation between two cones, and the terms at the cut: those of `own` are constants of the right cone only."""

    rule: Rule
    leaves: frozenset[Term]
    own: frozenset[Term]


def cones(left: Term, right: Term, shared: Set[Term], left_terms: Set[Term]) -> Iterator[Cone]:
    """Yield cones of `left` and `right`, the one with the nearest cut first.

    `shared` are the terms that both models have, `left_terms` those of the left model.
    """
    seen: set[Rule] = set()
    # First, `left` itself may be a variable, if `right` reads it. In the end, a leaf of both that reads what is
    # inside one of them is opened: x Sigmoid(1 x) and QuickGelu(1 x) both read 1 x, but only the first one reads x.
    for stop, opens_above in ((True, False), (False, False), (False, True)):
        if stop and left not in shared and left.op != "Var":
            continue
        opened: set[Term] = set()
        for _ in range(_LEVELS):
            cut = _Cut(left, right, shared, opened, stop)
            while cut.one_sided and cut.count <= _MAX_OPERATORS:
                opened |= _not_below_others(cut.one_sided | (cut.above if opens_above else set()))
                cut = _Cut(left, right, shared, opened, stop)
            if cut.count > _MAX_OPERATORS:
                break
            if stop and left not in cut.leaves[1]:
                break
            leaves = {leaf for side in cut.leaves for leaf in side if not leaf.is_constant}
            own = {leaf for leaf in cut.leaves[1] if leaf.is_constant and leaf not in left_terms}
            # Layers whose constants differ in their sizes alone have one equation over variables.
            for variables in (cut.common_constants, ()):
                rule = _equation(left, right, cut, variables)
                if rule is not None and rule not in seen:
                    seen.add(rule)
                    yield Cone(rule, frozenset(leaves), frozenset(own))
            further = {leaf for side in cut.leaves for leaf in side if _can_open(leaf) and not leaf.is_constant}
            if not further:
                break
            opened |= further


class _Cut:
    """The leaves of two cones, given the terms that are opened; `one_sided` are those that could be opened further.

    `above` are leaves of both cones that read what is inside one of them.
    `common_constants` are the filled tensors of several elements that both cones read.
    """

    def __init__(self, left: Term, right: Term, shared: Set[Term], opened: Set[Term], stop: bool) -> None:
        self.leaves: list[dict[Term, None]] = [{}, {}]
        self.inside: set[Term] = set()
        filled: tuple[dict[Term, None], dict[Term, None]] = {}, {}
        for root, leaves, constants in zip((left, right), self.leaves, filled, strict=True):
            stack, seen = [root], set()
            while stack:
                term = stack.pop()
                if term in seen:
                    continue
                seen.add(term)
                is_root = term is right or (term is left and not stop)
                closed = (term in shared or term.is_constant or (stop and term is left)) and term not in opened
                if term.op in CLOSED_FORM and (_is_truth(right) or not _is_truth(term)):
                    if term.op == "ConstantOfShape" and term.type is not None and term.type.shape:
                        constants[term] = None
                    continue  # in an equation with real variables, closed forms are real numbers
                if not _can_open(term) or (closed and not is_root):
                    leaves[term] = None
                    continue
                self.inside.add(term)
                stack += [i for i in term.inputs[::-1] if i is not None]
        self.common_constants = [term for term in filled[0] if term in filled[1]]
        self.count = len(self.inside)
        ours, theirs = map(set, self.leaves)
        self.one_sided = {leaf for leaf in ours ^ theirs if _can_open(leaf)}
        self.above = {leaf for leaf in ours & theirs if _can_open(leaf) and not self.inside.isdisjoint(leaf.inputs)}


def _not_below_others(terms: Set[Term]) -> set[Term]:
    """Return the terms that compute none of the others near them: these may be leaves of both sides once they open."""
    below: set[Term] = set()
    for term in terms:
        stack, seen = list(term.inputs), set[Term]()
        while stack and len(seen) < _MAX_OPERATORS:
            operand = stack.pop(0)
            if operand is not None and operand not in seen:
                seen.add(operand)
                stack += operand.inputs
        below |= seen
    return set(terms - below)


def _is_truth(term: Term) -> bool:
    return term.type is not None and term.type.dtype == "bool"


def _can_open(term: Term) -> bool:
    node = node_of(term)
    return bool(node.inputs) and node.op in OPERATORS


def _equation(left: Term, right: Term, cut: _Cut, variables: Iterable[Term]) -> Rule | None:
    """Return the equation of two cones over variables for their leaves and for the constants in `variables`."""
    leaves = dict.fromkeys((*cut.leaves[0], *cut.leaves[1], *variables))
    leaves.update(dict.fromkeys(_of_other_types(left, right, leaves)))
    new: dict[Term, Term] = {leaf: var(f"x{k}") for k, leaf in enumerate(leaves)}
    sizes: dict[Size, Size] = {}  # of the variables, by whole sizes of axes
    atoms: dict[Atom, Size] = {}  # the same by what they are sums of
    for leaf, variable in new.items():
        if leaf.type is None or leaf.type.shape is None:
            return None
        for axis, size in enumerate(leaf.type.shape):
            if isinstance(size, Dim):
                own = sizes.setdefault(size, symbol(f"{variable.attr('name')}.shape[{axis}]"))
                summands = dict(size.terms)
                rest = summands.pop((), 0)
                if list(map(len, summands)) == [1] and list(summands.values()) == [1]:
                    ((atom,),) = summands
                    atoms.setdefault(atom, own - rest)

    def lifted_atom(atom: Atom) -> Size:
        if atom not in atoms and isinstance(atom, Quotient):
            atoms[atom] = floor_div(lifted_size(atom.numerator), lifted_size(atom.denominator))
        return atoms.setdefault(atom, symbol(f"n{len(atoms)}"))

    def lifted_size(size: Size) -> Size:
        if isinstance(size, int):
            return size
        if size in sizes and not atoms.keys() >= set(size.atoms()):
            return sizes[size]
        total: Size = 0
        for monomial, coefficient in size.terms:
            total = total + coefficient * math.prod(map(lifted_atom, monomial))
        return total

    def lifted(value: Attr) -> Attr:
        if isinstance(value, tuple):
            return tuple(map(lifted, value))
        return lifted_size(value) if isinstance(value, Dim) else value

    stack = [right, left]
    while stack:
        term = stack[-1]
        missing = [i for i in term.inputs[::-1] if i is not None and i not in new] if term not in new else []
        stack += missing
        if not missing:
            stack.pop()
            if term not in new:
                inputs = tuple(None if i is None else new[i] for i in term.inputs)
                try:
                    new[term] = make(term.op, inputs, {name: lifted(value) for name, value in term.attrs})
                except IllTyped:  # a literal that the notation has only for other element types
                    return None
    return Rule((new[left],), (new[right],))


def _of_other_types(left: Term, right: Term, leaves: Collection[Term]) -> list[Term]:
    """Return the closed forms that must become variables: the others have the element type of the equation.

    See `Bindings.dtype`. A variable stands for any value, so what is proven for it holds for the constant. If no leaf
    is real, one real literal as a variable makes the equation real, and the others stay: one that is not 0 nor 1, if
    there is one, since equations need those more often.
    """
    stack, seen = [left, right], set(leaves)
    literals = []
    while stack:
        term = stack.pop()
        if term not in seen:
            seen.add(term)
            literals += [term] if term.op in CLOSED_FORM else []
            stack += [i for i in term.inputs if i is not None]
    found: list[Term] = []
    while True:
        dtype = Bindings({str(k): leaf for k, leaf in enumerate((*leaves, *found))}).dtype()
        other = [one for one in literals if one not in found and one.type is not None and one.type.dtype != dtype]
        if dtype is None or not other:
            return found
        reals = [one for one in other if one.type is not None and one.type.dtype in FLOAT_DTYPES]
        if reals and dtype not in FLOAT_DTYPES:
            other = [min(reals, key=lambda one: one.op in ("Ones", "Zeros"))]
        found += other


def signatures(rule: Rule, bindings: Bindings) -> Iterator[Signature]:
    """Yield the signatures at which to prove an equation, the most general first; the last has all known sizes."""
    open_attrs = pattern_names((*rule.lhs, *rule.rhs))[1]
    plain = Bindings(bindings.terms, {k: v for k, v in bindings.attrs.items() if k not in open_attrs})
    symbolic = tuple((name, None) for name in sorted(open_attrs))
    found = [Signature(one.shapes, (*one.attrs, *symbolic), one.dtypes) for one in literal_signatures(rule, plain)]
    shapes: list[tuple[str, tuple[int | None, ...]]] = []
    dtypes: list[tuple[str, str]] = []
    for name, term in sorted(bindings.terms.items()):
        assert term.type is not None and term.type.shape is not None
        shapes.append((name, tuple(size if isinstance(size, int) else None for size in term.type.shape)))
        if term.type.dtype not in FLOAT_DTYPES:
            dtypes.append((name, term.type.dtype))
    literal = Signature(tuple(shapes), symbolic, tuple(dtypes))
    yield from dict.fromkeys((*found[1:], literal) if len(found) > 1 else (*found, literal))
