"""Variadic rules: a rule for two alike operands, written for n operands.

If a substitution maps the first of two operands to the second (b to c), the rule may hold for any number of operands:

    (f(b), f(c))        = the parts of Split[split=[b.shape[-1], c.shape[-1]]](f(Concat(b, c)))
    (f(b), f(c), f(b3)) = the parts of Split[split=[b.shape[-1], c.shape[-1], b3.shape[-1]]](f(Concat(b, c, b3)))

The repeated operands are two neighbouring operands of Concat, Sum, Max or Min, the operands of Add (which is nested),
the parts of a Split, or the two outputs of the rule. A rule about one part, as Split(Concat(x, y)).1 = y, becomes one
rule for each part. A rule that only repeats Add, as Add(Neg(x), Neg(y)) = Neg(Add(x, y)), has no variadic form:
applying the rule twice has the same effect.

This file only proposes rules: a rule for n operands is proven like any other before it is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from superopt.ir.dim import Dim, evaluate, symbol, symbols_of
from superopt.ir.infer import OPERATORS, make
from superopt.ir.pattern import pattern_names
from superopt.ir.rule import Rule, Signature, SignatureValue
from superopt.ir.term import Attr, AttrVar, Term, map_terms, topological, var

__all__ = ["Schema", "VariadicForm", "extended", "schema_of", "variadic_forms"]


# Attributes that number the operands 0, 1, ...: each operand is the slice of one value at that index.
_INDEX_ATTRIBUTES = frozenset({"indices"})


@dataclass(frozen=True)
class Schema:
    """A rule with the signature of the instance that it comes from, and the attribute that each variable stands for.

    In `base`, sizes that type inference fixes at the instance's attributes are literals; in `open` they are symbolic.
    `kinds` maps the name of an attribute variable to the name of the attribute.
    """

    rule: Rule
    base: Signature
    open: Signature
    kinds: Mapping[str, str]


def extended(rule: Schema | Rule, n: int) -> Schema | None:
    """Return the rule for `n` operands, or None if it has no variadic form. Nothing is proven here.

    A rule about one part gives the rule about the first of `n` parts if it was about the first, else about the last.
    """
    form = next(variadic_forms(schema_of(rule) if isinstance(rule, Rule) else rule), None)
    return None if form is None else form.schema(n, n - 1 if 1 in form.single_operands else 0)


def schema_of(rule: Rule) -> Schema:
    """Return the schema of a rule as it is read from a file, at the first of its signatures.

    Splits of one value that may have the same sizes are one Split there, as parts of two Splits do not repeat.
    """
    rule = _with_one_split(rule)
    signature = rule.signatures[0] if rule.signatures else Signature(())
    kinds = dict.fromkeys((name for name, _ in signature.attrs), "")
    for key, value in (attr for term in topological(rule.lhs + rule.rhs) for attr in term.attrs):
        kind = key if isinstance(value, AttrVar) else {"axes": "axis", "pads": "pad"}.get(key, key)
        kinds |= {name: kind for name in map(_variable, _names(value)) if name in kinds}
    return Schema(Rule(rule.lhs, rule.rhs), signature, signature, kinds)


def _with_one_split(rule: Rule) -> Rule:
    """Return the rule with one list of sizes for all Splits of a value along an axis, at a signature that admits it."""
    lists: dict[tuple[Term | None, Attr], dict[str, None]] = {}
    for term in topological(rule.lhs + rule.rhs):
        sizes = term.attr("split") if term.op == "Split" else None
        if isinstance(sizes, AttrVar):
            lists.setdefault((term.inputs[0], term.attr("axis")), {})[sizes.name] = None
    same = {name: first for first, *others in lists.values() for name in others}
    if not same:
        return rule
    for signature in rule.signatures:
        values = dict(signature.attrs)
        if all(_many(values.get(name)) == _many(values.get(first)) for name, first in same.items()):
            lhs, rhs = (_renamed(side, same) for side in (rule.lhs, rule.rhs))
            attrs = tuple(one for one in signature.attrs if one[0] not in same)
            return Rule(lhs, rhs, (replace(signature, attrs=attrs),))
    return rule


def _many(value: SignatureValue) -> int | None:
    return len(value) if isinstance(value, tuple) else None


def _renamed(terms: tuple[Term, ...], names: Mapping[str, str]) -> tuple[Term, ...]:
    """Return the terms with other names of attribute variables."""

    def rename(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        attrs: dict[str, Attr] = {
            name: AttrVar(names[value.name]) if isinstance(value, AttrVar) and value.name in names else value
            for name, value in old.attrs
        }
        return Term.of(old.op, inputs, attrs, old.types)

    return map_terms(terms, rename)


def variadic_forms(schema: Schema) -> Iterator[VariadicForm]:
    """Yield the variadic forms of a rule: which two of its operands are repeated. Outermost operands come first."""
    rule, found = schema.rule, list[VariadicForm]()
    pairs = [[(p, q) for p, q in (rule.lhs, rule.rhs)]] if len(rule.lhs) == 2 else []
    for side in (rule.lhs, rule.rhs):
        pairs += [[(p, q)] for term in reversed(list(topological(side))) for _, p, q in _neighbouring_operands(term)]
    halves = {n for n, v in schema.open.attrs if schema.kinds[n] == "split" and isinstance(v, tuple) and len(v) == 2}
    for pair in [*pairs, []]:
        successor: dict[str, str] = {}
        numbered = set[str]()
        for p, q in pair:
            _align(p, q, successor, numbered)
        if (successor or numbered or (halves and not found)) and all(successor != form.successor for form in found):
            forms = (VariadicForm(schema, successor, splits, bool(numbered)) for splits in (halves, set[str]()))
            form = next((form for form in forms if form.is_new), None)
            if form is not None:
                found.append(form)
                yield form


def _neighbouring_operands(term: Term) -> Iterator[tuple[int, Term, Term]]:
    """Yield neighbouring operands, with the position of the first, of Add or an operator of any number of operands."""
    if term.op == "Add" or (term.op in OPERATORS and OPERATORS[term.op].inputs[1] is None):
        yield from ((k, p, q) for k, (p, q) in enumerate(itertools.pairwise(term.inputs)) if p and q)


def _align(p: Term | None, q: Term | None, successor: dict[str, str], numbered: set[str]) -> None:
    """Add to `successor` the renaming of names in `p` to names in `q`, where both have the same structure.

    Attributes that are 0 in `p` and 1 in `q`, and number the operands, are added to `numbered`.
    """
    if p is q or p is None or q is None or p.op != q.op:
        return
    if p.op == "Var":
        successor.setdefault(str(p.attr("name")), str(q.attr("name")))
        return
    for (name, a), (_, b) in zip(p.attrs, q.attrs, strict=True):
        if name in _INDEX_ATTRIBUTES and a == 0 and b == 1:
            numbered.add(name)
        if isinstance(a, AttrVar) and isinstance(b, AttrVar) and a != b:
            successor.setdefault(_variable(a.name), _variable(b.name))
    for i, j in zip(p.inputs, q.inputs, strict=False):
        _align(i, j, successor, numbered)


def _names(value: Attr) -> Iterator[str]:
    """Yield the names of variables and sizes in the value of an attribute."""
    if isinstance(value, AttrVar):
        yield value.name
    elif isinstance(value, Dim):
        yield from sorted(symbols_of(value))
    elif isinstance(value, tuple):
        for item in value:
            yield from _names(item)


def _variable(name: str) -> str:
    """Return the variable in the name of a size: b for b.shape[-1], n for n[0]."""
    return name.split(".")[0].split("[")[0]


class VariadicForm:
    """One way to write a rule for n operands.

    `successor` maps the names of the first operand to those of the second. Splits whose sizes are the attribute
    variables `splits` have one part for each operand. If `is_numbered`, the operands are the slices at index 0, 1, ...

    `single_operands` has the operands (0, 1) that the rule names outside of the repetition. Empty: the rule is about
    all operands. One operand: the rule is about that part. Both: the rule does not generalize.
    """

    def __init__(
        self, schema: Schema, successor: Mapping[str, str], splits: set[str], is_numbered: bool = False
    ) -> None:
        self.original, self.successor, self.splits, self.is_numbered = schema, successor, splits, is_numbered
        rule = schema.rule
        self._taken = {_variable(name) for names in pattern_names(rule.lhs + rule.rhs) for name in names}
        self._first = {name: first for first, second in successor.items() for name in (first, second)}
        self._repetitions: dict[Term, tuple[int, Term] | None] = {}
        self.repeats_outputs = len(rule.lhs) == 2 and all(self._is_repeated(p, q) for p, q in (rule.lhs, rule.rhs))
        self.single_operands = (
            set[int]() if self.repeats_outputs else set[int]().union(*map(self._operands_in, rule.lhs + rule.rhs))
        )

    @property
    def is_new(self) -> bool:
        """Return True if the form is consistent and repeats something other than Add."""
        terms = topological(self.original.rule.lhs + self.original.rule.rhs)
        more = any(self._has_parts(t) or (t.op != "Add" and self._repetition(t) is not None) for t in terms)
        consistent = len(self._first) == 2 * len(self.successor) and len(self.single_operands) < 2
        return consistent and (self.repeats_outputs or more)

    def parts(self, n: int) -> range:
        """Return the parts of `n` about which a rule is to be written.

        If the rule is about the second part, only the rule about the last of `n` parts is new. If it is about the first
        part, it gives a rule for each part but the last.
        """
        if 1 in self.single_operands:
            return range(n - 1, n)
        return range(n - 1 if self.successor else 0) if self.single_operands else range(1)

    def schema(self, n: int, part: int) -> Schema:
        """Return the rule for `n` operands, about part `part` if it is about one part."""
        old = self.original
        outputs = [(0, k) for k in range(n)] if self.repeats_outputs else [(i, part) for i in range(len(old.rule.lhs))]
        lhs, rhs = (tuple(self.build(side[i], k, n) for i, k in outputs) for side in (old.rule.lhs, old.rule.rhs))
        kinds = dict(self._extended(old.kinds.items(), n))
        return Schema(Rule(lhs, rhs), self._signature(old.base, n), self._signature(old.open, n), kinds)

    def build(self, term: Term, k: int, n: int) -> Term:
        """Return `term` with `n` operands instead of two; names of a single operand become those of operand `k`.

        With n = 2 this maps the first operand to operand `k`.
        """
        if term.op == "Var":
            return var(self._name(str(term.attr("name")), k))
        inputs = [None if i is None else self.build(i, k, n) for i in term.inputs]
        attrs = {name: self._attr(value, k) for name, value in term.attrs}
        if term.op == "Out" and self._has_parts(term.inputs[0]):
            attrs["index"] = k
        if self.is_numbered:
            attrs |= {name: k for name in _INDEX_ATTRIBUTES & attrs.keys() if attrs[name] == 0}
        if self._has_parts(term) and isinstance(sizes := term.attr("split"), tuple):
            attrs["split"] = tuple(self._attr(sizes[0], j) for j in range(n))
        repetition = self._repetition(term)
        if repetition is None:
            return make(term.op, inputs, attrs)
        position, first = repetition
        operands = [self.build(first, j, n) for j in range(n)]
        if term.op == "Add":
            return reduce(lambda total, operand: make("Add", (total, operand)), operands)
        return make(term.op, [*inputs[:position], *operands, *inputs[position + 2 :]], attrs)

    def _signature(self, old: Signature, n: int) -> Signature:
        attrs = []
        for name, value in self._extended(old.attrs, n):
            if name in self.splits:
                value = value + value[-1:] * (n - 2)
            attrs.append((name, AttrVar(name) if isinstance(value, AttrVar) else value))
        return Signature(tuple(self._extended(old.shapes, n)), tuple(attrs), tuple(self._extended(old.dtypes, n)))

    def _extended(self, items: Collection[tuple[str, Any]], n: int) -> list[tuple[str, Any]]:
        """Return (name, value) items sorted by name; operands 2, 3, ... get copies of the second operand's items."""
        seconds = [(name, value) for name, value in items if self._operand_of(name) == 1]
        further = [(self._name(name, k), value) for name, value in seconds for k in range(2, n)]
        return sorted([*items, *further], key=lambda item: item[0])

    def _operand_of(self, name: str) -> int | None:
        """Return the operand (0, 1) that a name (`b`) or a size (`b.shape[-1]`, `n[0]`) belongs to, if any."""
        variable = _variable(name)
        if variable in self.splits and name != variable:
            return int(name != f"{variable}[0]")
        return None if variable not in self._first else int(variable not in self.successor)

    def _name(self, name: str, k: int) -> str:
        """Return the name for operand `k` that corresponds to `name`."""
        if self._operand_of(name) is None:
            return name
        variable = _variable(name)
        if variable in self.splits:
            return f"{variable}[{k}]"
        first = self._first[variable]
        new = (first, self.successor[first])[k] if k < 2 else f"{first}{k + 1}"
        while k > 1 and new in self._taken:
            new += "_"
        return new + name[len(variable) :]

    def _attr(self, value: Attr, k: int) -> Attr:
        if isinstance(value, AttrVar):
            return AttrVar(self._name(value.name, k))
        if isinstance(value, Dim):
            return evaluate(value, {name: symbol(self._name(name, k)) for name in symbols_of(value)})
        return tuple(self._attr(item, k) for item in value) if isinstance(value, tuple) else value

    def _operands_in(self, term: Term) -> set[int]:
        """Return the operands (0, 1) that `term` names outside of repetitions."""
        repetition = self._repetition(term)
        once = [
            i for k, i in enumerate(term.inputs) if repetition is None or k not in (repetition[0], repetition[0] + 1)
        ]
        found = {operand for i in once if i is not None for operand in self._operands_in(i)}
        if term.op == "Out" and self._has_parts(term.inputs[0]):
            found.add(int(term.attr("index") != 0))
        names = [str(term.attr("name"))] if term.op == "Var" else []
        for key, value in term.attrs:
            if key != "split" or not self._has_parts(term):
                names += _names(value)
        return found | {operand for name in names if (operand := self._operand_of(name)) is not None}

    def _repetition(self, term: Term) -> tuple[int, Term] | None:
        """Return the position and the term of the first of two repeated operands of `term`, if there are two."""
        if term not in self._repetitions:
            neighbours = _neighbouring_operands(term)
            self._repetitions[term] = next(((k, p) for k, p, q in neighbours if self._is_repeated(p, q)), None)
        return self._repetitions[term]

    def _is_repeated(self, p: Term, q: Term) -> bool:
        return self._operands_in(p) <= {0} and self.build(p, 1, 2) is q

    def _has_parts(self, term: Term | None) -> bool:
        """Return True for a Split with one part for each operand."""
        sizes = term.attr("split") if term is not None and term.op == "Split" else None
        if isinstance(sizes, tuple) and len(sizes) == 2:
            return 1 not in map(self._operand_of, _names(sizes[0])) and self._attr(sizes[0], 1) == sizes[1]
        return isinstance(sizes, AttrVar) and sizes.name in self.splits
