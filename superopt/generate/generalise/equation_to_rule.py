"""Generalises a ground equation to a rule: literals of the instance become variables and sizes of variables.

Sizes inside attributes become sizes of variables (`size_attributes`). Any other attribute value becomes a variable if
the equation also holds at other values. If a value occurs several times, all occurrences become one variable, or
several variables if their values need not be equal. Each choice is checked at random sizes here, and proven later.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from superopt.generate.conjectures.ground_equation import GroundEquation, variables
from superopt.generate.generalise.attribute_equations import SOLVED, with_attribute_equations
from superopt.generate.generalise.attribute_values import ALTERNATIVES
from superopt.generate.generalise.draft import NAMES, REAL, SIZED, Draft, Slot
from superopt.generate.generalise.padding import (
    with_offset_pads,
    with_open_amounts,
    with_pad_amounts,
    with_phase_pads,
    with_tied_amounts,
)
from superopt.generate.generalise.sampling_check import SamplingCheck
from superopt.generate.generalise.shape_entries import with_shape_entries
from superopt.generate.generalise.size_attributes import with_symbolic_sizes
from superopt.generate.generalise.size_equations import free_size_count, pinned, tie_counts
from superopt.ir.dim import symbol
from superopt.ir.rule import Signature, SignatureValue
from superopt.ir.term import Attr, AttrVar, Term
from superopt.rulebook.variadic import Schema

__all__ = ["Schema", "generalise"]

_BOUNDS = ("bound_low", "bound_high")
_MAX_SPLIT_SLOTS = 6  # largest number of occurrences of a value that are tried as several variables


def generalise(equation: GroundEquation, check: SamplingCheck) -> Schema | None:
    """Return the most general rule found for an equation, or None if it holds only at the instance's sizes."""
    names = _renamed(equation)
    starts: list[tuple[int, int, Draft]] = []
    for ones in dict.fromkeys((frozenset[str](), equation.weights, frozenset(names.values()))):
        draft = Draft(equation, names, {}, {}, {}, ones)
        for first in filter(None, (draft, with_shape_entries(draft), *_with_sizes_as_heads(draft))):
            start = with_symbolic_sizes(first, check)
            if start is not None:
                schema = start.schema()
                starts.append((-free_size_count(schema.rule, schema.base), len(starts), start))
    if not starts:
        return None
    start = min(starts)[2]
    if equation.family.targets:
        start = (with_phase_pads if equation.family.phases else with_attribute_equations)(start, check)
    schema = _with_attributes(start, check).schema()
    return Schema(schema.rule, pinned(schema.rule, schema.open), schema.open, schema.kinds)


def _renamed(equation: GroundEquation) -> dict[Term, str]:
    """Return new names for the variables: each role's names in the order of first occurrence."""
    family = equation.family
    roles: dict[str, Iterator[str]] = {}
    role_of = {v.name: v.role for v in family.variables}
    for v in family.variables:
        if v.role not in roles:
            roles[v.role] = iter([u.name for u in family.variables if u.role == v.role])
    return {term: next(roles[role_of[str(term.attr("name"))]]) for term in variables(equation.lhs + equation.rhs)}


def _with_attributes(draft: Draft, check: SamplingCheck) -> Draft:
    """Return the draft with variables for all attributes at which the rule also holds at other values."""
    draft = _with_marks(_with_heads(draft, check), check)
    kinds = draft.slots()
    for kind, groups in kinds.items():
        if kind == "amounts" and "pads" in kinds:
            continue  # see `with_pad_amounts`
        if kind not in NAMES or kind in SIZED or (kind in SOLVED and draft.equation.family.targets):
            continue
        if any(slot in draft.filled for at in groups.values() for slot in at):
            continue
        if kind == "perm":
            draft = _with_permutations(draft, groups, check)
            continue
        wider, left = draft, 0
        for value, slots in groups.items():
            open_ = set(slots)
            for some in _slot_groups(draft, slots):
                if open_.issuperset(some):
                    before, wider = wider, _with_variable(wider, kind, value, some, check)
                    open_ -= set(some if wider is not before else ())
            left += len(open_)
        if kind == "pads" and left and len(groups) > 1:
            wider = with_pad_amounts(draft, groups, check) or with_offset_pads(draft, groups, check) or wider
        if kind == "amounts" and left:
            wider = with_open_amounts(with_tied_amounts(wider, groups, check), groups, check)
        draft = wider
    return _with_distinct_variables(_with_numbers(draft, check), check)


