"""Trying a rule at random sizes: a cheap check that picks the right generalisation before anything is proven."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping

from superopt.generate.fingerprints import Evaluator
from superopt.ir.dim import Atom, Dim, Size, evaluate, floor_div, symbol, symbols_of
from superopt.ir.infer import IllTyped
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Condition, Rule, Signature, SignatureValue
from superopt.ir.term import Attr, AttrVar, Term, var
from superopt.ir.types import TensorType

__all__ = ["Trial"]

_SIZES = (1, 2, 3, 4, 6)
_ATTEMPTS = 150


class Trial:
    """Evaluates both sides of rules at sizes drawn at random; verdicts are kept."""

    def __init__(self, evaluator: Evaluator, seed: int) -> None:
        self.evaluator, self.seed = evaluator, seed
        self._known: dict[tuple[str, Signature], bool | None] = {}
        self.count = 0

    def holds(self, rule: Rule, signature: Signature) -> bool | None:
        """Whether both sides are equal at all sizes drawn; None where no sizes were found at which both are typed."""
        key = (rule.id, signature)
        if key not in self._known:
            self.count += 1
            rng = random.Random(f"{self.seed} {rule.id} {signature}")
            try:
                sizes = list(self._draw(rule, signature, rng))
            except (IllTyped, KeyError):
                sizes = []
            same = all(self._equal(rule, signature, env, rng, -1 if k % 2 else 1) for k, env in enumerate(sizes))
            self._known[key] = same if sizes else None
            self.evaluator.forget()
        return self._known[key]

    def freedom(self, rule: Rule, signature: Signature) -> int:
        """How many sizes may be chosen freely: the more, the more general the rule; -1 where it cannot be typed."""
        try:
            needs, names = _needs(rule, signature)
            return len(names) - sum(_ties(needs, set(names)))
        except (IllTyped, KeyError):
            return -1

    def ties(self, rule: Rule, signature: Signature) -> tuple[int, int]:
        """How many equations between sizes typing needs, and how many that give a size as a number. Raises IllTyped
        where it cannot be typed."""
        needs, names = _needs(rule, signature)
        return _ties(needs, set(names))

    def pinned(self, rule: Rule, signature: Signature) -> Signature:
        """The signature with those sizes as literals that typing fixes to a number."""
        try:
            needs, names = _needs(rule, signature)
            solved = {name: size for name, size in _solve(needs, set(names)).items() if isinstance(size, int)}
        except (IllTyped, KeyError):
            return signature
        shapes = tuple(
            (name, tuple(solved.get(f"{name}.shape[{k}]", s) if s is None else s for k, s in enumerate(shape)))
            for name, shape in signature.shapes
        )
        attrs: list[tuple[str, SignatureValue]] = []
        for name, value in signature.attrs:
            if isinstance(value, tuple):
                value = tuple(solved.get(f"{name}[{k}]", v) if v is None else v for k, v in enumerate(value))
            attrs.append((name, solved.get(name) if value is None else value))
        return Signature(shapes, tuple(attrs))

    def solved(self, rule: Rule, signature: Signature) -> dict[str, Size]:
        """Sizes that typing gives in terms of others."""
        try:
            needs, names = _needs(rule, signature)
            return _solve(needs, set(names))
        except (IllTyped, KeyError):
            return {}

    def _draw(self, rule: Rule, signature: Signature, rng: random.Random) -> Iterator[dict[str, int]]:
        """Up to three choices of sizes that satisfy what the typing of both sides needs."""
        needs, names = _needs(rule, signature)
        solved = _solve(needs, set(names))
        ratios = _ratios(_unsolved(needs, solved), set(names))
        free = any(".shape" not in name and name not in solved for name in names)
        for whole in (2, 3, 1) if free else (1, 1):  # of attributes such as group, each value in turn
            for attempt in range(_ATTEMPTS):
                env: dict[str, Size] = {}
                for name in names:
                    if name not in solved and name not in ratios:
                        env[name] = rng.choice(_sizes(name, whole, attempt))
                for name, (product, by) in ratios.items():
                    env[name] = floor_div(evaluate(product, env), evaluate(by, env))  # whether exact is checked below
                full = {**env, **{name: evaluate(size, env) for name, size in solved.items()}}
                known = {name: size for name, size in full.items() if isinstance(size, int)}
                fits = len(known) == len(full) and all(known[name] >= 1 for name in names if ".shape" in name)
                if fits and all(c.holds(dict(known)) for c in needs):
                    yield known
                    break

    def _equal(self, rule: Rule, signature: Signature, env: Mapping[str, int], rng: random.Random, sign: int) -> bool:
        bindings = concrete(signature, env, rng, sign)
        try:
            left = instantiate(rule.lhs, bindings, "float")
            right = instantiate(rule.rhs, bindings, "float")
        except IllTyped:
            return False
        return all(self.evaluator.key(a) == self.evaluator.key(b) for a, b in zip(left, right, strict=True))


def _needs(rule: Rule, signature: Signature) -> tuple[dict[Condition, None], list[str]]:
    """What typing both sides, alike, needs of the sizes; and the symbols of the signature."""
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
    bindings = signature.bindings()
    values: list[Attr] = list(bindings.attrs.values())
    values += [size for t in bindings.terms.values() for size in (t.type.shape if t.type and t.type.shape else ())]
    flat = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    names = dict.fromkeys(name for size in flat if isinstance(size, Dim) for name in sorted(symbols_of(size)))
    return needs, list(names)


def concrete(signature: Signature, env: Mapping[str, int], rng: random.Random, sign: int = 1) -> Bindings:
    """The signature's bindings with sizes from `env` and arbitrary integers of this sign for real attributes."""
    symbolic = signature.bindings()
    terms: dict[str, Term] = {}
    for name, term in symbolic.terms.items():
        assert term.type is not None and term.type.shape is not None
        shape = tuple(evaluate(size, dict(env)) for size in term.type.shape)
        terms[name] = var(name, TensorType("float", shape))
    return Bindings(terms, {name: _number(value, env, rng, sign) for name, value in sorted(symbolic.attrs.items())})


