"""From a ground equation to a rule: literals of the instance become variables and sizes of variables.

Attributes that occur with one value become one attribute variable where the equation still holds at other values;
sizes inside attributes (Split's parts, the shape of Zeros, Slice's bounds) become sizes of variables, the choice with
the fewest constraints first. Every choice is tried at random sizes here, and proven later.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from superopt.generate.candidates import Equation, operators, variables
from superopt.generate.trial import Trial
from superopt.ir.dim import Dim, Size, evaluate, symbol
from superopt.ir.ops import OPS, IllTyped, make
from superopt.ir.rule import Rule, Signature, SignatureValue
from superopt.ir.term import Attr, AttrVar, Term, map_terms, topological, var

__all__ = ["ALTERNATIVES", "Schema", "generalise"]

# Attribute -> name of its variable (the names of the grammar's inputs are others).
_NAMES = {
    "alpha": "alpha", "beta": "beta", "epsilon": "e", "strides": "st", "dilations": "dl", "group": "g", "pads": "p",
    "perm": "p", "axis": "i", "axes": "i", "keepdims": "k", "transA": "ta", "transB": "tb", "split": "n",
    "starts": "from", "ends": "to", "steps": "by", "shape": "z", "kernel": "z", "groups": "g",
    "bound_low": "low", "bound_high": "high", "gamma": "gamma", "indices": "j", "p": "q",
}  # fmt: skip
_REAL = frozenset({"alpha", "beta", "epsilon", "gamma"})
_SIZED = frozenset({"split", "starts", "ends", "shape", "kernel", "n", "groups"})
# Other values at which a generalised attribute is tried.
ALTERNATIVES: Mapping[str, tuple[Attr, ...]] = {
    "strides": ((2, 2), (1, 2)),
    "dilations": ((2, 2), (1, 2)),
    "pads": ((0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 2, 1)),
    "axis": (-1, -2, -3),
    "axes": ((-1,), (-2,), (-2, -1), (-3,), (-3, -2), (-3, -1)),
    "group": (2, 3),
    "keepdims": (0, 1),
    "transA": (0, 1),
    "transB": (0, 1),
    "steps": ((1,), (2,)),
    "bound_low": (-2.0, 0.0, 1.0),
    "bound_high": (-1.0, 0.0, 6.0),
    "indices": (0, 1, (0,), (1,)),
    "p": (1, 2),
}
_MOST = 4000  # choices of sizes looked at for one equation

Slot = tuple[Term, str]  # a ground operator and the name of one of its attributes


@dataclass(frozen=True)
class Schema:
    """A rule with the signature of the instance it comes from, and which attribute each attribute variable is.

    `base` has as literals those sizes that typing fixes at the instance's attributes; in `open` they are symbolic.
    """

    rule: Rule
    base: Signature
    open: Signature
    kinds: Mapping[str, str]


@dataclass
class _Draft:
    """An equation with some attributes already exchanged."""

    equation: Equation
    names: Mapping[Term, str]
    filled: dict[Slot, Attr]
    values: dict[str, SignatureValue]  # of attribute variables, at the instance
    kinds: dict[str, str]
    ones: frozenset[str]  # variables whose sizes of 1 are literal: they broadcast

    def rule(self) -> Rule:
        """The equation as it stands, whether or not it can be applied from left to right."""

        def build(old: Term, inputs: tuple[Term | None, ...]) -> Term:
            if old.op == "Var":
                return var(self.names[old])
            attrs = {name: self.filled.get((old, name), value) for name, value in old.attrs}
            return make(old.op, inputs, attrs)

        count = len(self.equation.lhs)
        terms = map_terms(self.equation.lhs + self.equation.rhs, build)
        return Rule(terms[:count], terms[count:])

    def schema(self) -> Schema:
        """The rule with the instance's signature."""
        shapes = []
        for term, name in self.names.items():
            assert term.type is not None
            shape = term.type.concrete()
            assert shape is not None
            shapes.append((name, tuple(1 if name in self.ones and size == 1 else None for size in shape)))
        rule = self.rule()
        if not rule.applicable and rule.reversed().applicable:
            rule = rule.reversed()
        base = Signature(tuple(sorted(shapes)), tuple(sorted(self.values.items())))
        return Schema(rule, base, base, dict(self.kinds))

    def with_variable(self, slots: Mapping[Slot, Attr], values: Mapping[str, SignatureValue], kind: str) -> _Draft:
        kinds = {**self.kinds, **dict.fromkeys(values, kind)}
        return _Draft(self.equation, self.names, {**self.filled, **slots}, {**self.values, **values}, kinds, self.ones)

    def fresh(self, kind: str) -> str:
        """A name for a variable of attribute `kind` that is not taken."""
        name = _NAMES[kind]
        return (
            name
            if name not in self.values
            else next(f"{name}{k}" for k in itertools.count(2) if f"{name}{k}" not in self.values)
        )


