"""The operators that right sides of a window may need besides the window's own: one function for each reason.

Each function reads the window's operators, of any sizes, and returns operators with the attributes that go with them.
What they may compute together is found by the enumeration.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from superopt.generate.grammar import FOLDED, Constant, Use
from superopt.ir.term import Attr, Term, topological
from superopt.properties import is_linear_product, joins, reduces

__all__ = ["RELATIONS", "View", "attribute", "shape_of"]

_DATA = ("x",)
_MAX_PADS = 81  # combinations of pads of a Conv's phases
_MAX_RANK = 4  # of operands of an Einsum whose axes are permuted


@dataclass(frozen=True)
class View:
    """A window's typed outputs, and the terms that are constant at inference."""

    outputs: tuple[Term, ...]
    weights: frozenset[Term]

    @property
    def operators(self) -> list[Term]:
        """The operators that run at inference, operands first."""
        return [t for t in topological(self.outputs) if t.inputs and t.op != "Out" and t not in self.weights]

    def named(self, *ops: str) -> list[Term]:
        """Return the operators with one of these names."""
        return [term for term in self.operators if term.op in ops]

    def windowed(self) -> list[Term]:
        """Return the operators with a window that moves along image axes: convolutions and pooling."""
        return [term for term in self.operators if "strides" in dict(term.attrs) and term.op != "ConvTranspose"]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of all values that are not weights."""
        found = [shape_of(t) for t in topological(self.outputs) if t not in self.weights and len(t.types) == 1]
        return list(dict.fromkeys(found))


def shape_of(term: Term) -> tuple[int, ...]:
    """Return the concrete shape."""
    shape = None if term.type is None else term.type.concrete()
    assert shape is not None
    return shape


def attribute(term: Term, name: str) -> tuple[int, ...]:
    """Return a list of integers among the attributes; one integer is a list of one."""
    value = term.attr(name)
    return tuple(v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, int))


def _like(term: Term, **changed: Attr) -> Use:
    """Return the use of an operator with some attributes changed: inputs are values, all else weights or values."""
    slots = tuple("w" if k else "x" for k in range(len(term.inputs)))
    return Use(term.op, {**dict(term.attrs), **changed}, (len(term.inputs),), slots)


def rows_and_columns(view: View) -> Iterator[Use]:
    """Yield pooling along each image axis alone: a maximum or mean over a window is one over its rows' results."""
    for term in view.windowed():
        if reduces(term.op) and not is_linear_product(term.op) and "kernel_shape" in dict(term.attrs):
            axes = len(attribute(term, "kernel_shape"))
            for axis in range(axes) if axes > 1 else ():
                changed: dict[str, Attr] = {}
                for name, plain in (("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("pads", 0)):
                    values = attribute(term, name)
                    changed[name] = tuple(v if k % axes == axis else plain for k, v in enumerate(values))
                yield _like(term, **changed)


def composed_windows(view: View) -> Iterator[Use]:
    """Yield pooling with windows that make one of the window's from another: pooling twice adds up the windows."""
    pools = [t for t in view.windowed() if "kernel_shape" in dict(t.attrs) and set(attribute(t, "strides")) == {1}]
    for one, other in itertools.permutations(pools, 2):
        if one.op != other.op or len(attribute(one, "kernel_shape")) != len(attribute(other, "kernel_shape")):
            continue
        for sign in (1, -1):
            kernel = tuple(
                k + sign * (m - 1)
                for k, m in zip(attribute(one, "kernel_shape"), attribute(other, "kernel_shape"), strict=True)
            )
            pads = tuple(p + sign * q for p, q in zip(attribute(one, "pads"), attribute(other, "pads"), strict=True))
            if min(kernel) > 0 and min(pads) >= 0 and max(kernel) > 1:
                yield _like(one, kernel_shape=kernel, pads=pads)


def raised_rank(view: View) -> Iterator[Use]:
    """Yield a convolution or pooling of images of one row for one of sequences: runtimes are faster on images."""
    found = False
    for term in view.windowed():
        if len(attribute(term, "strides")) != 1:
            continue
        found = True
        changed: dict[str, Attr] = {}
        for name, plain in (("kernel_shape", 1), ("strides", 1), ("dilations", 1)):
            if name in dict(term.attrs):
                changed[name] = (plain, *attribute(term, name))
        begin, end = attribute(term, "pads")
        yield _like(term, **changed, pads=(0, begin, 0, end))
    if found:
        yield Use("Unsqueeze", {"axes": (-2,)}, (1,), _DATA)
        yield Use("Unsqueeze", {"axes": (-2,)}, (1,), **FOLDED)
        yield Use("Squeeze", {"axes": (-2,)}, (1,), _DATA)


def merged_blocks(view: View) -> Iterator[Use]:
    """Yield convolutions of larger strides for those of blocks of elements: SpaceToDepth, or Slices and Concat."""
    blocks = {attribute(term, "blocksize")[0] for term in view.named("SpaceToDepth")}
    blocks |= {max(attribute(term, "steps")) for term in view.named("Slice")} - {1}
    for block in sorted(blocks):
        for term in view.named("Conv"):
            strides, pads = attribute(term, "strides"), attribute(term, "pads")
            if len(strides) == 2 and set(attribute(term, "dilations")) == {1}:
                yield _like(term, strides=tuple(block * s for s in strides), pads=tuple(block * p for p in pads))
                for mode in ("DCR", "CRD"):
                    yield Use("DepthToSpace", {"blocksize": block, "mode": mode}, (1,), **FOLDED)
                yield Use("Transpose", {"perm": (0, 1, 3, 2)}, (1,), **FOLDED)
                yield Use("SpaceToDepth", {"blocksize": block}, (1,), _DATA)


def pooled_kernels(view: View) -> Iterator[Use]:
    """Yield convolutions of a kernel's sums over blocks, for those of repeated elements: taps of one element add up."""
    for resize in view.named("Resize"):
        scales = attribute(resize, "scales")
        for term in view.named("Conv"):
            strides, pads = attribute(term, "strides"), attribute(term, "pads")
            if len(strides) != 2 or len(scales) < 2 or max(scales[-2:]) < 2 or scales[-1] != scales[-2]:
                continue
            block = scales[-1]
            choices = list(itertools.product(*(range(p + 1) for p in pads)))
            for some in choices if 1 < len(choices) <= _MAX_PADS else ():
                yield _like(term, pads=some)
            for some in itertools.product(range(block), repeat=4):
                attrs = {"count_include_pad": 1, "dilations": (1, 1), "kernel_shape": (block, block), "pads": some}
                keywords = {**FOLDED, "slots": ("w0",)}
                yield Use("AveragePool", {**attrs, "strides": (block, block)}, (1,), **keywords)
            keywords = {**FOLDED, "slots": ("w", "ConstantOfShape")}
            yield Use("Mul", {}, (2,), **keywords)


def pooled_constants(view: View) -> Iterator[Constant]:
    """Yield the number of taps of a pooled kernel: a sum is a mean times it."""
    for use in pooled_kernels(view):
        if use.op == "AveragePool":
            yield ("ConstantOfShape", {"shape": (), "value": float(math.prod(use.attrs["kernel_shape"]))})
            return


def split_weights(view: View) -> Iterator[Use]:
    """Yield the parts of a product's weight that belong to the parts of a Concat, and the sum of their products."""
    ends = [
        (shape_of(part)[axis], sizes[axis])
        for join in view.operators
        if joins(join.op) and "axis" in dict(join.attrs)
        for sizes, axis in [(shape_of(join), attribute(join, "axis")[0])]
        for part in join.inputs[:1]
        if part is not None
    ]
    if not ends or not any(is_linear_product(term.op) for term in view.operators):
        return
    yield Use("Add", {}, (2,), _DATA)
    for weight in dict.fromkeys(w for t in view.operators for w in t.inputs if w in view.weights and w is not None):
        sizes = shape_of(weight)
        for (part, whole), axis in itertools.product(dict.fromkeys(ends), range(len(sizes))):
            if sizes[axis] == whole:
                for start, end in ((0, part), (part, whole)):
                    attrs = {"axes": (axis,), "starts": (start,), "ends": (end,), "steps": (1,)}
                    yield Use("Slice", attrs, (1,), **FOLDED)


def moved_selection(view: View) -> Iterator[Use]:
    """Yield a selection of the window along every axis, because operators before it may have it along another axis."""
    for term in view.named("Slice", "Gather"):
        rank = max(len(shape) for shape in view.shapes)
        name = "axes" if term.op == "Slice" else "axis"
        own = attribute(term, name)
        if len(own) != 1:
            continue
        for axis in range(-rank, 0) if own[0] < 0 else range(rank):
            moved: Attr = (axis,) if name == "axes" else axis
            yield Use(term.op, {**dict(term.attrs), name: moved}, (1,), _DATA)
            yield Use(term.op, {**dict(term.attrs), name: moved}, (1,), **FOLDED)
        if name == "axis" and not isinstance(
            term.attr("indices"), tuple
        ):  # Gather of one index: a Slice of one element
            (index,) = attribute(term, "indices")
            for axis in range(-rank, 0) if index >= 0 else ():
                attrs = {"axes": (axis,), "starts": (index,), "ends": (index + 1,), "steps": (1,)}
                yield Use("Slice", attrs, (1,), _DATA)
            yield Use("Squeeze", {"axes": own}, (1,), _DATA)


def einsum_as_product(view: View) -> Iterator[Use]:
    """Yield MatMul with permuted operands and merged axes for Einsum: it is a product of matrices in another order."""
    for term in view.named("Einsum"):
        yield Use("MatMul", slots=("*", "*"))
        ranks = {len(shape_of(i)) for i in term.inputs if i is not None} | {len(shape_of(term))}
        for rank in sorted(ranks):
            for perm in itertools.permutations(range(rank)) if 1 < rank <= _MAX_RANK else ():
                if perm != tuple(range(rank)):
                    yield Use("Transpose", {"perm": perm}, (1,), ("x!Transpose",))
                    yield Use("Transpose", {"perm": perm}, (1,), **FOLDED)
        for weight in (i for i in term.inputs if i in view.weights and i is not None):
            yield from (Use("Reshape", {"shape": s}, (1,), **FOLDED) for s in _merged(shape_of(weight)))
        yield Use("Reshape", {"shape": shape_of(term)}, (1,), _DATA)
        for value in (i for i in term.inputs if i not in view.weights and i is not None):
            yield from (Use("Reshape", {"shape": s}, (1,), _DATA) for s in _merged(shape_of(value)))


def _merged(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the shapes with two neighbouring axes made one."""
    for k in range(len(shape) - 1) if len(shape) > 2 else ():
        yield (*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :])


RELATIONS: tuple[Callable[[View], Iterator[Use]], ...] = (
    rows_and_columns,
    composed_windows,
    raised_rank,
    merged_blocks,
    pooled_kernels,
    split_weights,
    moved_selection,
    einsum_as_product,
)
