"""A corpus: windows cut out of models, in the notation of rules, one on a line. Weights' values are not in it.

    Relu(MatMul(x0, x1)) @ x0[2,3] x1[3,4] ! weights x1; count 12; share 0.034; models bert,vit

Behind `@` stand small concrete sizes at which the window is well-typed (`x0:int64[3]` for an element type that is not
float). Behind `!` stand the variables that are weights (constant at inference), the number of places where the window
was found, the share of the models' cost, and the models' names. Blank lines and lines that begin with # are skipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import superopt.ops  # noqa: F401  (registers the operators)
from superopt.files import write_text
from superopt.ir.dim import Size
from superopt.ir.notation import NotationError, Reader, show_signature, show_terms
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import Bindings, instantiate, pattern_names
from superopt.ir.rule import Signature
from superopt.ir.term import CLOSED_FORM, Term, topological, var
from superopt.ir.types import FLOAT_DTYPES, TensorType

__all__ = ["CorpusError", "Window", "WindowVariable", "model_label", "read_corpus", "write_corpus"]

_FIELDS = ("weights", "count", "share", "models")  # behind "!", in this order
_DIGITS = 3  # of a share: significant ones
_DTYPE = re.compile(r"u?int(8|16|32|64)|bool")
_LABEL = re.compile(r"[\w.+-]+", re.ASCII)


class CorpusError(ValueError):
    """A corpus cannot be read, or a window cannot be typed. The message is one line, with the place."""


@dataclass(frozen=True)
class WindowVariable:
    """A leaf of a window. `type` has a small concrete shape; a `weight` is constant at inference."""

    name: str
    type: TensorType
    weight: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The small concrete shape."""
        shape = self.type.concrete()
        assert shape is not None
        return shape


@dataclass(frozen=True)
class Window:
    """A connected part of a model: outputs (untyped patterns, as in rules), variables, and where it was found.

    `count` is the number of occurrences in `models`. `share` (0 to 1) is the mean over all harvested models of the part
    of a model's cost that lies in occurrences of the window.
    """

    outputs: tuple[Term, ...]
    variables: tuple[WindowVariable, ...]  # in the order in which the outputs mention them
    count: int = 1
    share: float = 0.0
    models: tuple[str, ...] = ()

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The outputs as typed terms at the variables' small shapes. Raises CorpusError if they cannot be typed."""
        for variable in self.variables:
            if variable.type.dtype not in FLOAT_DTYPES and not _DTYPE.fullmatch(variable.type.dtype):
                raise CorpusError(f"{variable.name}: no element type {variable.type.dtype}")
        leaves = Bindings({variable.name: var(variable.name, variable.type) for variable in self.variables})
        dtype = leaves.dtype()
        if dtype is None:
            raise CorpusError("the real variables are of several element types; the notation allows one")
        try:
            terms = instantiate(self.outputs, leaves, dtype, _need)
        except IllTyped as error:
            raise CorpusError(f"ill-typed: {error}") from None
        for term in topological(terms):
            shape = None if term.type is None else term.type.concrete()
            if shape is None or not all(size > 0 for size in shape):
                raise CorpusError(f"{term.op}: no shape of positive sizes ({term.type or 'unknown type'})")
        return terms

    @property
    def weights(self) -> tuple[str, ...]:
        """Names of the variables that are constant at inference."""
        return tuple(variable.name for variable in self.variables if variable.weight)

    @property
    def operators(self) -> tuple[Term, ...]:
        """The operators at inference, operands before users. The outputs of a Split are one operator."""
        return tuple(term for term in topological(self.outputs) if term.op not in ("Var", "Out", *CLOSED_FORM))

    def __str__(self) -> str:
        """The window as one line of a corpus; `read_corpus` reads it back."""
        # The signature is shown in the order of the variables, not by name: x2 before x10.
        shapes = tuple((variable.name, variable.shape) for variable in self.variables)
        dtypes = tuple((v.name, v.type.dtype) for v in self.variables if v.type.dtype != "float")
        fields = (
            f"weights {','.join(self.weights)}" if self.weights else "",
            f"count {self.count}",
            f"share {self.share:.{_DIGITS}g}",
            f"models {','.join(self.models)}" if self.models else "",
        )
        shown = f"{show_terms(self.outputs)} @ {show_signature(Signature(shapes, (), dtypes))}"
        return f"{shown} ! {'; '.join(filter(None, fields))}"


def model_label(name: str) -> str:
    """Return a model's name as it may stand in a corpus: each other character becomes an underscore."""
    return re.sub(r"[^\w.+-]", "_", name, flags=re.ASCII) or "_"


