"""Regions timed before and after, as models of their own through the runtime's whole pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from superopt.ir.ops import IllTyped, replace
from superopt.ir.term import Term, topological, var
from superopt.runtime import Target, Timing, time_models
from superopt.search.models import Array, Unmeasurable, concrete, runner, tiny

__all__ = ["ModelTimer"]

_NO_LOSS = 0.99
_GAIN = 1.02
_LONGER = 4.0  # times the usual, where the first look leaves both a loss and a gain possible


class ModelTimer:
    """A `RegionTimer` that runs both graphs in ONNX Runtime on the target, interleaved.

    `weights` are the model's arrays; `sizes` values of symbolic sizes; a region gets about `budget_s` seconds.
    Where the ratio's interval reaches down to a loss, its lower end is what is told.
    """

    def __init__(
        self,
        target: Target,
        weights: Mapping[str, Array],
        *,
        sizes: Mapping[str, int] | None = None,
        opset: int = 17,
        budget_s: float = 0.8,
    ) -> None:
        self.target, self.weights, self.sizes = target, weights, dict(sizes or {})
        self.opset, self.budget_s = opset, budget_s

    def __call__(self, before: tuple[Term, ...], after: tuple[Term, ...]) -> tuple[float, float] | None:
        """Seconds of both graphs; None where they cannot be run by themselves."""
        cpu_clock = self.target.provider == "cpu" and self.target.threads == 1

        def look(budget_s: float) -> Timing:
            return time_models(
                lambda: self._runner(before), lambda: self._runner(after), budget_s=budget_s, cpu_clock=cpu_clock
            )

        try:
            timing = look(self.budget_s)
            if timing.low <= _NO_LOSS and timing.high >= _GAIN:
                timing = look(_LONGER * self.budget_s)
        except Unmeasurable:
            return None
        ratio = timing.ratio if timing.low > _NO_LOSS else timing.low
        return ratio * timing.after, timing.after

    def _runner(self, outputs: tuple[Term, ...]) -> Callable[[], object]:
        inputs = {
            term: var(str(term.attr("name")), concrete(term.type, self.sizes))
            for term in topological(outputs)
            if term.op == "Var"
        }
        try:
            outputs = replace(outputs, inputs)
        except IllTyped as error:
            raise Unmeasurable(f"a region at the sizes to be measured: {error}") from error
        return runner([tiny(output) for output in outputs], self.weights, self.target, opset=self.opset)