def generalise(equation: Equation, trial: Trial) -> Schema | None:
    """The most general rule found for an equation, or None where it holds by an accident of the instance's sizes."""
    names = _renamed(equation)
    weights = frozenset(v.name for v in equation.family.variables if v.weight)
    starts: list[tuple[int, int, _Draft]] = []
    for ones in dict.fromkeys((frozenset[str](), weights, frozenset(names.values()))):
        start = _sized(_Draft(equation, names, {}, {}, {}, ones), trial)
        if start is not None:
            schema = start.schema()
            starts.append((-trial.freedom(schema.rule, schema.base), len(starts), start))
    if not starts:
        return None
    schema = _with_attributes(min(starts)[2], trial).schema()
    return Schema(schema.rule, trial.pinned(schema.rule, schema.open), schema.open, schema.kinds)


def _renamed(equation: Equation) -> dict[Term, str]:
    """Within each role, the role's names in the order of first occurrence."""
    family = equation.family
    roles: dict[str, Iterator[str]] = {}
    role_of = {v.name: v.role for v in family.variables}
    for v in family.variables:
        if v.role not in roles:
            roles[v.role] = iter([u.name for u in family.variables if u.role == v.role])
    return {term: next(roles[role_of[str(term.attr("name"))]]) for term in variables(equation.lhs + equation.rhs)}


def _slots(equation: Equation) -> dict[str, dict[Attr, list[Slot]]]:
    """Attribute name -> value -> where it stands."""
    found: dict[str, dict[Attr, list[Slot]]] = {}
    for term in topological(equation.lhs + equation.rhs):
        if term.op not in ("Var", "Out"):
            for name, value in term.attrs:
                kind = {("Pad", "pads"): "amounts", ("Dirac", "shape"): "kernel"}.get((term.op, name), name)
                if kind == "group" and value != 1:
                    kind = "groups"  # may be a number of channels
                if kind == "axes" and isinstance(value, tuple) and len(value) == 1:
                    kind, value = "axis", value[0]  # one axis is one axis, in a list or not
                found.setdefault(kind, {}).setdefault(value, []).append((term, name))
    return found


def _with_attributes(draft: _Draft, trial: Trial) -> _Draft:
    """Attribute after attribute becomes a variable where the rule still holds at other values."""
    for kind, groups in _slots(draft.equation).items():
        if kind not in _NAMES or kind in _SIZED:
            continue
        if kind == "pads" and len(groups) > 1:
            shifted = _shifted(draft, groups, trial)
            if shifted is not None:
                draft = shifted
                continue
        if kind == "perm":
            draft = _with_permutations(draft, groups, trial)
            continue
        for value, slots in groups.items():
            name = draft.fresh(kind)
            at: SignatureValue = AttrVar(name) if kind in _REAL else None if kind == "group" else _literal(value)
            filled: dict[Slot, Attr] = {
                slot: (symbol(name),) if (kind, slot[1]) == ("axis", "axes") else AttrVar(name) for slot in slots
            }
            wider = draft.with_variable(filled, {name: at}, kind)
            if _unbound(wider) > _unbound(draft):
                continue
            if _bound(wider.schema().rule) and _holds_widely(wider, name, kind, value, trial):
                draft = wider
    return draft


