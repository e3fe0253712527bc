"""What each operator means: the scalar at an index of its output, from the scalars of its inputs.

One function an operator, in the notation of the ONNX specification (the operator's page is the source of each
formula). Shapes come from `superopt.ir.shapes`. Everything else in the kernel is derived from these definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

from superopt.ir.dim import Size, Sizes, floor_div
from superopt.ir.term import AttrVar, Term
from verify.algebra import Algebra, Guard, at_least, below, equal

__all__ = ["SEMANTICS", "Meaning", "NoSemantics", "Operand"]


class NoSemantics(ValueError):
    """The kernel does not know what this operator means."""

    def __init__(self, op: str) -> None:
        super().__init__(f"no semantics for {op}")


@dataclass(frozen=True)
class Operand:
    """An input of an operator: its shape, and its scalar at an index."""

    shape: Sizes
    at: Callable[..., Any]


Definition: TypeAlias = Callable[[Algebra, list[Any], Mapping[str, Any], Sizes, Sizes], Any]
ONE, MINUS_ONE = Fraction(1), Fraction(-1)


def _number(algebra: Algebra, value: Any) -> Any:
    return algebra.real(value.name) if isinstance(value, AttrVar) else algebra.constant(Fraction(value))


def _negative(algebra: Algebra, value: Any) -> Any:
    return algebra.multiply(algebra.constant(MINUS_ONE), value)


def _broadcast(x: Operand, index: Sizes) -> Any:
    """x[..., i], aligned at the last axis; an axis of size 1 is read at 0."""
    own = index[len(index) - len(x.shape) :]
    return x.at(*(0 if size == 1 else i for size, i in zip(x.shape, own, strict=True)))


def _inside(index: Size, start: Size, end: Size) -> list[Guard]:
    return [at_least(index, start), below(index, end)]


def _zeros(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return g.constant(Fraction(0))


def _ones(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return g.constant(ONE)


def _eye(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """1 where row = column, else 0."""
    return g.where([equal(i[0], i[1])], lambda: g.constant(ONE))


def _dirac(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """1 at input channel o mod (channels a group) and at the centre (k - 1) // 2 of every kernel axis, else 0."""
    out, channel, *window = i
    centre = [equal(k, floor_div(size - 1, 2)) for k, size in zip(window, shape[2:], strict=True)]
    own = out if attrs["group"] == 1 else out - floor_div(out, shape[1]) * shape[1]
    return g.where([equal(channel, own), *centre], lambda: g.constant(ONE))


