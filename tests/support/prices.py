"""Prices of graphs by the cost model of a CPU."""

from __future__ import annotations

from superopt.ir.term import Term
from superopt.search import AnalyticCost
from superopt.search.cost.graph_cost import GraphCost

__all__ = ["ANALYTIC", "price"]

ANALYTIC = AnalyticCost()


def price(*outputs: Term) -> float:
    """Return the seconds of the operators, without reading constants: equal graphs differ in a few of these."""
    cost = GraphCost(ANALYTIC)
    whole = cost.price(outputs)
    return (whole.time_ps - cost.weight_read_ps(whole.weight_bytes)) * 1e-12
