"""The price of a graph: the sum over its run-time operators, without operators that the runtime fuses away.

ONNX Runtime rewrites each graph before running it, so prices are those of the graph after the runtime's rewrites.
`runtime_fusion` models operators that are fused into the operator before them, and groups of operators that become one
kernel.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from itertools import starmap
from typing import NamedTuple

from superopt.ir.term import Term, topological
from superopt.search.cost.analytic import CostModel, bytes_of
from superopt.search.cost.folding import folding_seconds
from superopt.search.cost.fused_kernels import FUSION_ROOTS, Inputs, fused_kernel
from superopt.search.cost.runtime_fusion import (
    BIAS_SHARE,
    bias_addition,
    count_transposed_weights,
    time_share,
    untransposed,
)  # fmt: skip
from superopt.search.cost.work import tables

__all__ = ["NO_WEIGHT", "SECONDS_PER_PS", "GraphCost", "Price", "Weight", "append_run_time_terms"]

SECONDS_PER_PS = 1e-12


class Price(NamedTuple):
    """The price of a graph. Prices are compared field by field, in this order.

    Times are whole picoseconds, so that sums are exact.
    """

    time_ps: int
    nodes: int  # run-time operators
    # Weights that a Gemm reads transposed: exporters differ in this, and some rules exist for the plain form only.
    transposed: int
    weight_bytes: int  # of the constants that run-time operators read
    weight_terms: int  # operators folded away in those constants
    folding_ps: int  # time to fold them, which is paid once


class Weight(NamedTuple):
    """The part of a price that is due to one constant: fields of `Price`."""

    bytes: int
    terms: int
    folding_ps: int


NO_WEIGHT = Weight(0, 0, 0)


class GraphCost:
    """Prices graphs with a cost model; remembers the cost of each operator.

    `max_folding_s` limits the time to fold the constants of a graph; it is for those who compare prices.
    """

    def __init__(self, model: CostModel, max_folding_s: float = math.inf) -> None:
        self.model, self.max_folding_ps = model, max_folding_s / SECONDS_PER_PS
        self._isolated_ps: dict[Term, int] = {}
        self._bias_ps: dict[Term, int] = {}
        self._weights: dict[Term, Weight] = {}

    def price(self, outputs: Sequence[Term]) -> Price:
        """Return the price of the graph with these outputs."""
        order: list[Term] = []
        append_run_time_terms(order, outputs, (), set())
        uses: dict[Term, int] = {}
        weights: dict[Term, bool] = {}
        for term in order:
            rows = tables(term)
            for used in term.inputs:
                if used is not None:
                    uses[used] = uses.get(used, 0) + 1
                    if used.is_constant:
                        weights[used] = weights.get(used, False) or used not in rows
        for output in outputs:
            uses[output] = uses.get(output, 0) + 1
        inputs_of = {term: term.inputs for term in order}
        fused_into: dict[Term, str] = {}
        times: dict[Term, int] = {}
        time = nodes = transposed = 0
        for term in order:
            if term.op != "Out":
                nodes += 1
                transposed += count_transposed_weights(term)
                times[term], absorbed = self.time_in_graph(term, inputs_of, uses, fused_into)
                time += times[term] - sum(map(times.__getitem__, absorbed))
        of_weights = Weight(*map(sum, zip(NO_WEIGHT, *starmap(self.weight, weights.items()), strict=True)))
        return Price(time + self.weight_read_ps(of_weights.bytes), nodes, transposed, *of_weights)

    def time_in_graph(
        self, term: Term, inputs_of: Inputs, uses: Mapping[Term, int], fused_into: dict[Term, str]
    ) -> tuple[int, tuple[Term, ...]]:
        """Return the picoseconds of `term` in a graph, and the operators below that are fused into its kernel.

        `fused_into` must know the inputs of `term` and gets an entry for `term` (see `time_share`).
        """
        if term.op == "Out":
            return 0, ()
        kernel = fused_kernel(term, inputs_of, uses) if term.op in FUSION_ROOTS else None
        if kernel is not None:
            return self._isolated(kernel.term), kernel.absorbed
        share = time_share(term, inputs_of[term], uses, fused_into)
        time = int(self._isolated(term) * share) if share else 0
        return time + self._bias(term), ()

    def weight_read_ps(self, weight_bytes: int) -> int:
        """Return the picoseconds of reading `weight_bytes` bytes of constants from memory."""
        return int(weight_bytes * self.model.seconds_per_weight_byte * 1e12)

    def _isolated(self, term: Term) -> int:
        cost = self._isolated_ps.get(term)
        if cost is None:
            cost = self._isolated_ps[term] = max(1, round(self.model.cost(untransposed(term)) * 1e12))
        return cost

    def _bias(self, term: Term) -> int:
        """Return the picoseconds of adding a Gemm's constant bias; the cost model prices a Gemm without it."""
        found = self._bias_ps.get(term)
        if found is None:
            addition = bias_addition(term)
            found = self._bias_ps[term] = 0 if addition is None else int(self._isolated(addition) * BIAS_SHARE)
        return found

    def weight(self, weight: Term, whole: bool = True) -> Weight:
        """Return the bytes of a constant, the number of operators that are folded away in it, and the time for that.

        Unless an operator reads it as a `whole`, its bytes count in the times of the operators that read some rows.
        """
        found = self._weights.get(weight)
        if found is None:
            terms = sum(1 for t in topological((weight,)) if t.inputs)
            folding_ps = round(folding_seconds((weight,)) / SECONDS_PER_PS) if terms else 0
            found = self._weights[weight] = Weight(bytes_of(weight.type), terms, folding_ps)
        return found if whole else found._replace(bytes=0)


def append_run_time_terms(order: list[Term], roots: Sequence[Term], known: Container[Term], seen: set[Term]) -> None:
    """Append the run-time terms below `roots` to `order`, inputs first; skip leaves and terms in `known` or `seen`.

    The traversal is inlined for speed, because it runs for every priced rewrite.
    """
    stack: list[Term | None] = list(reversed(roots))
    open_terms: list[Term] = []
    while stack:
        term = stack.pop()
        if term is None:  # all inputs of the last open term are done
            order.append(open_terms.pop())
        elif not (term.is_constant or term in seen or term.op == "Var" or term in known):
            seen.add(term)
            open_terms.append(term)
            stack.append(None)
            stack.extend([i for i in term.inputs if i is not None and not (i.is_constant or i in seen)])
