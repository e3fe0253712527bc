"""The efforts of a search: how widely and deeply it looks for gains behind more expensive graphs."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["EFFORTS", "Effort", "effort_plan"]


class Effort(NamedTuple):
    """The parameters of one effort: widths and depths of local beam searches, and limits.

    There is a width and depth for beam searches from the best graph, and a width and depth for those after a backjump.
    The limits are the number of more expensive graphs in a row after which a beam search stops, and the number of
    conflicting rewrites to try for each decision.
    """

    beam: tuple[int, int]
    backjump_beam: tuple[int, int]
    max_uphill: int
    choices: int


# Nearly all gains come from descents, narrow beams, and the next best decision. A third step rarely gains if none of
# the graphs before it was as cheap as the best one.
_EFFORT_PLAN = (
    Effort((2, 3), (3, 3), 2, 1),
    Effort((4, 4), (4, 4), 4, 1000),
    Effort((12, 6), (12, 6), 6, 1000),
)
EFFORTS = len(_EFFORT_PLAN)
# A region that takes this share of the model's time gets beams of this width at least. In the head of a SegFormer (two
# fifths), six rewrites cost less than the one that leads to the gain.
_LARGE_SHARE, _WIDTH_OF_LARGE = 0.25, 8


def effort_plan(number: int, share: float) -> Effort:
    """Return the parameters of effort `number` in a region that takes this share of the model's time."""
    plan = _EFFORT_PLAN[number]
    width, depth = plan.beam
    return plan._replace(beam=(max(width, _WIDTH_OF_LARGE), depth)) if share >= _LARGE_SHARE else plan
