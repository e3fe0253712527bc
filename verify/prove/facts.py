"""Decide integer facts about sizes and indices: cheap checks first (`verify.prove.bounds`), then Z3.

In the prover only this module and `verify.prove.real_queries` talk to Z3. Every answer "entailed" is a Z3 `unsat` or
follows from an interval argument; giving up is never an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import z3

from superopt.ir.dim import Atom, Dim, Quotient, Size, symbols_of
from superopt.ops.algebra import Guard
from verify.propose.points import completed, simple_points
from verify.prove.bounds import Ranges, Witness, satisfies
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
        self._solvers: dict[bool, tuple[z3.Solver, bool]] = {}
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
        encoder = _Encoder(True, self.shared.context)
        for guard in self.guards:
            solver.add(encoder.guard(guard))
        names = sorted({name for guard in self.guards for name in symbols_of(guard.value)})
        unknowns = {name: z3.Int(name, self.shared.context) for name in names}
        for name, unknown in unknowns.items():
            solver.add(unknown <= most)
            if ".shape" in name:
                solver.add(unknown >= least)
        solver.add(encoder.definitions())
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
        return {name: found.eval(unknown, model_completion=True).as_long() for name, unknown in unknowns.items()}

    def _violated(self, guard: Guard) -> bool:
        """Return True if the guard fails at a known point where the facts hold."""
        names = symbols_of(guard.value)
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
            solver, weakened = self._prepared(exact)
            solver.push()
            if goal is not None:
                encoded, definitions, more = self.shared.encoded(goal, exact)
                weakened = weakened or more
                solver.add(z3.Not(encoded), *definitions)
            answer = solver.check()
            if answer == z3.sat and not weakened and len(self._witnesses) < _MOST_WITNESSES:
                self._remember(solver.model(), goal)
            solver.pop()
            if answer == z3.unsat:
                if self.shared.observer is not None:
                    self.shared.observer(Query(self.guards, goal, exact))
                return True
            if answer == z3.sat and not weakened:
                return False
        return False

    def _remember(self, model: z3.ModelRef, goal: Guard | None) -> None:
        names = self.names | (frozenset() if goal is None else symbols_of(goal.value))
        context = self.shared.context
        point = {n: model.eval(z3.Int(n, context), model_completion=True).as_long() for n in sorted(names)}
        if satisfies(point, self.guards):
            self._witnesses.append(point)

    def _prepared(self, exact: bool) -> tuple[z3.Solver, bool]:
        """Return a solver with the facts asserted, and True if the assertions are weaker than the facts."""
        if exact not in self._solvers:
            solver = z3.SimpleSolver(ctx=self.shared.context)
            solver.set("ctrl_c", False)  # else an interrupt is answered by "unknown", and goes unheard
            solver.set("rlimit", _NONLINEAR if exact else _RESOURCES)
            weakened = False
            for guard in self.guards:
                encoded, definitions, more = self.shared.encoded(guard, exact)
                solver.add(encoded, *definitions)
                weakened = weakened or more
            self._solvers[exact] = (solver, weakened)
        return self._solvers[exact]


class Shared:
    """Shared state of all facts of one proof: Z3's context, encoded guards, the limit and the observer of queries."""

    def __init__(self, observer: Observer | None = None) -> None:
        self.observer = observer
        self._left: int | None = None  # queries left; None: no limit
        self._encoded: dict[tuple[Guard, bool], tuple[z3.BoolRef, list[z3.BoolRef], bool]] = {}

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

    def encoded(self, guard: Guard, exact: bool) -> tuple[z3.BoolRef, list[z3.BoolRef], bool]:
        """Return the encoded guard, the definitions of its quotients, and True if the encoding is weaker."""
        key = (guard, exact)
        if key not in self._encoded:
            encoder = _Encoder(exact, self.context)
            encoded, definitions = encoder.guard(guard), encoder.definitions()
            self._encoded[key] = (encoded, definitions, encoder.weakened)
        return self._encoded[key]


def encoded_query(query: Query, context: z3.Context) -> list[z3.BoolRef]:
    """Encode the query anew: a solver that has answered it holds simplified assertions (at times only `false`)."""
    encoder = _Encoder(query.exact, context)
    found = [encoder.guard(guard) for guard in query.facts]
    if query.goal is not None:
        found.append(z3.Not(encoder.guard(query.goal)))
    return found + encoder.definitions()


class _Encoder:
    """Encodes sizes as Z3 integers. Unless `exact`, each product of symbols is a fresh unknown (a sound weakening)."""

    def __init__(self, exact: bool, context: z3.Context) -> None:
        self.exact, self.weakened, self.context = exact, False, context
        self._quotients: dict[Quotient, z3.ArithRef] = {}

    def guard(self, guard: Guard) -> z3.BoolRef:
        value = self.size(guard.value)
        return value == 0 if guard.relation == "==" else value >= 0

    def size(self, value: Size) -> z3.ArithRef:
        if isinstance(value, int):
            return z3.IntVal(value, self.context)
        total = []
        for monomial, coefficient in value.terms:
            total.append(self._monomial(monomial) * coefficient if monomial else z3.IntVal(coefficient, self.context))
        return z3.Sum(total) if len(total) > 1 else total[0]  # SMT-LIB has no sum of one term

    def _monomial(self, monomial: tuple[Atom, ...]) -> z3.ArithRef:
        atoms = [self._atom(atom) for atom in monomial]
        if len(atoms) == 1:
            return atoms[0]
        if not self.exact:
            self.weakened = True
            return z3.Int("product " + " * ".join(map(str, monomial)), self.context)
        result = atoms[0]
        for atom in atoms[1:]:
            result = result * atom
        return result

    def _atom(self, atom: Atom) -> z3.ArithRef:
        if isinstance(atom, str):
            return z3.Int(atom, self.context)
        if atom not in self._quotients:
            self._quotients[atom] = z3.Int(f"quotient {atom}", self.context)
        return self._quotients[atom]

    def definitions(self) -> list[z3.BoolRef]:
        """Return d*q <= n < d*q + d and 0 < d for every encoded quotient q = floor(n / d)."""
        result: list[z3.BoolRef] = []
        done: set[Quotient] = set()
        while len(done) < len(self._quotients):
            for quotient in list(self._quotients):
                if quotient in done:
                    continue
                done.add(quotient)
                n, d = quotient.numerator, quotient.denominator
                product = d * Dim((((quotient,), 1),))
                result += [self.size(n - product) >= 0, self.size(product + d - 1 - n) >= 0, self.size(d) >= 1]
        return result
