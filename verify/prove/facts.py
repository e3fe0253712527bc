"""Decide integer facts about sizes and indices: cheap checks first (`verify.prove.bounds`), then Z3.

In the prover only this module and `verify.prove.real_queries` talk to Z3. Every answer "entailed" is a Z3 `unsat` or
follows from an interval argument; giving up is never an answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import z3

from superopt.ir.dim import DataIndex, Dim, symbols_of
from superopt.ops.algebra import Guard
from verify.propose.points import completed, simple_points
from verify.prove.bounds import Ranges, Witness, satisfies
from verify.prove.encoding import Encoder
from verify.prove.real_queries import RealQuery

__all__ = ["Effort", "Facts", "FindModel", "Observer", "Query", "SolverQuery", "encoded_query", "solver_version"]

_MOST_WITNESSES = 6
# Limit of Z3's own count of work. A clock would give other answers on a slow or busy machine.
_RESOURCES = 1_000_000
_NONLINEAR = 100_000  # the limit with products of symbols: Z3 seldom decides such queries, and there are many


def solver_version() -> str:
    """Return the name and version of the solver, for certificates."""
    return f"z3 {z3.get_version_string()}"


@dataclass(frozen=True)
class Query:
    """A query that Z3 found unsatisfiable: `facts` and not `goal` (`facts` alone if `goal` is None)."""

    facts: tuple[Guard, ...]
    goal: Guard | None
    exact: bool


class Effort(Exception):
    """A proof exceeds its limit of steps or of nesting."""


# The preferred values of a symbol, best first.
Wish: TypeAlias = Callable[[str], Iterable[int]]


class FindModel(Protocol):
    """The type of the method `Facts.model`."""

    def __call__(self, most: int, least: int, wish: Wish | None = None) -> dict[str, int] | None: ...


# A query about integers or about reals.
SolverQuery: TypeAlias = Query | RealQuery
# Called with each query that a proof relies on: those that Z3 found unsatisfiable, and no others.
Observer: TypeAlias = Callable[[SolverQuery], None]


class Facts:
    """A set of guards taken as true, and the queries about it. The guards never change.

    Points that satisfy the guards are kept as witnesses. A witness can answer a query with "not shown" without the
    solver; it never answers "shown".
    """

    def __init__(
        self, guards: Iterable[Guard], shared: Shared | None = None, witnesses: Iterable[Witness] = ()
    ) -> None:
        # Each proof has its own context: in a shared one, Z3's answers depend on earlier queries.
        self.shared = shared or Shared()
        self.guards = tuple(dict.fromkeys(g for g in guards if g.decided() is not True))
        self._known = frozenset(self.guards)
        self.false = any(g.decided() is False for g in self.guards)
        self.names = frozenset(name for g in self.guards for name in symbols_of(g.value))
        self._witnesses = [w for w in witnesses if satisfies(w, self.guards)]
        self._answers: dict[Guard, bool] = {}
        self._easy: dict[Guard, bool] = {}
        self._children: dict[tuple[Guard, ...], Facts] = {}

    def extended(self, guards: Iterable[Guard]) -> Facts:
        """Return these facts together with more guards."""
        more = tuple(g for g in guards if g not in self._known and g.decided() is not True)
        if not more:
            return self
        if more not in self._children:
            witnesses = [completed(w, more) for w in self._witnesses]
            self._children[more] = Facts(self.guards + more, self.shared, witnesses)
        return self._children[more]

    def rebuilt(self, guards: Iterable[Guard]) -> Facts:
        """Return other facts that share the state of this proof."""
        return Facts(guards, self.shared)

    def easily_entails(self, guard: Guard) -> bool:
        """Return True if the linear query shows `entails`: each product of symbols is an unknown of its own."""
        if self.false or guard in self._known:
            return True
        decided = guard.decided()
        if decided is not None:
            return decided
        if guard not in self._easy:
            answer = not self._violated(guard) and (self._answers.get(guard) or self._entails(guard, (False,)))
            self._easy[guard] = bool(answer)
        return self._easy[guard]

    def entails(self, guard: Guard) -> bool:
        """Return True if `guard` is shown to hold wherever the facts do. False means "not shown"."""
        if self.false or guard in self._known:
            return True
        decided = guard.decided()
        if decided is not None:
            return decided or self.inconsistent()
        if guard not in self._answers:
            self._answers[guard] = not self._violated(guard) and self._entails(guard)
        return self._answers[guard]

    def inconsistent(self) -> bool:
        """Return True if the facts are shown to contradict each other."""
        if self.false:
            return True
        impossible = Guard("<=", -1)
        if impossible not in self._answers:
            self._answers[impossible] = (
                not self._witnesses and not self._ends and (self._ranges.empty or self._refuted(None))
            )
        return self._answers[impossible]

    def refutes(self, guard: Guard) -> bool:
        """Return True if `guard` is shown to fail wherever the facts hold."""
        decided = guard.decided()
        if decided is not None:
            return not decided or self.false
        if guard.relation == "<=":
            return self.entails(guard.negated())
        return self.extended([guard]).inconsistent()

    def satisfiable(self, most: int, least: int) -> bool:
        """Return True if the facts hold at a point with sizes from `least` to `most`, proposed or found by Z3."""
        for point in simple_points(self.names, self.guards, least, most):
            if satisfies(point, self.guards):
                self._witnesses.append(point)
                return True
        found = self.model(most, least)
        if found is not None and satisfies(found, self.guards):
            self._witnesses.append(found)
        return found is not None

    def model(self, most: int, least: int, wish: Wish | None = None) -> dict[str, int] | None:
        """Return values of all symbols that satisfy the facts, sizes from `least` to `most`; None if none are found.

        `wish` lists preferred values for a symbol; the first that is consistent with the facts and the symbols before
        is taken. If none is, Z3 chooses, and its choice differs from process to process.
        """
        solver = z3.Solver(ctx=self.shared.context)
        solver.set("ctrl_c", False)  # else an interrupt is answered by "unknown", and goes unheard
        solver.set("rlimit", _RESOURCES)
        encoder = self.shared.encoder(True)
        for guard in self.guards:
            encoded = encoder.encoded(guard)
            solver.add(encoded.formula, *encoded.definitions)
        unknowns = {name: encoder.unknown(name) for name in sorted(self.names)}
        for name, unknown in unknowns.items():
            solver.add(unknown <= most)
            if ".shape" in name:
                solver.add(unknown >= least)
        for name, unknown in unknowns.items() if wish is not None else ():
            assert wish is not None
            for value in wish(name):
                solver.push()
                solver.add(unknown == value)
                if solver.check() == z3.sat:
                    break
                solver.pop()
        if solver.check() != z3.sat:
            return None
        found = solver.model()
        return {name: encoder.value(found, name) for name in unknowns}

    def _violated(self, guard: Guard) -> bool:
        """Return True if the guard fails at a known point where the facts hold."""
        names = symbols_of(guard.value)
        if isinstance(guard.value, Dim) and any(isinstance(atom, DataIndex) for atom in guard.value.atoms()):
            return False  # a point has no elements of tensors
        violated = (not satisfies(w, (guard,)) for w in self._witnesses if names <= w.keys())
        return any(violated) or any(not satisfies(w, (guard,)) for w in self._ends if names <= w.keys())

    def _entails(self, guard: Guard, ways: tuple[bool, ...] = (False, True)) -> bool:
        if self._ranges.entail(guard):
            return True
        return self._refuted(guard, ways)

    @cached_property
    def _ranges(self) -> Ranges:
        return Ranges(self.guards)

    @cached_property
    def _ends(self) -> list[Witness]:
        return self._ranges.ends(self.names, self.guards)

    def _refuted(self, goal: Guard | None, ways: tuple[bool, ...] = (False, True)) -> bool:
        """Return True if Z3 answers unsat for (facts and not goal).

        The first query has an unknown for each product of symbols, the second the products themselves. Raises Effort if
        no query is left.
        """
        self.shared.spend()
        for exact in ways:
            sought = self.names | (frozenset() if goal is None else symbols_of(goal.value))
            has_room = len(self._witnesses) < _MOST_WITNESSES
            answer, point = self.shared.scopes(exact).ask(self.guards, goal, sought if has_room else ())
            if point and satisfies(point, self.guards):
                self._witnesses.append(point)
            if answer == z3.unsat:
                if self.shared.observer is not None:
                    self.shared.observer(Query(self.guards, goal, exact))
                return True
            if answer == z3.sat:
                return False
        return False


class _Scopes:
    """The solver for the queries of one kind in a proof, with the guards of the last query, each in its own scope.

    Facts extend each other, so most queries begin with the guards of the one before.
    """

    def __init__(self, encoder: Encoder, context: z3.Context, resources: int) -> None:
        self._encoder, self._context = encoder, context
        self._solver = solver = z3.SimpleSolver(ctx=context)
        solver.set("ctrl_c", False)  # else an interrupt is answered by "unknown", and goes unheard
        solver.set("rlimit", resources)
        self._held: list[Guard] = []
        self._weaker = [False]  # whether the assertions are weaker than the first guards, for each number of them

    def ask(
        self, guards: Sequence[Guard], goal: Guard | None, sought: Iterable[str]
    ) -> tuple[z3.CheckSatResult, Witness]:
        """Return Z3's answer for (guards and not goal), and if it is sat, the values of the symbols `sought`.

        The answer is "unknown" if the assertions are satisfiable but weaker than that.
        """
        self._hold(guards)
        weaker = self._weaker[-1]
        self._solver.push()
        if goal is not None:
            encoded = self._encoder.encoded(goal)
            weaker = weaker or encoded.weaker
            self._assert(z3.Not(encoded.formula), *encoded.definitions)
        answer, point = self._solver.check(), {}
        if answer == z3.sat and weaker:
            answer = z3.unknown
        elif answer == z3.sat and sought:
            model = self._solver.model()
            point = {name: self._encoder.value(model, name) for name in sorted(sought)}
        return answer, point

    def _hold(self, guards: Sequence[Guard]) -> None:
        """Assert these guards and no others. The last goal goes too, and whatever an interrupt has left."""
        common = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(self._held, guards, strict=False))
        scopes = self._solver.num_scopes()
        kept = min(scopes, sum(1 for _ in common))
        self._solver.pop(scopes - kept)
        del self._held[kept:], self._weaker[kept + 1 :]
        for guard in guards[kept:]:
            encoded = self._encoder.encoded(guard)
            self._held.append(guard)
            self._weaker.append(encoded.weaker or self._weaker[-1])
            self._solver.push()
            self._assert(encoded.formula, *encoded.definitions)

    def _assert(self, *formulas: z3.BoolRef) -> None:
        for formula in formulas:  # `Solver.add` looks for quantifiers and more at each
            z3.Z3_solver_assert(self._context.ref(), self._solver.solver, formula.as_ast())


class Shared:
    """Shared state of all facts of one proof: Z3's context and solvers, the limit and the observer of queries."""

    def __init__(self, observer: Observer | None = None) -> None:
        self.observer = observer
        self._left: int | None = None  # queries left; None: no limit
        self._encoders: dict[bool, Encoder] = {}
        self._scopes: dict[bool, _Scopes] = {}

    def allow(self, questions: int | None) -> None:
        """Allow so many more queries (None: no limit). A count, because times differ from run to run."""
        self._left = questions

    def spend(self) -> None:
        """Count one query. Raises Effort if none is left."""
        if self._left is not None:
            if not self._left:
                raise Effort("questions")
            self._left -= 1

    @cached_property
    def context(self) -> z3.Context:
        """The Z3 context, made at the first query: many proofs need none."""
        return z3.Context()

    def encoder(self, exact: bool) -> Encoder:
        """Return the formulas of guards, for queries of one kind."""
        if exact not in self._encoders:
            self._encoders[exact] = Encoder(exact, self.context)
        return self._encoders[exact]

    def scopes(self, exact: bool) -> _Scopes:
        """Return the solver for queries of one kind."""
        if exact not in self._scopes:
            self._scopes[exact] = _Scopes(self.encoder(exact), self.context, _NONLINEAR if exact else _RESOURCES)
        return self._scopes[exact]


def encoded_query(query: Query, context: z3.Context) -> list[z3.BoolRef]:
    """Encode the query anew: a solver that has answered it holds simplified assertions (at times only `false`)."""
    encoder = Encoder(query.exact, context)
    found = [encoder.encoded(guard) for guard in query.facts]
    formulas = [each.formula for each in found]
    if query.goal is not None:
        found.append(encoder.encoded(query.goal))
        formulas.append(z3.Not(found[-1].formula))
    return formulas + [definition for each in found for definition in each.definitions]
