"""Laws of two alike operands as laws of n.

Where a substitution carries the first of two operands to the second (b to c), the law may hold for any number:

    (MatMul(a, b), MatMul(a, c)) = (p.0, p.1)
        where p = Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, c)))
    (MatMul(a, b), MatMul(a, c), MatMul(a, b3)) = (p.0, p.1, p.2)
        where p = Split[axis=-1, split=[b.shape[-1], c.shape[-1], b3.shape[-1]]](MatMul(a, Concat[axis=-1](b, c, b3)))

Repeated are two operands side by side of Concat, Sum, Max or Min, the operands of Add (which is nested), the parts of a
Split, and the two outputs of a law. A law of one part, as Split(Concat(x, y)).1 = y, becomes one for each part.
Everything here proposes: an extended law is tried and proven as any other.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import TypeVar

from superopt.generate.generalise import Schema
from superopt.generate.trial import Trial
from superopt.ir.dim import Dim, evaluate, symbol, symbols_of
from superopt.ir.ops import OPS, make
from superopt.ir.rule import Rule, Signature, SignatureValue
from superopt.ir.term import Attr, AttrVar, Term, topological, var
from verify.verdict import Proved, Verdict

__all__ = ["extended", "extensions", "schema_of"]

Pair = tuple[Term, Term]
T = TypeVar("T")


def extended(law: Schema | Rule, n: int, part: int | None = None) -> Schema | None:
    """The same law of `n` operands, or None where it is not of two alike ones; nothing is tried yet.

    From a law of one part comes the one of part `part` of `n`: by default the first from the first, else the last.
    """
    schema = schema_of(law) if isinstance(law, Rule) else law
    return next((reading.schema(n, part) for reading in _readings(schema)), None)


def extensions(
    schemas: Iterable[Schema], trial: Trial, prover: Callable[[Rule, Signature], Verdict], most: int = 4
) -> Iterator[Schema]:
    """Each law for 3, ..., `most` operands, as far as these are proven at its signature; every rule once."""
    seen: set[str] = set()
    for schema in schemas:
        seen.add(schema.rule.id)
        for reading in _readings(schema):
            found: list[Schema] = []
            for n in range(3, most + 1):
                wider = [reading.schema(n, part) for part in reading.parts(n)]
                proven = [s for s in wider if s.rule.id not in seen and _is_proven(s, trial, prover)]
                if not proven:
                    break
                found += proven
            seen.update(s.rule.id for s in found)
            yield from found
            if found:
                break


def _is_proven(schema: Schema, trial: Trial, prover: Callable[[Rule, Signature], Verdict]) -> bool:
    return bool(trial.holds(schema.rule, schema.base)) and isinstance(prover(schema.rule, schema.base), Proved)


def schema_of(rule: Rule) -> Schema:
    """A rule as it is read from a file, at the first of its signatures."""
    signature = rule.signatures[0] if rule.signatures else Signature(())
    kinds: dict[str, str] = {}
    for term in topological(rule.lhs + rule.rhs):
        for name, value in term.attrs:
            for variable in _names(value):
                kinds.setdefault(variable, name if isinstance(value, AttrVar) else {"axes": "axis"}.get(name, "pad"))
    kinds = {name: kinds[name] for name, _ in signature.attrs}
    return Schema(Rule(rule.lhs, rule.rhs), signature, signature, kinds)


def _readings(schema: Schema) -> Iterator[_Reading]:
    """The ways to read a law as one of two alike operands, those of the outermost operands first."""
    rule = schema.rule
    pairs: list[list[Pair]] = [[(a, b) for a, b in (rule.lhs, rule.rhs)]] if len(rule.lhs) == 2 else []
    for term in reversed(list(topological(rule.lhs + rule.rhs))):
        pairs += [[(p, q)] for _, p, q in _neighbours(term)]
    halves = frozenset(
        name
        for name, value in schema.open.attrs
        if schema.kinds[name] == "split" and isinstance(value, tuple) and len(value) == 2
    )
    tried: list[object] = [({}, frozenset())]
    for chosen in [*pairs, []]:
        after: dict[str, str] = {}
        for p, q in chosen:
            _match(p, q, after)
        for splits in (halves, frozenset[str]()):
            if (after, splits) not in tried and len({*after, *after.values()}) == 2 * len(after):
                tried.append((after, splits))
                reading = _Reading(schema, after, splits)
                if len(reading.sides) < 2:
                    yield reading


def _neighbours(term: Term) -> Iterator[tuple[int, Term, Term]]:
    """Operands side by side, with the place of the first, of an operator that may have more of them (or is Add)."""
    if term.op == "Add" or (term.op in OPS and OPS[term.op].inputs[1] is None):
        for place, (p, q) in enumerate(itertools.pairwise(term.inputs)):
            if p is not None and q is not None:
                yield place, p, q


def _match(p: Term | None, q: Term | None, after: dict[str, str]) -> None:
    """Finds what the names in `p` become in `q`, as far as the two are alike."""
    if p is q or p is None or q is None or p.op != q.op:
        return
    if p.op == "Var":
        after.setdefault(str(p.attr("name")), str(q.attr("name")))
        return
    for (_, a), (_, b) in zip(p.attrs, q.attrs, strict=True):
        if isinstance(a, AttrVar) and isinstance(b, AttrVar) and a != b and "." not in a.name:
            after.setdefault(a.name, b.name)
    for i, j in zip(p.inputs, q.inputs, strict=False):
        _match(i, j, after)


class _Reading:
    """A law as one of two alike operands: `after` carries the names of the first to those of the second, and Splits
    whose sizes are attribute variables in `splits` have a part for each operand.

    `sides`: of which operands (0, 1) the law speaks outside of what is repeated. Of none: it is a law of all operands;
    of one: it is a law of that part; of both: it does not extend.
    """

    def __init__(self, schema: Schema, after: Mapping[str, str], splits: frozenset[str]) -> None:
        self.original, self.after, self.splits = schema, after, splits
        rule = schema.rule
        terms = list(topological(rule.lhs + rule.rhs))
        self._taken = {_head(name) for t in terms for _, value in t.attrs for name in _names(value)}
        self._taken |= {str(t.attr("name")) for t in terms if t.op == "Var"}
        self._first = {**{first: first for first in after}, **{second: first for first, second in after.items()}}
        self._places: dict[Term, int | None] = {}
        self.of_outputs = len(rule.lhs) == 2 and all(self._alike(p, q) for p, q in (rule.lhs, rule.rhs))
        roots = () if self.of_outputs else rule.lhs + rule.rhs
        self.sides = frozenset(side for root in roots for side in self._sides(root))

    def parts(self, n: int) -> range:
        """The parts of `n` whose laws are to be written. The law of a part of a Split is the same for any number of
        parts, so the last one only is new; of other laws the first gives all but the last."""
        if not self.sides:
            return range(1)
        if 1 in self.sides:
            return range(n - 1, n)
        return range(n - 1 if self.after else 0)

    def schema(self, n: int, part: int | None = None) -> Schema:
        """The law of `n` operands."""
        part = (n - 1 if 1 in self.sides else 0) if part is None else part
        old = self.original
        lhs, rhs = (
            tuple(self._build(side[0], k, n) for k in range(n))
            if self.of_outputs
            else tuple(self._build(term, part, n) for term in side)
            for side in (old.rule.lhs, old.rule.rhs)
        )
        kinds = dict(self._more(old.kinds.items(), n))
        return Schema(Rule(lhs, rhs), self._signature(old.base, n), self._signature(old.open, n), kinds)

    def _signature(self, old: Signature, n: int) -> Signature:
        attrs: list[tuple[str, SignatureValue]] = []
        for name, value in self._more(old.attrs, n):
            if name in self.splits and isinstance(value, tuple):
                value = value + value[-1:] * (n - 2)
            attrs.append((name, AttrVar(name) if isinstance(value, AttrVar) else value))
        shapes, dtypes = self._more(old.shapes, n), self._more(old.dtypes, n)
        return Signature(tuple(sorted(shapes)), tuple(sorted(attrs, key=lambda a: a[0])), tuple(sorted(dtypes)))

    def _more(self, items: Iterable[tuple[str, T]], n: int) -> Iterator[tuple[str, T]]:
        """What is said of names, and of the second operand's said of the further ones."""
        for name, value in items:
            yield name, value
            if name in self.after.values():
                yield from ((self._name(name, k), value) for k in range(2, n))

    def _name(self, text: str, k: int) -> str:
        """A name, or that of a size (`b.shape[-1]`, `n[0]`), of an operand as it is for operand `k`."""
        head, rest = _head(text), text[len(_head(text)) :]
        if head in self.splits and rest:
            return f"{head}[{k}]"
        first = self._first.get(head)
        if first is None:
            return text
        if k < 2:
            return (self.after[first] if k else first) + rest
        fresh = f"{first}{k + 1}"
        while fresh in self._taken:
            fresh += "_"
        return fresh + rest

    def _attr(self, value: Attr, k: int) -> Attr:
        if isinstance(value, AttrVar):
            return AttrVar(self._name(value.name, k))
        if isinstance(value, Dim):
            return evaluate(value, {name: symbol(self._name(name, k)) for name in symbols_of(value)})
        return tuple(self._attr(item, k) for item in value) if isinstance(value, tuple) else value

    def _build(self, term: Term, k: int, n: int) -> Term:
        """`term` with `n` operands for two, and speaking of operand `k` where it speaks of one; n = 2 and k = 1 carry
        the first operand to the second."""
        if term.op == "Var":
            return var(self._name(str(term.attr("name")), k))
        inputs = [None if i is None else self._build(i, k, n) for i in term.inputs]
        attrs = {name: self._attr(value, k) for name, value in term.attrs}
        if term.op == "Out" and self._has_parts(term.inputs[0]):
            attrs["index"] = k
        if self._has_parts(term) and isinstance(sizes := term.attr("split"), tuple):
            attrs["split"] = tuple(self._attr(sizes[0], j) for j in range(n))
        place = self._place(term)
        if place is not None:
            repeated = term.inputs[place]
            assert repeated is not None
            operands = [self._build(repeated, j, n) for j in range(n)]
            if term.op == "Add":
                return reduce(lambda total, operand: make("Add", (total, operand)), operands)
            inputs[place : place + 2] = operands
        return make(term.op, inputs, attrs)

    def _sides(self, term: Term) -> set[int]:
        """Of which operands `term` speaks outside of what is repeated."""
        if term.op == "Var":
            return self._sides_in(AttrVar(str(term.attr("name"))))
        place = self._place(term)
        inputs = term.inputs if place is None else term.inputs[:place] + term.inputs[place + 2 :]
        found = {side for i in inputs if i is not None for side in self._sides(i)}
        if term.op == "Out" and self._has_parts(term.inputs[0]):
            found |= {side for side in (0, 1) if term.attr("index") == side}
        for name, value in term.attrs:
            if name != "split" or not self._has_parts(term):
                found |= self._sides_in(value)
        return found

    def _sides_in(self, value: Attr) -> set[int]:
        found = set()
        for name in _names(value):
            head = _head(name)
            if head in self._first:
                found.add(int(head not in self.after))
            elif head in self.splits:
                found |= {side for side in (0, 1) if name == f"{head}[{side}]"}
        return found

    def _place(self, term: Term) -> int | None:
        """Where the first of two operands of `term` stands that are repeated."""
        if term not in self._places:
            self._places[term] = next((place for place, p, q in _neighbours(term) if self._alike(p, q)), None)
        return self._places[term]

    def _alike(self, p: Term, q: Term) -> bool:
        return self._sides(p) <= {0} and self._build(p, 1, 2) is q

    def _has_parts(self, term: Term | None) -> bool:
        """Whether it is a Split with a part for each operand."""
        if term is None or term.op != "Split":
            return False
        sizes = term.attr("split")
        if isinstance(sizes, tuple) and len(sizes) == 2:
            return self._sides_in(sizes[0]) <= {0} and self._attr(sizes[0], 1) == sizes[1]
        return isinstance(sizes, AttrVar) and sizes.name in self.splits


def _names(value: Attr) -> Iterator[str]:
    """Names of variables and sizes in the value of an attribute."""
    if isinstance(value, AttrVar):
        yield value.name
    elif isinstance(value, Dim):
        yield from sorted(symbols_of(value))
    elif isinstance(value, tuple):
        for item in value:
            yield from _names(item)


def _head(name: str) -> str:
    """The variable in the name of a size: b in b.shape[-1], n in n[0]."""
    return re.split(r"[.\[]", name)[0]