def _with_numbers(draft: Draft, check: SamplingCheck) -> Draft:
    """Return the draft with one variable for each parameter of a function, also in fused operators.

    A fused operator has the parameter under another name.
    """
    found: dict[Attr, dict[str, list[Slot]]] = {}
    for kind, groups in draft.slots().items():
        if kind in REAL or kind in _BOUNDS:
            for value, slots in groups.items():
                if draft.filled.keys().isdisjoint(slots):
                    found.setdefault(value, {})[kind] = slots
    for value, kinds in found.items():
        if len(kinds) > 1:
            kind = next((kind for kind in kinds if kind in _BOUNDS), min(kinds))
            draft = _with_variable(draft, kind, value, [slot for slots in kinds.values() for slot in slots], check)
    return draft


def _with_heads(draft: Draft, check: SamplingCheck) -> Draft:
    """Return the draft with one variable for a number of heads.

    The number is an attribute, and an entry in the shapes of Reshapes that split an axis into heads.
    """
    slots = draft.slots()
    for value, at in slots.get("num_heads", {}).items():
        name = draft.fresh("num_heads")
        filled: dict[Slot, Attr] = dict.fromkeys(at, AttrVar(name))
        for shape, places in slots.get("marks", {}).items():
            if isinstance(shape, tuple) and value in shape:
                filled |= dict.fromkeys(places, tuple(symbol(name) if entry == value else entry for entry in shape))
        wider = draft.filling(filled, {name: None}, "num_heads")
        schema = wider.schema()
        if wider.bound and check.holds(schema.rule, schema.base):
            draft = wider
    return draft


def _with_sizes_as_heads(draft: Draft) -> Iterator[Draft]:
    """Yield the draft with a size of a variable as the number of heads: heads may be an axis already."""
    for value, at in draft.slots().get("num_heads", {}).items():
        for size, number in draft.sizes():
            if number == value:
                yield draft.filling(dict.fromkeys(at, size), {}, "num_heads")


def _with_marks(draft: Draft, check: SamplingCheck) -> Draft:
    """Return the draft with sizes of variables for numbers in shapes of Reshape that also have entries 0 or -1."""
    for shape, slots in draft.slots().get("marks", {}).items():
        if not isinstance(shape, tuple) or not draft.filled.keys().isdisjoint(slots):
            continue
        known = {value: size for size, value in reversed(draft.sizes())}
        spelt = tuple(known.get(entry, entry) if isinstance(entry, int) and entry > 1 else entry for entry in shape)
        wider = draft.filling(dict.fromkeys(slots, spelt), {}, "marks")
        schema = wider.schema()
        if wider.bound and wider.unbound() <= draft.unbound() and check.holds(schema.rule, schema.base):
            draft = wider
    return draft


def _slot_groups(draft: Draft, slots: list[Slot]) -> list[tuple[Slot, ...]]:
    """Return the sets of slots that may share one variable.

    These are all slots, the slots of one operator type, and pairs of such slots on different sides.
    """
    by_op: dict[str, list[Slot]] = {}
    for slot in slots:
        by_op.setdefault(slot[0].op, []).append(slot)
    found = [tuple(slots), *map(tuple, by_op.values())]
    if len(slots) <= _MAX_SPLIT_SLOTS:
        for some in by_op.values():
            found += itertools.product(draft.side(some, True), draft.side(some, False))
    return list(dict.fromkeys(found))


def _with_variable(draft: Draft, kind: str, value: Attr, slots: Sequence[Slot], check: SamplingCheck) -> Draft:
    """Return the draft with one variable for the value of all `slots`, or the same draft if that does not hold."""
    name = draft.fresh(kind)
    at: SignatureValue = AttrVar(name) if kind in REAL else None if kind == "group" else value
    filled: dict[Slot, Attr] = {
        slot: (symbol(name),) if (kind, slot[1]) == ("axis", "axes") else AttrVar(name) for slot in slots
    }
    wider = draft.filling(filled, {name: at}, kind)
    if wider.unbound() > draft.unbound() or not wider.bound:
        return draft
    return wider if _holds_widely(wider, name, kind, value, check) else draft


