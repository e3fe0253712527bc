"""Equations of composite operators, in the notation of rules, and the unfolding of terms by them.

    HardSwish(x) = Mul(x, HardSigmoid[alpha=1/6, beta=0.5](x))
    LayerNormalization(x, scale, bias) = Add(LayerNormalization[axis=axis, epsilon=epsilon](x, scale), bias)

The left side names the operands. An attribute written there must have the written value, and an operand left out there
must be absent. The first equation that fits is used. The right side is a term of other operators, or of the same
operator with fewer operands or simpler attributes. It extends the notation of rules:

- an attribute's name stands for its value, in attributes (`axis=axis`) and as a scalar operand (`Mul(alpha, x)`);
- a number is a scalar operand with exactly the written value: `2`, `1/6`, `0.5`;
- `x.rank` is the number of axes of an operand; a size (`x.shape[0]`) may be a scalar operand;
- in a list, `range(a, b)` stands for a, a + 1, ..., b - 1, and `x.shape[2:]` for the sizes of x from axis 2 on;
- `(y, z)` are the outputs of an operator that has several;
- `where y = ..., z = ...` at the end defines names used in the terms.

In the right side the attribute `axis` counts from the end (-1 is the last axis), even if the term's counts from the
front.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from superopt.ir.dim import Dim, Size, evaluate, symbols_of
from superopt.ir.infer import make
from superopt.ir.notation import NotationError, Reader
from superopt.ir.operator import OPERATORS, IllTyped, Operator
from superopt.ir.pattern import Bindings, sizes_in
from superopt.ir.term import Attr, AttrVar, Term, equal_attr, map_terms, node_of, output_index, rebuild, var
from superopt.ir.types import TensorType
from superopt.ops.definition import NoSemantics

__all__ = ["Equation", "equations_of", "unfold"]

_NUMBER = "a number of an equation"  # the operator of a scalar constant in the right side


@dataclass(frozen=True)
class _Range:
    """A list item that stands for the integers from `start` to `stop` - 1."""

    start: Size
    stop: Size


@dataclass(frozen=True)
class _Sizes:
    """A list item that stands for the sizes of an operand from axis `start` on."""

    name: str
    start: int


@dataclass(frozen=True)
class Equation:
    """The equation `operator[attrs](operands) = right`, a term for each output; an operand that is None is absent."""

    attrs: Mapping[str, Attr]
    operands: tuple[str | None, ...]
    right: tuple[Term, ...]

    def fits(self, attrs: Mapping[str, Attr], inputs: tuple[Term | None, ...]) -> bool:
        """Return True if the equation defines the operator at these attributes and inputs.

        Raises NoSemantics if that depends on the value of a symbolic attribute.
        """
        if any(x is not None and name is None for name, x in zip(self.operands, inputs, strict=False)):
            return False
        for name, value in self.attrs.items():
            if isinstance(attrs[name], (AttrVar, Dim)):
                raise NoSemantics(f"an operator with a symbolic {name}")
            if not equal_attr(attrs[name], value):
                return False
        return True


class _EquationReader(Reader):
    """Reads both sides of an equation of `operator`."""

    properties = ("shape", "rank")

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._numbers: frozenset[str] = frozenset()

    def equation(self, operator: Operator) -> Equation:
        name, attrs, inputs = self.application()
        if name != operator.name or not attrs.keys() <= set(operator.attrs):
            raise self.error(f"the left side is no {operator.name}")
        operands = tuple(None if x is None else str(x.attr("name")) for x in inputs)
        self.take("=")
        self._numbers |= set(operator.attrs)
        right = self.terms()
        while self.peek() in ("where", ","):
            self.take()
            part = var(self.take())
            self.take("=")
            right = rebuild(right, {part: self.term()}, _untyped)
        self.end()
        return Equation(attrs, operands, right)

    def term(self) -> Term:
        """Read a term. A number, a size or the name of an attribute is a scalar constant."""
        if self.kind() in ("int", "float"):
            return Term.of(_NUMBER, (), {"value": self._number()})
        if self.peek(1) == "." and self.peek(2) in self.properties:
            return Term.of(_NUMBER, (), {"value": self.size()})
        if self.peek() in self._numbers and self.peek(1) not in ("[", "("):
            return Term.of(_NUMBER, (), {"value": AttrVar(self.take())})
        term = super().term()
        while self.peek() == "." and self.kind(1) == "int":  # output of a name that `where` defines
            self.take(".")
            term = term.out(int(self.take()))
        return term

    def attr(self) -> Attr:
        if self.peek() == "range":
            return (self.item(),)
        if self.kind() == "int" and self.peek(1) == "/":
            return self._number()  # type: ignore[no-any-return]
        return super().attr()

    def item(self) -> Attr:
        found: Any = self._range() or self._sizes() or super().item()
        return found  # type: ignore[no-any-return]

    def _range(self) -> _Range | None:
        if self.peek() != "range":
            return None
        self.take()
        self.take("(")
        start = self.size()
        self.take(",")
        stop = self.size()
        self.take(")")
        return _Range(start, stop)

    def _sizes(self) -> _Sizes | None:
        if self.peek(2) != "shape" or self.peek(5) != ":":
            return None
        name, _, _, _, start, _, _ = (self.take() for _ in range(7))
        return _Sizes(name, int(start))

    def _number(self) -> Any:
        """Read a number or a fraction such as `1/6`, exactly."""
        value = Fraction(self.take())
        if self.peek() == "/":
            self.take()
            value /= Fraction(self.take())
        return value


@lru_cache(maxsize=1 << 9)
def equations_of(name: str) -> tuple[Equation, ...]:
    """Return the equations of a composite operator, in the order in which they are tried. Raises NotationError."""
    operator = OPERATORS[name]
    found = []
    for text in operator.equations:
        try:
            found.append(_EquationReader(text).equation(operator))
        except NotationError as error:
            raise NotationError(f"{text}: {error}") from None
    most = max(len(equation.operands) for equation in found)
    return tuple(Equation(e.attrs, (*e.operands, *[None] * (most - len(e.operands))), e.right) for e in found)


@lru_cache(maxsize=1 << 12)
def unfold(term: Term) -> Term:
    """Unfold a typed composite term: return the right side of its equation, over the same inputs.

    A term of an operator with several outputs is one of them. The operators of the result may be composite too. Raises
    NoSemantics if no equation fits.
    """
    node, index = node_of(term), output_index(term)
    attrs = dict(node.attrs)
    for equation in equations_of(node.op):
        if equation.fits(attrs, node.inputs):
            if index >= len(equation.right) or (term is node and len(equation.right) > 1):
                raise NoSemantics(f"{node.op} as one output of several")
            try:
                return _filled(equation, index, attrs, node)
            except IllTyped as error:
                raise NoSemantics(f"{node.op}: {error}") from error
    raise NoSemantics(node.op)


def _filled(equation: Equation, index: int, attrs: Mapping[str, Attr], node: Term) -> Term:
    """Return an output of the right side as typed terms, with operands, attributes, ranks and sizes filled in."""
    if node.type is None:
        raise NoSemantics(f"{node.op} of unknown shape")
    dtype = node.type.dtype
    inputs = (*node.inputs, *[None] * (len(equation.operands) - len(node.inputs)))
    operands = {name: x for name, x in zip(equation.operands, inputs, strict=True) if name is not None}
    env = Bindings({name: x for name, x in operands.items() if x is not None}, dict(attrs)).shape_env()
    for name, x in operands.items():
        if x is not None and x.type is not None and x.type.rank is not None:
            env[f"{name}.rank"] = x.type.rank
    axis, first = env.get("axis"), inputs[0]
    if isinstance(axis, int) and axis >= 0 and first is not None and first.type is not None:
        env["axis"] = axis - (first.type.rank or 0)

    def build(pattern: Term, below: tuple[Term | None, ...]) -> Any:  # an absent operand is None
        if pattern.op == "Var":
            return operands[str(pattern.attr("name"))]
        own = {name: _value(value, env) for name, value in pattern.attrs}
        if pattern.op == _NUMBER:  # even if the element type lacks the value: it is never stored
            number: dict[str, Attr] = {"shape": (), "value": _as_float(own["value"])}
            return Term.of("ConstantOfShape", (), number, (TensorType(dtype, ()),))
        return make(pattern.op, below, own, dtype)

    return map_terms((equation.right[index],), build)[0]


def _value(value: Any, env: Mapping[str, Attr]) -> Attr:
    """Evaluate an attribute of the right side from the term's attributes, ranks and sizes. Raises IllTyped."""
    if isinstance(value, tuple):
        items: list[Attr] = []
        for item in value:
            if isinstance(item, _Range):
                items += range(*(_integer(_value(end, env)) for end in (item.start, item.stop)))
            elif isinstance(item, _Sizes):
                shape = env[f"{item.name}.shape"]
                assert isinstance(shape, tuple)
                items += shape[item.start :]
            else:
                items.append(_value(item, env))
        return tuple(items)
    if isinstance(value, AttrVar):
        return env[value.name]
    if isinstance(value, Dim):
        sizes = sizes_in(env, symbols_of(value))
        if len(sizes) < len(symbols_of(value)):
            raise IllTyped(f"no value for {value}")
        return evaluate(value, sizes)
    return value  # type: ignore[no-any-return]


def _as_float(value: Any) -> Attr:
    """Return a number as a float if that is exact: other terms hold floats, and equal terms must be one term."""
    exact = isinstance(value, (int, Fraction)) and float(value) == value
    result: Attr = float(value) if exact else value
    return result


def _untyped(term: Term, inputs: tuple[Term | None, ...]) -> Term:
    return term.over(inputs)


def _integer(value: Attr) -> int:
    if not isinstance(value, int):
        raise IllTyped(f"{value} is no known number of axes")
    return value
