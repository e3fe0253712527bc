"""The language in which grammars are written: variables, uses of operators, and families of them.

The graphs of a family are enumerated together. The grammars themselves are in `families/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from superopt.evaluate.residues import Shape
from superopt.ir.infer import make
from superopt.ir.operator import OPERATORS, IllTyped, Operator
from superopt.ir.term import Term

__all__ = [
    "CORPUS",
    "FOLDED",
    "Constant",
    "Family",
    "Use",
    "Variable",
    "inputs",
    "unary",
    "binary",
    "with_values",
    "concat",
    "transpose",
    "splits",
    "slices",
    "reduce_sum",
    "dirac",
    "zeros",
    "ones",
    "number",
    "axes",
    "reshape",
    "gather",
    "along",
    "reduce",
]

T = TypeVar("T")
Constant: TypeAlias = tuple[str, Mapping[str, Any]]
CORPUS = "corpus"  # name of the families of windows
FOLDED: Mapping[str, Any] = {"slots": ("w",), "run": False, "fold": True}  # keywords of a `Use` on weights alone


@dataclass(frozen=True)
class Variable:
    """An input of graphs. Variables of one role are interchangeable. A `weight` is constant at inference."""

    name: str
    shape: Shape
    role: str
    weight: bool = False
    dtype: str = "float"


@dataclass(frozen=True)
class Use:
    """One operator with its attributes, and the operands that it accepts.

    `slots` has an entry for each operand; the last entry also holds for all further operands. An entry "x" accepts
    values that depend on an input, "w" values of weights only ("w2": made by at most 2 operators), "*" both. "*!Add,b"
    excludes results of Add and the leaf b. Any other entry lists the accepted leaves, and operators whose results are
    accepted, separated by "|". `run`: the operator may run at inference. `fold`: it may be applied to weights alone.
    """

    op: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
    arities: tuple[int, ...] = (2,)
    slots: tuple[str, ...] = ("*",)
    run: bool = True
    fold: bool = False
    index: int | None = None  # number of the output (of several), or of the half (Slice)
    parts: int = 2  # number of outputs of a Split
    absent: int | None = None  # number of the input that is left out, which counts as no operand
    made: str = ""  # name of the results in slots, by default the operator's
    thin: bool = False  # True: may cut an axis of size 2 into parts of size 1, which broadcast

    @property
    def spec(self) -> Operator:
        """The operator's entry in the registry."""
        return OPERATORS[self.op]

    def accepts(self, slot: int, weight: bool, folded: int, made_by: str, leaf: str) -> bool:
        """Return True if a value may be operand number `slot`. `leaf` is its name, or empty if it is not a leaf."""
        wanted, _, refused = self.slots[min(slot, len(self.slots) - 1)].partition("!")
        if (made_by or leaf) in refused.split(","):
            return False
        if wanted in ("*", "x", "w"):
            return wanted == "*" or (wanted == "w") == weight
        if wanted[0] == "w" and wanted[1:].isdecimal():
            return weight and folded <= int(wanted[1:])
        return (made_by or leaf) in wanted.split("|")

    def term(self, inputs: Sequence[Term], shapes: tuple[Shape, ...]) -> Term:
        """Return the operator applied to terms. Raises IllTyped."""
        attrs = self.attributes(shapes)
        index = attrs.pop("index", None)
        term = make(self.op, self.placed(inputs), attrs)
        return term if index is None else term.out(index)

    def placed(self, operands: Sequence[T]) -> list[T | None]:
        """Return the operator's inputs: the operands, with None for the absent one."""
        places: list[T | None] = list(operands)
        if self.absent is not None:
            places.insert(self.absent, None)
        return places

    def attributes(self, shapes: tuple[Shape, ...]) -> dict[str, Any]:
        """Return all attributes at these operand shapes.

        A Split or Slice whose bounds are not given gets the bounds of equal parts of the axis.
        """
        attrs: dict[str, Any] = {**self.spec.defaults, **self.attrs}
        if self.op in ("Split", "Slice") and self.attrs.keys().isdisjoint(("split", "starts")):
            axis = attrs["axis"] if self.op == "Split" else attrs["axes"][0]
            size = shapes[0][axis] if -axis <= len(shapes[0]) else 0
            half = size // self.parts
            if half < 2 - self.thin:
                raise IllTyped("too narrow to be cut: a part of size 1 would broadcast")
            if self.op == "Split":
                attrs["split"] = (*(half,) * (self.parts - 1), size - half * (self.parts - 1))
            else:
                attrs["starts"], attrs["ends"] = ((0,), (half,)) if self.index == 0 else ((half,), (size,))
                attrs["steps"] = (1,)
        if self.index is not None and self.op != "Slice":
            attrs["index"] = self.index
        return attrs


