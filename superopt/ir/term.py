"""Terms: ONNX operators applied to terms. Terms are immutable and interned, so equal terms are identical (`is`).

An operator with several outputs (Split) is one term, and each output is an `Out[index=i]` term over it. Every other
operator is its own single output. The leaves are:

- `Var`: a graph input, or a variable of a rule;
- `Const`: a weight, named by the hash of its bytes;
- closed-form constants: `Zeros`, `Ones`, `Eye` (identity matrix), `Dirac` (the kernel that makes Conv the identity),
  `ConstantOfShape` (one value everywhere), `Constant` (a few numbers, written out), `Range` (start + k * delta).
"""

from __future__ import annotations

import hashlib
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, Union

from superopt.ir.dim import Dim
from superopt.ir.types import TensorType

__all__ = [
    "Attr",
    "AttrVar",
    "CLOSED_FORM",
    "Term",
    "Types",
    "equal_attr",
    "map_terms",
    "node_of",
    "output_index",
    "rebuild",
    "repr_attrs",
    "topological",
    "values_of",
    "var",
]


@dataclass(frozen=True)
class AttrVar:
    """A variable of a rule for a whole attribute value."""

    name: str

    def __str__(self) -> str:
        return self.name


Attr: TypeAlias = Union[int, float, str, Dim, AttrVar, tuple["Attr", ...]]
Types: TypeAlias = tuple[Union[TensorType, None], ...]

CLOSED_FORM = frozenset({"Constant", "ConstantOfShape", "Dirac", "Eye", "Ones", "Range", "Zeros"})

# Operators whose results never count as constants. Runtimes have integer kernels for products of dequantized weights,
# which must therefore stay integers in the file; and the rounding of a quantized number is the runtime's own.
_AT_INFERENCE = frozenset({"DequantizeLinear", "QuantizeLinear"})


class Term:
    """An interned operator application; create with `superopt.ir.infer.make`, `var` or `Term.of`.

    `attrs` is sorted by name and complete (defaults filled in). `types` has one entry per output, None if the type
    is not known. In the patterns of rules types are never known.
    """

    __slots__ = ("op", "inputs", "attrs", "types", "is_constant", "_digest", "__weakref__")
    op: str
    inputs: tuple[Term | None, ...]
    attrs: tuple[tuple[str, Attr], ...]
    types: Types
    is_constant: bool
    _digest: str | None

    _interned: ClassVar[weakref.WeakValueDictionary[object, Term]] = weakref.WeakValueDictionary()

    @staticmethod
    def of(op: str, inputs: Iterable[Term | None], attrs: Mapping[str, Attr], types: Types = (None,)) -> Term:
        """Return the interned term with these parts. `types` is not checked (`superopt.ir.infer.make` infers it)."""
        return Term._of(op, tuple(inputs), tuple(sorted(attrs.items())) if attrs else (), types)

    def over(self, inputs: Iterable[Term | None]) -> Term:
        """Return the same operator, with the same attributes and types, applied to `inputs`."""
        return Term._of(self.op, tuple(inputs), self.attrs, self.types)

    @staticmethod
    def _of(op: str, inputs: tuple[Term | None, ...], attrs: tuple[tuple[str, Attr], ...], types: Types) -> Term:
        """Return the interned term with these parts; `attrs` is sorted."""
        key = (op, inputs, tuple([(name, _distinct(value)) for name, value in attrs]) if attrs else (), types)
        found = Term._interned.get(key)
        if found is not None:
            return found
        term = object.__new__(Term)
        term.op, term.inputs, term.attrs, term.types, term._digest = op, inputs, attrs, types, None
        leaf = op == "Const" or op in CLOSED_FORM
        # An operator that draws random numbers or has state has the attribute `node`: it is never merged or folded.
        term.is_constant = leaf or (
            bool(inputs)
            and op not in _AT_INFERENCE
            and all(i is None or i.is_constant for i in inputs)
            and all(name != "node" for name, _ in attrs)
        )
        Term._interned[key] = term
        return term

    @property
    def type(self) -> TensorType | None:
        """The type of the first output."""
        return self.types[0]

    def attr(self, name: str) -> Attr:
        """Return the attribute called `name`. Raises KeyError if there is none."""
        for key, value in self.attrs:
            if key == name:
                return value
        raise KeyError(f"{self.op} has no attribute {name}")

    def out(self, index: int) -> Term:
        """Return output `index` of an operator with several outputs, as a term."""
        types = (self.types[index],) if index < len(self.types) else (None,)
        return Term.of("Out", (self,), {"index": index}, types)

    @property
    def digest(self) -> str:
        """The content hash (128 bits, hexadecimal), the same in every process and on every machine."""
        stack = [self] if self._digest is None else []
        while stack:  # without recursion; terms below a known digest are not visited again
            term = stack[-1]
            if waiting := [i for i in term.inputs if i is not None and i._digest is None]:
                stack += waiting
                continue
            stack.pop()
            parts = [term.op, repr_attrs(term.attrs), ";".join(map(str, term.types))]
            parts += ["-" if i is None else i._digest or "" for i in term.inputs]
            term._digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
        assert self._digest is not None
        return self._digest

    def __repr__(self) -> str:
        return f"<{self.op} {self.digest[:8]}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (Term.of, (self.op, self.inputs, dict(self.attrs), self.types))

    def __lt__(self, other: Term) -> bool:
        return self.digest < other.digest


