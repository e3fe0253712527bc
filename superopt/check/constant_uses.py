"""Uses of constants in models: how far roundings of a constant matter.

Two files may have the same weight with other last digits, if a tool folded something into it. A rounding of such a
number is like a rounding of the products and sums that it enters. It is none if the number comes to a function that
jumps before anything has rounded: max(x, w) may be below a whole number in one model only, for most inputs. Nor if
further constants are computed from it: (w - c) k may be k of one and 0 of the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from superopt.ir.infer import OPERATORS
from superopt.ir.term import Term, topological, var
from superopt.onnx_io.schemas import standard_name
from superopt.properties import adds_up, jumping_operands, moves
from verify.prove.roundings import roundings

__all__ = ["ConstantUses"]

_TABLE_READERS = frozenset({"Gather", "GatherElements"})  # also at computed indices, where they have no definition
_SIGNS = frozenset({"Abs", "Neg"})  # a rounding at most, by the kernel's count, and none in fact


class ConstantUses:
    """The uses of constants in graphs that compute `outputs`, `in_body` if these are bodies of other nodes."""

    def __init__(self, outputs: Iterable[Term], in_body: bool = False) -> None:
        outputs = tuple(outputs)
        self._ends = frozenset(outputs if in_body else ())  # who knows what is done with them
        self._users: dict[Term, list[Term]] = defaultdict(list)
        self._known: dict[Term, bool] = {}
        self._moving: dict[Term, bool] = {}
        for term in topological(outputs):
            for operand in {i for i in term.inputs if i is not None}:
                self._users[operand].append(term)

    def has(self, constant: Term) -> bool:
        """Return True if an operator of the graphs reads a constant."""
        return constant in self._users

    def may_be_rounded(self, term: Term) -> bool:
        """Return True if operators round wherever a constant goes, before a function jumps or becomes a constant."""
        stack = [term]
        while stack:
            here = stack[-1]
            users = self._users.get(here, ())
            unknown = [user for user in users if self._only_moves(user) and user not in self._known]
            if here not in self._known and not unknown:
                self._known[here] = here not in self._ends and all(map(self._bears_roundings, users))
            if unknown:
                stack += unknown
            else:
                stack.pop()
        return self._known[term]

    def _bears_roundings(self, user: Term) -> bool:
        if self._only_moves(user):
            return self._known[user]
        return user.op in OPERATORS and not jumping_operands(user) and not user.is_constant

    def _only_moves(self, user: Term) -> bool:
        """Return True if an operator rounds nothing and does not jump: then its own users decide."""
        if user not in self._moving:
            self._moving[user] = _only_moves(user)
        return self._moving[user]

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


def _only_moves(term: Term) -> bool:
    if standard_name(term.op) in _TABLE_READERS or term.op == "Out":
        return True
    if term.op not in OPERATORS or jumping_operands(term):
        return False
    return term.op in _SIGNS or moves(term.op) or _rounds_nothing(term)


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
