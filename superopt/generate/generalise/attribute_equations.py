"""Finds how attributes of the right side depend on the attributes of the target on the left side.

One attribute of the target at a time becomes a variable v with the value c at the instance. An entry with the value e
on the right side may then stay as it is, or become v, e + v - c, e - v + c, e * v (if c is 1) or e / c * v. So two
MaxPools of 5 and 9 become one with the kernel k + l - 1, and the pads of a Conv of blocks become b * p. Each choice is
checked at random values here, and proven later.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.generate.generalise.draft import Draft, Slot
from superopt.generate.generalise.sampling_check import SamplingCheck
from superopt.generate.generalise.size_equations import tie_counts
from superopt.ir.dim import Size, symbol
from superopt.ir.infer import IllTyped
from superopt.ir.pattern import Bindings, instantiate, match
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Attr, AttrVar, topological
from superopt.rulebook.variadic import Schema

__all__ = ["SOLVED", "with_attribute_equations"]

# Attributes that become variables, in this order, and the attributes that may depend on them.
_DEPENDENT: Mapping[str, tuple[str, ...]] = {
    "blocksize": ("blocksize", "strides", "pads", "kernel_shape", "dilations"),
    "scales": ("scales", "strides", "kernel_shape", "blocksize"),
    "kernel_shape": ("kernel_shape",),
    "strides": ("strides",),
    "dilations": ("dilations",),
    "pads": ("pads",),
    "group": ("group",),
    "indices": ("indices", "starts", "ends"),
}
SOLVED = frozenset(_DEPENDENT)
_MAX_TRIED = 256  # choices for one attribute
# Values to try are the instance's plus one of these, but at least the second number: pads stay smaller than windows.
_OFFSETS: Mapping[str, tuple[tuple[int, ...], int]] = {
    "blocksize": ((0, 1), 2), "scales": ((0, 1), 2), "kernel_shape": ((0, 1), 1), "strides": ((0, 1, 2), 1),
    "dilations": ((0, 1), 1), "pads": ((0, 1), 0), "group": ((0, 1), 1), "indices": ((0, 1), 0),
}  # fmt: skip
_SIZING = ("blocksize", "dilations", "group", "scales")  # other values need other sizes
_DRAWS, _HOLD = 24, 3  # a choice must hold at `_HOLD` random values; at others of `_DRAWS`, its sides may be ill-typed

_Entry = tuple[Size, int, Size, int]  # entry on the right side, its value at the instance, v, c
_Response = Callable[[Size, int, Size, int], Size | None]


def _replaced(old: Size, e: int, v: Size, c: int) -> Size | None:
    return v if old == e == c else None


def _kept(old: Size, e: int, v: Size, c: int) -> Size | None:
    return old


_RESPONSES: tuple[_Response, ...] = (
    _replaced,
    _kept,
    lambda old, e, v, c: old + v - c,
    lambda old, e, v, c: old * v if c == 1 else None,
    lambda old, e, v, c: e // c * v if isinstance(old, int) and c > 1 and e % c == 0 and e > c else None,
    lambda old, e, v, c: old - v + c,
)


@dataclass(frozen=True)
class _Place:
    """An entry of an attribute on the right side."""

    slot: Slot
    index: int | None  # None: the attribute is a number and not a list


def with_attribute_equations(draft: Draft, check: SamplingCheck) -> Draft:
    """Return the draft with variables for the target's attributes, as far as the right side can follow them."""
    for kind in _DEPENDENT:
        for term in topological(draft.equation.lhs):
            for name, value in term.attrs:
                # The prover decides little about windows of pooling with symbolic dilations, and slowly.
                if name == "dilations" and "kernel_shape" in dict(term.attrs):
                    continue
                if name == kind and (term, name) not in draft.filled and _numbers(value):
                    draft = _freed(draft, (term, name), check)
    return draft


def _numbers(value: Attr) -> bool:
    return isinstance(value, int) or (
        isinstance(value, tuple) and bool(value) and all(isinstance(item, int) for item in value)
    )


def _freed(draft: Draft, slot: Slot, check: SamplingCheck) -> Draft:
    """Return the draft with a variable for one attribute of the target, or the same draft."""
    term, kind = slot
    value = term.attr(kind)
    name = draft.fresh(kind)
    free = (None,) * len(value) if isinstance(value, tuple) else None
    variables = [symbol(f"{name}[{k}]") for k in range(len(value))] if isinstance(value, tuple) else [symbol(name)]
    wider = draft.filling({slot: AttrVar(name)}, {name: free}, kind)
    places = dict(_places(draft, kind, variables, value))
    groups: dict[tuple[Slot, int, int, bool], list[_Place]] = {}  # entries that depend on v in the same way
    for place, (_, e, _, c) in places.items():
        groups.setdefault((place.slot, e, c, _is_plain(draft, place)), []).append(place)
    options = []
    for (_, _, _, plain), group in groups.items():
        fitting = [r for r in _RESPONSES if all(r(*places[place]) is not None for place in group)]
        options.append(sorted(fitting, key=lambda r: r is not _kept) if plain else fitting)  # stable
    for choice in itertools.islice(itertools.product(*options), _MAX_TRIED):
        new = {
            place: response(*places[place])
            for response, group in zip(choice, groups.values(), strict=True)
            for place in group
        }
        try:
            tried = wider.filling(_filled(draft, new), {}, kind)
            schema = tried.schema()
        except IllTyped:
            continue
        if tried.rule().applicable and _holds(draft.equation, schema, name, check):
            return tried
    return draft


