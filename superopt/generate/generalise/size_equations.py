"""Solves equations between the sizes of a rule for single sizes, in the simple cases that occur.

This solver is not trusted: it selects generalisations and instances to try, and only a proof counts. The kernel has a
solver of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from superopt.ir.dim import Atom, Dim, Quotient, Size, evaluate, floor_div, symbol, symbols_of
from superopt.ir.infer import IllTyped
from superopt.ir.rule import Condition, Rule, Signature, SignatureValue
from superopt.ir.term import Attr

__all__ = [
    "free_size_count", "pinned", "ratios", "solve", "solved_sizes", "tie_counts", "typing_conditions", "unsolved",
]  # fmt: skip


def typing_conditions(rule: Rule, signature: Signature) -> tuple[dict[Condition, None], list[str]]:
    """Return the conditions on sizes under which both sides are typed alike and have elements, and the symbols of the
    signature. Raises IllTyped."""
    needs: dict[Condition, None] = {}

    def need(relation: str, left: Size, right: Size) -> None:
        needs[Condition(relation, left, right)] = None

    for a, b in zip(*rule.instantiate(signature, need, need), strict=True):
        assert a.type is not None and b.type is not None and a.type.shape is not None and b.type.shape is not None
        if len(a.type.shape) != len(b.type.shape):
            raise IllTyped("ranks differ")
        for m, n in zip(a.type.shape, b.type.shape, strict=True):
            if m != n:
                need("==", m, n)
            need("<=", 1, m)
    bindings = signature.bindings()
    values: list[Attr] = list(bindings.attrs.values())
    values += [size for t in bindings.terms.values() for size in (t.type.shape if t.type and t.type.shape else ())]
    flat = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    names = dict.fromkeys(name for size in flat if isinstance(size, Dim) for name in sorted(symbols_of(size)))
    return needs, list(names)


def free_size_count(rule: Rule, signature: Signature) -> int:
    """Return the number of sizes that may be chosen freely, or -1 if the rule cannot be typed.

    The more free sizes, the more general the rule.
    """
    try:
        needs, names = typing_conditions(rule, signature)
        return len(names) - sum(_ties(needs, set(names)))
    except (IllTyped, KeyError):
        return -1


def tie_counts(rule: Rule, signature: Signature) -> tuple[int, int]:
    """Return the number of equations between sizes that typing requires, and of those that fix a size to a number.

    Raises IllTyped if the rule cannot be typed.
    """
    needs, names = typing_conditions(rule, signature)
    return _ties(needs, set(names))


def solved_sizes(rule: Rule, signature: Signature) -> dict[str, Size]:
    """Return the sizes that typing determines, in terms of other sizes; empty if the rule cannot be typed."""
    try:
        needs, names = typing_conditions(rule, signature)
        return solve(needs, set(names))
    except (IllTyped, KeyError):
        return {}


def pinned(rule: Rule, signature: Signature) -> Signature:
    """Return the signature with literals for the sizes that typing fixes to a number."""
    solved = {name: size for name, size in solved_sizes(rule, signature).items() if isinstance(size, int)}
    shapes = tuple(
        (name, tuple(solved.get(f"{name}.shape[{k}]", s) if s is None else s for k, s in enumerate(shape)))
        for name, shape in signature.shapes
    )
    attrs: list[tuple[str, SignatureValue]] = []
    for name, value in signature.attrs:
        if isinstance(value, tuple):
            value = tuple(solved.get(f"{name}[{k}]", v) if v is None else v for k, v in enumerate(value))
        attrs.append((name, solved.get(name) if value is None else value))
    return replace(signature, shapes=shapes, attrs=tuple(attrs))


def solve(needs: Mapping[Condition, None], names: set[str]) -> dict[str, Size]:
    """Return sizes in terms of other sizes, from the equations among the conditions that can be solved for one size."""
    env: dict[str, Size] = {}
    for _ in range(2):  # a solution makes earlier equations simpler
        for condition in needs:
            if condition.relation == "==":
                value = _reduced(condition, env)
                found = _read_off(value, names)
                for name, size in _ones(value) or ([] if found is None else [found]):
                    env = {known: evaluate(old, {name: size}) for known, old in env.items()}
                    env[name] = size
    return env


def _ones(value: Size) -> list[tuple[str, Size]]:
    """Return (name, 1) for sizes that must be 1, because n sizes add up to n and no size is less than 1."""
    if not isinstance(value, Dim):
        return []
    sign = 1 if value.terms[-1][1] > 0 else -1
    named = [(monomial[0], c * sign) for monomial, c in value.terms if len(monomial) == 1]
    total = sum(c for _, c in named) + sign * sum(c for monomial, c in value.terms if not monomial)
    sizes = len(named) + sum(not monomial for monomial, _ in value.terms) == len(value.terms)
    if total or not sizes or any(c < 0 or not isinstance(name, str) or ".shape" not in name for name, c in named):
        return []
    return [(str(name), 1) for name, _ in named]


def _ties(needs: Mapping[Condition, None], names: set[str]) -> tuple[int, int]:
    """Count the equations between sizes, and those that fix a size to a number."""
    env = solve(needs, names)
    numbers = sum(isinstance(size, int) for size in env.values())
    return len(env) - numbers + len(unsolved(needs, env)), numbers


def unsolved(needs: Mapping[Condition, None], env: Mapping[str, Size]) -> dict[Dim, None]:
    """Return the expressions that must be 0 in addition to the solved sizes.

    Equations that only say that one number divides another are left out, because both numbers stay free.
    """
    found: dict[Dim, None] = {}
    for condition in needs:
        value = _reduced(condition, env) if condition.relation == "==" else 0
        if isinstance(value, Dim) and -value not in found and not any(_is_remainder(value, a) for a in value.atoms()):
            found[value] = None
    return found


def _is_remainder(value: Dim, quotient: Atom) -> bool:
    """Return True if `value` is the remainder of a quotient's division, up to a factor."""
    if not isinstance(quotient, Quotient):
        return False
    rest = quotient.numerator - quotient.denominator * floor_div(quotient.numerator, quotient.denominator)
    times = math.gcd(*(coefficient for _, coefficient in value.terms))
    return times * rest in (value, -value)


