"""Comparisons of earlier runs: a candidate whose outputs did not differ is not compared again.

That holds for the same two models on the same inputs, compared by the same code under the same conditions: machine,
provider, threads and runtime. A candidate whose outputs differed is compared anew.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from superopt.optimizer.context import RunContext
from superopt.optimizer.digests import source_digest, text_digest
from superopt.optimizer.result import Difference, InputAccuracy
from superopt.optimizer.source import model_digest
from superopt.optimizer.timing_cache import feeds_digest
from superopt.optimizer.validator import Validator
from superopt.search.cost.measurement_key import conditions
from superopt.store import Compared, ComparisonKey

__all__ = ["ComparisonCache"]


class ComparisonCache:
    """The comparison of one candidate with the original by `validator`, in the run's store.

    With the option `remeasure`, it is stored but not looked up. Raises OSError.
    """

    def __init__(self, context: RunContext, validator: Validator, candidate: bytes | Path) -> None:
        self._store, self._is_asked = context.store, not context.options.remeasure
        facts = context.options.numerics, validator.tolerance, source_digest()
        inputs = text_digest([*map(repr, facts), *map(feeds_digest, validator.feeds)])
        models = context.source.digest, model_digest(candidate)
        self._key = ComparisonKey(conditions(context.target, 0), *models, inputs)

    def passed(self) -> Difference | None:
        """Return what an earlier run found, if the candidate passed."""
        row = self._store.comparisons.get(self._key) if self._is_asked else None
        if row is None:
            return None
        try:
            fields = json.loads(row.difference)
            accuracy = [InputAccuracy(**one) for one in fields["accuracy"]]
            return Difference(**{**fields, "accuracy": accuracy, "remembered": True})
        except (ValueError, TypeError, KeyError):  # not in this version's form
            return None

    def keep(self, difference: Difference) -> None:
        """Remember that the candidate has passed."""
        self._store.comparisons.put(self._key, Compared(json.dumps(asdict(difference))))
