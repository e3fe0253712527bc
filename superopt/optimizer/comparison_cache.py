"""Comparisons of earlier runs: a candidate whose outputs did not differ is not compared again.

That holds for the same two models on the same inputs, compared by the same code under the same conditions: machine,
provider, threads and runtime. A candidate whose outputs differed is compared anew. The original is run on inputs that
are compared only when a candidate is: an earlier run tells what there is to say about it (`OriginalCache`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from superopt.optimizer.context import RunContext
from superopt.optimizer.digests import source_digest, text_digest
from superopt.optimizer.result import Difference, InputAccuracy
from superopt.optimizer.source import model_digest
from superopt.optimizer.timing_cache import feeds_digest
from superopt.optimizer.validator import Validator
from superopt.search.cost.measurement_key import conditions
from superopt.store import Compared, ComparisonKey, Original, OriginalKey

__all__ = ["ComparisonCache", "OriginalCache"]


class OriginalCache:
    """The runs of the original by `validator`, in the run's store. With the option `remeasure`, it is not looked up."""

    def __init__(self, context: RunContext, validator: Validator) -> None:
        self._store, self._is_asked = context.store, not context.options.remeasure
        options = context.options
        wishes = options.numerics, options.quick, options.is_timed, options.seed, options.samples
        facts = *wishes, validator.shapes, source_digest()
        inputs = text_digest([*map(repr, facts), *map(feeds_digest, (*validator.timed, *validator.given))])
        self.key = OriginalKey(conditions(context.target, 0), context.source.digest, inputs)

    def known(self) -> tuple[list[str], float] | None:
        """Return the lines for the user and the seconds that the runs took, if a candidate passed in an earlier run."""
        row = self._store.originals.get(self.key) if self._is_asked else None
        if row is None:
            return None
        try:
            return [str(notice) for notice in json.loads(row.notices)], row.seconds
        except (ValueError, TypeError):  # not in this version's form
            return None

    def keep(self, notices: Sequence[str], seconds: float) -> None:
        """Remember the runs."""
        self._store.originals.put(self.key, Original(json.dumps(list(notices)), seconds))


class ComparisonCache:
    """The comparison of one candidate with the original by `validator`, in the run's store.

    With the option `remeasure`, it is stored but not looked up. Raises OSError.
    """

    def __init__(self, context: RunContext, validator: Validator, candidate: bytes | Path) -> None:
        self._context, self._validator, self._original = context, validator, OriginalCache(context, validator)
        at = self._original.key
        self._key = ComparisonKey(at.conditions, at.original, model_digest(candidate), at.inputs)

    def passed(self) -> Difference | None:
        """Return what an earlier run found, if the candidate passed."""
        row = None if self._context.options.remeasure else self._context.store.comparisons.get(self._key)
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
        self._context.store.comparisons.put(self._key, Compared(json.dumps(asdict(difference))))
        self._original.keep(self._validator.notices, self._context.pace.reference_s)
