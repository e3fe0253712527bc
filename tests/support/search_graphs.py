"""Graphs for the tests of the search: the blocks of the networks that it is made for, small."""

from __future__ import annotations

import itertools

from superopt.ir.infer import make
from superopt.ir.term import Attr, Term, topological, var
from superopt.ir.types import tensor


class Graphs:
    """Builds graphs over constants c1, c2, ..."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def const(self, *shape: int) -> Term:
        """A new weight."""
        return Term.of("Const", (), {"hash": f"c{next(self._numbers)}"}, (tensor(*shape),))

    def conv(self, x: Term, kernel: int, channels: int, group: int = 1, stride: int = 1) -> Term:
        """A Conv without bias that keeps the size at stride 1."""
        assert x.type is not None and x.type.shape is not None and isinstance(x.type.shape[1], int)
        weight = self.const(channels, x.type.shape[1] // group, kernel, kernel)
        pads = (kernel // 2,) * 4
        attrs: dict[str, Attr] = {"dilations": (1, 1), "group": group, "pads": pads, "strides": (stride, stride)}
        return make("Conv", (x, weight), attrs)

    def norm(self, x: Term) -> Term:
        """BatchNormalization."""
        assert x.type is not None and x.type.shape is not None and isinstance(x.type.shape[1], int)
        return make("BatchNormalization", (x, *(self.const(x.type.shape[1]) for _ in range(4))), {"epsilon": 1e-5})

    def mobileone(self, x: Term, channels: int, kernel: int, group: int, branches: int, scale: bool) -> Term:
        """A block of MobileOne in training form, with an identity branch (and `Add(.., 0)` where there is no scale)."""
        zero = make("Zeros", (), {"shape": ()})
        total = self.norm(self.conv(x, 1, channels, group)) if scale else zero
        for branch in range(branches):
            one = self.norm(self.conv(x, kernel, channels, group))
            total = make("Add", (one, total) if branch == 0 and not scale else (total, one))
        return make("Relu", (make("Add", (total, self.norm(x))),))

    def repvgg(self, x: Term, channels: int) -> Term:
        """A block of RepVGG in training form, with its identity branch."""
        left, right = self.norm(self.conv(x, 3, channels)), self.norm(self.conv(x, 1, channels))
        return make("Relu", (make("Add", (make("Add", (left, right)), self.norm(x))),))

    def lora(self, x: Term, width: int, rank: int) -> Term:
        """A linear layer with a low-rank adapter."""
        base = make("Add", (make("MatMul", (x, self.const(width, width))), self.const(width)))
        down = make("MatMul", (x, self.const(width, rank)))
        up = make("MatMul", (down, self.const(rank, width)))
        return make("Relu", (make("Add", (base, make("Mul", (up, self.const())))),))


def image(channels: int = 8, size: int = 14) -> Term:
    """A graph input."""
    return var("x", tensor(1, channels, size, size))


def operators(outputs: tuple[Term, ...]) -> list[str]:
    """The operators that run, in topological order."""
    return [t.op for t in topological(outputs) if not t.is_constant and t.op not in ("Var", "Out")]
