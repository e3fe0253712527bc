"""Digests of operators: hashes of the source text and the values that the definition of an operator depends on.

The digest starts at the operator's registered entry. It covers every value of the entry, the source lines of every
function in it, the values of the function's closure and defaults, and every global name that those lines mention.
Global names are followed through all modules of `superopt.ops`. An operator may be defined through others, by a term or
by naming them in its source; then its digest covers theirs as well. In doubt the digest covers too much: a needless
change costs one new proof, but a missed change would keep a proof that no longer holds.
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
# An operator's name in a text: the whole text is the name, or ( or [ follows it: "Mul(x, y)", "Concat[axis=0](x, y)".
_NAMED = re.compile(r"\A\w+\Z|\b[A-Z]\w*(?=[(\[])")


@cache
def operator_digest(name: str) -> str:
    """Return the hash of the definition of operator `name`, type rules included; "" if there is no such operator."""
    if name not in OPERATORS:
        return ""
    state = hashlib.blake2b(digest_size=16)
    for each in sorted(_closure(name)):
        state.update(f"{each}\0{_own(each)[0]}\0".encode())
    return state.hexdigest()


def _closure(name: str) -> set[str]:
    """Return the operator and all operators that its definition uses, transitively."""
    found, todo = set[str](), [name]
    while todo:
        here = todo.pop()
        if here not in found:
            found.add(here)
            todo += _own(here)[1]
    return found


@cache
def _own(name: str) -> tuple[str, frozenset[str]]:
    """Return a hash of one entry with all that it reaches, and the operators named on the way."""
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
    """Writes values as text that is the same in every process, and collects the global names and operators in them."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._inside: list[int] = []  # ids of the values being written: a closure may contain itself
        self.globals: dict[tuple[str, str], None] = {}
        self.operators: set[str] = set()

    def text(self) -> str:
        """Return the text written so far."""
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
            self.operators.add("ConstantOfShape")  # a number in an equation becomes a ConstantOfShape term
        if isinstance(value, Operator) and len(self._inside) > 1 and OPERATORS.get(value.name) is value:
            self._parts.append(value.name)  # inside another entry the name suffices
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
            self._parts.append(repr(value))  # a type alias, as annotations mention them
        else:  # an object of unknown state, made by the operators' modules: cover all of their source
            self._parts += map(_read, sorted(Path(str(superopt.ops.__file__)).parent.rglob("*.py")))

    def _all(self, values: Any) -> None:
        self._parts.append(str(len(values)))
        for value in values:
            self.value(value)

    def _function(self, function: types.FunctionType) -> None:
        # Not `__module__`: functools.wraps sets it to the wrapped function's.
        code, module = function.__code__, str(function.__globals__.get("__name__"))
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
    """Lines of source with the global names and the operators that they mention."""

    text: str
    globals: dict[tuple[str, str], None]
    operators: frozenset[str]


@cache
def _mentions(module: str, place: int | str | None) -> _Mentions:
    """Return the source at `place`: the functions starting in a line, the class of a name, or (None) the module."""
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
    """Return True for a mapping from operator names to their registered entries."""
    return isinstance(value, Mapping) and all(OPERATORS.get(name) is each for name, each in value.items())


def _operators_in(text: str) -> set[str]:
    return OPERATORS.keys() & set(_NAMED.findall(text))


def _followed(module: str) -> bool:
    """Return True for the modules of `superopt.ops`. All other modules are the kernel's core or Python's library."""
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
    """Return the line of a definition's first decorator, or of the definition if it has none."""
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
