"""Patterns: terms with variables. Matching binds the variables, instantiation fills them in.

A pattern's attributes may be literals, whole-attribute variables (`pads=p`) or integer expressions
(`pads=[p, p + 1]`, `split=[a.shape[-1], b.shape[-1]]`) over variables and over sizes of matched terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from superopt.ir.dim import Dim, Size, evaluate, floor_div, symbol, symbols_of
from superopt.ir.infer import OPERATORS, make
from superopt.ir.operator import IllTyped, Need, ignore
from superopt.ir.term import CLOSED_FORM, Attr, AttrVar, Term, equal_attr, topological
from superopt.ir.types import FLOAT_DTYPES

__all__ = ["Bindings", "instantiate", "match", "pattern_names", "sizes_in"]


@dataclass
class Bindings:
    """The result of a match: a term for each variable, a value for each attribute variable and size symbol."""

    terms: dict[str, Term] = field(default_factory=dict)
    attrs: dict[str, Attr] = field(default_factory=dict)

    def shape_env(self) -> dict[str, Attr]:
        """Return attribute values, and sizes of bound terms as `v.shape`, `v.shape[k]` and `v.shape[k - rank]`."""
        env: dict[str, Attr] = dict(self.attrs)
        for name, value in self.attrs.items():
            if isinstance(value, tuple):
                env.update({f"{name}[{k}]": item for k, item in enumerate(value)})
        for name, term in self.terms.items():
            shape = term.type.shape if term.type is not None else None
            if shape is not None:
                env.update(zip(_size_names(name, len(shape)), (shape, *shape, *shape), strict=True))
        return env

    def dtype(self) -> str | None:
        """Return the element type of closed-form constants, or None if real variables differ or a type is unknown.

        It is the type that all real variables share; if no variable is real, the type that all share, or else "float".
        """
        found = {None if term.type is None else term.type.dtype for term in self.terms.values()}
        if None in found:
            return None
        reals = found & FLOAT_DTYPES
        if reals:
            return reals.pop() if len(reals) == 1 else None
        return found.pop() if len(found) == 1 else "float"


@lru_cache(maxsize=1 << 14)
def _size_names(name: str, rank: int) -> tuple[str, ...]:
    """Return the names of the sizes of a variable: the shape, each size from the front, each from the back."""
    return (
        f"{name}.shape",
        *(f"{name}.shape[{k}]" for k in range(rank)),
        *(f"{name}.shape[{k}]" for k in range(-rank, 0)),
    )


def sizes_in(env: Mapping[str, Attr], names: Iterable[str]) -> dict[str, Size]:
    """Return the entries of `env` under `names` that are sizes."""
    return {name: value for name in names if isinstance(value := env.get(name), (int, Dim))}


def match(patterns: Iterable[Term], terms: Iterable[Term]) -> Bindings | None:
    """Return the bindings under which each pattern equals its term, or None. Linear in the size of the patterns.

    The match is syntactic: operands must stand in the given order (`Rule.commuted` gives the other orders). A
    closed-form constant must have the element type that `instantiate` would give it. One exception: the target of a
    Reshape is matched by its meaning, as it may be stated in several ways (see `_match_target`).
    """
    bindings = Bindings()
    constants: set[str] = set()
    postponed: list[tuple[Dim, Attr]] = []
    stack: list[tuple[Term | None, Term | None]] = list(zip(patterns, terms, strict=True))
    done: set[tuple[Term, Term]] = set()  # shared terms are compared once
    while stack:
        pattern, term = stack.pop()
        if pattern is None or term is None:
            if pattern is not term:
                return None
            continue
        if (pattern, term) in done:
            continue
        done.add((pattern, term))
        if pattern.op == "Var":
            if bindings.terms.setdefault(_name(pattern), term) is not term:
                return None
            continue
        if pattern.op != term.op or len(pattern.inputs) != len(term.inputs) or len(pattern.attrs) != len(term.attrs):
            return None
        sizes = _sizes_of_reshape(term) if term.op == "Reshape" else None
        for (name, wanted), (other, value) in zip(pattern.attrs, term.attrs, strict=True):
            if name != other:
                return None
            if sizes is not None and name == "shape" and isinstance(wanted, tuple):
                fits = _match_target(wanted, *sizes, bindings.attrs, postponed)
            else:
                fits = _match_attr(wanted, value, bindings.attrs, postponed)
            if not fits:
                return None
        if term.op in CLOSED_FORM and term.type is not None:
            constants.add(term.type.dtype)
        stack.extend(zip(pattern.inputs, term.inputs, strict=True))
    if postponed:
        env = bindings.shape_env()
        for wanted, value in postponed:
            known = sizes_in(env, symbols_of(wanted))
            if len(known) < len(symbols_of(wanted)) or evaluate(wanted, known) != value:
                return None
    if constants and (dtype := bindings.dtype()) is not None and constants != {dtype}:
        return None
    return bindings


def _name(pattern: Term) -> str:
    name = pattern.attr("name")
    assert isinstance(name, str)
    return name


def _sizes_of_reshape(term: Term) -> tuple[tuple[Size, ...], tuple[Size, ...]] | None:
    """Return the sizes of operand and result of a Reshape, or None if one is not known to be at least 1."""
    operand = term.inputs[0]
    types = (None if operand is None else operand.type, term.type)
    before, after = (None if type is None else type.shape for type in types)
    if before is None or after is None or term.attr("allowzero") or not all(map(_is_positive, (*before, *after))):
        return None
    return before, after


@lru_cache(maxsize=1 << 14)
def _is_positive(size: Size) -> bool:
    """Return True for a size that is at least 1 wherever all symbols are: nothing is subtracted or divided in it."""
    if isinstance(size, int):
        return size >= 1
    return all(factor > 0 and all(isinstance(atom, str) for atom in monomial) for monomial, factor in size.terms)


def _match_target(
    wanted: tuple[Attr, ...],
    before: tuple[Size, ...],
    after: tuple[Size, ...],
    found: dict[str, Attr],
    postponed: list[tuple[Dim, Attr]],
) -> bool:
    """Match the target of a Reshape from the sizes `before` to the sizes `after`, all at least 1.

    A 0 stands for the size at its place before, one -1 for what is left. So the target that matches leads to `after`,
    however the term states its own.
    """
    if len(wanted) != len(after):
        return False
    for place, (want, size) in enumerate(zip(wanted, after, strict=True)):
        if want == 0:
            if before[place : place + 1] != (size,):
                return False
        elif want != -1 and not _match_attr(want, size, found, postponed):
            return False
    return True


def _match_attr(wanted: Attr, value: Attr, found: dict[str, Attr], postponed: list[tuple[Dim, Attr]]) -> bool:
    if isinstance(wanted, AttrVar):
        if ".shape" in wanted.name:  # known only when the variable is bound
            return False
        return found.setdefault(wanted.name, value) == value
    if isinstance(wanted, tuple):
        if not isinstance(value, tuple) or len(value) != len(wanted):
            return False
        return all(_match_attr(w, v, found, postponed) for w, v in zip(wanted, value, strict=True))
    if isinstance(wanted, Dim):
        if not isinstance(value, (int, Dim)):
            return False
        # A symbol of the pattern and one of the model may share a name: never put both into one expression.
        known = sizes_in(found, symbols_of(wanted))
        unknown = symbols_of(wanted) - known.keys()
        if not unknown:
            return evaluate(wanted, known) == value
        name = next(iter(unknown))
        step = dict(wanted.terms).get((name,), 0)
        rest = wanted - step * symbol(name)
        if len(unknown) == 1 and step > 0 and name not in symbols_of(rest) and ".shape" not in name:
            offset = evaluate(rest, known)
            solved = floor_div(value - offset, step)
            found[name] = solved
            return step * solved + offset == value
        postponed.append((wanted, value))
        return True
    return equal_attr(wanted, value)


def instantiate(patterns: Iterable[Term], bindings: Bindings, dtype: str, need: Need = ignore) -> tuple[Term, ...]:
    """Fill in the variables of the patterns and infer types; `need` is called with the conditions on sizes.

    Raises IllTyped if the result is not well-typed or an attribute has no value.
    """
    patterns = tuple(patterns)
    env: dict[str, Attr] | None = None  # made when an attribute needs it
    done: dict[Term, Term] = {}
    for pattern in _in_order(patterns):
        if pattern.op == "Var":
            if _name(pattern) not in bindings.terms:
                raise IllTyped(f"no type for variable {_name(pattern)}")
            done[pattern] = bindings.terms[_name(pattern)]
            continue
        inputs = tuple([None if i is None else done[i] for i in pattern.inputs])
        attrs = dict(pattern.attrs)
        if not _is_literal(pattern):
            env = bindings.shape_env() if env is None else env
            attrs = {name: _fill(value, env) for name, value in pattern.attrs}
        if pattern.op in OPERATORS or pattern.op == "Out":
            done[pattern] = make(pattern.op, inputs, attrs, dtype, need)
        else:
            done[pattern] = Term.of(pattern.op, inputs, attrs, pattern.types)
    return tuple(done[pattern] for pattern in patterns)


@lru_cache(maxsize=1 << 12)
def _in_order(patterns: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple(topological(patterns))


@lru_cache(maxsize=1 << 14)
def _is_literal(pattern: Term) -> bool:
    """Return True if no attribute has a variable."""

    def literal(value: Attr) -> bool:
        return all(map(literal, value)) if isinstance(value, tuple) else not isinstance(value, (AttrVar, Dim))

    return all(literal(value) for _, value in pattern.attrs)


def _fill(value: Attr, env: Mapping[str, Attr]) -> Attr:
    if isinstance(value, AttrVar):
        if value.name not in env:
            raise IllTyped(f"no value for attribute variable {value.name}")
        return env[value.name]
    if isinstance(value, tuple):
        return tuple([_fill(item, env) for item in value])
    if isinstance(value, Dim):
        sizes = sizes_in(env, symbols_of(value))
        unknown = symbols_of(value) - sizes.keys()
        if unknown:
            raise IllTyped(f"no value for {', '.join(sorted(unknown))}")
        return evaluate(value, sizes)
    return value


def pattern_names(patterns: Iterable[Term]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of variables and of attribute variables; size symbols `v.shape[k]` are left out."""
    variables: set[str] = set()
    attributes: set[str] = set()

    def visit(value: Attr) -> None:
        if isinstance(value, tuple):
            for item in value:
                visit(item)
        elif isinstance(value, AttrVar):
            attributes.add(value.name)
        elif isinstance(value, Dim):
            attributes.update(symbols_of(value))

    for pattern in topological(patterns):
        if pattern.op == "Var":
            variables.add(_name(pattern))
        else:
            for _, value in pattern.attrs:
                visit(value)
    return frozenset(variables), frozenset(name for name in attributes if ".shape" not in name)
