"""The question to the prover: at which signature may a rule be applied to these terms?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule, Signature

__all__ = ["Check", "CheckCache"]

# Returns a proven signature that covers the bindings, or None. The search does not know the prover behind it.
Check: TypeAlias = Callable[[Rule, Bindings], "Signature | None"]


class CheckCache:
    """A `Check` that is asked once for each rule, types of its variables, and attribute values."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self._answers: dict[object, Signature | None] = {}

    def __call__(self, rule: Rule, bindings: Bindings) -> Signature | None:
        """Return the signature at which the rule may be applied, or None."""
        types = tuple((name, term.type) for name, term in sorted(bindings.terms.items()))
        key = (rule, types, tuple(sorted(bindings.attrs.items(), key=lambda item: item[0])))
        if key not in self._answers:
            self._answers[key] = self.check(rule, bindings)
        return self._answers[key]
