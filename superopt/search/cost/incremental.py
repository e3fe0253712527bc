"""Incremental cost: prices a rewrite in time proportional to the terms that it touches, however large the graph is.

price(after) = price(before) + time of created operators - time of operators that became unused
               + (new time - old time) of operators that the runtime fuses differently afterwards
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from superopt.ir.term import Term
from superopt.search.cost.fused_kernels import FUSED_OPERATORS, FUSION_ROOTS, MAX_FUSION_DEPTH, REQUIRED_OPERATORS
from superopt.search.cost.graph_cost import NO_WEIGHT, GraphCost, Price, Weight, append_run_time_terms
from superopt.search.cost.runtime_fusion import CONTEXT_DEPENDENT, count_transposed_weights
from superopt.search.cost.work import tables
from superopt.search.match.graph_index import GraphIndex

__all__ = ["IncrementalCost"]


class IncrementalCost:
    """Prices rewrites of one graph. Holds the graph's index and the times of the graph's operators."""

    def __init__(self, costs: GraphCost, index: GraphIndex) -> None:
        self.index, self._costs = index, costs
        self._inputs = {term: term.inputs for term in index.computed}
        self._uses: dict[Term, int] = {}
        for inputs in (*self._inputs.values(), index.outputs):
            for used in inputs:
                if used is not None:
                    self._uses[used] = self._uses.get(used, 0) + 1
        self._fused_into: dict[Term, str] = {}
        self._times: dict[Term, int] = {}
        self._absorbed: dict[Term, tuple[Term, ...]] = {}
        for term in index.computed:
            self._times[term], absorbed = costs.time_in_graph(term, self._inputs, self._uses, self._fused_into)
            if absorbed:
                self._absorbed[term] = absorbed
        self._total_ps = sum(self._times.values())
        self._row_uses = Counter(used for term in index.computed for used in tables(term))  # of tables
        self._weights: dict[Term, bool] = {}  # True if an operator reads the constant as a whole
        for term in index.computed:
            rows = tables(term)
            for used in term.inputs:
                if used is not None and used.is_constant:
                    self._weights[used] = self._weights.get(used, False) or used not in rows
        self._before = _Counts()
        self._before.add_operators(index.computed, 1)
        for weight, whole in self._weights.items():
            self._before.add_weight(costs.weight(weight, whole), 1)
        self._prices: dict[tuple[Sequence[Term], Sequence[Term]], Price] = {}
        self._dependents_of: dict[Term, tuple[Term, ...]] = {}
        # Operators that can be the root of a fused kernel in this graph.
        here = index.by_key.keys()
        self._roots_here = {
            op for op in FUSION_ROOTS & here if not REQUIRED_OPERATORS.get(op, FUSION_ROOTS).isdisjoint(here)
        }

    def price(self, roots: tuple[Term, ...], results: tuple[Term, ...]) -> Price:
        """Return the price of the graph with `roots` replaced by `results`.

        No result may be computed from a root, unless that root stays: it is its own result. The replacement is not
        carried out: terms above the roots keep their identity. A term that would become equal to another one is counted
        twice, so the price may be too high, never too low.
        """
        key = (roots, results)
        if key not in self._prices:
            self._prices[key] = self._price(roots, results)
        return self._prices[key]

    def time_ps(self, terms: Iterable[Term]) -> int:
        """Return the picoseconds that these terms take in the graph."""
        return sum(self._times.get(term, 0) for term in terms)

    def exact_price(self, roots: tuple[Term, ...], results: tuple[Term, ...], remade: Collection[Term]) -> Price | None:
        """Return the price that `price(roots, results)` computed before, if it is exact, else None.

        `remade` are the new terms above the roots. The price is exact if all of them are different and none is already
        in the graph.
        """
        if len(set(remade)) < len(remade) or not self.index.position.keys().isdisjoint(remade):
            return None
        return self._prices.get((roots, results))

    def _price(self, roots: tuple[Term, ...], results: tuple[Term, ...]) -> Price:
        replaced = {root: result for root, result in zip(roots, results, strict=True) if root is not result}
        created: list[Term] = []
        append_run_time_terms(created, results, self._times, set())
        uses = self._uses.copy()
        touched = dict.fromkeys(results)  # terms whose uses may change
        for term in created:
            for used in term.inputs:
                if used is not None:
                    uses[used] = uses.get(used, 0) + 1
                    touched[used] = None
        for root, result in replaced.items():
            uses[result] = uses.get(result, 0) + uses.pop(root)
        unused: dict[Term, None] = {}
        stack = list(replaced)
        while stack:
            term = stack.pop()
            unused[term] = None
            for used in term.inputs:
                if used is not None:
                    used = replaced.get(used, used)
                    left = uses[used] = uses[used] - 1
                    touched[used] = None
                    if not left and used in self._times and used not in results:  # results stay even if unused
                        stack.append(used)
        counts = self._before.copy()
        counts.add_operators(created, 1)
        counts.add_operators(unused, -1)
        outputs: list[Term] | None = None
        row_uses: Mapping[Term | None, int] | None = None
        for term in touched:
            if term.is_constant:
                if outputs is None or row_uses is None:
                    outputs = [replaced.get(output, output) for output in self.index.outputs]
                    row_uses = self._row_uses_after(replaced, created, unused)
                reads = uses[term] - outputs.count(term)  # by operators
                before, after = self._weights.get(term), reads > row_uses.get(term, 0) if reads else None
                if before is not None and after != before:
                    counts.add_weight(self._costs.weight(term, before), -1)
                if after is not None and after != before:
                    counts.add_weight(self._costs.weight(term, after), 1)
        time = self._time_after(replaced, created, unused, touched, uses)
        time += self._costs.weight_read_ps(counts.weights.bytes)
        return Price(time, *counts.fields)

    def _row_uses_after(
        self, replaced: Mapping[Term, Term], created: Iterable[Term], unused: Iterable[Term]
    ) -> Mapping[Term | None, int]:
        """Return how often each term is read as a table, by the graph after the rewrite."""
        found = self._row_uses.copy()
        for root, result in replaced.items():
            if root in found:
                found[result] += found.pop(root)
        found.update(used for term in created for used in tables(term))
        found.subtract(
            replaced.get(used, used) if used is not None else None for term in unused for used in tables(term)
        )
        return found

    def _dependents(self, term: Term) -> tuple[Term, ...]:
        """Return the operators above `term` whose time depends on it."""
        found = self._dependents_of.get(term)
        if found is None:
            users = (u for u in self.index.users.get(term, ()) if u.op in CONTEXT_DEPENDENT and u in self._times)
            found = self._dependents_of[term] = (*users, *self._fusion_roots_above(term))
        return found

    def _fusion_roots_above(self, term: Term) -> list[Term]:
        """Return the operators, `term` or above it, that may be the root of a fused kernel with `term` in it."""
        if not self._roots_here:
            return []
        reached = dict.fromkeys([term] if term in self._times else [])
        level = list(reached)
        for _ in range(MAX_FUSION_DEPTH - 1):
            above = [u for below in level for u in self.index.users.get(below, ()) if u.op in FUSED_OPERATORS]
            level = [user for user in above if user in self._times and user not in reached]
            reached.update(dict.fromkeys(level))
        return sorted((root for root in reached if root.op in self._roots_here), key=self.index.position.__getitem__)

    def _time_after(
        self,
        replaced: Mapping[Term, Term],
        created: Sequence[Term],
        unused: Collection[Term],
        touched: Iterable[Term],
        uses: Mapping[Term, int],
    ) -> int:
        """Return the picoseconds of all operators after the rewrite.

        A worklist holds the operators whose time may have changed: created operators, and users of a changed kernel.
        """
        before, times = self._times, dict[Term, int]()
        fused_into, inputs_of, absorbed_by = self._fused_into.copy(), self._inputs.copy(), self._absorbed.copy()
        queue = list(created)
        for term in created:
            inputs_of[term] = term.inputs
            for op, required in REQUIRED_OPERATORS.items():  # roots that lacked these operators until now
                if term.op in required and op not in self._roots_here:
                    queue += self.index.by_key.get(op, ())
        for root in replaced:
            queue += self._dependents(root)
            for user in self.index.users.get(root, ()):
                inputs_of[user] = tuple([i if i is None else replaced.get(i, i) for i in user.inputs])
        for term in touched:
            if (uses[term] == 1) != (self._uses.get(term) == 1):
                queue += self._dependents(term)
        waiting = set(queue)
        for term in queue:  # the queue grows in this loop
            if term not in waiting or term in unused:
                continue
            waiting.remove(term)
            kind = fused_into.pop(term, None)
            times[term], absorbed_by[term] = self._costs.time_in_graph(term, inputs_of, uses, fused_into)
            if fused_into.get(term) != kind:
                above = [*self._dependents(term), *(user for user in created if term in user.inputs)]
                for root, result in replaced.items():
                    above += self._dependents(root) if result is term else ()
                queue += above
                waiting.update(above)
        total = self._total_ps
        for term, time in times.items():
            total += time - before.get(term, 0)
        for term in unused:
            total -= before[term]
        for root, absorbed in absorbed_by.items():
            if absorbed and root not in unused:
                total -= sum([times[term] if term in times else before[term] for term in absorbed])
        return total


class _Counts:
    """The fields of a price other than the time."""

    def __init__(self, nodes: int = 0, transposed: int = 0, weights: Weight = NO_WEIGHT) -> None:
        self.nodes, self.transposed, self.weights = nodes, transposed, weights

    @property
    def fields(self) -> tuple[int, ...]:
        """The fields in the order of `Price`."""
        return self.nodes, self.transposed, *self.weights

    def copy(self) -> _Counts:
        return _Counts(self.nodes, self.transposed, self.weights)

    def add_operators(self, terms: Iterable[Term], sign: int) -> None:
        """Add (sign 1) or remove (sign -1) operators."""
        for term in terms:
            if term.op != "Out":
                self.nodes += sign
                self.transposed += sign * count_transposed_weights(term)

    def add_weight(self, weight: Weight, sign: int) -> None:
        """Add (sign 1) or remove (sign -1) a weight."""
        self.weights = Weight(*(sum_ + sign * part for sum_, part in zip(self.weights, weight, strict=True)))
