"""Generalises pads that differ between the operators of a rule by a constant, a factor, or the amounts of a Pad."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from superopt.generate.generalise.draft import Draft, Slot
from superopt.generate.generalise.sampling_check import SamplingCheck
from superopt.ir.dim import Dim, Size, symbol, symbols_of
from superopt.ir.rule import Rule, Signature, SignatureValue
from superopt.ir.term import Attr, AttrVar, topological

__all__ = ["with_offset_pads", "with_open_amounts", "with_pad_amounts", "with_phase_pads", "with_tied_amounts"]

Values = Mapping[Attr, list[Slot]]  # value of an attribute -> its slots
Pads = tuple[int, ...]
_INNER, _MORE = (0, 1, 0, 0), (1, 0, 0, 1)  # values to try: pads, and amounts added to the pads


def with_offset_pads(draft: Draft, groups: Values, check: SamplingCheck) -> Draft | None:
    """Return the draft with a variable for each entry of the smallest pads, and that variable plus a constant for
    entries of the other pads; or None."""
    known = {value: pads for value in groups if (pads := _pads(value)) is not None}
    if len(known) < len(groups) or len({len(pads) for pads in known.values()}) > 1:
        return None
    base = min(known.values())
    names = [f"p{k}" for k in range(len(base))]
    filled: dict[Slot, Attr] = {}
    for value, slots in groups.items():
        entries = tuple(symbol(name) + (v - b) for name, v, b in zip(names, known[value], base, strict=True))
        filled.update(dict.fromkeys(slots, entries))
    wider = draft.filling(filled, dict(zip(names, base, strict=True)), "pad")
    others = dict(zip(names, (2, 1, 0, 3), strict=False))
    return wider if wider.bound and _holds(wider, others, check) else None


def with_tied_amounts(draft: Draft, groups: Values, check: SamplingCheck) -> Draft:
    """Return the draft with variables for the amounts of all Pads, or the same draft if no choice holds.

    The amounts of a Pad on the right side are those of one on the left side in another order, or the sums of two: the
    entries at the instance are all different, and say which.
    """
    known = {value: amounts for value in groups if (amounts := _pads(value)) is not None}
    given = {value: amounts for value, amounts in known.items() if draft.side(groups[value], True)}
    names: dict[Attr, list[str]] = {}
    for value, amounts in given.items():
        taken = {*draft.values, *draft.names.values(), *itertools.chain(*names.values())}
        free = (name for k in itertools.count() if (name := f"a{k}") not in taken)
        names[value] = [next(free) if amount else "" for amount in amounts]
    spelt: dict[int, Size] = {0: 0}
    for value, amounts in given.items():
        spelt |= {amount: symbol(name) for amount, name in zip(amounts, names[value], strict=True) if name}
    for (one, a), (other, b) in itertools.combinations(given.items(), 2):
        for m, n, first, second in zip(a, b, names[one], names[other], strict=False):
            if m and n and len(a) == len(b):
                spelt.setdefault(m + n, symbol(first) + symbol(second))
    entries = [amount for amounts in given.values() for amount in amounts if amount]
    if len(set(entries)) < len(entries) or not all(set(amounts) <= spelt.keys() for amounts in known.values()):
        return draft
    filled: dict[Slot, Attr] = {}
    for value, slots in groups.items():
        filled |= dict.fromkeys(slots, tuple(spelt[amount] for amount in known[value]))
    values = {
        name: amount
        for value, amounts in given.items()
        for name, amount in zip(names[value], amounts, strict=True)
        if name
    }
    wider = draft.filling(filled, values, "amount")
    others = {name: amount + (1 + k) ** 2 for k, (name, amount) in enumerate(values.items())}
    return wider if wider.bound and wider.unbound() <= draft.unbound() and _holds(wider, others, check) else draft


def with_open_amounts(draft: Draft, groups: Values, check: SamplingCheck) -> Draft:
    """Return the draft with a variable for each amount of a Pad that is not 0, where the rule holds at other amounts.

    The axes that are not padded stay so: a Pad of rows commutes with a Gather of columns.
    """
    for value, slots in groups.items():
        amounts = _pads(value)
        if amounts is None or not any(amounts) or not draft.filled.keys().isdisjoint(slots):
            continue
        taken = {*draft.values, *draft.names.values()}
        free = (name for k in itertools.count() if (name := f"a{k}") not in taken)
        names = [next(free) if amount else "" for amount in amounts]
        entries = tuple(symbol(name) if name else 0 for name in names)
        given = {name: amount for name, amount in zip(names, amounts, strict=True) if name}
        wider = draft.filling(dict.fromkeys(slots, entries), given, "amount")
        others = {name: amount + 1 + k for k, (name, amount) in enumerate(given.items())}
        if wider.bound and wider.unbound() <= draft.unbound() and _holds(wider, others, check):
            draft = wider
    return draft


def with_pad_amounts(draft: Draft, groups: Values, check: SamplingCheck) -> Draft | None:
    """Return the draft with pads p, and q = p + a for the amounts a of a Pad, or None.

    Two of p, q and a are variables, and the third is computed from them. Examples: Conv[pads=p](Pad[a](x), w) =
    Conv[pads=p + a](x, w), and the sum of two Convs with pads p and q is one Conv if the first kernel is padded by q -
    p.
    """
    amounts = draft.slots().get("amounts", {})
    if len(amounts) != 1:
        return None
    ((amount, at),) = amounts.items()
    for p, q in itertools.permutations(groups, 2):
        inner, outer, whole = _pads(p), _pads(q), _pads(amount)
        if inner is None or outer is None or whole is None or len(inner) != 4 or len(whole) != 8:
            continue
        more = tuple(b - a for a, b in zip(inner, outer, strict=True))
        if len(outer) == len(inner) and whole == _of_image(more) and any(more):
            for wider, others in _forms(draft, (groups[p], inner), (groups[q], outer), (at, more)):
                rule = wider.rule()
                if not rule.applicable:
                    rule = rule.reversed()
                if wider.unbound() <= draft.unbound() and _matches(rule) and _holds(wider, others, check):
                    return wider
    return None


def with_phase_pads(draft: Draft, check: SamplingCheck) -> Draft:
    """Return the draft with pads d * p + r of a target whose phases are d elements apart, or the same draft.

    d elements of the target are one element of a phase, so that p is added to the pads of each phase.
    """
    (target,), by = draft.equation.lhs, draft.equation.family.phases
    whole = _pads(target.attr("pads"))
    if whole is None:
        return draft
    names = [f"p{k}" for k in range(len(whole))]
    more = [symbol(name) for name in names]
    filled: dict[Slot, Attr] = {(target, "pads"): tuple(by * m + p % by for m, p in zip(more, whole, strict=True))}
    for term in topological(draft.equation.rhs):
        own = _pads(term.attr("pads")) if term.op == target.op else None
        if own is not None:
            filled[term, "pads"] = tuple(m + e - p // by for m, e, p in zip(more, own, whole, strict=True))
    wider = draft.filling(filled, dict.fromkeys(names), "pad")
    return wider if wider.bound and _holds(wider, {}, check) else draft


def _pads(value: Attr) -> Pads | None:
    pads = tuple(item for item in value if isinstance(item, int)) if isinstance(value, tuple) else ()
    return pads if isinstance(value, tuple) and len(pads) == len(value) else None


def _of_image(more: Sequence[Attr]) -> tuple[Attr, ...]:
    """Return the pads of images for Pad: no padding of the batch and channel axes."""
    return (0, 0, *more[:2], 0, 0, *more[2:])


def _forms(
    draft: Draft, inner: tuple[list[Slot], Pads], outer: tuple[list[Slot], Pads], more: tuple[list[Slot], Pads]
) -> Iterator[tuple[Draft, Mapping[str, SignatureValue]]]:
    """Yield drafts with one of p, q and a expressed by the other two, each with further values to try."""
    p, q = draft.fresh("pads"), "q"
    taken = {*draft.values, *draft.names.values()}
    names = tuple(f"a{k}" for k in range(4))
    if taken & {q, *names}:
        return
    entries = {name: tuple(symbol(f"{name}[{k}]") for k in range(4)) for name in (p, q)}
    added = tuple(symbol(name) for name in names)
    far = tuple(a + b for a, b in zip(_INNER, _MORE, strict=True))
    difference = tuple(b - a for a, b in zip(entries[p], entries[q], strict=True))
    both = draft.filling(
        {
            **dict.fromkeys(inner[0], AttrVar(p)),
            **dict.fromkeys(outer[0], AttrVar(q)),
            **dict.fromkeys(more[0], _of_image(difference)),
        },
        {p: inner[1]},
        "inner",
    )
    yield both.filling({}, {q: outer[1]}, "outer"), {p: _INNER, q: far}
    for known, other, name, sign in ((inner, outer, p, 1), (outer, inner, q, -1)):
        slots: dict[Slot, Attr] = {
            **dict.fromkeys(known[0], AttrVar(name)),
            **dict.fromkeys(other[0], tuple(a + sign * b for a, b in zip(entries[name], added, strict=True))),
            **dict.fromkeys(more[0], _of_image(added)),
        }
        start = draft.filling(slots, {name: known[1]}, "pads")
        values = dict(zip(names, _MORE, strict=True))
        yield (
            start.filling({}, dict(zip(names, more[1], strict=True)), "amount"),
            {name: _INNER if sign > 0 else far, **values},
        )


def _matches(rule: Rule) -> bool:
    """Return True if each attribute variable is an attribute of the left side, possibly plus a number."""
    given: set[str] = set()
    needed: set[str] = set()
    for term in topological(rule.lhs + rule.rhs):
        for _, value in term.attrs:
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, AttrVar):
                    needed.add(item.name)
                elif isinstance(item, Dim):
                    needed |= {name.split("[")[0] for name in symbols_of(item) if ".shape" not in name}
    for term in topological(rule.lhs):
        for _, value in term.attrs:
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, AttrVar):
                    given.add(item.name)
                elif isinstance(item, Dim) and len(symbols_of(item)) == 1:
                    given |= {name for name in symbols_of(item) if "[" not in name}
    return needed <= given


def _holds(draft: Draft, others: Mapping[str, SignatureValue], check: SamplingCheck) -> bool:
    """Return True if the rule holds at the instance's values and at others."""
    schema = draft.schema()
    attrs = tuple((name, others.get(name, value)) for name, value in schema.base.attrs)
    return bool(
        check.holds(schema.rule, schema.base) and check.holds(schema.rule, Signature(schema.base.shapes, attrs))
    )
