"""Problems in the lines of rule files: the column, what is wrong, and the names that may have been meant."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import accumulate

from superopt.ir.infer import OPERATORS
from superopt.ir.notation import NotationError, parse_rule, parse_signature
from superopt.ir.pattern import pattern_names
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import topological

__all__ = ["LineProblem", "parsed"]

_SHOWN = 100  # characters of a long line that are shown around the column
_MOST_NESTED = 100  # brackets in brackets; rules have a tenth of it
_COLUMN = re.compile(r"column (\d+): (.*)", re.DOTALL)
_ATTRIBUTES = re.compile(r"(?P<op>\S+): unknown operator or missing attribute '(?P<name>.*)'")
_INPUTS = re.compile(r"(?P<op>\S+) does not take \d+ inputs")
_WANTED = re.compile(r"expected (?P<wanted>\S+), found (?P<found>.+)")
_DTYPES = ("float", "double", "float16", "bfloat16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16",
           "uint32", "uint64")  # fmt: skip


@dataclass(frozen=True)
class LineProblem:
    """A problem at `column` of `line` (from 0; None: the line as a whole)."""

    line: str
    column: int | None
    message: str

    def __str__(self) -> str:
        return self.message if self.column is None else f"column {self.column + 1}: {self.message}"

    def lines(self) -> list[str]:
        """Return the line, cut around the column if it is long, and a caret below the column."""
        line, column = self.line.replace("\t", " "), self.column
        if column is None:
            return [line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."]
        start = max(0, min(column - _SHOWN // 2, len(line) - _SHOWN))
        cut = line[start : start + _SHOWN]
        before, after = "..." if start else "", "..." if start + _SHOWN < len(line) else ""
        return [f"{before}{cut}{after}", " " * (len(before) + column - start) + "^"]


@functools.lru_cache(1 << 14)
def parsed(line: str) -> Rule | LineProblem:
    """Return the rule that stands on a line, or the first problem in it.

    Lines are remembered: a process that optimizes several models reads the same rules for each of them.
    """
    if (column := _too_deep(line)) is not None:
        return LineProblem(line, column, f"brackets are nested more than {_MOST_NESTED} deep")
    try:
        rule = _rule(line)
    except NotationError as error:
        return _of_notation(line, str(error))
    except ValueError as error:  # a term that has no type
        found = _INPUTS.match(str(error))
        at = None if found is None else re.search(rf"(?<![\w:]){re.escape(found['op'])}\b", line)
        return LineProblem(line, None if at is None else at.start(), str(error))
    except AssertionError:
        return LineProblem(line, None, "a signature lists the sizes of a variable in brackets: x[_,_]")
    for term in topological((*rule.lhs, *rule.rhs)):
        if term.op in OPERATORS and None in term.inputs[: OPERATORS[term.op].inputs[0]]:
            at = re.search(rf"(?<![\w:.]){re.escape(term.op)}\b", line)
            message = f"{term.op} needs input {term.inputs.index(None) + 1}; _ leaves out optional ones"
            return LineProblem(line, None if at is None else at.start(), message)
    variables, attributes = _names(rule)
    for signature in rule.signatures:
        problem = _of_signature(line, signature, variables, attributes)
        if problem is not None:
            return problem
    return rule


def _too_deep(line: str) -> int | None:
    """Return the column of a bracket inside too many others: parsers and provers are recursive."""
    if sum(map(line.count, "([")) <= _MOST_NESTED:
        return None
    depths = accumulate((mark in "([") - (mark in ")]") for mark in line)
    return next((column for column, depth in enumerate(depths) if depth > _MOST_NESTED), None)


def _rule(line: str) -> Rule:
    """Return `parse_rule(line)`, reading each text of a signature once: 24,481 signatures are 2,831 texts.

    Raises as `parse_rule` does.
    """
    equation, _, texts = line.partition(" @ ")
    try:
        return replace(parse_rule(equation), signatures=tuple(map(_signature, texts.split(" | ") if texts else ())))
    except ValueError:
        return parse_rule(line)  # which names the column in the whole line


_signature = functools.lru_cache(1 << 14)(parse_signature)


def _of_notation(line: str, text: str) -> LineProblem:
    found = _COLUMN.fullmatch(text)
    if found is None:
        return LineProblem(line, None, text)
    column, message = int(found[1]) - 1, found[2]
    attribute, wanted = _ATTRIBUTES.fullmatch(message), _WANTED.fullmatch(message)
    if attribute is not None:
        return _of_application(line, column, attribute["op"], attribute["name"])
    if wanted is not None:
        message = f"expected {_quoted(wanted['wanted'])}, found {_quoted(wanted['found'])}"
    if message.startswith("cannot read "):
        column += len(line[column:]) - len(line[column:].lstrip())
        message = f"{line[column]!r} is no sign of the notation"
    return LineProblem(line, column, message)


def _quoted(text: str) -> str:
    return text if text in ("the end", "more") or text.startswith("a") else f"'{text}'"


def _of_application(line: str, end: int, op: str, name: str) -> LineProblem:
    """Return the problem of an application of `op` that ends before column `end`, with the attribute `name`."""
    starts = [at.start() for at in re.finditer(rf"(?<![\w:.]){re.escape(op)}(?=\s*[\[(])", line[:end])]
    start = starts[-1] if starts else None
    if op not in OPERATORS:
        return LineProblem(line, start, f"there is no operator {op}{_nearest(op, OPERATORS)}")
    known = OPERATORS[op].attrs
    for written in re.finditer(r"(?<=[\[,])\s*(\w+)\s*=", line[start:end]):
        if start is not None and written[1] not in known and _depth(line[start : start + written.start(1)]) == 1:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            hint = _nearest(written[1], known) or f"; {takes}"
            return LineProblem(line, start + written.start(1), f"{op} has no attribute {written[1]}{hint}")
    return LineProblem(line, start, f"{op} needs the attribute {name}: {op}[{name}=...](...)")


def _depth(text: str) -> int:
    """Return the number of brackets that are open at the end of `text`."""
    return sum(text.count(mark) for mark in "[(") - sum(text.count(mark) for mark in "])")


def _names(rule: Rule) -> tuple[set[str], set[str]]:
    """Return the names of the variables and of the attribute variables of a rule."""
    (left, left_attributes), (right, right_attributes) = (pattern_names(side) for side in (rule.lhs, rule.rhs))
    return {*left, *right}, {name.partition("[")[0] for name in (*left_attributes, *right_attributes)}


def _of_signature(line: str, signature: Signature, variables: set[str], attributes: set[str]) -> LineProblem | None:
    begin = line.find("@")
    for kind, used, known in (
        ("variable", [name for name, _ in signature.shapes], variables),
        ("attribute variable", [name for name, _ in signature.attrs], attributes),
    ):
        missing = sorted(known.difference(used))
        for name in used:
            if missing and name not in known:
                at = re.compile(rf"(?<!\w){re.escape(name)}(?=\s*[:=\[])").search(line, begin)
                message = f"the rule has no {kind} {name}{_nearest(name, missing)}"
                return LineProblem(line, None if at is None else at.start(), message)
        if missing:
            return LineProblem(line, begin, f"a signature does not mention the {kind} {missing[0]}")
    for name, dtype in signature.dtypes:
        if dtype not in _DTYPES:
            at = re.compile(rf"(?<!\w){re.escape(name)}\s*:\s*").search(line, begin)
            message = f"there is no element type {dtype}{_nearest(dtype, _DTYPES)}"
            return LineProblem(line, None if at is None else at.end(), message)
    return None


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint at the names that may have been meant; empty if none is near."""
    by_lower: dict[str, str] = {other.lower(): other for other in known}
    near: Collection[str] = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(by_lower[other] for other in near)}?" if near else ""
