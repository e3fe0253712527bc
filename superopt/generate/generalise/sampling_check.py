"""Trying a rule at random sizes: a cheap check that picks the right generalisation before anything is proven."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.generalise.size_equations import ratios as size_ratios
from superopt.generate.generalise.size_equations import solve, unsolved
from superopt.generate.generalise.size_equations import ties as size_ties
from superopt.ir.dim import Dim, Size, evaluate, floor_div, symbols_of
from superopt.ir.infer import IllTyped
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Condition, Rule, Signature, SignatureValue
from superopt.ir.term import Attr, AttrVar, Term, var
from superopt.ir.types import TensorType

__all__ = ["SamplingCheck"]

_SIZES = (1, 2, 3, 4, 6)
_ATTEMPTS = 150


class SamplingCheck:
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
            return len(names) - sum(size_ties(needs, set(names)))
        except (IllTyped, KeyError):
            return -1

    def ties(self, rule: Rule, signature: Signature) -> tuple[int, int]:
        """How many equations between sizes typing needs, and how many that give a size as a number. Raises IllTyped
        where it cannot be typed."""
        needs, names = _needs(rule, signature)
        return size_ties(needs, set(names))

    def pinned(self, rule: Rule, signature: Signature) -> Signature:
        """The signature with those sizes as literals that typing fixes to a number."""
        try:
            needs, names = _needs(rule, signature)
            solved = {name: size for name, size in solve(needs, set(names)).items() if isinstance(size, int)}
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
            return solve(needs, set(names))
        except (IllTyped, KeyError):
            return {}

    def _draw(self, rule: Rule, signature: Signature, rng: random.Random) -> Iterator[dict[str, int]]:
        """Up to three choices of sizes that satisfy what the typing of both sides needs."""
        needs, names = _needs(rule, signature)
        solved = solve(needs, set(names))
        ratios = size_ratios(unsolved(needs, solved), set(names))
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
