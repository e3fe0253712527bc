"""Construction and registration of operator entries.

    @operator("Neg", 1, 1, dtype=signed)
    def _neg(g, xs, attrs, shape, i):
        return negative(g, xs[0].at(*i))

    composite("Mish", 1, 1, "", "Mish(x) = Mul(x, Tanh(Softplus(x)))", dtype=floats)

The package imports all of its modules, so an entry in any module of `superopt.ops` is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from superopt.ir.operator import DtypeRule, Integers, Operator, ShapeRule, register
from superopt.ir.term import Attr
from superopt.ops.definition import Definition
from superopt.ops.typing import broadcast_all, same

__all__ = ["composite", "entry", "operator"]


def operator(
    name: str, least: int, most: int | None, attrs: str = "", **facts: Any
) -> Callable[[Definition], Definition]:
    """Return a decorator that registers a primitive operator with the decorated function as its meaning.

    The arguments are those of `entry`.
    """

    def registered(meaning: Definition) -> Definition:
        register([entry(name, least, most, attrs, meaning=meaning, **facts)])
        return meaning

    return registered


def composite(name: str, least: int, most: int, attrs: str, *equations: str, **facts: Any) -> None:
    """Register a composite operator by equations (`superopt.ops.equation`). Other arguments are those of `entry`."""
    register([entry(name, least, most, attrs, equations=equations, **facts)])


def entry(
    name: str,
    least: int,
    most: int | None,
    attrs: str = "",
    *,
    meaning: Definition | None = None,
    equations: tuple[str, ...] = (),
    shape: ShapeRule = broadcast_all,
    dtype: DtypeRule = same,
    commutative: bool = False,
    elementwise: bool = False,
    outputs: Callable[[Mapping[str, Any]], int] | None = None,
    domain: str = "",
    ieee: str = "",
    in_range: bool = False,
    integers: Integers = "modular",
    index_operands: tuple[int, ...] = (),
    states: tuple[int, ...] = (),
) -> Operator:
    """Return the entry of an operator with `least` to `most` inputs (None: any number).

    `attrs` lists attribute names, as `name=value` if ONNX has a default that does not depend on the rank. Without
    `shape` the operator is elementwise and its operands broadcast. The other arguments are fields of `Operator`.
    """
    names: list[str] = []
    defaults: dict[str, Attr] = {}
    for word in attrs.split():
        key, equals, value = word.partition("=")
        names.append(key)
        if equals:
            defaults[key] = _literal(value)
    return Operator(
        name=name,
        inputs=(least, most),
        attrs=tuple(names),
        shape_rule=shape,
        dtype_rule=dtype,
        meaning=meaning,
        equations=equations,
        commutative=commutative,
        elementwise=elementwise or shape is broadcast_all,
        outputs=outputs or (lambda attrs: 1),
        defaults=defaults,
        domain=domain,
        ieee=ieee,
        in_range=in_range,
        integers=integers,
        index_operands=index_operands,
        states=states,
    )


def _literal(text: str) -> Attr:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
