"""Laws of two alike operands as laws of n.

Where a substitution carries the first of two operands to the second (b to c), the law may hold for any number:

    (f(b), f(c))        = the parts of Split[split=[b.shape[-1], c.shape[-1]]](f(Concat(b, c)))
    (f(b), f(c), f(b3)) = the parts of Split[split=[b.shape[-1], c.shape[-1], b3.shape[-1]]](f(Concat(b, c, b3)))

Repeated are two operands side by side of Concat, Sum, Max or Min, the operands of Add (which is nested), the parts of a
Split, and the two outputs of a law. A law of one part, as Split(Concat(x, y)).1 = y, becomes one for each part. Where
Add alone is repeated, as in Add(Neg(x), Neg(y)) = Neg(Add(x, y)), the law applied twice says as much: nothing is made.
Everything here proposes: an extended law is proven as any other before it is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from superopt.ir.dim import Dim, evaluate, symbol, symbols_of
from superopt.ir.infer import OPERATORS, make
from superopt.ir.pattern import pattern_names
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Attr, AttrVar, Term, topological, var

__all__ = ["Reading", "Schema", "extended", "readings", "schema_of"]


_COUNTS = frozenset({"indices"})  # attributes by which operands may be the places of one value, in turn


@dataclass(frozen=True)
class Schema:
    """A rule with the signature of the instance it comes from, and which attribute each attribute variable is.

    `base` has as literals those sizes that typing fixes at the instance's attributes; in `open` they are symbolic.
    """

    rule: Rule
    base: Signature
    open: Signature
    kinds: Mapping[str, str]


def extended(law: Schema | Rule, n: int) -> Schema | None:
    """The same law of `n` operands, or None where it is not of two alike ones; nothing is tried yet.

    From a law of one part comes the one of the first of `n` parts where it was the first, else of the last.
    """
    reading = next(readings(schema_of(law) if isinstance(law, Rule) else law), None)
    return None if reading is None else reading.schema(n, n - 1 if 1 in reading.sides else 0)


def schema_of(rule: Rule) -> Schema:
    """A rule as it is read from a file, at the first of its signatures."""
    signature = rule.signatures[0] if rule.signatures else Signature(())
    kinds = dict.fromkeys((name for name, _ in signature.attrs), "")
    for key, value in (attr for term in topological(rule.lhs + rule.rhs) for attr in term.attrs):
        kind = key if isinstance(value, AttrVar) else {"axes": "axis", "pads": "pad"}.get(key, key)
        kinds |= {name: kind for name in map(_variable, _names(value)) if name in kinds}
    return Schema(Rule(rule.lhs, rule.rhs), signature, signature, kinds)


def readings(schema: Schema) -> Iterator[Reading]:
    """The ways to read a law as one of two alike operands, those of the outermost operands first."""
    rule, found = schema.rule, list[Reading]()
    pairs = [[(p, q) for p, q in (rule.lhs, rule.rhs)]] if len(rule.lhs) == 2 else []
    for side in (rule.lhs, rule.rhs):
        pairs += [[(p, q)] for term in reversed(list(topological(side))) for _, p, q in _neighbours(term)]
    halves = {n for n, v in schema.open.attrs if schema.kinds[n] == "split" and isinstance(v, tuple) and len(v) == 2}
    for pair in [*pairs, []]:
        after: dict[str, str] = {}
        counted = set[str]()
        for p, q in pair:
            _match(p, q, after, counted)
        if (after or counted or (halves and not found)) and all(after != reading.after for reading in found):
            ways = (Reading(schema, after, splits, bool(counted)) for splits in (halves, set[str]()))
            way = next((way for way in ways if way.is_new), None)
            if way is not None:
                found.append(way)
                yield way


def _neighbours(term: Term) -> Iterator[tuple[int, Term, Term]]:
    """Operands side by side, with the place of the first, of an operator that may have more of them (or is Add)."""
    if term.op == "Add" or (term.op in OPERATORS and OPERATORS[term.op].inputs[1] is None):
        yield from ((place, p, q) for place, (p, q) in enumerate(itertools.pairwise(term.inputs)) if p and q)


def _match(p: Term | None, q: Term | None, after: dict[str, str], counted: set[str]) -> None:
    """Finds what the names in `p` become in `q`, as far as the two are alike, and which attributes count: 0, 1."""
    if p is q or p is None or q is None or p.op != q.op:
        return
    if p.op == "Var":
        after.setdefault(str(p.attr("name")), str(q.attr("name")))
        return
    for (name, a), (_, b) in zip(p.attrs, q.attrs, strict=True):
        if name in _COUNTS and a == 0 and b == 1:
            counted.add(name)
        if isinstance(a, AttrVar) and isinstance(b, AttrVar) and a != b:
            after.setdefault(_variable(a.name), _variable(b.name))
    for i, j in zip(p.inputs, q.inputs, strict=False):
        _match(i, j, after, counted)


def _names(value: Attr) -> Iterator[str]:
    """Names of variables and sizes in the value of an attribute."""
    if isinstance(value, AttrVar):
        yield value.name
    elif isinstance(value, Dim):
        yield from sorted(symbols_of(value))
    elif isinstance(value, tuple):
        for item in value:
            yield from _names(item)


def _variable(name: str) -> str:
    """The variable in the name of a size: b in b.shape[-1], n in n[0]."""
    return name.split(".")[0].split("[")[0]


class Reading:
    """A law as one of two alike operands: `after` carries the names of the first to those of the second, and Splits
    whose sizes are attribute variables in `splits` have a part for each operand.

    `sides`: of which operands (0, 1) the law speaks outside of what is repeated. Of none: it is a law of all operands;
    of one: it is a law of that part; of both: it does not extend. `counts`: the operands take place 0, 1, ...
    """

    def __init__(self, schema: Schema, after: Mapping[str, str], splits: set[str], counts: bool = False) -> None:
        self.original, self.after, self.splits, self.counts = schema, after, splits, counts
        rule = schema.rule
        self._taken = {_variable(name) for names in pattern_names(rule.lhs + rule.rhs) for name in names}
        self._first = {name: first for first, second in after.items() for name in (first, second)}
        self._repeats: dict[Term, tuple[int, Term] | None] = {}
        self.of_outputs = len(rule.lhs) == 2 and all(self._alike(p, q) for p, q in (rule.lhs, rule.rhs))
        self.sides = set[int]() if self.of_outputs else set[int]().union(*map(self._sides, rule.lhs + rule.rhs))

    @property
    def is_new(self) -> bool:
        """Whether the reading makes sense, and something else than Add is repeated."""
        terms = topological(self.original.rule.lhs + self.original.rule.rhs)
        more = any(self._has_parts(t) or (t.op != "Add" and self._repeated(t) is not None) for t in terms)
        return len(self._first) == 2 * len(self.after) and len(self.sides) < 2 and (self.of_outputs or more)

    def parts(self, n: int) -> range:
        """The parts of `n` whose laws are to be written. The law of a part of a Split is the same for any number of
        parts, so the last one only is new; of other laws the first gives all but the last."""
        if 1 in self.sides:
            return range(n - 1, n)
        return range(n - 1 if self.after else 0) if self.sides else range(1)

    def schema(self, n: int, part: int) -> Schema:
        """The law of `n` operands, or of part `part` of them."""
        old = self.original
        outputs = [(0, k) for k in range(n)] if self.of_outputs else [(i, part) for i in range(len(old.rule.lhs))]
        lhs, rhs = (tuple(self._build(side[i], k, n) for i, k in outputs) for side in (old.rule.lhs, old.rule.rhs))
        kinds = dict(self._more(old.kinds.items(), n))
        return Schema(Rule(lhs, rhs), self._signature(old.base, n), self._signature(old.open, n), kinds)

    def built(self, term: Term, k: int, n: int) -> Term:
        """One side's term with `n` operands for two, and that of operand `k` where it is of one."""
        return self._build(term, k, n)

    def _signature(self, old: Signature, n: int) -> Signature:
        attrs = []
        for name, value in self._more(old.attrs, n):
            if name in self.splits:
                value = value + value[-1:] * (n - 2)
            attrs.append((name, AttrVar(name) if isinstance(value, AttrVar) else value))
        return Signature(tuple(self._more(old.shapes, n)), tuple(attrs), tuple(self._more(old.dtypes, n)))

    def _more(self, items: Collection[tuple[str, Any]], n: int) -> list[tuple[str, Any]]:
        """What is said of names, sorted by them; of those of further operands as of those of the second."""
        seconds = [(name, value) for name, value in items if self._side(name) == 1]
        further = [(self._name(name, k), value) for name, value in seconds for k in range(2, n)]
        return sorted([*items, *further], key=lambda item: item[0])

    def _side(self, name: str) -> int | None:
        """Of which operand this is a name (`b`), or that of a size (`b.shape[-1]`, `n[0]`)."""
        variable = _variable(name)
        if variable in self.splits and name != variable:
            return int(name != f"{variable}[0]")
        return None if variable not in self._first else int(variable not in self.after)

    def _name(self, name: str, k: int) -> str:
        """What is called `name` of its operand, of operand `k`."""
        if self._side(name) is None:
            return name
        variable = _variable(name)
        if variable in self.splits:
            return f"{variable}[{k}]"
        first = self._first[variable]
        new = (first, self.after[first])[k] if k < 2 else f"{first}{k + 1}"
        while k > 1 and new in self._taken:
            new += "_"
        return new + name[len(variable) :]

    def _attr(self, value: Attr, k: int) -> Attr:
        if isinstance(value, AttrVar):
            return AttrVar(self._name(value.name, k))
        if isinstance(value, Dim):
            return evaluate(value, {name: symbol(self._name(name, k)) for name in symbols_of(value)})
        return tuple(self._attr(item, k) for item in value) if isinstance(value, tuple) else value

    def _build(self, term: Term, k: int, n: int) -> Term:
        """`term` with `n` operands for two, and of operand `k` where it is of one; n = 2 carries the first to it."""
        if term.op == "Var":
            return var(self._name(str(term.attr("name")), k))
        inputs = [None if i is None else self._build(i, k, n) for i in term.inputs]
        attrs = {name: self._attr(value, k) for name, value in term.attrs}
        if term.op == "Out" and self._has_parts(term.inputs[0]):
            attrs["index"] = k
        if self.counts:
            attrs |= {name: k for name in _COUNTS & attrs.keys() if attrs[name] == 0}
        if self._has_parts(term) and isinstance(sizes := term.attr("split"), tuple):
            attrs["split"] = tuple(self._attr(sizes[0], j) for j in range(n))
        repeated = self._repeated(term)
        if repeated is None:
            return make(term.op, inputs, attrs)
        operands = [self._build(repeated[1], j, n) for j in range(n)]
        if term.op == "Add":
            return reduce(lambda total, operand: make("Add", (total, operand)), operands)
        return make(term.op, [*inputs[: repeated[0]], *operands, *inputs[repeated[0] + 2 :]], attrs)

    def _sides(self, term: Term) -> set[int]:
        """Of which operands `term` speaks outside of what is repeated."""
        repeated = self._repeated(term)
        once = [i for k, i in enumerate(term.inputs) if repeated is None or k not in (repeated[0], repeated[0] + 1)]
        found = {side for i in once if i is not None for side in self._sides(i)}
        if term.op == "Out" and self._has_parts(term.inputs[0]):
            found.add(int(term.attr("index") != 0))
        names = [str(term.attr("name"))] if term.op == "Var" else []
        for key, value in term.attrs:
            if key != "split" or not self._has_parts(term):
                names += _names(value)
        return found | {side for name in names if (side := self._side(name)) is not None}

    def _repeated(self, term: Term) -> tuple[int, Term] | None:
        """The first of two operands of `term` that are repeated, and its place."""
        if term not in self._repeats:
            self._repeats[term] = next(((k, p) for k, p, q in _neighbours(term) if self._alike(p, q)), None)
        return self._repeats[term]

    def _alike(self, p: Term, q: Term) -> bool:
        return self._sides(p) <= {0} and self._build(p, 1, 2) is q

    def _has_parts(self, term: Term | None) -> bool:
        """Whether it is a Split with a part for each operand."""
        sizes = term.attr("split") if term is not None and term.op == "Split" else None
        if isinstance(sizes, tuple) and len(sizes) == 2:
            return 1 not in map(self._side, _names(sizes[0])) and self._attr(sizes[0], 1) == sizes[1]
        return isinstance(sizes, AttrVar) and sizes.name in self.splits