def _holds(equation: GroundEquation, schema: Schema, name: str, check: SamplingCheck) -> bool:
    """Return True if the rule holds at values of attribute `name` near the instance's, and of the other attributes.

    Typing must require no more than at the instance: if all sizes are 1, any stride will do.
    """
    bindings = match(schema.rule.lhs, equation.lhs)
    if bindings is None:
        return False
    rng, count = random.Random(len(bindings.attrs)), 0
    ties = tie_counts(schema.rule, Signature(schema.base.shapes, tuple(sorted(bindings.attrs.items()))))
    for number in range(_DRAWS):
        drawn = {
            key: _near(schema.kinds[key], value, rng) if number else value for key, value in bindings.attrs.items()
        }
        held = _holds_at_own_sizes(schema.rule, Bindings(bindings.terms, drawn), check)
        if held is None and schema.kinds[name] in _SIZING:
            signature = Signature(schema.base.shapes, tuple(sorted(drawn.items())))
            try:
                more = any(a > b for a, b in zip(tie_counts(schema.rule, signature), ties, strict=True))
            except (IllTyped, KeyError):
                continue
            held = False if more else check.holds(schema.rule, signature)
        if held is False:
            return False
        count += held is True and drawn[name] != bindings.attrs[name]
        if count == _HOLD:
            return True
    return False


def _holds_at_own_sizes(rule: Rule, bindings: Bindings, check: SamplingCheck) -> bool | None:
    """Return True if both sides are equal at the instance's sizes, or None if a side is ill-typed there."""
    try:
        left = instantiate(rule.lhs, bindings, "float")
    except IllTyped:
        return None
    try:
        right = instantiate(rule.rhs, bindings, "float")
    except IllTyped:  # such as a window of no elements: the proof will need a condition
        return None
    if any(a.type != b.type for a, b in zip(left, right, strict=True)):
        return False
    shapes = [None if term.type is None else term.type.concrete() for term in topological(left + right)]
    if any(shape is None or 0 in shape for shape in shapes):
        return None
    same = all(check.evaluator.key(a) == check.evaluator.key(b) for a, b in zip(left, right, strict=True))
    check.evaluator.forget()
    return same


def _near(kind: str, value: Attr, rng: random.Random) -> Attr:
    """Return a value near the instance's value of an attribute of this kind."""
    if kind not in _OFFSETS:
        return value
    offsets, least = _OFFSETS[kind]
    if isinstance(value, tuple):
        return tuple(max(least, v + rng.choice(offsets)) if isinstance(v, int) else v for v in value)
    return max(least, value + rng.choice(offsets)) if isinstance(value, int) else value


def _is_plain(draft: Draft, place: _Place) -> bool:
    """Return True if the operator works along other axes only, as far as attributes have become variables.

    The rows of a MaxPool are such an axis for its columns: their kernel is 1, and so should their stride be.
    """
    term = place.slot[0]
    lists = {name: value for (one, name), value in draft.filled.items() if one is term and isinstance(value, tuple)}
    kernel = lists.get("kernel_shape")
    own = term.attr(place.slot[1])
    if kernel is None or place.index is None or not isinstance(own, tuple):
        return False
    return isinstance(kernel[place.index % len(kernel)], int)


def _places(draft: Draft, kind: str, variables: Sequence[Size], value: Attr) -> Iterator[tuple[_Place, _Entry]]:
    """Yield the entries on the right side that may depend on the variables, each with the variable of its axis."""
    target = set(topological(draft.equation.lhs))
    numbers = [item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, int)]
    for term in topological(draft.equation.rhs):
        for name, old in term.attrs if term not in target else ():
            if name not in _DEPENDENT[kind] or not _numbers(old):
                continue
            current = draft.filled.get((term, name), old)
            if isinstance(current, AttrVar):
                continue
            if not isinstance(old, tuple):
                if len(variables) == 1 and isinstance(old, int):
                    yield _Place((term, name), None), (current, old, variables[0], numbers[0])  # type: ignore[misc]
                continue
            assert isinstance(current, tuple)
            for k, (entry, e) in enumerate(zip(current, old, strict=True)):
                at = 0 if not isinstance(value, tuple) else _axis(k, len(old), len(value), name == "pads")
                if at is not None:
                    yield _Place((term, name), k), (entry, e, variables[at], numbers[at])  # type: ignore[misc]


def _axis(k: int, own: int, other: int, halves: bool) -> int | None:
    """Return the entry of a list of `other` entries for the axis of entry k of `own` entries, counted from the last.

    With `halves`, the lists are pads: those before all axes, then those behind.
    """
    if halves:
        half, place = divmod(k, own // 2)
        found = place - (own - other) // 2
        return half * (other // 2) + found if found >= 0 and own % 2 == other % 2 == 0 else None
    return k - (own - other) if 0 <= k - (own - other) < other else None


def _filled(draft: Draft, new: Mapping[_Place, Size | None]) -> dict[Slot, Attr]:
    """Return the attributes with the new entries."""
    found: dict[Slot, Attr] = {}
    for place, entry in new.items():
        assert entry is not None
        if place.index is None:
            found[place.slot] = entry
            continue
        current = found.get(place.slot, draft.filled.get(place.slot, place.slot[0].attr(place.slot[1])))
        assert isinstance(current, tuple)
        found[place.slot] = (*current[: place.index], entry, *current[place.index + 1 :])
    return found
