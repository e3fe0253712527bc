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

__all__ = ["with_asked"]


def with_asked(rule: Rule, proofs: Mapping[Signature, Proved], asked: str, prover: Prover) -> dict[Signature, Proved]:
    """Return `proofs` and those at the signatures that `asked`, the text of a file of rules, has for `rule`.

    A search asks at a signature that another one covers if the other's conditions, or its class, do not admit the
    match. So these are proven as well.
    """
    found = dict(proofs)
    listed = parse_rule(show_rule(Rule(rule.lhs, rule.rhs)))  # a literal may be written in several ways
    for signature in _read(asked).get(listed, ()):
        if signature not in found:
            verdict = prover(rule, signature)
            if isinstance(verdict, Proved):
                found[signature] = verdict
    return found


@lru_cache(maxsize=1)
def _read(asked: str) -> Mapping[Rule, tuple[Signature, ...]]:
    return {rule: rule.signatures for rule in parse_rules(asked, "the list of asked signatures")}