@dataclass(frozen=True)
class Family:
    """A set of graphs that are enumerated together, given by variables, operators and bounds.

    `runtime` is the largest number of operators at inference, and `folded[k]` the largest number of folded operators in
    a graph with k operators at inference.
    """

    name: str
    variables: tuple[Variable, ...]
    uses: tuple[Use, ...]
    runtime: int
    folded: tuple[int, ...] = (0, 0, 0, 0, 0, 0)
    constants: tuple[Constant, ...] = ()
    shapes: frozenset[Shape] | None = None  # None: any up to `elements`
    elements: int = 32
    variation: str = ""  # kind of signatures to ship: see `superopt.generate.prove.shipped_signatures`
    # If the smallest graph of a class folds operators, also use an equal graph without folding as an operand.
    unfolded: bool = False
    split_axes: tuple[int, ...] = ()  # axes at which values are cut into halves, for rules of two outputs
    joint: str = ""  # operator whose outputs are wanted in one rule: see `conjectures.equal_pairs.joint`
    wave: int = 1  # derivations in a family may use the rules of earlier waves: small general rules come first
    optional: bool = False  # enumerated only if asked for by name
    neutral: int = 4  # largest number of operators at inference, on both sides in total, of a rule that saves nothing
    group: str = ""  # name by which several families are asked for
    parts: int = 1  # number of shards for the last level
    tiles: tuple[tuple[int, ...], ...] = ()  # of minimal filtering: see `conjectures.minimal_filtering`
    shifts: tuple[int, ...] = ()  # of the exponentials of Softmax: see `conjectures.softmax_shift`
    # Graphs, in the notation of rules, that other graphs are wanted for: see `conjectures.target_pairs`. Without
    # targets, all pairs of equal graphs are wanted.
    targets: tuple[str, ...] = ()
    phases: int = 0  # the targets after the first are its phases: elements that are this many apart along image axes
    reals: bool = False  # graphs are compared at real numbers: see `conjectures.reals`
    # Terms of operators whose own equations are wanted as rules or, with targets, that the targets are equal to.
    definitions: tuple[str, ...] = ()
    most: int = 0  # largest number of graphs on a level of a family with targets; a larger level is not enumerated

    @property
    def origin(self) -> str:
        """The source of the family: the grammar, or a corpus of windows cut out of models."""
        return CORPUS if self.name == CORPUS else "grammar"

    @property
    def is_written_function(self) -> bool:
        """True for a window and the functions that it may write out: see `conjectures.written_functions`."""
        return bool(self.targets and self.definitions)

    @property
    def states_meanings(self) -> bool:
        """True for the equations that define operators."""
        return bool(self.definitions) and not self.targets

    @property
    def is_found_whole(self) -> bool:
        """True for forms in which models write a function out: a search must find the rule of each in one step.

        A step on the way to another form gains nothing: the runtime fuses what is written, or layers share parts of it.
        """
        return bool(self.targets) and (self.is_written_function or self.variation == "attention")

    @property
    def is_elementwise(self) -> bool:
        """True if the operators act on single elements, so that the rules hold at all ranks alike."""
        return self.variation in ("elementwise", "pointwise")

    @property
    def is_window(self) -> bool:
        """True for a window of a model and graphs that may replace it, which have the window's ranks only."""
        return bool(self.targets) and not self.is_found_whole

    def admits(self, shape: Shape) -> bool:
        """Return True if graphs of this shape are built."""
        if self.shapes is not None:
            return shape in self.shapes
        return 0 < _elements(shape) <= self.elements


def _elements(shape: Shape) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def inputs(
    names: str, shape: Shape, role: str = "", weight: bool = False, dtype: str = "float"
) -> tuple[Variable, ...]:
    """Return variables of one type and role, weights or not."""
    return tuple(Variable(name, shape, role or names.split()[0], weight, dtype) for name in names.split())


