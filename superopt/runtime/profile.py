"""Times of a model's operators, as the runtime's own profiler gives them: after its fusions, in its order."""

from __future__ import annotations

from superopt.runtime import engine
from superopt.runtime.feeds import Feeds
from superopt.runtime.loadable import NodeTime
from superopt.runtime.sessions import RunnableModel, in_child, loadable
from superopt.runtime.target import Target

__all__ = ["profile"]

_LIMIT_SECONDS = 120.0


def profile(model: RunnableModel, feeds: Feeds, target: Target, runs: int) -> list[NodeTime]:
    """Return the operators that the runtime runs, each with its least time of `runs` runs. Raises CannotRun."""
    with loadable(model, target) as found:
        return in_child(engine.profile, found, feeds, runs, limit_s=_LIMIT_SECONDS)