def _number(value: Attr, env: Mapping[str, int], rng: random.Random, sign: int) -> Attr:
    if isinstance(value, AttrVar):
        return float(sign * rng.randrange(3, 1000))
    if isinstance(value, Dim):
        return evaluate(value, dict(env))
    if isinstance(value, tuple):
        return tuple(_number(item, env, rng, sign) for item in value)
    return value


def _sizes(name: str, whole: int, attempt: int) -> tuple[int, ...]:
    """What is drawn from: sizes of variables, and values of attributes, which need not be all equal."""
    if ".shape" in name:
        return _SIZES if attempt % 2 else _SIZES[1:]
    return (whole, whole + 1) if "[" in name else (whole,)


def _solve(needs: Mapping[Condition, None], names: set[str]) -> dict[str, Size]:
    """Sizes that the equations give in terms of others, as far as they can be read off."""
    env: dict[str, Size] = {}
    for _ in range(2):  # what is found makes earlier equations simpler
        for condition in needs:
            if condition.relation == "==":
                value = _reduced(condition, env)
                found = _read_off(value, names)
                for name, size in _ones(value) or ([] if found is None else [found]):
                    env = {known: evaluate(old, {name: size}) for known, old in env.items()}
                    env[name] = size
    return env


def _ones(value: Size) -> list[tuple[str, Size]]:
    """Sizes whose sum is their number, where that is what must be 0: each is 1, the least that a size can be."""
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
    env = _solve(needs, names)
    numbers = sum(isinstance(size, int) for size in env.values())
    return len(env) - numbers + len(_unsolved(needs, env)), numbers


def _unsolved(needs: Mapping[Condition, None], env: Mapping[str, Size]) -> dict[Dim, None]:
    """What must be 0 beside that; whether a number divides another aside, which leaves both of them free."""
    found: dict[Dim, None] = {}
    for condition in needs:
        value = _reduced(condition, env) if condition.relation == "==" else 0
        if isinstance(value, Dim) and -value not in found and not any(_is_remainder(value, a) for a in value.atoms()):
            found[value] = None
    return found


def _is_remainder(value: Dim, quotient: Atom) -> bool:
    if isinstance(quotient, str):
        return False
    rest = quotient.numerator - quotient.denominator * floor_div(quotient.numerator, quotient.denominator)
    times = math.gcd(*(coefficient for _, coefficient in value.terms))
    return times * rest in (value, -value)


def _reduced(condition: Condition, env: Mapping[str, Size]) -> Size:
    """What must be 0, without a size that is a factor of all of it."""
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
    """A name and its size where `value` is 0."""
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


def _ratios(values: Iterable[Dim], names: set[str]) -> dict[str, tuple[Size, Size]]:
    """Sizes that are quotients where these are 0: z[0] of z[0] * z[1] - x.shape[0] * x.shape[1]."""
    found: dict[str, tuple[Size, Size]] = {}
    for value in values:
        used = {*found, *(name for pair in found.values() for size in pair for name in symbols_of(size))}
        ratio = _as_ratio(value, names - used)
        if ratio is not None and found.keys().isdisjoint(value.symbols):
            name, product, by = ratio
            found[name] = (product, by)
    return found


def _as_ratio(value: Dim, names: set[str]) -> tuple[str, Size, Size] | None:
    """A name, and two sizes whose quotient it is where `value` is 0."""
    for monomial, coefficient in reversed(value.terms):
        for name in monomial:
            alone = [m for m, _ in value.terms if name in m] == [monomial] and monomial.count(name) == 1
            if alone and isinstance(name, str) and name in names and all(isinstance(a, str) for a in monomial):
                by = math.prod((symbol(str(atom)) for atom in monomial if atom != name), start=abs(coefficient))
                rest = by * symbol(name) - (value if coefficient > 0 else -value)
                if name not in symbols_of(rest):
                    return name, rest, by
    return None