def _reduced(condition: Condition, env: Mapping[str, Size]) -> Size:
    """Return the difference of the condition's sides, divided by sizes that are factors of all its terms."""
    try:
        value = evaluate(condition.right, env) - evaluate(condition.left, env)
    except ZeroDivisionError:
        raise IllTyped(f"{condition} divides by 0") from None
    while isinstance(value, Dim):
        (first, _), *rest = value.terms
        common = [atom for atom in first if rest and all(atom in monomial for monomial, _ in rest)]
        if not common or not isinstance(common[0], str):
            break
        value = floor_div(value, symbol(common[0]))
    return value


def _read_off(value: Size, names: set[str]) -> tuple[str, Size] | None:
    """Solve `value` = 0 for one size: return its name and its value, or None."""
    if not isinstance(value, Dim):
        return None
    for monomial, coefficient in value.terms:
        name = monomial[0] if len(monomial) == 1 else None
        if not isinstance(name, str) or name not in names:
            continue
        offset = value - coefficient * symbol(name)
        if isinstance(offset, int) and offset % coefficient == 0:
            return name, -offset // coefficient
        if abs(coefficient) == 1:
            rest = -coefficient * offset
            if name not in symbols_of(rest):
                return name, rest
    return None


def ratios(values: Iterable[Dim], names: set[str]) -> dict[str, tuple[Size, Size]]:
    """Return the sizes that are quotients if these expressions are 0, as (numerator, denominator).

    For example, z[0] in z[0] * z[1] - x.shape[0] * x.shape[1].
    """
    found: dict[str, tuple[Size, Size]] = {}
    for value in values:
        used = {*found, *(name for pair in found.values() for size in pair for name in symbols_of(size))}
        ratio = _as_ratio(value, names - used)
        if ratio is not None and found.keys().isdisjoint(value.symbols):
            name, product, by = ratio
            found[name] = (product, by)
    return found


def _as_ratio(value: Dim, names: set[str]) -> tuple[str, Size, Size] | None:
    """Return a name, and the numerator and denominator that it is the quotient of if `value` is 0; or None."""
    for monomial, coefficient in reversed(value.terms):
        for name in monomial:
            alone = [m for m, _ in value.terms if name in m] == [monomial] and monomial.count(name) == 1
            if alone and isinstance(name, str) and name in names and all(isinstance(a, str) for a in monomial):
                by = math.prod((symbol(str(atom)) for atom in monomial if atom != name), start=abs(coefficient))
                rest = by * symbol(name) - (value if coefficient > 0 else -value)
                if name not in symbols_of(rest):
                    return name, rest, by
    return None
