"""What models do with a constant: how far roundings of it matter.

Two files may have the same weight with other last digits, if a tool folded something into it. A rounding of such a
number is like a rounding of the products and sums that it enters. It is none where a function jumps, or where further
constants are computed from it: (w - c) k may be k of one and 0 of the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from superopt.ir.infer import OPERATORS
from superopt.ir.term import Term, topological
from superopt.properties import adds_up, jumps, moves

__all__ = ["ConstantUses"]


class ConstantUses:
    """The uses of constants in graphs."""

    def __init__(self, outputs: Iterable[Term]) -> None:
        self._users: dict[Term, list[Term]] = defaultdict(list)
        for term in topological(outputs):
            for operand in {i for i in term.inputs if i is not None and i.is_constant}:
                self._users[operand].append(term)

    def may_be_rounded(self, constant: Term) -> bool:
        """Return True if operators use a constant only in sums, products and continuous functions of inputs."""
        users = self._users.get(constant, ())
        return bool(users) and all(map(self._bears_roundings, users))

    def _bears_roundings(self, user: Term) -> bool:
        if user.is_constant:
            return moves(user.op) and self.may_be_rounded(user)
        return user.op in OPERATORS and not jumps(user.op)

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
