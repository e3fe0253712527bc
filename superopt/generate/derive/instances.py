"""Instances of a rule: ground equations at known sizes, which are then derived from other rules."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from superopt.generate.generalise.size_equations import solved_sizes
from superopt.ir.dim import Dim, Size, evaluate, symbols_of
from superopt.ir.infer import IllTyped
from superopt.ir.notation import show_signature
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Condition, Rule, Signature
from superopt.ir.term import Attr, AttrVar, Term, topological, var
from superopt.ir.types import FLOAT_DTYPES, TensorType

__all__ = ["Instance", "instances"]

_ATTEMPTS = 200
_EQUAL_ATTEMPTS = 4000  # with lists of equal numbers: one in 200 fits MaxPool from another MaxPool
_SIZES = tuple(range(2, 20))
_NUMBERS = (1, 2, 3)  # values of attributes: groups, pads, strides, parts
_LARGER = (4, 5, 6, 7)  # larger values, because windows must be larger than their pads
_ALL = range(8)  # values of lists of equal numbers, for rules that compute one window from others


@dataclass(frozen=True)
class Instance:
    """Both sides of a rule as typed terms of known sizes. `sizes` has the values of the signature's open sizes."""

    lhs: tuple[Term, ...]
    rhs: tuple[Term, ...]
    sizes: Mapping[str, int]


def instances(rule: Rule, signature: Signature, count: int = 2, conditions: Sequence[Condition] = ()) -> list[Instance]:
    """Return `rule` at `count` different choices of sizes at which both sides have the same types and `conditions`
    hold.

    There may be fewer choices if no more are found, and there is one if no size is open. The choices depend on the rule
    and the signature only. If possible, sizes that need not be equal differ, and no size is the same in two choices, so
    that an equation that only holds at special sizes is not taken for a consequence. Real attributes get numbers
    without special properties, whole ones if the operands are integers.
    """
    try:
        symbolic = signature.bindings()
        solved = solved_sizes(rule, signature)
    except (IllTyped, TypeError, IndexError):  # TypeError, IndexError: a symbol where an operator needs a number
        return []
    names = _symbols(symbolic)
    free = [name for name in names if name not in solved]
    found: list[Instance] = []
    for special, sizes in _choices(f"{rule.id} {show_signature(signature)}", free):
        if any(_too_alike(sizes, other.sizes, special) for other in found):
            continue
        env = {**sizes, **{name: evaluate(size, dict(sizes)) for name, size in solved.items()}}
        made = _at(rule, symbolic, env, conditions)
        if made is not None:
            found.append(made)
        if len(found) == (count if free else 1):
            break
    return found


def _choices(seed: str, names: Sequence[str]) -> Iterator[tuple[bool, dict[str, Size]]]:
    """Yield (special, random sizes).

    First come different sizes, then larger and smaller sizes that may be equal (`special`), then different sizes with
    larger numbers, and last different sizes with attributes whose numbers are all equal.
    """
    rng = random.Random(seed)
    shapes = [name for name in names if ".shape" in name]
    others = [name for name in names if ".shape" not in name]
    stages = ((_SIZES, _NUMBERS), (_SIZES[:6], _NUMBERS), ((1, *_SIZES[:3]), _NUMBERS), (_SIZES, _LARGER))
    for stage, choices in stages:
        special = stage is not _SIZES or len(shapes) > len(stage)
        for _ in range(_ATTEMPTS):
            sizes = rng.choices(stage, k=len(shapes)) if special else rng.sample(stage, len(shapes))
            numbers = rng.choices(choices, k=len(others))
            yield special, dict(zip((*shapes, *others), (*sizes, *numbers), strict=True))
    lists = list(dict.fromkeys(name.partition("[")[0] for name in others))
    for _ in range(_EQUAL_ATTEMPTS if lists and len(shapes) <= len(_SIZES) else 0):
        number = dict(zip(lists, rng.choices(_ALL, k=len(lists)), strict=True))
        sizes = rng.sample(_SIZES, len(shapes))
        yield False, {**dict(zip(shapes, sizes, strict=True)), **{n: number[n.partition("[")[0]] for n in others}}


def _too_alike(one: Mapping[str, Size], other: Mapping[str, Size], special: bool) -> bool:
    """Return True if two choices share a size or an attribute; if `special`, only if the choices are equal."""
    if special:
        return all(size == other[name] for name, size in one.items())
    same: dict[str, bool] = {}
    for name, size in one.items():
        whole = name if ".shape" in name else name.partition("[")[0]
        same[whole] = same.get(whole, True) and size == other[name]
    return any(same.values())


def _at(rule: Rule, symbolic: Bindings, env: Mapping[str, Size], conditions: Sequence[Condition]) -> Instance | None:
    """Return the instance at these sizes, or None if it is not well-typed or violates the conditions."""
    sizes = {name: size for name, size in env.items() if isinstance(size, int)}
    if len(sizes) < len(env) or any(size < ("shape" in name) for name, size in sizes.items()):
        return None
    terms: dict[str, Term] = {}
    for name, term in symbolic.terms.items():
        assert term.type is not None
        terms[name] = var(name, term.type.with_sizes(dict(env)))
    dtype = Bindings(terms, {}).dtype()
    # Distinct numbers that occur in no rule.
    first = 0.375 if dtype in FLOAT_DTYPES else 101.0
    bindings = Bindings(terms, _attributes(symbolic.attrs, env, first))
    if not all(condition.holds(bindings.shape_env()) for condition in conditions):
        return None
    try:
        if dtype is None:
            return None
        left, right = (instantiate(side, bindings, dtype) for side in (rule.lhs, rule.rhs))
    except IllTyped:
        return None
    known = all(_is_known(t) for term in topological((*left, *right)) for t in term.types)
    same = all(a.types == b.types for a, b in zip(left, right, strict=True))
    return Instance(left, right, sizes) if known and same else None


def _is_known(type: TensorType | None) -> bool:
    sizes = None if type is None else type.concrete()
    return sizes is not None and all(size >= 0 for size in sizes)


def _attributes(attrs: Mapping[str, Attr], env: Mapping[str, Size], first: float) -> dict[str, Attr]:
    """Return the attributes at these sizes; real ones are the numbers from `first` on."""

    def fill(value: Attr) -> Attr:
        if isinstance(value, tuple):
            return tuple(map(fill, value))
        if isinstance(value, AttrVar):
            return first + sorted(attrs).index(value.name)
        return evaluate(value, dict(env)) if isinstance(value, Dim) else value

    return {name: fill(value) for name, value in attrs.items()}


def _symbols(symbolic: Bindings) -> list[str]:
    """Return the names of the open sizes, in a fixed order."""
    values: list[Attr] = [t.type.shape for t in symbolic.terms.values() if t.type and t.type.shape]
    flat = [item for value in [*values, *symbolic.attrs.values()] for item in _items(value)]
    return list(dict.fromkeys(name for size in flat if isinstance(size, Dim) for name in sorted(symbols_of(size))))


def _items(value: Attr) -> tuple[Attr, ...]:
    return value if isinstance(value, tuple) else (value,)
