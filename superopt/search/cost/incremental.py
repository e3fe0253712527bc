"""What a graph would cost after a move, in the time that it takes to look at the move, however large the graph is.

price(after) = price(before) + what is made - what nothing uses any more
               + (new - old) of operators that the runtime fuses otherwise then
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from superopt.ir.term import Term
from superopt.search.cost.graph_cost import DEPENDENT, GraphCost, Price, collect, transposed_weights
from superopt.search.cost.runtime_fusion import DEPTH, KERNELS, NEEDS, PARTS
from superopt.search.match.graph_index import GraphIndex

__all__ = ["Changeable"]


class Changeable:
    """A graph, and what its price is made of."""

    def __init__(self, costs: GraphCost, view: GraphIndex) -> None:
        self.view, self._costs = view, costs
        self._inputs = {term: term.inputs for term in view.computed}
        self._uses: dict[Term, int] = {}
        for inputs in (*self._inputs.values(), view.outputs):
            for used in inputs:
                if used is not None:
                    self._uses[used] = self._uses.get(used, 0) + 1
        self._fused: dict[Term, str] = {}
        self._parts: dict[Term, int] = {}
        self._absorbed: dict[Term, tuple[Term, ...]] = {}
        for term in view.computed:
            self._parts[term], absorbed = costs.part(term, self._inputs, self._uses, self._fused)
            if absorbed:
                self._absorbed[term] = absorbed
        self._time = sum(self._parts.values())
        self._weights = {i for term in view.computed for i in term.inputs if i is not None and i.weight_only}
        self._before = _Sums()
        self._before.count(view.computed, 1)
        for weight in self._weights:
            self._before.read(costs.weight(weight), 1)
        self._known: dict[tuple[Sequence[Term], Sequence[Term]], Price] = {}
        self._over: dict[Term, tuple[Term, ...]] = {}
        # Operators that may be the last of a kernel, as the graph stands.
        self._lasts = {op for op in KERNELS if op in view.by_key and NEEDS.get(op, op) in view.by_key}

    def price(self, roots: tuple[Term, ...], results: tuple[Term, ...]) -> Price:
        """The price of the graph with `roots` exchanged for `results`, none of which is computed from a root.

        The exchange is not carried out: terms above the roots keep their identity, so that a term which
        would come to equal another one is counted twice. Then the price is too high, never too low.
        """
        key = (roots, results)
        if key not in self._known:
            self._known[key] = self._price(roots, results)
        return self._known[key]

    def known(self, roots: tuple[Term, ...], results: tuple[Term, ...], above: Collection[Term]) -> Price | None:
        """The price after that exchange, if it was asked for before and is exact: `above` are the terms that those
        above the roots have become."""
        if len(set(above)) < len(above) or not self.view.position.keys().isdisjoint(above):
            return None
        return self._known.get((roots, results))

    def _price(self, roots: tuple[Term, ...], results: tuple[Term, ...]) -> Price:
        becomes = dict(zip(roots, results, strict=True))
        made: list[Term] = []
        collect(results, self._parts, made, set())
        uses = self._uses.copy()
        touched = dict.fromkeys(results)  # whose uses may be others
        for term in made:
            for used in term.inputs:
                if used is not None:
                    uses[used] = uses.get(used, 0) + 1
                    touched[used] = None
        for root, result in becomes.items():
            uses[result] = uses.get(result, 0) + uses.pop(root)
        gone: dict[Term, None] = {}
        stack = list(becomes)
        while stack:
            term = stack.pop()
            gone[term] = None
            for used in term.inputs:
                if used is not None:
                    used = becomes.get(used, used)
                    left = uses[used] = uses[used] - 1
                    touched[used] = None
                    if not left and used in self._parts and used not in results:  # a result counts, used or not
                        stack.append(used)
        sums = self._before.copy()
        sums.count(made, 1)
        sums.count(gone, -1)
        outputs: list[Term] | None = None
        for term in touched:
            if term.weight_only:
                if outputs is None:
                    outputs = [becomes.get(output, output) for output in self.view.outputs]
                read = uses[term] > outputs.count(term)  # by an operator
                if read != (term in self._weights):
                    sums.read(self._costs.weight(term), 1 if read else -1)
        time = self._time_after(becomes, made, gone, touched, uses) + self._costs.reading(sums.weight_bytes)
        return Price(time, sums.nodes, sums.transposed, sums.weight_bytes, sums.weight_terms)

    def _above(self, term: Term) -> tuple[Term, ...]:
        """Operators over `term` that depend on it in what they take."""
        found = self._over.get(term)
        if found is None:
            users = (user for user in self.view.users.get(term, ()) if user.op in DEPENDENT and user in self._parts)
            found = self._over[term] = (*users, *self._kernels(term))
        return found

    def _kernels(self, term: Term) -> list[Term]:
        """The operators, `term` or over it, that may be the last of a kernel which it is in, or ends."""
        if not self._lasts:
            return []
        reached = dict.fromkeys([term] if term in self._parts else [])
        level = list(reached)
        for _ in range(DEPTH - 1):
            over = [user for below in level for user in self.view.users.get(below, ()) if user.op in PARTS]
            level = [user for user in over if user in self._parts and user not in reached]
            reached.update(dict.fromkeys(level))
        return sorted((last for last in reached if last.op in self._lasts), key=self.view.position.__getitem__)

    def _time_after(
        self,
        becomes: Mapping[Term, Term],
        made: Sequence[Term],
        gone: Collection[Term],
        touched: Iterable[Term],
        uses: Mapping[Term, int],
    ) -> int:
        """What all operators take after the change."""
        before, parts = self._parts, dict[Term, int]()
        fused, inputs_of, absorbed_by = self._fused.copy(), self._inputs.copy(), self._absorbed.copy()
        queue = list(made)
        for term in made:
            inputs_of[term] = term.inputs
            for op, needed in NEEDS.items():  # what was no kernel for want of it
                if term.op == needed and op not in self._lasts:
                    queue += self.view.by_key.get(op, ())
        for root in becomes:
            queue += self._above(root)
            for user in self.view.users.get(root, ()):
                inputs_of[user] = tuple([i if i is None else becomes.get(i, i) for i in user.inputs])
        for term in touched:
            if (uses[term] == 1) != (self._uses.get(term) == 1):
                queue += self._above(term)
        waiting = set(queue)
        for term in queue:  # which grows
            if term not in waiting or term in gone:
                continue
            waiting.remove(term)
            kind = fused.pop(term, None)
            parts[term], absorbed_by[term] = self._costs.part(term, inputs_of, uses, fused)
            if fused.get(term) != kind:
                above = [*self._above(term), *(user for user in made if term in user.inputs)]
                for root, result in becomes.items():
                    above += self._above(root) if result is term else ()
                queue += above
                waiting.update(above)
        time = self._time
        for term, part in parts.items():
            time += part - before.get(term, 0)
        for term in gone:
            time -= before[term]
        for last, absorbed in absorbed_by.items():
            if absorbed and last not in gone:
                time -= sum([parts[term] if term in parts else before[term] for term in absorbed])
        return time


class _Sums:
    """What a price counts beside the time."""

    def __init__(self, nodes: int = 0, transposed: int = 0, weight_bytes: int = 0, weight_terms: int = 0) -> None:
        self.nodes, self.transposed, self.weight_bytes, self.weight_terms = (
            nodes, transposed, weight_bytes, weight_terms,
        )  # fmt: skip

    def copy(self) -> _Sums:
        return _Sums(self.nodes, self.transposed, self.weight_bytes, self.weight_terms)

    def count(self, terms: Iterable[Term], sign: int) -> None:
        """Adds or takes away operators."""
        for term in terms:
            if term.op != "Out":
                self.nodes += sign
                if term.op == "Gemm":
                    self.transposed += sign * transposed_weights(term)

    def read(self, weight: tuple[int, int], sign: int) -> None:
        """Adds or takes away a weight."""
        self.weight_bytes += sign * weight[0]
        self.weight_terms += sign * weight[1]
