"""Expresses sizes in attributes (Split's parts, the shape of Zeros, the target of Reshape) by sizes of variables.

A choice is an expression that has the right value at the instance. The best choice leaves the most sizes free.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from superopt.generate.generalise.draft import SIZED, Draft, Slot
from superopt.generate.generalise.sampling_check import SamplingCheck
from superopt.generate.generalise.size_equations import free_size_count, solved_sizes
from superopt.ir.dim import Dim, Size, evaluate, floor_div, symbol, symbols_of
from superopt.ir.infer import OPERATORS, IllTyped
from superopt.ir.rule import SignatureValue
from superopt.ir.term import CLOSED_FORM, Attr, AttrVar, Term, topological

__all__ = ["with_symbolic_sizes"]

_MAX_CHOICES = 4000  # combinations of choices that are considered for one equation
_MAX_SAMPLED = 40  # combinations that are evaluated at random sizes
_MAX_FACTORS = 3  # sizes in a product

Choice = tuple["Attr | None", SignatureValue]  # (expression, None), or (None, v): an attribute variable with value v
Group = tuple[str, Attr, list[Slot]]  # kind of attribute, value, slots


def with_symbolic_sizes(draft: Draft, check: SamplingCheck) -> Draft | None:
    """Return the draft with the choices that hold at random sizes and leave the most sizes free, or None."""
    groups = [
        (kind, v, at)
        for kind, values in draft.slots().items()
        for v, at in (values.items() if kind in SIZED else ())
        if draft.filled.keys().isdisjoint(at)
    ]
    env = _typing(draft, groups)
    options = [list(_distinct(_choices(draft, groups, number), env)) for number in range(len(groups))]
    drafts: list[tuple[int, int, Draft]] = []
    for order, choices in enumerate(itertools.islice(itertools.product(*options), _MAX_CHOICES)):
        chosen = _with(draft, groups, choices)
        if chosen is None:
            continue
        try:
            schema = chosen.schema()
        except IllTyped:
            continue
        if chosen.bound:
            free = free_size_count(schema.rule, schema.base)
            if free >= 0:
                drafts.append((chosen.unbound() - free, order, chosen))
    for _, _, chosen in sorted(drafts, key=lambda d: d[:2])[:_MAX_SAMPLED]:
        schema = chosen.schema()
        if check.holds(schema.rule, schema.base):
            return chosen
    return None


def _with(draft: Draft, groups: Sequence[Group], choices: Sequence[Choice]) -> Draft | None:
    """Return the draft with these choices, or None if a choice refers to entries of an attribute that is not a
    variable."""
    names: dict[str, Size] = {}  # placeholder -> entry of an attribute variable
    for number, ((kind, value, at), (filled, signature)) in enumerate(zip(groups, choices, strict=True)):
        if filled is None:
            name = draft.fresh(kind)
            draft = draft.filling(dict.fromkeys(at, AttrVar(name)), {name: signature}, kind)
            if isinstance(value, tuple):
                names |= {_entry(number, k): symbol(f"{name}[{k}]") for k in range(len(value))}
            else:
                names[_entry(number)] = symbol(name)
    for (kind, _, at), (filled, _) in zip(groups, choices, strict=True):
        if filled is not None:
            items = filled if isinstance(filled, tuple) else (filled,)
            items = tuple(evaluate(item, names) if isinstance(item, Dim) else item for item in items)
            if any(isinstance(item, Dim) and any("@" in s for s in symbols_of(item)) for item in items):
                return None
            draft = draft.filling(dict.fromkeys(at, items if isinstance(filled, tuple) else items[0]), {}, kind)
    return draft


def _entry(group: int, place: int | None = None) -> str:
    """Return a placeholder for an entry of an attribute that may become a variable."""
    return f"@{group}" if place is None else f"@{group}[{place}]"


def _typing(draft: Draft, groups: Sequence[Group]) -> dict[str, Size]:
    """Return sizes of variables that are equal by typing for any values of these attributes."""
    for kind, value, at in groups:
        if kind == "n":
            continue
        name = draft.fresh(kind)
        free: SignatureValue = (None,) * len(value) if isinstance(value, tuple) else None
        draft = draft.filling(dict.fromkeys(at, AttrVar(name)), {name: free}, kind)
    return solved_sizes(draft.rule(), draft.schema().base)


def _distinct(choices: Iterator[Choice], env: Mapping[str, Size]) -> Iterator[Choice]:
    """Yield the choices, without those that typing makes equal to an earlier one."""
    seen: set[object] = set()
    for filled, value in choices:
        entries = filled if isinstance(filled, tuple) else (filled,)
        key: object = tuple(evaluate(e, env) if isinstance(e, (int, Dim)) else e for e in entries)
        if filled is None or key not in seen:
            seen.add(key)
            yield filled, value


def _choices(draft: Draft, groups: Sequence[Group], number: int) -> Iterator[Choice]:
    """Yield the choices for one group, in order of preference."""
    kind, value, at = groups[number]
    if isinstance(value, int):
        if kind == "groups":
            fewer = [floor_div(symbol(_entry(more)), by) for more, by in _multiples(groups, value)]
            yield from ((number, None) for number in fewer or (None,))
        yield from ((size, None) for size in _sizes(_known(draft), value, 1))
        return
    assert isinstance(value, tuple)
    backwards = all(map(_reads_backwards, (term for term, _ in at)))
    if kind == "ends" and backwards and all(isinstance(v, int) and v < 0 for v in value):
        yield value, None  # up to the first element: no size
        return
    entries = tuple(v for v in value if isinstance(v, int))
    # A Reshape may make an axis for the parts of a Split. The size of this axis is the number of parts.
    parts = {len(v) for other, v, _ in groups if (kind, other) == ("reshape", "split") and isinstance(v, tuple)}
    kept = {*parts, *((-1, 0, 1) if kind in _WRITTEN else ())}
    free: SignatureValue = tuple(v if v in kept else None for v in entries)
    if kind == "shape" and _broadcasts(draft, at):
        yield None, free
    if kind in ("shape", "kernel"):
        for term, name in draft.names.items():
            if term.type is not None and term.type.shape == entries and entries:
                yield AttrVar(f"{name}.shape"), None
    if kind == "split":  # of an axis that Reshape makes several axes of
        written = _known_entries(groups, number, _WRITTEN)
        pairs = [[e for e in _sizes(written, v, 2) if isinstance(e, Dim) and e.terms[0][0][1:]] for v in entries]
        yield from ((choice, None) for choice in itertools.product(*pairs))
    if kind not in ("shape", *_WRITTEN):
        yield None, free
    known, sums = _known(draft), kind in ("starts", "ends")
    if kind == "starts" and backwards:  # from the last element
        known = [(size - 1, value - 1, axis) for size, value, axis in known]
    regrouped = kind in (*_WRITTEN, "kernel") and _regrouped(draft, groups)
    if regrouped:
        known = regrouped
    elif kind in _WRITTEN:
        known += _known_entries(groups, number, _WRITTEN)
    elif sums:  # a part of a Split is a Slice, and a Slice of a Slice begins and ends further on
        known += _known_entries(groups, number, ("split", "starts", "ends"))
    elif kind == "split" and not all(list(_sizes(known, v, 1)) for v in entries):  # parts of parts
        known, sums = known + _known_entries(groups, number, ("split",)), True
    factors = _MAX_FACTORS if kind in _WRITTEN else 1
    fixed = kind in ("shape", "kernel")  # a window such as 3 x 3 is not the size of a variable
    for choice in itertools.product(*([*_sizes(known, v, factors, sums), *[v] * (fixed and v > 1)] for v in entries)):
        yield choice, None
    if kind in _WRITTEN and not regrouped:
        yield None, free


_WRITTEN = ("reshape", "expand")  # shapes written in models: sizes, 0 and -1 (Reshape) or 1 (Expand)


def _broadcasts(draft: Draft, at: list[Slot]) -> bool:
    """Return True if an elementwise operator combines a constant and a value.

    Because of broadcasting, the use of the constant then does not determine its shape.
    """
    made: set[Term] = {term for term, _ in at}  # values computed from the constant
    fixed: set[Term] = set()  # values computed from constants only
    for term in topological(draft.equation.lhs + draft.equation.rhs):
        if term.op in CLOSED_FORM or (term.inputs and fixed.issuperset(term.inputs)):
            fixed.add(term)
            if not made.isdisjoint(term.inputs):
                made.add(term)
        elif term.op in OPERATORS and OPERATORS[term.op].elementwise and not made.isdisjoint(term.inputs):
            return True
    return False


def _reads_backwards(term: Term) -> bool:
    """Return True for a Slice whose steps are all negative."""
    steps = dict(term.attrs).get("steps", ())
    return isinstance(steps, tuple) and all(isinstance(step, int) and step < 0 for step in steps)


_Known = tuple[Size, int, int]  # size, value at the instance, axis


def _known(draft: Draft) -> list[_Known]:
    """Return the sizes of variables."""
    known: list[_Known] = []
    for term, name in draft.names.items():
        shape = term.type.concrete() if term.type is not None else None
        for k, size in enumerate(shape or ()):
            place = k if draft.equation.family.variation == "conv" else k - len(shape or ())
            known.append((symbol(f"{name}.shape[{place}]"), size, place))
    return known


def _known_entries(groups: Sequence[Group], number: int, kinds: tuple[str, ...]) -> list[_Known]:
    """Return the entries of the other lists of these kinds, because these lists may become attribute variables."""
    return [
        (symbol(_entry(other, k)), size, k)
        for other, (kind, value, _) in enumerate(groups)
        if other != number and kind in kinds and isinstance(value, tuple)
        for k, size in enumerate(value)
        if isinstance(size, int)
    ]


def _multiples(groups: Sequence[Group], value: int) -> Iterator[tuple[int, int]]:
    """Yield (group number, ratio to `value`) for larger numbers of groups, which may become attribute variables."""
    for number, (kind, more, _) in enumerate(groups):
        if kind == "groups" and isinstance(more, int) and more > value and more % value == 0:
            yield number, more // value


def _regrouped(draft: Draft, groups: Sequence[Group]) -> list[_Known]:
    """Return the sizes for a rule that merges groups of a Conv.

    These are the sizes of weights (the rule rearranges them), the number of groups, the number of groups merged into
    one, and the sizes of a group.
    """
    weights = tuple(f"{name}." for term, name in draft.names.items() if term.attr("name") in draft.equation.weights)
    known = [entry for entry in _known(draft) if str(entry[0]).startswith(weights)]
    given = {size for _, size, _ in known}
    found: list[_Known] = []
    for value in dict.fromkeys(v for kind, v, _ in groups if kind == "groups" and isinstance(v, int)):
        for number, by in _multiples(groups, value):
            count, whole = symbol(_entry(number)), by * value
            found += [(count, whole, 0), (by, by, 0)]
            parts = ((floor_div(size, count), n // whole) for size, n, _ in known if n > whole and n % whole == 0)
            found += [(size, n, 0) for size, n in parts if n not in given]
    return known + found if found else []


def _sizes(known: Sequence[_Known], value: int, factors: int, sums: bool = False) -> Iterator[Size]:
    """Yield expressions with this value at the instance.

    These are the number itself if it is below 2, sizes, products of at most `factors` sizes, and sums of two sizes.
    """
    if value < 2:
        yield value
        return
    for count in range(1, factors + 1):
        for some in itertools.combinations(known, count):
            if all(size > 1 or count == 1 for _, size, _ in some) and math.prod(size for _, size, _ in some) == value:
                yield math.prod((s for s, _, _ in some[1:]), start=some[0][0])
    if sums:
        for (a, m, i), (b, n, j) in itertools.combinations(known, 2):
            if m + n == value and i == j:
                yield a + b
