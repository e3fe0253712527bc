"""Instances of rules, and of rules made wrong on purpose: both sides as models, where the kernel allows the rewrite."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import TypeAlias

import onnx

from superopt.ir.dim import Dim, symbols_of
from superopt.ir.infer import OPERATORS, make
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Condition, Rule, Signature
from superopt.ir.term import Attr, AttrVar, Term, map_terms, topological, var
from superopt.ir.types import FLOAT_DTYPES, TensorType
from superopt.onnx_io import ModelError, new_model, write_model
from superopt.ops.algebra import Guard, at_least
from superopt.rulebook.loading import certified_rules
from verify.certificates import CertifiedBook
from verify.proof_book import Book
from verify.prove.facts import Facts
from verify.verdict import Proved

__all__ = ["DTYPES", "book", "concrete", "mutants", "sides"]

DTYPES = (
    "float",
    "double",
    "float16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint64",
    "uint32",
    "uint16",
    "uint8",
    "bool",
)

Pair: TypeAlias = tuple[onnx.ModelProto, onnx.ModelProto]

_OPSETS = (21, 23, 17)  # the first that can express both sides
_MOST_ELEMENTS = 3000
# Operators that wrong rules may exchange for one another.
_KIN = [{"Add", "Sub", "Mul", "Max", "Min"}, {"Relu", "Sigmoid", "Tanh", "Neg", "Identity", "Abs"}, {"Zeros", "Ones"},
        {"ReduceSum", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"}]  # fmt: skip


@cache
def book(numerics: str = "real-only") -> Book:
    """Return the certified proofs; what they do not cover is proven when it is asked for."""
    return CertifiedBook(certified_rules(None)[1], numerics)


def concrete(
    signature: Signature, conditions: tuple[Condition, ...], most: int, least: int, dtype: str = "double"
) -> Bindings | None:
    """Return variables and attributes at sizes that satisfy the conditions, or None. `dtype` replaces real types."""
    symbolic = signature.bindings()
    sizes = [s for t in symbolic.terms.values() for s in (t.type.shape if t.type and t.type.shape else ())]
    guards = [at_least(s, 1) for s in sizes] + [Guard(c.relation, c.right - c.left) for c in conditions]
    free = [s for value in symbolic.attrs.values() for s in (value if isinstance(value, tuple) else (value,))]
    guards += [at_least(s, 0) for s in free if isinstance(s, Dim)]
    model = Facts(guards).model(most, least)
    if model is None:
        return None

    reals = [t for t in symbolic.terms.values() if t.type is not None and t.type.dtype in FLOAT_DTYPES]
    number = 0.5 if reals or not symbolic.terms else 2.0  # constants of rules of integers are whole numbers

    def fill(value: Attr) -> Attr:
        if isinstance(value, tuple):
            return tuple(map(fill, value))
        if isinstance(value, Dim):
            (name,) = symbols_of(value)
            return model.get(name, 1)
        return number if isinstance(value, AttrVar) else value

    terms = {}
    for name, term in symbolic.terms.items():
        assert term.type is not None
        shape = fill(term.type.shape or ())
        kind = dtype if term.type.dtype in FLOAT_DTYPES else term.type.dtype
        terms[name] = var(name, TensorType(kind, shape))  # type: ignore[arg-type]  # all are numbers by now
    return Bindings(terms, {name: fill(value) for name, value in symbolic.attrs.items()})


def sides(rule: Rule, dtype: str, rng: random.Random, sizes: int = 2) -> Iterator[Pair]:
    """Yield both sides of the rule at `sizes` choices of sizes for two signatures, where it may be used at `dtype`."""
    for signature in rng.sample(rule.signatures, min(2, len(rule.signatures))):
        verdict = book().verdict(rule, signature)
        conditions = verdict.conditions if isinstance(verdict, Proved) else ()
        for most, least in rng.sample([(5, 2), (7, 1), (4, 3), (3, 1)], sizes):
            bindings = concrete(signature, conditions, most, least, dtype)
            if bindings is None or not any(_has(term, dtype) for term in bindings.terms.values()):
                continue
            try:
                if book().check(rule, bindings) is None:
                    continue
                pair = tuple(instantiate(side, bindings, bindings.dtype() or "float") for side in (rule.lhs, rule.rhs))
            except (IllTyped, TypeError):  # not defined at this type
                continue
            if all(_elements(term) <= _MOST_ELEMENTS for side in pair for term in topological(side)):
                models = _models(*pair)
                if models is not None:
                    yield models


def _has(term: Term, dtype: str) -> bool:
    return term.type is not None and term.type.dtype == dtype


def _elements(term: Term) -> int:
    total = 1
    for size in (term.type.shape or ()) if term.type is not None else ():
        total *= size if isinstance(size, int) else 1
    return total


def _models(left: tuple[Term, ...], right: tuple[Term, ...]) -> Pair | None:
    for opset in _OPSETS:
        try:
            first, second = (write_model(new_model(side, opset=opset), fold=False) for side in (left, right))
        except ModelError:
            continue
        return first, second
    return None


def mutants(rule: Rule, rng: random.Random) -> Iterator[Rule]:
    """Yield one mutant for each operator of the right side, of a kind drawn at random."""
    names = sorted({t for t in topological((*rule.lhs, *rule.rhs)) if t.op == "Var"})
    for target in [t for t in topological(rule.rhs) if t.op not in ("Var", "Out")]:
        kind = rng.choice(["operands", "attribute", "operator", "variable"])

        def build(old: Term, inputs: tuple[Term | None, ...], target: Term = target, kind: str = kind) -> Term:
            if old is not target:
                return old.over(inputs)
            op, attrs, operands = old.op, dict(old.attrs), list(inputs)
            if kind == "operands" and len(operands) > 1:
                operands[0], operands[1] = operands[1], operands[0]
            elif kind == "operator":
                op = rng.choice(sorted(next((kin for kin in _KIN if op in kin), {op})))
            elif kind == "variable" and operands:
                operands[rng.randrange(len(operands))] = rng.choice(names)
            elif attrs:
                name = rng.choice(sorted(attrs))
                attrs[name] = changed(attrs[name], rng)
            return make(op, operands, attrs)

        try:
            rhs = map_terms(rule.rhs, build)
        except IllTyped:
            continue
        if rhs != rule.rhs:
            yield Rule(rule.lhs, rhs, rule.signatures)


def changed(value: Attr, rng: random.Random) -> Attr:
    """Return another attribute value of the same kind."""
    if isinstance(value, tuple) and value:
        items = list(value)
        place = rng.randrange(len(items))
        if rng.random() < 0.5:
            items[place] = changed(items[place], rng)
        else:
            items.reverse()
        return tuple(items)
    if isinstance(value, (int, Dim)):
        return value + rng.choice([-1, 1])
    return value + 0.5 if isinstance(value, float) else value


assert set().union(*_KIN) <= OPERATORS.keys()
