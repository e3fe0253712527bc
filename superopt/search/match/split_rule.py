"""Rules that split an attribute: the left side has k + l - 1 where the right side has k and l.

    MaxPool[kernel_shape=k+l-1](x) = MaxPool[kernel_shape=k](MaxPool[kernel_shape=l](x))

The left side does not determine k and l. A split pays where it uses a value that the graph computes anyway. So the
values of k and l come from the graph: an inner operator of the right side, here MaxPool[kernel_shape=l](x), has to be
there. The rule with these values as literals is proven like any other rule before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from superopt.ir.dim import Dim, Size, evaluate, symbol, symbols_of
from superopt.ir.pattern import pattern_names
from superopt.ir.rule import Rule
from superopt.ir.term import CLOSED_FORM, Attr, AttrVar, Term, map_terms, topological

__all__ = ["attribute_parts", "can_apply", "literal_rule", "split_attributes", "with_present_value"]


def can_apply(rule: Rule) -> bool:
    """Return True if the search can apply the rule left to right, perhaps with attributes that it splits."""
    if rule.applicable:
        return True
    if any(term.op == "Var" or term.op in CLOSED_FORM for term in rule.lhs):
        return False
    (left, bound), (right, wanted) = pattern_names(rule.lhs), pattern_names(rule.rhs)
    return right <= left and set(map(_base, wanted)) <= set(map(_base, bound)) and bool(split_attributes(rule))


def split_attributes(rule: Rule) -> frozenset[str]:
    """Return the attribute variables of the left side that no match of the left side alone determines."""
    names, whole, sums = pattern_names(rule.lhs)[1], set[str](), list[frozenset[str]]()
    for term in topological(rule.lhs):
        for _, value in term.attrs if term.op != "Var" else ():
            for part in attribute_parts(value):
                if isinstance(part, AttrVar):
                    whole.add(part.name)
                elif isinstance(part, Dim):
                    sums.append(frozenset(name for name in symbols_of(part) if ".shape" not in name))
    for _ in sums:  # a match solves for the only unknown variable of a sum
        whole.update(*(names - whole for names in sums if len(names - whole) == 1))
    return frozenset(_base(name) for name in names - whole if _base(name) not in whole)


def with_present_value(rule: Rule) -> Iterator[Rule]:
    """Yield the rule with a second root on both sides, for each inner operator of the right side that may be present.

    The second root is that operator. It keeps its value, and together with the first root it determines attributes
    that the rule splits.
    """
    split = split_attributes(rule)
    inner = [term for term in topological(rule.rhs) if term.op != "Var" and term not in rule.rhs]
    for term in inner if split and len(rule.lhs) == 1 else ():
        variables, names = pattern_names((term,))
        if variables and not split.isdisjoint(map(_base, names)):
            yield Rule((*rule.lhs, term), (*rule.rhs, term))


def literal_rule(rule: Rule, at: Mapping[Term, Term]) -> Rule | None:
    """Return `rule` with the values of the attributes that it splits, without its second root; None if none fit.

    `at` maps the operators of both roots to operators of a graph.
    """
    values = _solve(at)
    found: dict[str, Attr] = {}
    for name in split_attributes(Rule(rule.lhs[:1], rule.rhs[:1])):
        value = values.get(name, _elements(name, values) or None)
        if value is None:
            return None
        found[name] = value
        found.update({f"{name}[{k}]": item for k, item in enumerate(value if isinstance(value, tuple) else ())})
    lhs, rhs = (_with_literals(side[:1], found) for side in (rule.lhs, rule.rhs))
    return Rule(lhs, rhs)


def _solve(at: Mapping[Term, Term]) -> dict[str, Attr]:
    """Return the values of attribute variables, and of their elements as `k[0]`, at these operators of a graph.

    Sums of several variables are equations. An equation with one unknown variable gives the variable's value.
    """
    known: dict[str, Attr] = {}
    equations: list[tuple[Dim, Size]] = []
    pairs = [
        (wanted, value)
        for pattern, term in at.items()
        if pattern.op != "Var"
        for (_, wanted), (_, value) in zip(pattern.attrs, term.attrs, strict=False)
    ]
    for wanted, value in pairs:  # the list grows in this loop
        if isinstance(wanted, AttrVar):
            known.setdefault(wanted.name, value)
            for k, item in enumerate(value if isinstance(value, tuple) else ()):
                known.setdefault(f"{wanted.name}[{k}]", item)
        elif isinstance(wanted, tuple) and isinstance(value, tuple):
            pairs += zip(wanted, value, strict=False)
        elif isinstance(wanted, Dim) and isinstance(value, int):
            equations.append((wanted, value))
    count = -1
    while count < len(known):
        count = len(known)
        for equation, total in equations:
            rest = evaluate(equation, _sizes(known))
            unknown = symbols_of(rest)
            name = next(iter(unknown), "")
            if len(unknown) == 1 and ".shape" not in name and isinstance(others := rest - symbol(name), int):
                known[name] = total - others
    return known


def _sizes(values: Mapping[str, Attr]) -> dict[str, Size]:
    return {name: value for name, value in values.items() if isinstance(value, int)}


def _elements(name: str, values: Mapping[str, Attr]) -> tuple[Attr, ...]:
    """Return the list called `name` whose elements are known as `name[0]`, `name[1]`, ..."""
    found: list[Attr] = []
    while (item := values.get(f"{name}[{len(found)}]")) is not None:
        found.append(item)
    return tuple(found)


def _with_literals(side: Sequence[Term], values: Mapping[str, Attr]) -> tuple[Term, ...]:
    def literal(value: Attr) -> Attr:
        if isinstance(value, tuple):
            return tuple(map(literal, value))
        if isinstance(value, AttrVar):
            return values.get(value.name, value)
        return evaluate(value, _sizes(values)) if isinstance(value, Dim) else value

    def build(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        attrs = {name: value if old.op == "Var" else literal(value) for name, value in old.attrs}
        return Term.of(old.op, inputs, attrs, old.types)

    return map_terms(side, build)


def attribute_parts(value: Attr) -> Iterator[Attr]:
    """Yield the elements of a list of attributes, at any depth; the value itself if it is no list."""
    if isinstance(value, tuple):
        for item in value:
            yield from attribute_parts(item)
    else:
        yield value


def _base(name: str) -> str:
    return name.split("[")[0]
