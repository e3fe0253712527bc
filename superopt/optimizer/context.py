"""The data that all phases of one run share."""

from __future__ import annotations

from dataclasses import dataclass

from superopt.ir.rule import Rule
from superopt.optimizer.opening import Opening
from superopt.optimizer.options import Options
from superopt.optimizer.pace import Pace
from superopt.optimizer.phases import Phases
from superopt.optimizer.proof_cache import ProofCache
from superopt.optimizer.source import Source
from superopt.runtime import Target
from superopt.search import Device
from superopt.store import ResultStore

__all__ = ["RunContext"]


@dataclass(frozen=True)
class RunContext:
    """One run: its options, the original and its first session, the target and the rules.

    `device` is the device of the analytic cost model (None: the provider's default device). The search relies
    on `proofs`: certificates and verdicts of earlier runs. The result relies only on `proofs.own`, the proofs of this
    run. `store` holds the measurements of earlier runs, and `pace` divides the run's wall time.
    """

    options: Options
    source: Source
    opening: Opening
    target: Target
    device: Device | None
    rules: list[Rule]
    proofs: ProofCache
    store: ResultStore
    phases: Phases
    pace: Pace
