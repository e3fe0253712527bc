"""Extends rules for two operands to more operands, with proofs (see `superopt.rulebook.variadic`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from superopt.generate.generalise.sampling_check import SamplingCheck
from superopt.ir.rule import Rule, Signature
from superopt.rulebook.variadic import Schema, variadic_forms
from verify.verdict import Proved, Verdict

__all__ = ["extensions"]


def extensions(
    schemas: Iterable[Schema], check: SamplingCheck, prover: Callable[[Rule, Signature], Verdict], most: int = 4
) -> Iterator[Schema]:
    """Yield each rule for 3, ..., `most` operands until one is not proven at its signature. No rule is repeated."""
    seen: set[str] = set()
    for schema in schemas:
        seen.add(schema.rule.id)
        for form in variadic_forms(schema):
            for n in range(3, most + 1):
                wider = [form.schema(n, part) for part in form.parts(n)]
                tried = [s for s in wider if s.rule.id not in seen and check.holds(s.rule, s.base)]
                proven = [s for s in tried if isinstance(prover(s.rule, s.base), Proved)]
                if not proven:
                    break
                seen.update(s.rule.id for s in proven)
                yield from proven