def unary(names: str, **kinds: Any) -> tuple[Use, ...]:
    """Return operators of one operand."""
    return tuple(Use(name, arities=(1,), **kinds) for name in names.split())


def binary(names: str, **kinds: Any) -> tuple[Use, ...]:
    """Return operators of two operands."""
    return tuple(Use(name, **kinds) for name in names.split())


def with_values(op: str, name: str, *values: Any, slots: tuple[str, ...] = ("*",), **others: Any) -> tuple[Use, ...]:
    """Return an operator of one operand with each value of an attribute, and the same other attributes."""
    return tuple(Use(op, {name: value, **others}, (1,), slots) for value in values)


def concat(*axes: int, **kinds: Any) -> tuple[Use, ...]:
    """Return Concat of two operands along each axis."""
    return tuple(Use("Concat", {"axis": axis}, **kinds) for axis in axes)


def transpose(*perms: tuple[int, ...], **kinds: Any) -> tuple[Use, ...]:
    """Return Transpose by each permutation."""
    return tuple(Use("Transpose", {"perm": perm}, (1,), **kinds) for perm in perms)


def splits(*axes: int, parts: int = 2, **kinds: Any) -> tuple[Use, ...]:
    """Return all parts of a Split along each axis."""
    return tuple(
        Use("Split", {"axis": axis}, (1,), index=k, parts=parts, **kinds) for axis in axes for k in range(parts)
    )


def slices(*axes: int, **kinds: Any) -> tuple[Use, ...]:
    """Return the Slices for both halves along each axis."""
    return tuple(Use("Slice", {"axes": (axis,)}, (1,), index=k, **kinds) for axis in axes for k in (0, 1))


def cut(axis: int, start: int, end: int, slots: tuple[str, ...] = ("x",)) -> Use:
    """Return the Slice of the elements from `start` to `end` along an axis."""
    return Use("Slice", {"axes": (axis,), "starts": (start,), "ends": (end,), "steps": (1,)}, (1,), slots)


def reduce_sum(*axes: tuple[int, ...], keepdims: tuple[int, ...] = (0, 1), **kinds: Any) -> tuple[Use, ...]:
    """Return ReduceSum over each set of axes."""
    return tuple(Use("ReduceSum", {"axes": a, "keepdims": k}, (1,), **kinds) for a in axes for k in keepdims)


def dirac(group: int, *shape: int) -> Constant:
    """Return the kernel with which Conv is the identity."""
    return ("Dirac", {"group": group, "shape": shape})


def zeros(*shape: int) -> Constant:
    """Return a tensor of zeros."""
    return ("Zeros", {"shape": shape})


def ones(*shape: int) -> Constant:
    """Return a tensor of ones."""
    return ("Ones", {"shape": shape})


def number(value: float) -> Constant:
    """Return one real number."""
    return ("ConstantOfShape", {"shape": (), "value": value})


def axes(op: str, *axes: tuple[int, ...], **kinds: Any) -> tuple[Use, ...]:
    """Return Unsqueeze or Squeeze at each set of axes."""
    return tuple(Use(op, {"axes": a}, (1,), **kinds) for a in axes)


def reshape(*shapes: Shape, slots: tuple[str, ...] = ("x",)) -> tuple[Use, ...]:
    """Return Reshape to each shape."""
    return tuple(Use("Reshape", {"shape": shape}, (1,), slots) for shape in shapes)


def gather(axis: int, *indices: int | tuple[int, ...], slots: tuple[str, ...] = ("x",)) -> tuple[Use, ...]:
    """Return Gather of each of these indices along an axis."""
    return tuple(Use("Gather", {"axis": axis, "indices": some}, (1,), slots) for some in indices)


def along(names: str, *slots: str, axis: int = -1) -> tuple[Use, ...]:
    """Return functions of one operand along an axis."""
    return tuple(Use(name, {"axis": axis}, (1,), slots) for name in names.split())


def reduce(names: str, over: tuple[int, ...], keepdims: int, *slots: str) -> tuple[Use, ...]:
    """Return reductions over these axes."""
    return tuple(Use(f"Reduce{name}", {"axes": over, "keepdims": keepdims}, (1,), slots) for name in names.split())
