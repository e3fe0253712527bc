"""Sweeping: the tensors of the right model, inputs first, are replaced by equal tensors of the left model.

What was replaced is the same term from then on, so the next proof begins there (Kuehlmann and Krohm, DAC 1997;
Mishchenko et al., FRAIGs, 2005).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from superopt.check.joining import restated
from superopt.check.literals import Reading, has_literals, readings, with_masks
from superopt.check.meanings import Meanings, StructureKey
from superopt.evaluate import rounding_decides
from superopt.ir.dim import Size
from superopt.ir.infer import OPERATORS, remake
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import match, pattern_names
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term, topological
from superopt.ir.types import FLOAT_DTYPES
from superopt.onnx_io import Model
from verify.proof_book import Book
from verify.replay import with_general_sizes

__all__ = ["Claim", "Sweep", "asks_for_roundings", "holds", "known_sizes", "literal_terms"]

_NEAREST = 100  # operators


@dataclass(frozen=True)
class Claim:
    """`left` equals `right` by an equation that the kernel proves at a signature.

    `right` is a term over tensors of the left model. `reading` is the number of the reading of the equation's literals
    for which it is proven (see `readings`); 0 is the equation as it stands.
    """

    left: Term
    right: Term
    rule: Rule
    signature: Signature
    reading: int = 0

    def read(self) -> Reading:
        """Return the equation as it is read. Raises LookupError if there is no such reading."""
        bindings = match((*self.rule.lhs, *self.rule.rhs), (self.left, self.right))
        if bindings is None:
            raise LookupError("the equation is not about these terms")
        rule = with_masks(self.rule, bindings.terms)
        return readings(rule, bindings.dtype() or "float")[self.reading - 1] if self.reading else Reading(rule, 0.0)


def holds(claim: Claim, book: Book) -> bool:
    """Return True if the claim's equation is proven in `book`, where its conditions hold, and is about its terms."""
    left, right = claim.left.type, claim.right.type
    if left is None or right is None or left.dtype != right.dtype:
        return False
    bindings = match((*claim.rule.lhs, *claim.rule.rhs), (claim.left, claim.right))
    if bindings is None or asks_for_roundings(claim.rule, claim.left, claim.right):
        return False
    ours, theirs = (pattern_names(side)[0] for side in (claim.rule.lhs, claim.rule.rhs))
    if not all(bindings.terms[name].is_constant or bindings.terms[name].op == "Var" for name in theirs - ours):
        return False  # what the right model alone computes may be undefined
    general = with_general_sizes(bindings, known_sizes(claim.left))
    return book.allows(claim.read().rule, claim.signature, general)


def asks_for_roundings(rule: Rule, left: Term, right: Term) -> bool:
    """Return True if an equation, which matches the terms, computes a constant that roundings decide.

    Floor(10 * 0.7) is 6 in real numbers, where 0.7 is the nearest float32, and 7 in every runtime.
    """
    return any(map(rounding_decides, _matched(rule, left, right)))


def literal_terms(claim: Claim) -> Iterator[Term]:
    """Yield the terms of both sides that have real numbers as attributes, not those that variables stand for."""
    return filter(has_literals, _matched(claim.rule, claim.left, claim.right))


def _matched(rule: Rule, left: Term, right: Term) -> Iterator[Term]:
    """Yield the terms that operators of an equation match."""
    stack, seen = list(zip((*rule.lhs, *rule.rhs), (left, right), strict=True)), set[Term]()
    while stack:
        pattern, term = stack.pop()
        if pattern.op == "Var" or term in seen:
            continue
        yield term
        seen.add(term)
        pairs = zip(pattern.inputs, term.inputs, strict=True)
        stack += [(p, t) for p, t in pairs if p is not None and t is not None]


