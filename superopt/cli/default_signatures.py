"""Default signatures for a rule that has none."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from superopt.ir.dim import symbols_of
from superopt.ir.infer import REAL_ATTRS, IllTyped
from superopt.ir.pattern import pattern_names
from superopt.ir.rule import Rule, Signature, SignatureValue
from superopt.ir.term import Attr, AttrVar, topological

__all__ = ["SignatureNeeded", "default_signatures"]

_RANKS = range(5)
_MAX_TRIED, _MAX_SIGNATURES = 4096, 32

_AXES: tuple[SignatureValue, ...] = (-1, -2, -3, -4)
_FLAGS: tuple[SignatureValue, ...] = (0, 1)
# Values to try for an attribute that is a variable, or has a variable as an item.
_VALUES = {
    "axis": _AXES,
    "axes": _AXES,
    "keepdims": _FLAGS,
    "transA": _FLAGS,
    "transB": _FLAGS,
    "group": (None,),
    "n": (None,),
}
# Lists whose items may be symbols; the length of the list must be known.
_SYMBOLIC_ITEMS = frozenset({"pads", "strides", "dilations", "split", "starts", "ends", "steps", "shape"})


class SignatureNeeded(ValueError):
    """No default signature exists for a rule; the message says why, and what to add."""


def default_signatures(rule: Rule) -> tuple[Signature, ...]:
    """Return signatures at which both sides can be typed: all variables at one rank, 0 to 4, or else at mixed ranks.

    Sizes are symbolic. Attribute variables take values that need no knowledge of the rule: any real number, any number
    of groups, flags, axes. There are at most 32 signatures; a verdict holds for them only. Raises SignatureNeeded.
    """
    variables, attributes = ({*a, *b} for a, b in zip(pattern_names(rule.lhs), pattern_names(rule.rhs), strict=True))
    values = _values(rule)
    unknown = sorted({name.partition("[")[0] for name in attributes} - values.keys())
    names = sorted(variables)
    if unknown:
        example = " ".join([*(f"{name}[_,_]" for name in names), *(f"{name}=..." for name in unknown)])
        raise SignatureNeeded(
            f"needs a signature, such as `@ {example}`: there is no default value for {', '.join(unknown)}"
        )
    for choices in (_uniform, _mixed):
        tried = itertools.islice(_signatures(names, choices(len(names)), values), _MAX_TRIED)
        typed = tuple(itertools.islice((s for s in tried if _types(rule, s)), _MAX_SIGNATURES))
        if typed:
            return typed
    raise SignatureNeeded(
        "needs a signature (`@ ...`): the sides cannot be typed with all variables at one rank, nor at mixed ranks,"
        " of 0 to 4"
    )


def _uniform(variables: int) -> Iterator[tuple[int, ...]]:
    return ((rank,) * variables for rank in (_RANKS if variables else (0,)))


def _mixed(variables: int) -> Iterator[tuple[int, ...]]:
    """Yield ranks 0 to 4 for each variable, the most similar ranks first."""
    for spread in _RANKS:
        yield from (r for r in itertools.product(_RANKS, repeat=variables) if r and max(r) - min(r) == spread)


def _signatures(
    names: list[str], choices: Iterable[tuple[int, ...]], values: dict[str, tuple[SignatureValue, ...]]
) -> Iterator[Signature]:
    attrs = sorted(values)
    for ranks in choices:
        shapes = tuple((name, (None,) * rank) for name, rank in zip(names, ranks, strict=True))
        for chosen in itertools.product(*(values[name] for name in attrs)):
            yield Signature(shapes, tuple(zip(attrs, chosen, strict=True)))


def _types(rule: Rule, signature: Signature) -> bool:
    try:
        rule.instantiate(signature)
    except IllTyped:
        return False
    return True


def _values(rule: Rule) -> dict[str, tuple[SignatureValue, ...]]:
    """Return the default values of each attribute variable; the narrowest set for a variable with several uses."""
    found: dict[str, tuple[SignatureValue, ...]] = {}

    def use(name: str, values: tuple[SignatureValue, ...]) -> None:
        if ".shape" not in name and (found.get(name, (None,)) == (None,)):
            found[name] = values

    for term in topological((*rule.lhs, *rule.rhs)):
        for attr, value in term.attrs:
            if isinstance(value, AttrVar):
                if attr in REAL_ATTRS:
                    use(value.name, (value,))
                elif attr in _VALUES:
                    use(value.name, _VALUES[attr])
            else:
                for name in _symbols(value if isinstance(value, tuple) else (value,)):
                    if attr in _VALUES:
                        use(name, _VALUES[attr])
                    elif attr in _SYMBOLIC_ITEMS:
                        use(name, (None,))
    return found


def _symbols(items: tuple[Attr, ...]) -> Iterator[str]:
    for item in items:
        if isinstance(item, AttrVar):
            yield item.name
        elif not isinstance(item, (float, str, tuple)):
            yield from symbols_of(item)