def read_corpus(path: Path) -> tuple[Window, ...]:
    """Return the windows of a file in its order. Raises CorpusError, with the line and the reason."""
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        raise CorpusError(f"{path}: no such file") from None
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise CorpusError(f"{path}: not a corpus (it is not text in UTF-8)") from None
    windows: list[Window] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                windows.append(_parsed(line))
            except (NotationError, CorpusError) as error:
                raise CorpusError(f"{path}:{number}: {error}") from None
            except RecursionError:
                raise CorpusError(f"{path}:{number}: nested too deeply") from None
    return tuple(windows)


def write_corpus(path: Path, windows: Iterable[Window], comment: str = "") -> None:
    """Write the windows to `path`, those with the largest share first, all or nothing. Raises OutputError.

    `comment` is put before them, with # before each of its lines.
    """
    ordered = sorted((-float(f"{window.share:.{_DIGITS}g}"), str(window)) for window in windows)
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    write_text(path, "".join(f"{line}\n" for line in [*lines, *(line for _, line in ordered)]))


def _parsed(line: str) -> Window:
    """Return the window on a line. Raises NotationError or CorpusError."""
    body, mark, about = line.rpartition(" ! ")
    if not mark:
        raise CorpusError('expected " ! count N; share S" behind the sizes')
    fields = _fields(about)
    reader = Reader(body)
    try:
        outputs = reader.terms()
        reader.take("@")
        signature = reader.signature()
        reader.end()
    except NotationError:
        raise
    except (ValueError, TypeError, AssertionError) as error:
        raise reader.error(str(error) or "not a window") from None
    weights = _names(fields, "weights")
    window = Window(
        outputs, _variables(outputs, signature, weights), _count(fields), _share(fields), _names(fields, "models")
    )
    if any(output.op == "Var" for output in outputs):
        raise CorpusError("an output is a variable")
    _ = window.terms
    return window


def _variables(outputs: tuple[Term, ...], signature: Signature, weights: tuple[str, ...]) -> tuple[WindowVariable, ...]:
    """Return the variables in the order in which the outputs mention them. Raises CorpusError."""
    used = [str(term.attr("name")) for term in topological(outputs) if term.op == "Var"]
    shapes, dtypes = dict(signature.shapes), dict(signature.dtypes)
    unknown = sorted(pattern_names(outputs)[1] | {name for name, _ in signature.attrs})
    if unknown:
        raise CorpusError(f"{unknown[0]} is a variable for an attribute; a window has numbers")
    if len(shapes) != len(signature.shapes):
        raise CorpusError("a variable has two shapes")
    for name in used:
        if name not in shapes:
            raise CorpusError(f"variable {name} has no shape")
    for name in (*shapes, *weights):
        if name not in used:
            raise CorpusError(f"the window has no variable {name}")
    found: list[WindowVariable] = []
    for name in used:
        sizes: list[Size] = [size for size in shapes[name] if size is not None and size > 0]
        if len(sizes) < len(shapes[name]):
            raise CorpusError(f"each size of {name} must be a positive number")
        found.append(WindowVariable(name, TensorType(dtypes.get(name, "float"), tuple(sizes)), name in weights))
    return tuple(found)


def _fields(about: str) -> dict[str, str]:
    """Return the fields behind "!" by name. Raises CorpusError."""
    found: dict[str, str] = {}
    for part in about.split(";"):
        name, _, value = part.strip().partition(" ")
        if name not in _FIELDS or name in found or not value.strip():
            raise CorpusError(
                f"expected {', '.join(_FIELDS[:-1])} or {_FIELDS[-1]} with a value, found {part.strip()!r}"
            )
        found[name] = value.strip()
    return found


def _names(fields: dict[str, str], field: str) -> tuple[str, ...]:
    names = tuple(fields[field].split(",")) if field in fields else ()
    for name in names:
        if not _LABEL.fullmatch(name) or names.count(name) > 1:
            raise CorpusError(f"{field}: expected names with commas between them, each once, found {fields[field]!r}")
    return names


def _count(fields: dict[str, str]) -> int:
    text = fields.get("count", "1")
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < 1:
        raise CorpusError(f"count: expected a number from 1, found {text!r}")
    return int(text)


def _share(fields: dict[str, str]) -> float:
    text = fields.get("share", "0")
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise CorpusError(f"share: expected a number from 0 to 1, found {text!r}")
    return share


def _need(relation: str, left: Size, right: Size) -> None:
    """Raise IllTyped if sizes contradict a condition; all sizes of a window are numbers."""
    if isinstance(left, int) and isinstance(right, int) and not (left == right if relation == "==" else left <= right):
        raise IllTyped(f"{left} {relation} {right} does not hold")
