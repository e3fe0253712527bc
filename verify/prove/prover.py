"""The prover: decides if two tuples of typed terms with symbolic sizes are equal (Proved, Refuted or Unknown).

Obligation: left side well-typed and defined, and guards  =>  right side well-typed and defined, same shapes and values.
Conditions of the right side's typing that the left side's typing does not imply become guards.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from superopt.ir.dim import Dim, Size, evaluate, symbol, symbols_of
from superopt.ir.infer import OPERATORS, REAL_ATTRS, IllTyped, infer
from superopt.ir.rule import Condition
from superopt.ir.term import Term, topological
from superopt.ir.types import FLOAT_DTYPES
from superopt.ops.algebra import Algebra, Guard, at_least
from superopt.ops.meaning import Meaning, NoSemantics
from verify.prove.compare import Comparison
from verify.prove.facts import Effort, Facts, FindModel, Observer, Shared
from verify.prove.floating import Floating, Inexact, rounds_exactly
from verify.prove.lookups import all_among, lookups
from verify.prove.outputs import QUESTIONS, defined_everywhere, element_types, output_place, same_output
from verify.prove.recurrence import apart, in_steps
from verify.prove.roundings import roundings
from verify.prove.specialize import resized
from verify.prove.sums import quotients_in, quotients_of
from verify.prove.symbolic import Symbolic
from verify.verdict import Counterexample, Proved, Refuted, Unknown, Verdict

__all__ = ["Refuter", "facts_of", "prove", "solved_sizes"]

Terms = tuple[Term, ...]
_FRAMES = 10_000
_LARGE = 2**24  # a size that no axis exceeds


# Searches for sizes and values at which the sides differ. Its arguments: both sides, the sizes that other sizes
# determine, and a source of sizes at which all conditions hold. It can keep a rule from being proven, nothing else.
Refuter: TypeAlias = Callable[[Terms, Terms, Mapping[str, Size], FindModel], Counterexample | None]


def prove(left: Terms, right: Terms, observer: Observer | None = None, refute: Refuter | None = None) -> Verdict:
    """Prove `left` and `right` equal for all sizes. Both have one typed term an output, over the same `Var` leaves.

    Symbols of sizes range over all integers from 1, symbols of integer attributes over the values that typing allows.
    `observer` is called with the queries behind the verdict (`verify.prove.facts.Observer`) and cannot change it. If
    the usual readings show nothing, `refute` searches for a counterexample before the most expensive reading is tried.
    """
    if any(_unbounded(term) for term in topological(left + right)):
        return Unknown("a real attribute is no finite number (a symbolic one is `*`)")
    try:
        needs = _needs(left)
    except IllTyped as error:
        return Unknown(f"the left side is ill-typed: {error}")
    except NoSemantics as error:
        return Unknown(str(error))
    typed = env = solved_sizes(needs)
    try:
        first_left, first_right = resized(left, env), resized(right, env)
        left_facts = facts_of(_needs(first_left), first_left + first_right, observer)
        guards = _missing(left_facts, first_left, first_right)
        known = solved_sizes(guards)
        if any(isinstance(size, int) for size in known.values()):
            return _only_at_special_sizes(left, right, typed, left_facts, refute)
        env = {**{name: evaluate(size, known) for name, size in env.items()}, **known}
        last_left, last_right = resized(left, env), resized(right, env)
        solved = [Condition(c.relation, evaluate(c.left, env), evaluate(c.right, env)) for c in guards]
        facts = facts_of(_needs(last_left) + _needs(last_right) + solved, last_left + last_right, observer)
    except IllTyped as error:
        return Refuted(f"the right side is ill-typed: {error}", _where_left_is_typed(left, right, typed, refute))
    except NoSemantics as error:
        return Unknown(str(error))
    try:
        before, after = lookups(last_left), lookups(last_right)
        removed, added = (not all_among(*pair, facts) for pair in ((before, tuple(after)), (after, tuple(before))))
    except NoSemantics as error:
        return Unknown(str(error))
    whole = last_left + last_right
    last_left, last_right = apart(in_steps(last_left), in_steps(last_right))
    try:
        positive = _positive(last_left, last_right, facts)
    except NoSemantics as error:
        return Unknown(str(error))
    facts = facts.extended(map(_guard, positive))
    guards += positive
    conditions = tuple(dict.fromkeys(needs + guards))
    if not facts.satisfiable(most=64, least=2) or _bounded(guards, env, facts, left_facts):
        return _only_at_special_sizes(left, right, typed, left_facts, refute)
    fewer, more = _possible_failures(left, right)
    removed, added = removed or fewer, added or more
    proof, reason = None, "the right side may stop the run with an error on integers where the left side does not"
    if not added:
        proof, reason = _first(last_left, last_right, facts, _readings(last_left + last_right, whole))
    if proof is not None:
        return _completed(proof, conditions, guards, removed)
    counterexample = refute and refute(left, right, env, facts.model)
    if counterexample is not None:
        return Refuted("the values differ", counterexample)
    if not added:
        proof, reason = _first(last_left, last_right, facts, [_unfolded(last_left + last_right)])
    return Unknown(reason) if proof is None else _completed(proof, conditions, guards, removed)


def _completed(proof: Proved, conditions: tuple[Condition, ...], guards: list[Condition], removed: bool) -> Proved:
    """Return the proof with its conditions; `removed`: a possible failure of the left side is not on the right."""
    return replace(proof, conditions=conditions, guards=tuple(guards), defined_left=proof.defined_left or removed)


# A reading of the terms: a class of numerics, the algebra of its proofs, and the algebra of the compared sums.
Reading: TypeAlias = tuple[str, Algebra, Symbolic]


def _readings(terms: Terms, whole: Terms) -> list[Reading]:
    """Return the readings to try, strictest class first; "exact" only if IEEE 754 determines every operator."""
    dtypes = element_types(terms)
    if any(term.op == "Constant" for term in topological(whole)):  # known numbers: sums over them are computed
        tabulated = Symbolic(dtypes, tabulated=True)
        return [("real-only", tabulated, tabulated)]
    careful, symbolic, floating = Symbolic(dtypes, careful=True), Symbolic(dtypes), Floating(dtypes)
    found: list[Reading] = [("reassociating", careful, careful), ("real-only", symbolic, symbolic)]
    if rounds_exactly(whole):
        found.insert(0, ("exact", floating, floating.sums))
    return found


def _unfolded(terms: Terms) -> Reading:
    """Return the last reading: Sigmoid and Tanh expressed by exp, short sums written out."""
    algebra = Symbolic(element_types(terms), unfolded=True)
    return "real-only", algebra, algebra


def _first(left: Terms, right: Terms, facts: Facts, readings: Iterable[Reading]) -> tuple[Proved | None, str]:
    """Return the first proof that succeeds, or None and the reason why none does."""
    # Only the comparison's own limits may stop a proof: Python's recursion limit depends on the caller's depth.
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _FRAMES))
    try:
        return _first_of(left, right, facts, readings)
    finally:
        sys.setrecursionlimit(limit)


def _first_of(left: Terms, right: Terms, facts: Facts, readings: Iterable[Reading]) -> tuple[Proved | None, str]:
    reason = ""
    for numerics, algebra, sums in readings:
        comparison = Comparison(sums)
        facts.shared.allow(QUESTIONS)
        try:
            defined = defined_everywhere(algebra, sums, left)
            pairs = zip(left, right, strict=True)
            equal = all(same_output(algebra, sums, comparison, facts, a, b, defined) for a, b in pairs)
        except Effort:
            equal, reason = False, "the comparison grew too large"
        except Inexact:
            continue
        else:
            reason = "the normal forms do not match"
        finally:
            facts.shared.allow(None)
        if equal:
            rounded = None if numerics == "exact" else (roundings(left), roundings(right))
            return Proved((), (), comparison.cases + len(left), numerics, rounded, comparison.defined_left), ""
    return None, reason


def _where_left_is_typed(
    left: Terms, right: Terms, env: Mapping[str, Size], refute: Refuter | None
) -> Counterexample | None:
    """Return a counterexample at sizes where the left side is well-typed, or None."""
    typed = resized(left, env)
    return refute and refute(left, right, env, facts_of(_needs(typed), typed, None).model)


def _unbounded(term: Term) -> bool:
    """Return True if a real attribute is infinite, NaN or a size. Clip may have infinite bounds: they mean no bound."""
    floats = [v for _, v in term.attrs if isinstance(v, float)]
    infinite = any(map(math.isinf, floats)) and term.op != "Clip"
    return (
        infinite
        or any(map(math.isnan, floats))
        or any(name in REAL_ATTRS and isinstance(v, Dim) for name, v in term.attrs)
    )


def _possible_failures(left: Terms, right: Terms) -> tuple[bool, bool]:
    """Return if a term on integers that may stop the run is on the left side only, and if one is on the right only.

    Such a term fails at some values, even in elements that nothing reads.
    """

    def fails(term: Term) -> bool:
        partial = term.op in OPERATORS and OPERATORS[term.op].integers == "partial"
        return partial and (term.type is None or term.type.dtype not in FLOAT_DTYPES)

    before, after = (set(filter(fails, topological(side))) for side in (left, right))
    return bool(before - after), bool(after - before)


def _only_at_special_sizes(
    left: Terms, right: Terms, env: Mapping[str, Size], left_facts: Facts, refute: Refuter | None
) -> Verdict:
    """Return the verdict on an equation whose guards leave finitely many values to a size."""
    shown = refute and refute(left, right, env, left_facts.model)
    return Refuted("the sides agree in shape at special sizes only", shown) if shown else Unknown("vacuous guards")


def _bounded(guards: Iterable[Condition], env: Mapping[str, Size], facts: Facts, left_facts: Facts) -> bool:
    """Return True if the guards bound a size from above by a number, and the typing of the left side does not.

    A pool of every second element of a pool of every second element is a pool of every second element where both
    have one element: at 4 and 5 elements, and at no others. `env`: the sizes that `facts` has other sizes for.
    """
    apart = Facts(facts.guards)  # its queries and witnesses must not influence the proof
    for name in sorted({name for guard in guards for name in symbols_of(_guard(guard).value) if ".shape" in name}):
        size = symbol(name)
        if apart.entails(at_least(_LARGE, evaluate(size, env))) and not left_facts.entails(at_least(_LARGE, size)):
            return True
    return False


def _needs(terms: Terms) -> list[Condition]:
    """Return the conditions on symbolic sizes under which `terms` are well-typed. Raises IllTyped or NoSemantics."""
    found: dict[Condition, None] = {}

    def need(relation: str, left: Size, right: Size) -> None:
        found[Condition(relation, left, right)] = None

    for term in topological(terms):
        if term.op in OPERATORS:
            infer(term.op, term.inputs, dict(term.attrs), "float" if term.type is None else term.type.dtype, need)
        elif term.op not in ("Var", "Out"):
            raise NoSemantics(term.op)
    return list(found)


def _missing(facts: Facts, left: Terms, right: Terms) -> list[Condition]:
    """Return the conditions of the right side's typing and of equal shapes that `facts` do not imply."""
    wanted = _needs(right)
    for a, b in zip(left, right, strict=True):
        if a.type is None or a.type.shape is None or b.type is None or b.type.shape is None:
            raise IllTyped(f"the sides have types {a.type} and {b.type}")
        if a.type.dtype != b.type.dtype or len(a.type.shape) != len(b.type.shape):
            raise IllTyped(f"the sides have types {a.type} and {b.type}")
        wanted += [Condition("==", m, n) for m, n in zip(a.type.shape, b.type.shape, strict=True) if m != n]
    missing: list[Condition] = []
    for condition in wanted:
        guard = _guard(condition)
        if guard.decided() is False:
            raise IllTyped(f"{condition} does not hold")
        if not facts.entails(guard):
            missing.append(condition)
            facts = facts.extended([guard])
    return missing


