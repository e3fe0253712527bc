"""The notation for rules and graphs, in files, tests, reports and messages.

    Concat[axis=-1](MatMul(a, b), MatMul(a, c)) = MatMul(a, Concat[axis=-1](b, c)) @ a[_,_] b[_,_] c[_,_]

- Variables are bare names, attributes stand in brackets, several outputs are a parenthesised list.
- `t.0` is output 0 of an operator with several outputs; `_` is an absent optional input. If the operator is defined by
  equations, `.0` is left out: its further outputs are optional.
- An attribute that is left out has ONNX's default, if the default does not depend on the rank.
- The signatures at which the rule is proven follow `@`, separated by `|`. A signature lists the sizes of each variable
  (`_` is symbolic, a number is literal; `x:int64[_]` names an element type that is not real) and the value of each
  attribute variable (`_` is a symbolic integer, `*` a symbolic real).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import ClassVar

from superopt.ir.dim import Dim, Size, floor_div, symbol
from superopt.ir.infer import OPERATORS, completed, make
from superopt.ir.rule import Condition, Rule, Signature, SignatureValue
from superopt.ir.term import Attr, AttrVar, Term, node_of, output_index, repr_attrs, topological, var
from superopt.ir.types import TensorType

__all__ = [
    "NotationError",
    "Reader",
    "parse_condition",
    "parse_rule",
    "parse_rules",
    "parse_signature",
    "parse_terms",
    "show_graph",
    "show_rule",
    "show_signature",
    "show_term",
    "show_terms",
]


class NotationError(ValueError):
    """A text that is not in the notation; the message names the column."""


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<float>-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf\b|nan\b))
    | (?P<int>\d+)
    | (?P<name>(?:[A-Za-z]\w*(?:\.[A-Za-z]\w*)*::\w+)|[A-Za-z]\w*|_)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<mark>//|[][(),=.@|*+:/-])
    )""",
    re.VERBOSE,
)


_LOOKAHEAD = 5  # the farthest token that `peek` and `kind` are asked for, here and in `ops/equation.py`


