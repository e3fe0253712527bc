"""Uses of constants in models: how far roundings of a constant matter.

Two files may have the same weight with other last digits, if a tool folded something into it. A rounding of such a
number is like a rounding of the products and sums that it enters. But it is none if a function jumps somewhere behind
it: floor(x + w) is another number in one model only where x is a whole number, as many inputs are, and x + w is exact.
Nor if further constants are computed from it: (w - c) k may be k of one and 0 of the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from superopt.check.sweep import Claim, literal_terms
from superopt.ir.infer import OPERATORS
from superopt.ir.term import Term, topological, var
from superopt.onnx_io.schemas import standard_name
from superopt.properties import SIZE_READERS, adds_up, jumping_operands, moves
from verify.prove.roundings import roundings

__all__ = ["ConstantUses"]

_TABLE_READERS = frozenset({"Gather", "GatherElements", "Lookup"})
_SIGNS = frozenset({"Abs", "Neg"})  # a rounding at most, by the kernel's count, and none in fact


class ConstantUses:
    """The uses of constants in graphs that compute `outputs`, `in_body` if these are bodies of other nodes.

    With `but_for_jumps`, no function in the graphs counts as one that jumps.
    """

    def __init__(self, outputs: Iterable[Term], in_body: bool = False, but_for_jumps: bool = False) -> None:
        terms = list(topological(outputs := tuple(outputs)))
        self._ends = frozenset(outputs if in_body else ())  # who knows what is done with them
        self._but_for_jumps = but_for_jumps
        self._users: dict[Term, list[Term]] = defaultdict(list)
        self._known: dict[Term, bool] = {}
        for term in terms:
            for operand in {i for i in term.inputs if i is not None}:
                self._users[operand].append(term)
        self._before_jumps: set[Term] = set()  # functions that jump, and all that they read, near and far
        for term in reversed(terms):
            if term.op in SIZE_READERS:
                continue
            users = self._users.get(term, ())
            is_jump = term in self._ends or (not but_for_jumps and bool(jumping_operands(term)))
            if is_jump or not self._before_jumps.isdisjoint(users):
                self._before_jumps.add(term)

    def has(self, constant: Term) -> bool:
        """Return True if an operator of the graphs reads a constant."""
        return constant in self._users

    def bears(self, claim: Claim, left: Term, right: Term) -> bool:
        """Return True if a claim may read literals as numbers that differ from them: no function jumps behind these.

        `left` and `right` are the tensors of the models that the claim is about.
        """
        if not claim.read().error:
            return True
        cones = ConstantUses((claim.left, claim.right), but_for_jumps=self._but_for_jumps)
        found = {left, right} & self._before_jumps or set(literal_terms(claim)) & cones._before_jumps
        return not found

    def jump_behind(self, start: Term) -> Term | None:
        """Return the nearest function that jumps among those to which a term leads, or None."""
        reached, seen = [start], {start}
        for term in reached:
            if term is not start and jumping_operands(term):
                return term
            following = [user for user in self._users.get(term, ()) if user in self._before_jumps and user not in seen]
            reached += following
            seen.update(following)
        return None

    def may_be_rounded(self, term: Term) -> bool:
        """Return True if no function jumps wherever a constant goes, and none computes another constant from it."""
        stack = [term]
        while stack:
            here = stack[-1]
            users = self._users.get(here, ())
            unknown = [user for user in users if user.is_constant and user not in self._known]
            if here not in self._known and not unknown:
                self._known[here] = here not in self._before_jumps and all(map(self._bears_roundings, users))
            if unknown:
                stack += unknown
            else:
                stack.pop()
        return self._known[term]

    def _bears_roundings(self, user: Term) -> bool:
        if user.is_constant:
            return _only_moves(user) and self._known[user]
        return user.op in OPERATORS or _reads_table(user)

    def weights(self, constant: Term) -> list[Term]:
        """Return the constants whose products are in the sums that a constant is added to; one for each such sum.

        There are none if the constant has any other use: then it is no bias.
        """
        found: list[Term] = []
        for user in self._users.get(constant, ()):
            weight = _weight(user, constant)
            if weight is None:
                return []
            found.append(weight)
        return found


def _reads_table(term: Term) -> bool:
    return standard_name(term.op) in _TABLE_READERS or term.op == "Out"


def _only_moves(term: Term) -> bool:
    """Return True if an operator on constants rounds nothing."""
    if _reads_table(term):
        return True
    return term.op in OPERATORS and (term.op in _SIGNS or moves(term.op) or _rounds_nothing(term))


def _rounds_nothing(term: Term) -> bool:
    if len(term.types) != 1:
        return False
    names = [None if i is None else var(f"x{k}", i.type) for k, i in enumerate(term.inputs)]
    return roundings((term.over(names),)) == 0


def _weight(user: Term, bias: Term) -> Term | None:
    """Return the constant factor of the sum of products to which `user` adds `bias`, or None if it does not."""
    factors: tuple[Term | None, ...] = ()
    if user.op == "Add":
        term = next((i for i in user.inputs if i is not None and i is not bias), None)
        while term is not None and moves(term.op):
            moved = [i for i in term.inputs if i is not None and not i.is_constant]
            term = moved[0] if len(moved) == 1 else None
        if term is not None and adds_up(term.op):
            factors = term.inputs[:2]
    elif adds_up(user.op) and len(user.inputs) == 3 and user.inputs[2] is bias:
        factors = user.inputs[:2]
    weights = [factor for factor in factors if factor is not None and factor.op == "Const" and factor is not bias]
    return weights[0] if len(weights) == 1 else None
