"""The index of an output as quotients and remainders, and the cases of remainders by a number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from superopt.ops.algebra import Guard
from verify.prove.bound_variables import digits, free_quotients
from verify.prove.substitution import Substitution
from verify.prove.sums import SumOfProducts
from verify.prove.symbolic import Symbolic

__all__ = ["Indexed", "by_digits"]

_MOST_CASES = 16


@dataclass(frozen=True)
class Indexed:
    """Sums that depend on index symbols called `names`, wherever `guards` hold. `remainders` has the symbols that range
    over 0, ..., d - 1 for a number d."""

    names: tuple[str, ...]
    guards: Sequence[Guard]
    sums: tuple[SumOfProducts, ...]
    remainders: Mapping[str, int]

    def cases(self, algebra: Symbolic) -> Iterator[Indexed]:
        """Yield one case for each value of all remainders; nothing if there is only one, or if there are many."""
        if not 1 < math.prod(self.remainders.values()) <= _MOST_CASES:
            return
        names = tuple(name for name in self.names if name not in self.remainders)
        for values in itertools.product(*map(range, self.remainders.values())):
            case = Substitution(dict(zip(self.remainders, values, strict=True)))
            sums = tuple(case.sum(algebra, total) for total in self.sums)
            yield Indexed(names, case.guards(self.guards), sums, {})


def by_digits(algebra: Symbolic, rank: int, guards: Sequence[Guard], sums: tuple[SumOfProducts, ...]) -> Indexed:
    """Write each index i!k of an output, of `rank` axes, that is divided as quotient and remainder.

    A quotient of the index and a bound variable is left as it is: it has another split for each value of the variable.
    """
    names = [f"i!{d}" for d in range(rank)]
    remainders: dict[str, int] = {}
    while split := digits(names, free_quotients(tuple(p for total in sums for p in total)), algebra.fresh):
        guards = split.guards(guards)
        sums = tuple(split.moved.sum(algebra, total) for total in sums)
        names = [name for name in names if name != split.name] + [split.quotient, split.remainder]
        remainders.pop(split.name, None)
        if isinstance(split.denominator, int):
            remainders[split.remainder] = split.denominator
    return Indexed(tuple(names), guards, sums, remainders)
