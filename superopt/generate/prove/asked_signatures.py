"""Further signatures of rules: those at which searches of models ask for proofs (`superopt rules asked`).

They are the last to be proven, so a list changes no rule and no other signature.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from superopt.generate.prove.prove_conjectures import Prover
from superopt.ir.notation import parse_rule, parse_rules, show_rule
from superopt.ir.rule import Rule, Signature
from verify.verdict import Proved

__all__ = ["covers", "with_asked"]


def with_asked(rule: Rule, proofs: Mapping[Signature, Proved], asked: str, prover: Prover) -> dict[Signature, Proved]:
    """Return `proofs` and those at the signatures that `asked`, the text of a file of rules, has for `rule`.

    Nothing is proven that another proof covers.
    """
    found = dict(proofs)
    listed = parse_rule(show_rule(Rule(rule.lhs, rule.rhs)))  # a literal may be written in several ways
    for signature in _read(asked).get(listed, ()):
        if not any(covers(known, signature) for known in found):
            verdict = prover(rule, signature)
            if isinstance(verdict, Proved):
                found[signature] = verdict
    return found


@lru_cache(maxsize=1)
def _read(asked: str) -> Mapping[Rule, tuple[Signature, ...]]:
    return {rule: rule.signatures for rule in parse_rules(asked, "the list of asked signatures")}


def covers(general: Signature, special: Signature) -> bool:
    """Return True if every match at `special` is a match at `general`."""
    return (
        general.dtypes == special.dtypes
        and all(_wider(a, b) for (_, a), (_, b) in zip(general.shapes, special.shapes, strict=True))
        and all(_wider(a, b) for (_, a), (_, b) in zip(general.attrs, special.attrs, strict=True))
    )


def _wider(general: object, special: object) -> bool:
    if isinstance(general, tuple) and isinstance(special, tuple):
        return len(general) == len(special) and all(a is None or a == b for a, b in zip(general, special, strict=True))
    return general is None or general == special