def _with_permutations(draft: Draft, groups: Mapping[Attr, list[Slot]], check: SamplingCheck) -> Draft:
    """Return the draft with variables for all permutations, or the same draft if that does not hold.

    The signatures of the rule list the combinations of permutations.
    """
    wider = draft
    for value, slots in groups.items():
        name = wider.fresh("perm")
        wider = wider.filling(dict.fromkeys(slots, AttrVar(name)), {name: value}, "perm")
    schema = wider.schema()
    if not wider.bound or wider.unbound() > draft.unbound():
        return draft
    return wider if check.holds(schema.rule, schema.base) else draft


def _holds_widely(draft: Draft, name: str, kind: str, value: Attr, check: SamplingCheck) -> bool:
    """Return True if the rule holds at the instance's value of an attribute variable, and at all other typed values.

    At one other value, typing must not require more equations between sizes: a Conv may have any dilations if its
    kernel is 1 x 1. Sizes that typing fixes to a number at the instance's value may keep that number.
    """
    schema = draft.schema()
    if not check.holds(schema.rule, schema.base):
        return False
    others = _others(kind, value)
    shapes = dict.fromkeys((schema.base.shapes, pinned(schema.rule, schema.base).shapes))
    return any(_holds_at(schema, replace(schema.base, shapes=s), name, others, kind in REAL, check) for s in shapes)


def _holds_at(
    schema: Schema, base: Signature, name: str, others: Sequence[Attr], wide: bool, check: SamplingCheck
) -> bool:
    ties, numbers = tie_counts(schema.rule, base)
    for other in others:
        signature = replace(base, attrs=_with(base.attrs, name, other))
        verdict = check.holds(schema.rule, signature)
        if verdict is False:
            return False
        if verdict is True and not wide:
            other_ties, other_numbers = tie_counts(schema.rule, signature)
            wide = other_ties <= ties and other_numbers <= numbers
    return wide


def _others(kind: str, value: Attr) -> tuple[Attr, ...]:
    """Return other values of an attribute with the same number of entries."""
    length = len(value) if isinstance(value, tuple) else 0
    fitting = (a for a in ALTERNATIVES.get(kind, ()) if (len(a) if isinstance(a, tuple) else 0) == length)
    return tuple(a for a in fitting if a != value)


def _with(
    attrs: tuple[tuple[str, SignatureValue], ...], name: str, value: SignatureValue
) -> tuple[tuple[str, SignatureValue], ...]:
    return tuple((key, value if key == name else old) for key, old in attrs)


def _with_distinct_variables(draft: Draft, check: SamplingCheck) -> Draft:
    """Return the draft with two variables for attributes that need not be equal, as the strides of nested Convs."""
    for name, kind in draft.kinds.items():
        value = AttrVar(name)
        slots = [slot for slot, filled in draft.filled.items() if filled in (value, (symbol(name),))]
        left, right = ([s for s in slots if s in set(draft.side(slots, side))] for side in (True, False))
        if kind in ("perm", *SIZED) or min(len(left), len(right)) < 1 or not 2 < len(slots) <= _MAX_SPLIT_SLOTS:
            continue
        bound = left if draft.rule().applicable else right  # the side that binds attribute variables
        others = [slot for slot in (right if bound is left else left) if slot != bound[0]]  # shared subgraphs
        for some in _subsets(bound[1:]):
            for more in _subsets(others):
                wider = _with_two(draft, name, kind, [*some, *more], check)
                if wider is not None:
                    return _with_distinct_variables(wider, check)
    return draft


def _subsets(slots: Sequence[Slot]) -> Iterator[tuple[Slot, ...]]:
    """Yield the non-empty subsets, the smallest first."""
    return itertools.chain.from_iterable(itertools.combinations(slots, k) for k in range(1, len(slots) + 1))


def _with_two(draft: Draft, name: str, kind: str, slots: Sequence[Slot], check: SamplingCheck) -> Draft | None:
    """Return the draft with a variable other than `name` in `slots`, or None if they must be equal."""
    value = draft.values[name]
    if value is None or isinstance(value, AttrVar):
        return None
    second = draft.fresh(kind)
    filled: dict[Slot, Attr] = {
        slot: (symbol(second),) if isinstance(draft.filled[slot], tuple) else AttrVar(second) for slot in slots
    }
    wider = draft.filling(filled, {second: value}, kind)
    if not wider.bound or wider.unbound() > draft.unbound():
        return None
    both = (_holds_widely(wider, changed, kind, value, check) for changed in (name, second))  # type: ignore[arg-type]
    return wider if all(both) else None