def _positive(left: Terms, right: Terms, facts: Facts) -> list[Condition]:
    """Return the conditions that denominators are at least 1, for those denominators where the facts do not imply it.

    A fact about a quotient is used only after its denominator is known to be at least 1: otherwise the quotient has no
    meaning.
    """
    meaning = Meaning(Symbolic(element_types(left + right)))
    met = [q for g in facts.guards for q in quotients_of(g.value)]
    for term in left + right:
        met += quotients_in(meaning.scalar(term, output_place(term)))
    for term in topological(left + right):
        met += [q for type in term.types if type is not None for s in type.shape or () for q in quotients_of(s)]
    open_ones = dict.fromkeys(q.denominator for q in met)
    known: set[Size] = set()
    while True:
        plain = facts.rebuilt(g for g in facts.guards if all(q.denominator in known for q in quotients_of(g.value)))
        shown = {
            d
            for d in open_ones
            if all(q.denominator in known for q in quotients_of(d)) and plain.entails(at_least(d, 1))
        }
        if not shown:
            return [Condition("<=", 1, d) for d in open_ones]
        known |= shown
        open_ones = {d: None for d in open_ones if d not in shown}


def _guard(condition: Condition) -> Guard:
    return Guard(condition.relation, condition.right - condition.left)


def facts_of(conditions: Iterable[Condition], terms: Terms, observer: Observer | None) -> Facts:
    """Return the facts: the conditions, and that every size is at least 1."""
    guards = [_guard(condition) for condition in conditions]
    sizes = dict.fromkeys(
        size for t in topological(terms) if t.op == "Var" and t.type and t.type.shape for size in t.type.shape
    )
    return Facts([at_least(size, 1) for size in sizes] + guards, Shared(observer))


def solved_sizes(conditions: Iterable[Condition]) -> dict[str, Size]:
    """Solve the equations among the conditions, as far as possible, for one symbol each."""
    env: dict[str, Size] = {}
    for condition in conditions:
        if condition.relation != "==":
            continue
        value = evaluate(condition.right, env) - evaluate(condition.left, env)
        if not isinstance(value, Dim):
            continue
        for monomial, coefficient in value.terms:
            name = monomial[0] if len(monomial) == 1 else None
            if isinstance(name, str) and abs(coefficient) == 1:
                rest = -coefficient * (value - coefficient * symbol(name))
                if name not in symbols_of(rest):
                    env = {known: evaluate(size, {name: rest}) for known, size in env.items()}
                    env[name] = rest
                    break
    return env
