"""Everything that the phases of one run share."""

from __future__ import annotations

from dataclasses import dataclass

from superopt.ir.rule import Rule
from superopt.optimizer.options import Options
from superopt.optimizer.phases import Phases
from superopt.optimizer.proof_cache import ProofCache
from superopt.optimizer.source import Source
from superopt.runtime import Target
from superopt.search import Device
from superopt.store import ResultStore

__all__ = ["RunContext"]


@dataclass(frozen=True)
class RunContext:
    """One run: its options, the original, the target and the rules.

    `device` is the device of the analytic cost model (None: a usual one of the provider). The search relies on
    `proofs`: certificates and verdicts of earlier runs. The result rests on `proofs.own`, the proofs made in this run.
    `store` holds the measurements of earlier runs.
    """

    options: Options
    source: Source
    target: Target
    device: Device | None
    rules: list[Rule]
    proofs: ProofCache
    store: ResultStore
    phases: Phases