def _with_permutations(draft: _Draft, groups: Mapping[Attr, list[Slot]], trial: Trial) -> _Draft:
    """All permutations become variables, or none: which of them go together is left to the signatures."""
    wider = draft
    for value, slots in groups.items():
        name = wider.fresh("perm")
        wider = wider.with_variable(dict.fromkeys(slots, AttrVar(name)), {name: _literal(value)}, "perm")
    schema = wider.schema()
    if not _bound(schema.rule) or _unbound(wider) > _unbound(draft):
        return draft
    return wider if trial.holds(schema.rule, schema.base) else draft


def _literal(value: Attr) -> SignatureValue:
    return value if not isinstance(value, tuple) else tuple(value)


def _bound(rule: Rule) -> bool:
    """Whether one of the two directions can be applied."""
    return rule.applicable or rule.reversed().applicable


def _unbound(draft: _Draft) -> int:
    """How many directions worth taking lack a value for an attribute variable.

    From right to left is worth taking where as many operators run on both sides. The shape of a constant that is
    absorbed (Add(x, Zeros[shape=z]) = x) does not count: nobody puts it back.
    """
    rule, equation = draft.rule(), draft.equation
    weights = frozenset(v.name for v in equation.family.variables if v.weight)
    back = len(rule.lhs) > 1 or operators(equation.lhs, weights)[0] == operators(equation.rhs, weights)[0]
    if "shape" in draft.kinds.values() or not all(t.inputs for t in rule.rhs):
        back = False
    return int(not rule.applicable) + int(back and not rule.reversed().applicable)


def _holds_widely(draft: _Draft, name: str, kind: str, value: Attr, trial: Trial) -> bool:
    schema = draft.schema()
    if not trial.holds(schema.rule, schema.base):
        return False
    others = [a for a in _alternatives(kind, value) if a != value]
    verdicts = [
        trial.holds(schema.rule, Signature(schema.base.shapes, _with(schema.base.attrs, name, _literal(other))))
        for other in others
    ]
    return False not in verdicts and (True in verdicts or kind in _REAL)


def _alternatives(kind: str, value: Attr) -> tuple[Attr, ...]:
    length = len(value) if isinstance(value, tuple) else 0
    return tuple(a for a in ALTERNATIVES.get(kind, ()) if (len(a) if isinstance(a, tuple) else 0) == length)


def _with(
    attrs: tuple[tuple[str, SignatureValue], ...], name: str, value: SignatureValue
) -> tuple[tuple[str, SignatureValue], ...]:
    return tuple((key, value if key == name else old) for key, old in attrs)


def _shifted(draft: _Draft, groups: Mapping[Attr, list[Slot]], trial: Trial) -> _Draft | None:
    """Pads that differ by a constant: one variable for each entry, and the constant added."""
    base = min(groups, key=lambda value: tuple(value) if isinstance(value, tuple) else ())
    if not isinstance(base, tuple) or any(not isinstance(v, tuple) or len(v) != len(base) for v in groups):
        return None
    names = [f"p{k}" for k in range(len(base))]
    filled: dict[Slot, Attr] = {}
    for value, slots in groups.items():
        assert isinstance(value, tuple)
        entries = tuple(
            symbol(name) + (v - b)
            for name, v, b in zip(names, value, base, strict=True)
            if isinstance(v, int) and isinstance(b, int)
        )
        filled.update(dict.fromkeys(slots, entries))
    at: dict[str, SignatureValue] = {name: b for name, b in zip(names, base, strict=True) if isinstance(b, int)}
    wider = draft.with_variable(filled, at, "pad")
    schema = wider.schema()
    if not _bound(schema.rule) or not trial.holds(schema.rule, schema.base):
        return None
    attrs = schema.base.attrs
    for name, amount in zip(names, (2, 1, 0, 3), strict=False):
        attrs = _with(attrs, name, amount)
    return wider if trial.holds(schema.rule, Signature(schema.base.shapes, attrs)) else None


