"""Decides if a rule can be derived from others, by derivations of instances at each of its signatures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from superopt.generate.derive.deriver import DerivationStep, Deriver
from superopt.generate.derive.instances import Instance, instances
from superopt.ir.notation import show_signature
from superopt.ir.rule import Condition, Rule, Signature
from verify.diagnose.decide import decide
from verify.verdict import Refuted

__all__ = ["DERIVED", "NOT_DERIVED", "NO_INSTANCE", "Consequence", "Derivation", "consequence"]

DERIVED, NOT_DERIVED, NO_INSTANCE = "derived", "not derived", "not instantiated"


@dataclass(frozen=True)
class Derivation:
    """The result for one instance: its number of steps, or None if no derivation was found.

    If `cut`, the search reached its bound, so a derivation may exist.
    """

    signature: Signature
    instance: Instance
    steps: tuple[DerivationStep, ...] | None
    cut: bool


@dataclass(frozen=True)
class Consequence:
    """The result for a rule. The rule is derived if every instance at every signature is derived.

    `reason` explains any other outcome.
    """

    rule: Rule
    outcome: str
    reason: str
    derivations: tuple[Derivation, ...]

    @property
    def steps(self) -> int | None:
        """Steps of the longest derivation, or None if the rule is not derived."""
        found = [len(d.steps) for d in self.derivations if d.steps is not None]
        return max(found, default=None) if self.outcome == DERIVED else None


def consequence(
    deriver: Deriver,
    rule: Rule,
    signatures: Iterable[Signature],
    steps: int = 4,
    conditions: Mapping[Signature, Sequence[Condition]] = MappingProxyType({}),
) -> Consequence:
    """Derive instances of `rule` at `signatures` in at most `steps` steps each, until one cannot be derived.

    `conditions` are conditions under which the rule is known to hold; sizes are chosen to satisfy them. A derivation at
    two choices of sizes does not prove the rule for all sizes, but each of its steps is an instance of a proven rule.
    """
    done: list[Derivation] = []
    for signature in signatures:
        made = instances(rule, signature, conditions=conditions.get(signature, ()))
        if not made:
            reason = f"no sizes were found at {show_signature(signature)} at which both sides have the same types"
            return Consequence(rule, NO_INSTANCE, reason, tuple(done))
        for instance in made:
            cut = deriver.cut
            found = deriver.derive(instance.lhs, instance.rhs, steps)
            done.append(Derivation(signature, instance, found, deriver.cut > cut))
            if found is None:
                where = f"at {show_signature(signature)} with {_shown(instance)}"
                bound = f" (given up after {deriver.most} graphs)" if done[-1].cut else ""
                reason = f"no derivation of at most {steps} steps {where}{bound}"
                return Consequence(rule, NOT_DERIVED, reason, tuple(done))
    if not done:
        return Consequence(rule, NO_INSTANCE, "no signature", ())
    # Some false equations are typed at sizes of 1 only, or where a Slice takes everything, and hold there.
    for signature in {d.signature: None for d in done if _is_special(d.instance)}:
        if isinstance(decide(rule, signature), Refuted):
            reason = f"derived at special sizes only: refuted at {show_signature(signature)}"
            return Consequence(rule, NOT_DERIVED, reason, tuple(done))
    return Consequence(rule, DERIVED, "", tuple(done))


def _is_special(instance: Instance) -> bool:
    """Return True if some open sizes are equal, 0 or 1."""
    sizes = list(instance.sizes.values())
    return len(set(sizes)) < len(sizes) or any(size <= 1 for size in sizes)


def _shown(instance: Instance) -> str:
    return ", ".join(f"{name} = {size}" for name, size in instance.sizes.items()) or "no sizes to choose"