def _add(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Add and Sum: sum of all operands."""
    return g.add(*(_broadcast(x, i) for x in xs))


def _sub(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return g.add(_broadcast(xs[0], i), _negative(g, _broadcast(xs[1], i)))


def _mul(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return g.multiply(_broadcast(xs[0], i), _broadcast(xs[1], i))


def _neg(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return _negative(g, xs[0].at(*i))


def _identity(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return xs[0].at(*i)


def _function(name: str) -> Definition:
    return lambda g, xs, attrs, shape, i: g.apply(name, xs[0].at(*i))


def _matmul(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """sum_k a[..., m, k] * b[..., k, n]; batch axes broadcast; a vector operand has its axis as k (numpy.matmul)."""
    a, b = xs
    rest = list(i)
    n = [rest.pop()] if len(b.shape) > 1 else []
    m = [rest.pop()] if len(a.shape) > 1 else []

    def batch(x: Operand) -> list[Size]:
        own = x.shape[:-2]
        return [0 if size == 1 else j for size, j in zip(own, rest[len(rest) - len(own) :], strict=True)]

    return g.summation(a.shape[-1], lambda k: g.multiply(a.at(*batch(a), *m, k), b.at(*batch(b), k, *n)))


def _gemm(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """alpha * sum_k A'[m, k] * B'[k, n] + beta * C[m, n], with A' = A or its transpose, C broadcast to [M, N]."""
    a, b, *c = xs
    m, n = i
    inner = a.shape[0] if attrs["transA"] else a.shape[1]

    def term(k: Size) -> Any:
        left = a.at(k, m) if attrs["transA"] else a.at(m, k)
        return g.multiply(left, b.at(n, k) if attrs["transB"] else b.at(k, n))

    total = g.multiply(_number(g, attrs["alpha"]), g.summation(inner, term))
    if c and c[0] is not None:
        total = g.add(total, g.multiply(_number(g, attrs["beta"]), _broadcast(c[0], i)))
    return total


def _concat(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x_j[i - offset_j] where offset_j <= i < offset_j + size_j along the axis."""
    axis = attrs["axis"] % len(shape)
    parts: list[Any] = []
    offset: Size = 0
    for x in xs:
        own = (*i[:axis], i[axis] - offset, *i[axis + 1 :])
        parts.append(g.where(_inside(own[axis], 0, x.shape[axis]), partial(x.at, *own)))
        offset = offset + x.shape[axis]
    return g.add(*parts)


def _split(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Output j is x[i + split_0 + ... + split_(j-1)] along the axis (j comes as attribute `index`)."""
    axis, offset = attrs["axis"] % len(shape), 0
    for size in attrs["split"][: attrs["index"]]:
        offset = offset + size
    return xs[0].at(*i[:axis], i[axis] + offset, *i[axis + 1 :])


def _slice(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x[start + i * step] along each named axis."""
    own = list(i)
    for axis, start, step in zip(attrs["axes"], attrs["starts"], attrs["steps"], strict=True):
        own[axis] = start + own[axis] * step
    return xs[0].at(*own)


def _transpose(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Output axis d is input axis perm[d]."""
    own = list(i)
    for d, p in enumerate(attrs["perm"]):
        own[p] = i[d]
    return xs[0].at(*own)


def _pad(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x[i - begin] inside x, `value` elsewhere; negative pads crop."""
    x, value, pads = xs[0], attrs["value"], attrs["pads"]
    begins, ends = pads[: len(i)], pads[len(i) :]
    own = tuple(j - begin for j, begin in zip(i, begins, strict=True))
    # Where an axis is not padded, every index of the output is inside.
    padded = [d for d, pair in enumerate(zip(begins, ends, strict=True)) if pair != (0, 0)]
    inside = [guard for d in padded for guard in _inside(own[d], 0, x.shape[d])]
    body = g.where(inside, lambda: x.at(*own))
    if value == 0:
        return body
    fill = _number(g, value)
    return g.add(body, fill, _negative(g, g.where(inside, lambda: fill)))


def _unsqueeze(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """The new axes' indices are dropped."""
    new = {axis % len(shape) for axis in attrs["axes"]}
    return xs[0].at(*(j for d, j in enumerate(i) if d not in new))


def _squeeze(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """The removed axes are read at 0."""
    removed, rest = {axis % len(xs[0].shape) for axis in attrs["axes"]}, iter(i)
    return xs[0].at(*(0 if d in removed else next(rest) for d in range(len(xs[0].shape))))


def _reduce_sum(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Sum over the named axes."""
    x = xs[0]
    axes, keep = {axis % len(x.shape) for axis in attrs["axes"]}, attrs["keepdims"]
    rest = iter(j for d, j in enumerate(i) if not (keep and d in axes))
    index: list[Size | None] = [None if d in axes else next(rest) for d in range(len(x.shape))]

    def over(d: int, done: tuple[Size, ...]) -> Any:
        if d == len(index):
            return x.at(*done)
        own = index[d]
        if own is None:
            return g.summation(x.shape[d], lambda k: over(d + 1, (*done, k)))
        return over(d + 1, (*done, own))

    return over(0, ())


def _conv(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """sum_(c, k) x[n, group(o) * Cg + c, s*p + d*k - pad] * w[o, c, k] + b[o], x taken as 0 outside its bounds.

    Cg = w.shape[1] is the number of input channels a group; group(o) = o // (O / group).
    """
    x, w, *bias = xs
    n, o, *place = i
    group, channels = attrs["group"], w.shape[1]
    first = 0 if group == 1 else floor_div(o, floor_div(w.shape[0], group)) * channels

    def over(d: int, source: tuple[Size, ...], window: tuple[Size, ...], c: Size) -> Any:
        if d == len(place):
            inside = [guard for j, size in zip(source, x.shape[2:], strict=True) for guard in _inside(j, 0, size)]
            return g.where(inside, lambda: g.multiply(x.at(n, first + c, *source), w.at(o, c, *window)))

        def step(k: Size) -> Any:
            own = place[d] * attrs["strides"][d] + k * attrs["dilations"][d] - attrs["pads"][d]
            return over(d + 1, (*source, own), (*window, k), c)

        return g.summation(w.shape[2 + d], step)

    total = g.summation(channels, lambda c: over(0, (), (), c))
    return g.add(total, bias[0].at(o)) if bias and bias[0] is not None else total


def _batch_normalization(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """(x - mean[c]) * scale[c] / sqrt(var[c] + epsilon) + B[c]."""
    x, scale, offset, mean, var = xs
    c = i[1]
    spread = g.apply("rsqrt", g.add(var.at(c), _number(g, attrs["epsilon"])))
    centred = g.add(x.at(*i), _negative(g, mean.at(c)))
    return g.add(g.multiply(g.multiply(centred, scale.at(c)), spread), offset.at(c))


SEMANTICS: Mapping[str, Definition] = {
    "Zeros": _zeros,
    "Ones": _ones,
    "Eye": _eye,
    "Dirac": _dirac,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Add": _add,
    "Sum": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Neg": _neg,
    "Identity": _identity,
    "Relu": _function("relu"),
    "Sigmoid": _function("sigmoid"),
    "Tanh": _function("tanh"),
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Transpose": _transpose,
    "Pad": _pad,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "ReduceSum": _reduce_sum,
    "Conv": _conv,
    "BatchNormalization": _batch_normalization,
}


class Meaning:
    """Scalars of typed terms in one algebra, each (term, index) computed once."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self._known: dict[tuple[Term, Sizes], Any] = {}

    def scalar(self, term: Term, index: Sizes) -> Any:
        """The scalar of `term` at `index` (one entry an axis). Raises NoSemantics."""
        key = (term, index)
        if key not in self._known:
            self._known[key] = self._define(term, index)
        return self._known[key]

    def _define(self, term: Term, index: Sizes) -> Any:
        if term.op == "Var":
            return self.algebra.access(str(term.attr("name")), index)
        node, extra = term, {}
        if term.op == "Out":
            (inner,) = term.inputs
            assert inner is not None
            node, extra = inner, {"index": term.attr("index")}
        if node.op not in SEMANTICS:
            raise NoSemantics(node.op)
        operands = [None if x is None else self._operand(x) for x in node.inputs]
        return SEMANTICS[node.op](self.algebra, operands, {**dict(node.attrs), **extra}, _shape(term), index)

    def _operand(self, term: Term) -> Operand:
        return Operand(_shape(term), lambda *index: self.scalar(term, tuple(index)))


def _shape(term: Term) -> Sizes:
    if term.type is None or term.type.shape is None:
        raise NoSemantics(f"{term.op} of unknown shape")
    return term.type.shape
