"""Digests of operators: the source text and the values that the definition of an operator depends on.

The digest starts at the operator's registered entry. It covers every value of the entry, the source lines of every
function there, the values of its closure and defaults, and every global name that those lines mention, transitively
through all modules of `superopt.ops`. An operator that is defined through others (by a term, or by naming them in its
source) depends on their digests as well. In doubt more is covered than is needed: a digest that changes without need
costs one proof, a digest that does not change would keep a proof that is none.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import hashlib
import re
import sys
import types
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import superopt.ops
from superopt.ir.operator import OPERATORS, Operator
from superopt.ir.term import Term, topological

__all__ = ["operator_digest"]

_OPS = superopt.ops.__name__
_OURS = ("superopt", "verify")
_ATOMS = (type(None), bool, int, float, complex, str, bytes, Fraction)
# An operator named inside a text: the whole text, or as in "Mul(x, y)" and "Concat[axis=0](x, y)".
_NAMED = re.compile(r"\A\w+\Z|\b[A-Z]\w*(?=[(\[])")


@cache
def operator_digest(name: str) -> str:
    """Hash of what the operator called `name` means, its type rules included; "" for no operator."""
    if name not in OPERATORS:
        return ""
    state = hashlib.blake2b(digest_size=16)
    for each in sorted(_closure(name)):
        state.update(f"{each}\0{_own(each)[0]}\0".encode())
    return state.hexdigest()


def _closure(name: str) -> set[str]:
    """The operator itself and those that its definition uses."""
    found, todo = set[str](), [name]
    while todo:
        here = todo.pop()
        if here not in found:
            found.add(here)
            todo += _own(here)[1]
    return found


@cache
def _own(name: str) -> tuple[str, frozenset[str]]:
    """Hash of one entry and of all that it reaches; and the operators that are named there."""
    entry = _Text()
    entry.value(OPERATORS[name])
    pieces = {("", ""): entry.text()}
    used, todo = set(entry.operators), list(entry.globals)
    while todo:
        place = todo.pop()
        if place not in pieces:
            found = _global(*place)
            pieces[place] = found.text()
            used |= found.operators
            todo += found.globals
    state = hashlib.blake2b(digest_size=16)
    for (module, variable), text in sorted(pieces.items()):
        state.update(f"{module}.{variable}\0{text}\0".encode())
    return state.hexdigest(), frozenset(used)


@cache
def _global(module: str, variable: str) -> _Text:
    text = _Text()
    text.value(vars(sys.modules[module])[variable])
    return text


class _Text:
    """A value as text that is the same in every process; the global names and operators met on the way."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._inside: list[int] = []  # ids of what is being written: a closure may hold itself
        self.globals: dict[tuple[str, str], None] = {}
        self.operators: set[str] = set()

    def text(self) -> str:
        """All that was written so far."""
        return "\0".join(self._parts)

    def value(self, value: Any) -> None:
        """Write one value."""
        if isinstance(value, _ATOMS):
            self._parts.append(f"{type(value).__name__} {value!r}")
            if isinstance(value, str):
                self._named_in(value)
        elif id(value) in self._inside:
            self._parts.append(f"again {len(self._inside) - self._inside.index(id(value))}")
        else:
            self._inside.append(id(value))
            self._compound(value)
            self._inside.pop()

    def _compound(self, value: Any) -> None:
        self._parts.append(type(value).__qualname__)
        if isinstance(value, Operator) and value.equations:
            self.operators.add("ConstantOfShape")  # numbers in equations are such terms
        if isinstance(value, Operator) and len(self._inside) > 1 and OPERATORS.get(value.name) is value:
            self._parts.append(value.name)  # met inside another entry
            self.operators.add(value.name)
        elif isinstance(value, types.BuiltinFunctionType):
            self._parts.append(value.__qualname__)
        elif isinstance(value, (tuple, list)):
            self._all(value)
        elif isinstance(value, (set, frozenset)):
            self._all(sorted(value, key=repr))
        elif isinstance(value, Mapping):
            self._all([part for item in value.items() for part in item])
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self._all((value.__func__, value.__self__))
        elif isinstance(value, functools.partial):
            self._all((value.func, value.args, value.keywords))
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.ModuleType):
            self._module(value)
        elif isinstance(value, Term):
            self._parts.append(value.digest)
            self.operators |= {term.op for term in topological((value,)) if term.op in OPERATORS}
        elif dataclasses.is_dataclass(value):
            self._class(type(value))
            self._all([getattr(value, field.name) for field in dataclasses.fields(value)])
        elif callable(getattr(value, "__wrapped__", None)):  # functools.cache
            self.value(value.__wrapped__)
        elif type(value).__module__ == "typing" or isinstance(value, types.GenericAlias | types.UnionType):
            self._parts.append(repr(value))  # a type alias: annotations mention it
        else:  # nothing is known of its state, but that the operators' modules made it
            self._parts += map(_read, sorted(Path(str(superopt.ops.__file__)).parent.rglob("*.py")))

    def _all(self, values: Any) -> None:
        self._parts.append(str(len(values)))
        for value in values:
            self.value(value)

    def _function(self, function: types.FunctionType) -> None:
        code, module = function.__code__, str(function.__globals__.get("__name__"))  # not what functools.wraps says
        self._parts.append(f"{module}.{function.__qualname__}")
        self._all([cell.cell_contents for cell in function.__closure__ or () if _filled(cell)])
        self._all((function.__defaults__ or (), function.__kwdefaults__ or {}))
        if _followed(module):
            in_file = code.co_filename == sys.modules[module].__file__
            self._source(module, code.co_firstlineno if in_file else None)
        elif module.partition(".")[0] in _OURS:
            self._parts.append(str(code.co_firstlineno))  # tells two lambdas of one function apart

    def _class(self, kind: type) -> None:
        self._parts.append(f"{kind.__module__}.{kind.__qualname__}")
        if _followed(kind.__module__):
            self._source(kind.__module__, kind.__qualname__.rpartition(".")[2])

    def _module(self, module: types.ModuleType) -> None:
        self._parts.append(module.__name__)
        if _followed(module.__name__):
            self._source(module.__name__, None)

    def _source(self, module: str, place: int | str | None) -> None:
        found = _mentions(module, place)
        self._parts.append(found.text)
        self.globals.update(found.globals)
        self.operators |= found.operators

    def _named_in(self, text: str) -> None:
        self.operators |= _operators_in(text)