def _sized(draft: _Draft, trial: Trial) -> _Draft | None:
    """Sizes in attributes expressed by sizes of variables, so that the fewest sizes are tied to each other."""
    slots = [
        (kind, value, at)
        for kind, groups in _slots(draft.equation).items()
        if kind in _SIZED
        for value, at in groups.items()
    ]
    env = _typing(draft, slots, trial)
    options = [list(_distinct(_choices(draft, kind, value, at), env)) for kind, value, at in slots]
    drafts: list[tuple[int, int, _Draft]] = []
    for order, choice in enumerate(itertools.islice(itertools.product(*options), _MOST)):
        chosen = draft
        for (kind, _, at), (filled, value) in zip(slots, choice, strict=True):
            name = chosen.fresh(kind) if filled is None else ""
            chosen = chosen.with_variable(
                dict.fromkeys(at, AttrVar(name) if filled is None else filled),
                {name: value} if filled is None else {},
                kind,
            )
        try:
            schema = chosen.schema()
        except IllTyped:
            continue
        if _bound(schema.rule):
            free = trial.freedom(schema.rule, schema.base)
            if free >= 0:
                drafts.append((_unbound(chosen) - free, order, chosen))
    for _, _, chosen in sorted(drafts, key=lambda d: d[:2])[:40]:
        schema = chosen.schema()
        if trial.holds(schema.rule, schema.base):
            return chosen
    return None


def _typing(draft: _Draft, slots: list[tuple[str, Attr, list[Slot]]], trial: Trial) -> dict[str, Size]:
    """Which sizes of variables are equal by typing, whatever the attributes in question are."""
    for kind, value, at in slots:
        if kind == "n":
            continue
        name = draft.fresh(kind)
        free: SignatureValue = (None,) * len(value) if isinstance(value, tuple) else None
        draft = draft.with_variable(dict.fromkeys(at, AttrVar(name)), {name: free}, kind)
    return trial.solved(draft.rule(), draft.schema().base)


def _distinct(
    choices: Iterator[tuple[Attr | None, SignatureValue]], env: Mapping[str, Size]
) -> Iterator[tuple[Attr | None, SignatureValue]]:
    """The first of those choices that typing makes equal."""
    seen: set[object] = set()
    for filled, value in choices:
        entries = filled if isinstance(filled, tuple) else (filled,)
        key: object = tuple(evaluate(e, env) if isinstance(e, (int, Dim)) else e for e in entries)
        if filled is None or key not in seen:
            seen.add(key)
            yield filled, value


def _choices(draft: _Draft, kind: str, value: Attr, at: list[Slot]) -> Iterator[tuple[Attr | None, SignatureValue]]:
    """Expressions for a sized attribute; (None, v): an attribute variable with signature value v."""
    if isinstance(value, int):
        if kind == "groups":
            yield None, None
        yield from ((size, None) for size in _sizes(draft, value, sums=False))
        return
    assert isinstance(value, tuple)
    entries = tuple(v for v in value if isinstance(v, int))
    free: SignatureValue = (None,) * len(entries)
    if kind == "shape" and _broadcasts(draft, at):
        yield None, free
    if kind in ("shape", "kernel"):
        for term, name in draft.names.items():
            if term.type is not None and term.type.shape == entries and entries:
                yield AttrVar(f"{name}.shape"), None
    if kind != "shape":
        yield None, free
    for choice in itertools.product(*(list(_sizes(draft, v, sums=kind in ("starts", "ends"))) for v in entries)):
        yield choice, None


def _broadcasts(draft: _Draft, at: list[Slot]) -> bool:
    """Whether a constant is an operand of an elementwise operator, so that its shape does not follow from its place."""
    constants = {slot[0] for slot in at}
    terms = topological(draft.equation.lhs + draft.equation.rhs)
    return any(t.op in OPS and OPS[t.op].elementwise and not constants.isdisjoint(t.inputs) for t in terms)


def _sizes(draft: _Draft, value: int, sums: bool) -> Iterator[Size]:
    """Expressions that have this value at the instance: itself if 0 or 1, sizes of variables, sums of two of them."""
    if value < 2:
        yield value
        return
    known: list[tuple[Size, int, int]] = []
    for term, name in draft.names.items():
        shape = term.type.concrete() if term.type is not None else None
        for k, size in enumerate(shape or ()):
            place = k if draft.equation.family.lifts == "conv" else k - len(shape or ())
            known.append((symbol(f"{name}.shape[{place}]"), size, place))
    yield from (size for size, number, _ in known if number == value)
    if sums:
        for (a, m, i), (b, n, j) in itertools.combinations(known, 2):
            if m + n == value and i == j:
                yield a + b