def _distinct(value: Attr) -> Attr:
    """Return the value, or the text "-0.0" for -0.0, which would compare equal to 0.0."""
    return "-0.0" if isinstance(value, float) and value == 0 and math.copysign(1, value) < 0 else value


def equal_attr(one: Attr, other: Attr) -> bool:
    """Return True if two attribute values are the same; 0.0 and -0.0 are not."""
    if isinstance(one, float) and isinstance(other, float) and one == 0:
        return other == 0 and math.copysign(1, one) == math.copysign(1, other)
    return one == other


def repr_attrs(attrs: Iterable[tuple[str, Attr]]) -> str:
    """Return attributes as stable text; floats print by `repr`, which round-trips."""
    return ", ".join(f"{name}={_repr_attr(value)}" for name, value in attrs)


def _repr_attr(value: Attr) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_repr_attr, value)) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value) if isinstance(value, float) else str(value)


def var(name: str, type: TensorType | None = None) -> Term:
    """Return a graph input or, without a type, a variable of a rule."""
    return Term.of("Var", (), {"name": name}, (type,))


def node_of(value: Term) -> Term:
    """Return the operator that computes a value: the value itself, or the operator that an `Out` term belongs to."""
    if value.op != "Out":
        return value
    (node,) = value.inputs
    assert node is not None
    return node


def output_index(value: Term) -> int:
    """Return the index of a value among the outputs of the operator that computes it."""
    index = value.attr("index") if value.op == "Out" else 0
    assert isinstance(index, int)
    return index


def values_of(node: Term) -> tuple[Term, ...]:
    """Return the values that an operator computes: the operator itself, or an `Out` term for each of its outputs."""
    return (node,) if len(node.types) == 1 else tuple(node.out(k) for k in range(len(node.types)))


def topological(roots: Iterable[Term]) -> Iterator[Term]:
    """Yield every term below `roots` once, inputs before users, in a fixed order, without recursion."""
    done: set[Term] = set()
    for root in roots:
        stack = [root]
        while stack:
            term = stack[-1]
            if term in done:
                stack.pop()
            elif waiting := [i for i in term.inputs[::-1] if i is not None and i not in done]:
                stack += waiting
            else:
                stack.pop()
                done.add(term)
                yield term


def map_terms(roots: Iterable[Term], make: Callable[[Term, tuple[Term | None, ...]], Term]) -> tuple[Term, ...]:
    """Rebuild `roots` from the leaves up: every term becomes `make(old, new_inputs)`."""
    roots = tuple(roots)
    done: dict[Term, Term] = {}
    for term in topological(roots):
        done[term] = make(term, tuple(None if i is None else done[i] for i in term.inputs))
    return tuple(done[root] for root in roots)


def rebuild(
    roots: Iterable[Term],
    replaced: Mapping[Term, Term],
    make: Callable[[Term, tuple[Term | None, ...]], Term],
) -> tuple[Term, ...]:
    """Replace each key of `replaced` in `roots` by its value; the terms above become `make(old, new_inputs)`.

    Values are not searched for keys again, so a value may contain its key.
    """
    new: dict[Term, Term] = dict(replaced)
    roots = tuple(roots)
    stack = list(reversed(roots))
    while stack:
        term = stack[-1]
        if term in new:
            stack.pop()
            continue
        missing = [i for i in term.inputs if i is not None and i not in new]
        if missing:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        inputs = tuple(None if i is None else new[i] for i in term.inputs)
        new[term] = term if inputs == term.inputs else make(term, inputs)
    return tuple(new[root] for root in roots)