class Reader:
    """A recursive-descent parser of the notation, with one method for each part of the grammar."""

    properties: ClassVar[tuple[str, ...]] = ("shape",)  # of a variable, as in x.shape[0]

    def __init__(self, text: str, types: Mapping[str, TensorType] | None = None) -> None:
        self.text, self.types = text, types or {}
        self.tokens: list[tuple[str, str, int]] = []  # kind, text, column
        self.at = 0
        place, stop = 0, len(text.rstrip())
        while place < stop:
            found = _TOKEN.match(text, place)
            if found is None:
                raise NotationError(f"column {place + 1}: cannot read {text[place : place + 20]!r}")
            kind = found.lastgroup or ""
            self.tokens.append((kind, found.group(kind), found.start(kind)))
            place = found.end()
        self.tokens += [("end", "", len(text))] * (1 + _LOOKAHEAD)

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead][1]

    def kind(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead][0]

    def take(self, wanted: str | None = None) -> str:
        kind, value, _ = self.tokens[self.at]
        if kind == "end" or (wanted is not None and value != wanted):
            raise self.error(f"expected {wanted or 'more'}, found {value or 'the end'}")
        self.at += 1
        return value

    def error(self, message: str) -> NotationError:
        return NotationError(f"column {self.tokens[self.at][2] + 1}: {message}")

    def terms(self) -> tuple[Term, ...]:
        if self.peek() != "(":
            return (self.term(),)
        self.take("(")
        found = [self.term()]
        while self.peek() == ",":
            self.take()
            found.append(self.term())
        self.take(")")
        return tuple(found)

    def term(self) -> Term:
        if self.kind() != "name":
            raise self.error(f"expected an operator or a variable, found {self.peek() or 'the end'}")
        if self.peek(1) not in ("[", "("):
            name = self.take()
            return var(name, self.types.get(name))
        name, attrs, inputs = self.application()
        try:
            term = make(name, inputs, completed(name, attrs))
        except KeyError as missing:
            raise self.error(f"{name}: unknown operator or missing attribute {missing}") from None
        if self.peek() == "." and self.kind(1) == "int":
            self.take(".")
            return term.out(int(self.take()))
        return term.out(0) if _has_optional_outputs(term) else term

    def application(self) -> tuple[str, dict[str, Attr], list[Term | None]]:
        """Read an operator's name, its written attributes and its operands."""
        name = self.take()
        attrs: dict[str, Attr] = {}
        if self.peek() == "[":
            self.take()
            while self.peek() != "]":
                key = self.take()
                self.take("=")
                attrs[key] = self.attr()
                if self.peek() != "]":
                    self.take(",")
            self.take("]")
        inputs: list[Term | None] = []
        if self.peek() == "(":
            self.take()
            while self.peek() != ")":
                if self.peek() == "_":
                    self.take()
                    inputs.append(None)
                else:
                    inputs.append(self.term())
                if self.peek() != ")":
                    self.take(",")
            self.take(")")
        return name, attrs, inputs

    def attr(self) -> Attr:
        if self.kind() == "string":
            return re.sub(r"\\(.)", r"\1", self.take()[1:-1])
        if self.peek() == "[":
            self.take()
            items: list[Attr] = []
            while self.peek() != "]":
                items.append(self.item())
                if self.peek() != "]":
                    self.take(",")
            self.take("]")
            return tuple(items)
        if self.kind() == "float":
            return float(self.take())
        value = self.size()
        # A name alone stands for a whole attribute value; a size of a variable (v.shape[0]) is a number.
        if isinstance(value, Dim) and re.fullmatch(r"\w+(\.shape)?", str(value)):
            return AttrVar(str(value))
        return value

    def item(self) -> Attr:
        """Read one entry of a list."""
        return self.attr() if self.kind() in ("string", "float") else self.size()

    def size(self) -> Size:
        value = self.product()
        while self.peek() in ("+", "-"):
            value = value + self.product() if self.take() == "+" else value - self.product()
        return value

    def product(self) -> Size:
        value = self.factor()
        while self.peek() in ("*", "//"):
            value = value * self.factor() if self.take() == "*" else floor_div(value, self.factor())
        return value

    def factor(self) -> Size:
        if self.peek() == "-":
            self.take()
            return -self.factor()
        if self.peek() == "(":
            self.take()
            value = self.size()
            self.take(")")
            return value
        if self.kind() == "int":
            return int(self.take())
        if self.kind() != "name":
            raise self.error(f"expected a number or a name, found {self.peek() or 'the end'}")
        name = self.take()
        if self.peek() == "." and self.peek(1) in self.properties:
            self.take(".")
            name += "." + self.take()
        if self.peek() == "[":
            self.take()
            sign = "-" if self.peek() == "-" and self.take() else ""
            name += f"[{sign}{self.take()}]"
            self.take("]")
        return symbol(name)

    def signature(self) -> Signature:
        shapes: list[tuple[str, tuple[int | None, ...]]] = []
        attrs: list[tuple[str, SignatureValue]] = []
        dtypes: list[tuple[str, str]] = []
        while self.kind() == "name":
            name = self.take()
            if self.peek() == ":":
                self.take()
                dtypes.append((name, self.take()))
            if self.peek() == "=":
                self.take()
                attrs.append((name, self.signature_value(name)))
            else:
                value = self.signature_value(name)
                assert isinstance(value, tuple)
                shapes.append((name, tuple(item if isinstance(item, int) else None for item in value)))
        dtypes = [(name, dtype) for name, dtype in dtypes if dtype != "float"]
        return Signature(tuple(sorted(shapes)), tuple(sorted(attrs, key=lambda item: item[0])), tuple(sorted(dtypes)))

    def signature_value(self, name: str) -> SignatureValue:
        if self.peek() == "_":
            self.take()
            return None
        if self.peek() == "*":
            self.take()
            return AttrVar(name)
        if self.peek() != "[":
            return self.attr()
        self.take()
        items: list[Attr | None] = []
        while self.peek() != "]":
            if self.peek() == "_":
                self.take()
                items.append(None)
            else:
                items.append(self.attr())
            if self.peek() != "]":
                self.take(",")
        self.take("]")
        return tuple(items)

    def end(self) -> None:
        if self.kind() != "end":
            raise self.error(f"unexpected {self.peek()}")


def parse_terms(text: str, types: Mapping[str, TensorType] | None = None) -> tuple[Term, ...]:
    """Parse a term or a parenthesised list of terms; variables in `types` get a type. Raises NotationError."""
    reader = Reader(text, types)
    terms = reader.terms()
    reader.end()
    return terms


