"""Rules that almost match around an operator, each with the one thing that is in the way.

Only rules with one root are looked at. A rule that lacks one operator counts if at least two others are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from superopt.ir.infer import IllTyped
from superopt.ir.pattern import instantiate, match
from superopt.ir.rule import Rule
from superopt.ir.term import Attr, AttrVar, Term, equal_attr, node_of, topological, var
from superopt.rulebook.commutative import has_too_many_orders, operand_orders
from superopt.search.match.compiled_rule import introduced
from superopt.search.match.graph_index import GraphIndex, index_key
from superopt.search.match.occurrence import align
from superopt.search.match.split_rule import can_apply

__all__ = ["NearMiss", "near_misses"]

_MIN_PRESENT = 2  # operators of the left side, if another one is missing

Naming = Callable[[Term], str]


@dataclass(frozen=True)
class NearMiss:
    """A rule, from left to right, that would match at `root` but for one thing.

    `kind` is "operator", "attribute" or "type", and `reason` one line. `present` is the number of operators of the left
    side that are there.
    """

    rule: Rule
    rule_id: str
    root: Term
    kind: str
    reason: str
    present: int


def near_misses(
    rules: Iterable[Rule], index: GraphIndex, term: Term, name: Naming, available: Callable[[Term], bool]
) -> list[NearMiss]:
    """Return the rules that nearly match with `term` as one of their operators, the nearest first, each rule once.

    `name` gives the name of a term for the reasons. `available(operator)` tells if a rule may introduce this operator.
    """
    found: dict[tuple[str, bool], NearMiss] = {}
    for rule in rules:
        for directed in (rule, rule.reversed()):
            key = (rule.id, directed is rule)
            for miss in _of_rule(directed, rule.id, index, term, name, available):
                if key not in found or _rank(miss) < _rank(found[key]):
                    found[key] = miss
    return sorted(found.values(), key=_rank)


def _rank(miss: NearMiss) -> tuple[bool, int, str]:
    return miss.kind == "operator", -miss.present, miss.rule_id


def _of_rule(
    rule: Rule, rule_id: str, index: GraphIndex, term: Term, name: Naming, available: Callable[[Term], bool]
) -> Iterator[NearMiss]:
    if len(rule.lhs) > 1 or not can_apply(rule) or has_too_many_orders(rule):
        return
    key = index_key(term)
    if all(index_key(p) != key for p in topological(rule.lhs) if p.op != "Var"):
        return
    if not all(map(available, introduced(rule))):
        return
    for ordered in operand_orders(rule):
        top = ordered.lhs[0]
        for pattern in topological(ordered.lhs):
            if pattern.op == "Var" or index_key(pattern) != key:
                continue
            roots, missing = _roots(top, pattern, term, index)
            if missing is not None:
                reason = _not_read_by(top, term, index, name)
                yield NearMiss(ordered, rule_id, term, "operator", reason, _count(missing))
            for root in roots:
                yield from _at_root(ordered, rule_id, root, pattern, term, name)


def _roots(top: Term, pattern: Term, term: Term, index: GraphIndex) -> tuple[list[Term], Term | None]:
    """Return the terms at which `top` may match if `pattern` is at `term`.

    If there is none because nothing that reads `term` is the root's operator, return the operand of the root that is
    there: all but one operator of the rule.
    """
    path = _path(top, pattern)
    level = [term]
    for number, (user, position) in enumerate(path, 1):
        reached = [
            one
            for value in level
            for one in index.users.get(value, ())
            if index_key(one) == index_key(user) and position < len(one.inputs) and one.inputs[position] is value
        ]
        if not reached:
            child = user.inputs[position]
            assert child is not None
            lacks_root_only = number == len(path) == 1 and _count(child) == _count(top) - 1 >= _MIN_PRESENT
            return [], child if lacks_root_only and align(child, term) is not None else None
        level = reached
    return level, None


def _path(top: Term, pattern: Term) -> list[tuple[Term, int]]:
    """Return the users on a path from `pattern` up to `top`, each with the position of its operand on the path."""
    paths: dict[Term, list[tuple[Term, int]]] = {top: []}
    for user in reversed(list(topological((top,)))):
        for position, used in enumerate(user.inputs):
            if used is not None and user in paths:
                paths.setdefault(used, [(user, position), *paths[user]])
    return paths[pattern]


def _at_root(rule: Rule, rule_id: str, root: Term, pattern: Term, term: Term, name: Naming) -> Iterator[NearMiss]:
    total = _count(rule.lhs[0])
    at, differences = _aligned(rule.lhs[0], root)
    if at.get(pattern) is not term or len(differences) > 1:
        return
    if differences:
        wanted, actual, user = differences[0]
        present = total - _count(wanted)
        if _count(wanted) > 1 or present < _MIN_PRESENT:
            return
        yield NearMiss(rule, rule_id, root, "operator", _difference(wanted, actual, user, name), present)
        return
    problem = _unfit(rule, root, at, name)
    if problem is not None:
        yield NearMiss(rule, rule_id, root, *problem, total)


_Difference = tuple[Term, Term | None, Term]  # what the rule wants, what there is, and the operator that reads it


def _aligned(top: Term, root: Term) -> tuple[dict[Term, Term], list[_Difference]]:
    """Align the pattern `top` with `root`, around at most two differences in operators or in sharing."""
    at: dict[Term, Term] = {}
    differences: list[_Difference] = []
    stack: list[tuple[Term, Term | None, Term]] = [(top, root, root)]
    while stack and len(differences) < 2:
        pattern, term, user = stack.pop()
        if term is None or at.setdefault(pattern, term) is not term:
            differences.append((pattern, term, user))
        elif pattern.op != "Var":
            if not _is_same_operator(pattern, term):
                differences.append((pattern, term, user))
            else:
                for p, t in zip(pattern.inputs, term.inputs, strict=True):
                    if p is not None:
                        stack.append((p, t, term))
                    elif t is not None:
                        differences.append((pattern, t, term))
    return at, differences


def _is_same_operator(pattern: Term, term: Term) -> bool:
    if index_key(pattern) != index_key(term) or len(pattern.inputs) != len(term.inputs):
        return False
    return pattern.op != "Out" or pattern.attr("index") == term.attr("index")


def _difference(wanted: Term, actual: Term | None, user: Term, name: Naming) -> str:
    if actual is None:
        return f"an optional input of {name(user)} is absent, and the rule needs it"
    if wanted.op == "Var":
        return f"{name(user)} reads {name(actual)}, and the rule needs the same value as elsewhere"
    if index_key(wanted) == index_key(actual):
        return f"{name(actual)} has other inputs or outputs than the rule's {node_of(wanted).op}"
    return f"{name(user)} reads {_kind(actual, name)}, and the rule needs {node_of(wanted).op} there"


def _kind(term: Term, name: Naming) -> str:
    if term.op == "Var":
        return f"the model's input {name(term)}"
    return "a constant" if term.is_constant else name(term)


def _not_read_by(top: Term, term: Term, index: GraphIndex, name: Naming) -> str:
    users = index.users.get(term, [])
    read = f"is read by {', '.join(map(name, users[:3]))}" if users else "is an output of the model"
    return f"{name(term)} {read}, and the rule needs {node_of(top).op} there"


def _unfit(rule: Rule, root: Term, at: Mapping[Term, Term], name: Naming) -> tuple[str, str] | None:
    """Return the kind and the text of what keeps aligned operators from being a match; None if they are one."""
    bindings = match(rule.lhs, (root,))
    if bindings is None:
        return "attribute", _attribute_problem(at, name)
    dtype = bindings.dtype()
    if dtype is None:
        return "type", "element types of the inputs differ, or are unknown"
    try:
        (result,) = instantiate(rule.rhs, bindings, dtype)
    except IllTyped as error:
        few = str(error).partition("no value for ")[2]
        if ".shape[" in few:
            return "type", f"an operand has too few dimensions: the rule needs its size {few}"
        return "type", f"the right side does not exist at these sizes: {error}"
    if root.type is None:
        return "type", f"the type of {name(root)} is unknown"
    if result.type is None:
        return "type", "the right side has no known type, because the rank of an operand is unknown"
    if result.types != root.types:
        return "type", f"the right side would be {result.type}, and {name(root)} is {root.type}"
    return None


def _attribute_problem(at: Mapping[Term, Term], name: Naming) -> str:
    bound: dict[str, tuple[Attr, Term]] = {}
    uncertain = ""
    for pattern, term in at.items():
        if pattern.op == "Var" or (pattern.op == "Reshape" and _fits_alone(pattern, term)):
            continue
        actual = dict(term.attrs)
        for key, wanted in pattern.attrs:
            value = actual.get(key)
            here = f"{name(term)} has {key} = {_shown(value)}"
            if isinstance(wanted, AttrVar):
                earlier, where = bound.setdefault(wanted.name, (value if value is not None else 0, term))
                if earlier != value:
                    return f"{here}, {name(where)} has {_shown(earlier)}, and the rule needs them equal"
            elif _is_literal(wanted):
                if value is None or not equal_attr(wanted, value):
                    return f"{here}, and the rule needs {_shown(wanted)}"
            elif not uncertain:
                uncertain = f"{here}, and the rule needs {_shown(wanted)}"
    return uncertain or "attributes differ from those of the rule"


def _fits_alone(pattern: Term, term: Term) -> bool:
    """Return True if the pattern's operator matches, whatever its operand: a Reshape states its target in many ways."""
    alone = pattern.over((var("x"),))
    return match((alone,), (term,)) is not None


def _is_literal(value: Attr) -> bool:
    return all(map(_is_literal, value)) if isinstance(value, tuple) else isinstance(value, (int, float, str))


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return value.name if isinstance(value, AttrVar) else str(value)


def _count(pattern: Term) -> int:
    return sum(t.op not in ("Var", "Out") for t in topological((pattern,)))
