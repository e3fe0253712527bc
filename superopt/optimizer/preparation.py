"""The original is run, at the sizes of the run, before anything is compared with it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from superopt.optimizer.comparison_cache import OriginalCache
from superopt.optimizer.context import RunContext
from superopt.optimizer.unrun import advice, assumed_shapes, loads
from superopt.optimizer.validator import Validator
from superopt.runtime import CannotRun, Feeds, InputShapes, Unfeedable

__all__ = ["Prepared", "begin_to_prepare"]


@dataclass(frozen=True)
class Prepared:
    """The findings about the original when it was run.

    `validator` is None if it cannot be run here: then `refusal` is the reason why nothing can be done, or empty if its
    graph can be optimized all the same. `shapes` are those of all inputs at each size, `feeds` inputs at each size, and
    `notices` lines for the user. `is_loaded` is True if the runtime loads it.
    """

    validator: Validator | None
    shapes: list[InputShapes] = field(default_factory=list)
    feeds: list[Feeds] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    is_loaded: bool = True
    refusal: str = ""


def _prepare(context: RunContext) -> Prepared:
    """Run the original, and tell the pace how long that took. Raises InputError, OSError (see `Validator`).

    If a candidate has passed in an earlier run, the original is run only on the inputs on which models are timed: it
    may not be needed on others.
    """
    source, target, careful = context.source, context.target, not context.options.quick
    try:
        with context.phases("prepare"):
            validator = Validator(source, target, context.options, context.opening, thorough=careful, plain=careful)
            earlier = OriginalCache(context, validator).known() if careful else None
            if earlier is None:
                validator.complete()
        seconds = context.phases.seconds["prepare"] + context.opening.seconds
        notices, seconds = earlier or (validator.notices, seconds)
        context.pace.reference_s = seconds
        return Prepared(validator, validator.shapes, validator.timed, notices)
    except (CannotRun, Unfeedable) as error:
        is_loaded = loads(source, target)
        help_ = advice(error, source, is_loaded=is_loaded)
        if context.options.cost != "analytic" or not target.has_levels:
            if target.has_levels:
                help_ += "; --cost analytic optimizes it by proven rules without running it"
            return Prepared(
                None, refusal=f"the original cannot be run here, so nothing can be measured: {error}{help_}"
            )
        consequence = "so outputs are not compared and nothing is timed"
        notice = f"the original cannot be run here, {consequence}: {error}{help_}"
        return Prepared(None, assumed_shapes(source, context.options), notices=[notice], is_loaded=is_loaded)


def begin_to_prepare(context: RunContext, *, beside: bool) -> Callable[[], Prepared]:
    """Return a function that gives the findings: the original is run now, or `beside` what follows.

    Only a run that times nothing may have it run beside the search. (The runtime has a process of its own.)
    """
    if not beside:
        prepared = _prepare(context)
        return lambda: prepared
    pool = ThreadPoolExecutor(1, thread_name_prefix="prepare")
    future = pool.submit(_prepare, context)
    pool.shutdown(wait=False)
    return future.result