def parse_signature(text: str) -> Signature:
    """Parse a signature as `show_signature` prints it. Raises NotationError."""
    reader = Reader(text)
    signature = reader.signature()
    reader.end()
    return signature


@lru_cache(maxsize=1 << 12)
def parse_condition(text: str) -> Condition:
    """Parse a condition, `left == right` or `left <= right`. Raises NotationError."""
    for relation in ("==", "<="):
        left, found, right = text.partition(f" {relation} ")
        if found:
            sides = []
            for side in (left, right):
                reader = Reader(side)
                sides.append(reader.size())
                reader.end()
            return Condition(relation, sides[0], sides[1])
    raise NotationError(f"no relation in {text!r}")


def parse_rule(text: str) -> Rule:
    """Parse one rule. Raises NotationError."""
    reader = Reader(text)
    lhs = reader.terms()
    reader.take("=")
    rhs = reader.terms()
    signatures: list[Signature] = []
    if reader.peek() == "@":
        reader.take()
        signatures.append(reader.signature())
        while reader.peek() == "|":
            reader.take()
            signatures.append(reader.signature())
    reader.end()
    if len(lhs) != len(rhs):
        raise NotationError(f"{len(lhs)} outputs on the left, {len(rhs)} on the right")
    return Rule(lhs, rhs, tuple(signatures))


def parse_rules(text: str, origin: str = "rules") -> list[Rule]:
    """Parse the rules of a file, one per line; blank lines and lines that begin with # are skipped."""
    rules: list[Rule] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                rules.append(parse_rule(line))
            except ValueError as error:
                raise NotationError(f"{origin}:{number}: {error}") from None
    return rules


def _has_optional_outputs(node: Term) -> bool:
    """Return True if an operator has several outputs and is defined by equations."""
    operator = OPERATORS.get(node.op)
    return operator is not None and bool(operator.equations) and operator.outputs(dict(node.attrs)) > 1


def show_term(term: Term, names: Mapping[Term, str] | None = None) -> str:
    """Return the term in the notation; terms in `names` print as their name."""
    if names and term in names:
        return names[term]
    if term.op == "Var":
        return str(term.attr("name"))
    if term.op == "Out":
        node, index = node_of(term), output_index(term)
        return show_term(node, names) + (f".{index}" if index or not _has_optional_outputs(node) else "")
    attrs = f"[{repr_attrs(term.attrs)}]" if term.attrs else ""
    inputs = ", ".join("_" if i is None else show_term(i, names) for i in term.inputs)
    return f"{term.op}{attrs}" + (f"({inputs})" if term.inputs or not attrs else "")


def show_terms(terms: Iterable[Term], names: Mapping[Term, str] | None = None) -> str:
    """Return the terms in the notation, several as a parenthesised list."""
    shown = [show_term(term, names) for term in terms]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


def _show_value(value: SignatureValue) -> str:
    if value is None:
        return "_"
    if isinstance(value, AttrVar):
        return "*"
    if isinstance(value, tuple):
        return "[" + ",".join(_show_value(item) for item in value) + "]"
    return repr_attrs([("", value)])[1:]


def show_signature(signature: Signature) -> str:
    """Return the signature as it stands after `@`."""
    dtypes = {name: f":{dtype}" for name, dtype in signature.dtypes}
    parts = [f"{name}{dtypes.get(name, '')}{_show_value(shape)}" for name, shape in signature.shapes]
    return " ".join(parts + [f"{name}={_show_value(value)}" for name, value in signature.attrs])


def show_rule(rule: Rule) -> str:
    """Return the rule on one line with its signatures; `parse_rule` reads it back."""
    line = f"{show_terms(rule.lhs)} = {show_terms(rule.rhs)}"
    if rule.signatures:
        line += " @ " + " | ".join(map(show_signature, rule.signatures))
    return line


def show_graph(roots: Iterable[Term]) -> str:
    """Return a graph as one assignment per line, each term once, with types."""
    roots = tuple(roots)
    names: dict[Term, str] = {}
    lines: list[str] = []
    for term in topological(roots):
        if term.op == "Var":
            lines.append(f"input {term.attr('name')}: {term.type}")
        elif term.op != "Out":
            shown = show_term(term, names)
            names[term] = f"t{len(names)}"
            lines.append(f"{names[term]} = {shown}" + (f"  # {term.type}" if term.type else ""))
    lines.append("return " + show_terms(roots, names))
    return "\n".join(lines)
