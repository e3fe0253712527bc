"""Evaluates both sides of a rule at random sizes: a cheap check that selects a generalisation before any proof."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.generalise.draft import NAMES
from superopt.generate.generalise.size_equations import ratios, solve, typing_conditions, unsolved
from superopt.ir.dim import Dim, Size, evaluate, floor_div
from superopt.ir.infer import IllTyped
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Attr, AttrVar, Term, var
from superopt.ir.types import TensorType

__all__ = ["SamplingCheck"]

_SIZES, _WIDE_SIZES = (1, 2, 3, 4, 6), (1, 4, 6, 8)  # of axes
_USUAL_ATTEMPTS, _ATTEMPTS = 150, 220  # to find sizes


class SamplingCheck:
    """Evaluates both sides of rules at random sizes. Verdicts are cached."""

    def __init__(self, evaluator: Evaluator, seed: int) -> None:
        self.evaluator, self.seed = evaluator, seed
        self._known: dict[tuple[str, Signature], bool | None] = {}
        self.count = 0

    def holds(self, rule: Rule, signature: Signature) -> bool | None:
        """Return True if both sides are equal at all sizes drawn, or None if no sizes make both sides well-typed."""
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

    def _draw(self, rule: Rule, signature: Signature, rng: random.Random) -> Iterator[dict[str, int]]:
        """Yield up to three choices of sizes that satisfy the typing conditions of both sides."""
        needs, names = typing_conditions(rule, signature)
        solved = solve(needs, set(names))
        quotients = ratios(unsolved(needs, solved), set(names))
        free = any(".shape" not in name and name not in solved for name in names)
        for whole in (2, 3, 1) if free else (1, 1):  # value of integer attributes such as group
            for attempt in range(_ATTEMPTS):
                env: dict[str, Size] = {}
                for name in names:
                    if name not in solved and name not in quotients:
                        env[name] = rng.choice(_sizes(name, whole, attempt))
                try:
                    for name, (product, by) in quotients.items():
                        # The conditions below check that the division is exact.
                        env[name] = floor_div(evaluate(product, env), evaluate(by, env))
                    full = {**env, **{name: evaluate(size, env) for name, size in solved.items()}}
                except ZeroDivisionError:  # by an attribute that other choices make 0
                    continue
                known = {name: size for name, size in full.items() if isinstance(size, int)}
                fits = len(known) == len(full) and all(known[name] >= 1 for name in names if ".shape" in name)
                if fits and all(c.holds(dict(known)) for c in needs):
                    yield known
                    break

    def _equal(self, rule: Rule, signature: Signature, env: Mapping[str, int], rng: random.Random, sign: int) -> bool:
        """Return True if both sides are typed and equal at these sizes."""
        bindings = _concrete(signature, env, rng, sign)
        try:
            dtype = bindings.dtype() or "float"
            left, right = (instantiate(side, bindings, dtype) for side in (rule.lhs, rule.rhs))
        except IllTyped:
            return False
        return all(self.evaluator.key(a) == self.evaluator.key(b) for a, b in zip(left, right, strict=True))


def _concrete(signature: Signature, env: Mapping[str, int], rng: random.Random, sign: int = 1) -> Bindings:
    """Return the signature's bindings with sizes from `env` and random integers of this sign for real attributes."""
    symbolic = signature.bindings()
    terms: dict[str, Term] = {}
    for name, term in symbolic.terms.items():
        assert term.type is not None and term.type.shape is not None
        shape = tuple(evaluate(size, dict(env)) for size in term.type.shape)
        terms[name] = var(name, TensorType(term.type.dtype, shape))
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
    """Return the values that a size or attribute is drawn from. Sizes need not all be equal.

    The last attempts have room for a Slice of a Slice.
    """
    wide = attempt >= _USUAL_ATTEMPTS
    if ".shape" in name:
        return _WIDE_SIZES if wide else _SIZES if attempt % 2 else _SIZES[1:]
    if wide and name.startswith(NAMES["ends"]):
        return tuple(range(whole + 1, whole + 7))
    return (whole, whole + 1) if "[" in name else (whole,)
