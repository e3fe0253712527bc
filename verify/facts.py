"""Deciding integer facts about sizes and indices: cheap checks first, then Z3.

This is the only module that talks to Z3. Every answer "entailed" is a Z3 `unsat` or follows from an
interval argument; giving up is never an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import z3

from superopt.ir.dim import Atom, Dim, Quotient, Size, evaluate, symbol, symbols_of
from verify.algebra import Guard

__all__ = ["Facts", "Observer", "Query", "solver_version"]

# Z3's own count of work, not a clock: the same answers on a slow machine and on a busy one.
_RESOURCES = 5_000_000


def solver_version() -> str:
    """Name and version of the solver, for certificates."""
    return f"z3 {z3.get_version_string()}"


@dataclass(frozen=True)
class Query:
    """Is there a point where `facts` hold and `goal` fails (None: where `facts` hold)? Z3 found that there is none."""

    facts: tuple[Guard, ...]
    goal: Guard | None
    exact: bool

    def script(self) -> str:
        """The query as a self-contained SMT-LIB 2 script, as it was put to Z3.

        Encoded anew: what a solver holds after it has answered is simplified by it (down to `false`), so that nothing
        would be left to check.
        """
        context = z3.Context()
        solver = z3.Solver(ctx=context)
        encoder = _Encoder(self.exact, context)
        for guard in self.facts:
            solver.add(encoder.guard(guard))
        if self.goal is not None:
            solver.add(z3.Not(encoder.guard(self.goal)))
        solver.add(encoder.definitions())
        return f"(set-logic QF_NIA)\n{solver.to_smt2()}"


# Hears each query that a proof relies on: those that Z3 found unsatisfiable, and no others.
Observer: TypeAlias = Callable[[Query], None]


class Facts:
    """A set of guards taken as true, with the questions that can be asked of it. Immutable."""

    def __init__(
        self, guards: Iterable[Guard], context: z3.Context | None = None, observer: Observer | None = None
    ) -> None:
        # A context of its own for each proof: in a shared one Z3's answers depend on what was asked before.
        self._context = context or z3.Context()
        self._observer = observer
        self.guards = tuple(dict.fromkeys(g for g in guards if g.decided() is not True))
        self.false = any(g.decided() is False for g in self.guards)
        self._answers: dict[Guard, bool] = {}
        self._solvers: dict[bool, tuple[z3.Solver, bool]] = {}
        self._lower: dict[str, int] | None = None
        self._children: dict[tuple[Guard, ...], Facts] = {}
        self.queries = 0

    def extended(self, guards: Iterable[Guard]) -> Facts:
        """These facts and some more."""
        more = tuple(g for g in guards if g.decided() is not True and g not in self.guards)
        if not more:
            return self
        if more not in self._children:
            self._children[more] = Facts(self.guards + more, self._context, self._observer)
        return self._children[more]

    def entails(self, guard: Guard) -> bool:
        """Whether `guard` holds wherever the facts do. False means "not shown"."""
        if self.false:
            return True
        decided = guard.decided()
        if decided is not None:
            return decided or self.inconsistent()
        if guard not in self._answers:
            self._answers[guard] = self._entails(guard)
        return self._answers[guard]

    def inconsistent(self) -> bool:
        """Whether the facts are shown to contradict each other."""
        if self.false:
            return True
        impossible = Guard("<=", -1)
        if impossible not in self._answers:
            self._answers[impossible] = self._refuted(None)
        return self._answers[impossible]

    def refutes(self, guard: Guard) -> bool:
        """Whether `guard` is shown to fail wherever the facts hold."""
        decided = guard.decided()
        if decided is not None:
            return not decided or self.false
        if guard.relation == "<=":
            return self.entails(guard.negated())
        return self.extended([guard]).inconsistent()

    def model(self, most: int, least: int, wish: Callable[[str], int] | None = None) -> dict[str, int] | None:
        """Values of all symbols that satisfy the facts, sizes between `least` and `most`; None where none is found.

        Where `wish` names a value for a symbol, that one is taken if the facts and the wishes before it allow it.
        """
        solver = z3.Solver(ctx=self._context)
        solver.set("rlimit", _RESOURCES)
        encoder = _Encoder(True, self._context)
        for guard in self.guards:
            solver.add(encoder.guard(guard))
        names = sorted({name for guard in self.guards for name in symbols_of(guard.value)})
        unknowns = {name: z3.Int(name, self._context) for name in names}
        for name, unknown in unknowns.items():
            solver.add(unknown <= most)
            if ".shape" in name:
                solver.add(unknown >= least)
        solver.add(encoder.definitions())
        for name, unknown in unknowns.items() if wish is not None else ():
            assert wish is not None
            solver.push()
            solver.add(unknown == wish(name))
            if solver.check() != z3.sat:
                solver.pop()
        if solver.check() != z3.sat:
            return None
        found = solver.model()
        return {name: found.eval(unknown, model_completion=True).as_long() for name, unknown in unknowns.items()}

    def _entails(self, guard: Guard) -> bool:
        if guard.relation == "<=" and self._bounded_below(guard.value):
            return True
        return self._refuted(guard)

    def _bounded_below(self, value: Size) -> bool:
        """0 <= value because every symbol is at its lower bound plus something, and no coefficient is negative."""
        if self._lower is None:
            self._lower = {}
            for g in self.guards:
                names = symbols_of(g.value)
                if g.relation == "<=" and len(names) == 1:
                    (name,) = names
                    bound = symbol(name) - g.value
                    if isinstance(bound, int):
                        self._lower[name] = max(bound, self._lower.get(name, bound))
        names = symbols_of(value)
        if not names <= self._lower.keys() or (
            isinstance(value, Dim) and any(isinstance(a, Quotient) for a in value.atoms())
        ):
            return False
        shifted = evaluate(value, {name: symbol(name) + self._lower[name] for name in names})
        if isinstance(shifted, int):
            return shifted >= 0
        return all(coefficient >= 0 for _, coefficient in shifted.terms)

    def _refuted(self, goal: Guard | None) -> bool:
        """unsat(facts and not goal): first with products of symbols as unknowns of their own, then exactly."""
        self.queries += 1
        for exact in (False, True):
            solver, weakened = self._prepared(exact)
            solver.push()
            encoder = _Encoder(exact, self._context)
            if goal is not None:
                solver.add(z3.Not(encoder.guard(goal)))
                solver.add(encoder.definitions())
            answer = solver.check()
            if answer == z3.unsat and self._observer is not None:
                self._observer(Query(self.guards, goal, exact))
            solver.pop()
            if answer == z3.unsat:
                return True
            if answer == z3.sat and not (weakened or encoder.weakened):
                return False
        return False

    def _prepared(self, exact: bool) -> tuple[z3.Solver, bool]:
        """A solver that holds the facts, and whether it holds them only in a weakened form."""
        if exact not in self._solvers:
            solver = z3.SimpleSolver(ctx=self._context)
            solver.set("rlimit", _RESOURCES)
            encoder = _Encoder(exact, self._context)
            for guard in self.guards:
                solver.add(encoder.guard(guard))
            solver.add(encoder.definitions())
            self._solvers[exact] = (solver, encoder.weakened)
        return self._solvers[exact]


class _Encoder:
    """Sizes as Z3 integers. Not `exact`: each product of symbols is an unknown of its own (a sound weakening)."""

    def __init__(self, exact: bool, context: z3.Context) -> None:
        self.exact, self.weakened, self._context = exact, False, context
        self._quotients: dict[Quotient, z3.ArithRef] = {}

    def guard(self, guard: Guard) -> z3.BoolRef:
        value = self.size(guard.value)
        return value == 0 if guard.relation == "==" else value >= 0

    def size(self, value: Size) -> z3.ArithRef:
        if isinstance(value, int):
            return z3.IntVal(value, self._context)
        total = []
        for monomial, coefficient in value.terms:
            total.append(self._monomial(monomial) * coefficient if monomial else z3.IntVal(coefficient, self._context))
        return z3.Sum(total) if len(total) > 1 else total[0]  # SMT-LIB has no sum of one term

    def _monomial(self, monomial: tuple[Atom, ...]) -> z3.ArithRef:
        atoms = [self._atom(atom) for atom in monomial]
        if len(atoms) == 1:
            return atoms[0]
        if not self.exact:
            self.weakened = True
            return z3.Int("product " + " * ".join(map(str, monomial)), self._context)
        result = atoms[0]
        for atom in atoms[1:]:
            result = result * atom
        return result

    def _atom(self, atom: Atom) -> z3.ArithRef:
        if isinstance(atom, str):
            return z3.Int(atom, self._context)
        if atom not in self._quotients:
            self._quotients[atom] = z3.Int(f"quotient {atom}", self._context)
        return self._quotients[atom]

    def definitions(self) -> list[z3.BoolRef]:
        """q = floor(n / d): d*q <= n < d*q + d and 0 < d, for every quotient met."""
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