@lru_cache(maxsize=1 << 12)
def known_sizes(left: Term) -> frozenset[Size]:
    """Return sizes that are not negative where `left`, of the left model, is defined: a window must fit, for example.

    Where it is not defined, nothing is claimed. Only the operators nearest below are asked.
    """
    found: set[Size] = set()

    def need(relation: str, less: Size, more: Size) -> None:
        if relation == "<=":
            found.add(more - less)

    near, waiting = dict.fromkeys((left,)), deque((left,))
    while waiting and len(near) < _NEAREST:
        new = [i for i in waiting.popleft().inputs if i is not None and i not in near]
        near.update(dict.fromkeys(new))
        waiting += new
    for term in near:
        shapes = [None if i is None or i.type is None else i.type.shape for i in term.inputs]
        if term.op in OPERATORS and all(
            i is None or shape is not None for i, shape in zip(term.inputs, shapes, strict=True)
        ):
            with contextlib.suppress(IllTyped, TypeError, LookupError):
                OPERATORS[term.op].shape_rule(shapes, dict(term.attrs), need)
    return frozenset(found)


class Sweep:
    """The images of the right model's terms over the left model, and those of its outputs.

    `shared` has the terms of the left model that are images.
    """

    def __init__(self, left: Model, right: Model) -> None:
        self._ends = left.outputs
        self._right, self._targets = right, left.other_targets
        self._meaning = Meanings(right)
        self.left = frozenset(topological(left.outputs))
        self.image: dict[Term, Term] = {}
        self.outputs: list[Term] = []
        self.shared: set[Term] = set()
        self._known: dict[StructureKey, Term] = {}
        meaning = Meanings(left)
        for term in topological(left.outputs):
            if not meaning.is_random(term):
                self._known.setdefault(meaning.key(term, term.inputs), term)

    def run(
        self, decide: Callable[[Term, Term], Term | None], is_equal: Callable[[Term, Term], bool]
    ) -> Iterator[tuple[Term, Term]]:
        """Yield each term of the right model with its image.

        `decide` gets a term and its image by structure, unless that is a term of the left model. It returns a term of
        the left model that is equal, or None. `is_equal` gets an output of each model, if the image of the right one is
        another term of the left model, and says if they are equal.
        """
        for term in topological(self._right.outputs):
            image = self._structural(term)
            if image not in self.left:
                found = decide(term, image)
                image = image if found is None else found
            self.image[term] = image
            if image in self.left:
                self.shared.add(image)
            yield term, image
        for end, output in zip(self._ends, self._right.outputs, strict=False):
            image = self.image[output]
            is_other = image is not end and image in self.left
            self.outputs.append(end if is_other and is_equal(end, output) else image)

    def is_congruent(self, ours: Term, image: Term, term: Term) -> bool:
        """Return True if the image of `term` would be `ours`, a term of the left model, over the operands of `ours`.

        All operands must be of the left model: equal operands make the two equal.
        """
        if (
            self._meaning.is_random(term)
            or _is_text_of_reals(term)
            or len(ours.inputs) != len(image.inputs)
            or len(ours.types) != 1
        ):
            return False
        pairs = zip(ours.inputs, image.inputs, strict=True)
        if not all(a is b or (a is not None and b in self.left) for a, b in pairs):
            return False
        return ours in self.left and self._known.get(self._meaning.key(image, ours.inputs)) is ours

    def _structural(self, term: Term) -> Term:
        if term in self.left or _is_text_of_reals(term):
            return term
        inputs = tuple(None if i is None else self.image[i] for i in term.inputs)
        if inputs == term.inputs:
            made = term
        else:
            try:
                made = remake(term, inputs)
            except IllTyped:  # the files state types that contradict one another
                made = term.over(inputs)
        made = restated(made, self._targets)
        if self._meaning.is_random(term):
            return made
        return self._known.setdefault(self._meaning.key(made, inputs), made)


def _is_text_of_reals(term: Term) -> bool:
    """Return True for a Cast of real numbers to text: that of equal ones may differ, "0" and "-0" for example."""
    types = [None if i is None else i.type for i in term.inputs[:1]]
    is_text = term.type is not None and term.type.dtype == "string"
    return is_text and any(type is None or type.dtype in FLOAT_DTYPES for type in types)