@dataclasses.dataclass(frozen=True)
class _Mentions:
    """Lines of source, and the global names and the operators that they mention."""

    text: str
    globals: dict[tuple[str, str], None]
    operators: frozenset[str]


@cache
def _mentions(module: str, place: int | str | None) -> _Mentions:
    """The functions that start in a line (all, where a line has several), the class of a name, or the module."""
    known, nodes = vars(sys.modules[module]), _definitions(module).get(place) or [_tree(module)]
    globals_, operators = dict[tuple[str, str], None](), set[str]()
    for node in nodes:
        by_name = set()  # nodes that look up one operator: table["Conv"]
        for inner in ast.walk(node):
            if isinstance(inner, ast.Subscript) and isinstance(inner.value, ast.Name):
                key = inner.slice.value if isinstance(inner.slice, ast.Constant) else None
                if key in OPERATORS and _is_table(known.get(inner.value.id)):
                    by_name.add(inner.value)
            if isinstance(inner, ast.Name) and inner not in by_name:
                if inner.id in known and not hasattr(builtins, inner.id):
                    globals_[module, inner.id] = None
                operators |= _operators_in(inner.id)
            elif isinstance(inner, ast.Attribute):
                operators |= _operators_in(inner.attr)
            elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                operators |= _operators_in(inner.value)
    lines = _lines(module)
    text = "\n".join("\n".join(lines[_first_line(node) - 1 : getattr(node, "end_lineno", None)]) for node in nodes)
    return _Mentions(text, globals_, frozenset(operators))


def _is_table(value: Any) -> bool:
    """True for a mapping from the names of operators to their entries, as the registry has them."""
    return isinstance(value, Mapping) and all(OPERATORS.get(name) is each for name, each in value.items())


def _operators_in(text: str) -> set[str]:
    return OPERATORS.keys() & set(_NAMED.findall(text))


def _followed(module: str) -> bool:
    """True for the modules of `superopt.ops`; what is defined elsewhere is the kernel's core, or Python's own."""
    return module == _OPS or module.startswith(f"{_OPS}.")


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


@cache
def _definitions(module: str) -> dict[int | str | None, list[ast.AST]]:
    found: dict[int | str | None, list[ast.AST]] = {}
    for node in ast.walk(_tree(module)):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            found.setdefault(_first_line(node), []).append(node)
        elif isinstance(node, ast.ClassDef):
            found.setdefault(node.name, []).append(node)
    return found


def _first_line(node: Any) -> int:
    """The line of a definition's first decorator, or its own."""
    lines: list[int] = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
    return min([getattr(node, "lineno", 1), *lines])


@cache
def _lines(module: str) -> list[str]:
    return _read(Path(str(sys.modules[module].__file__))).splitlines()


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse("\n".join(_lines(module)))


@cache
def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
