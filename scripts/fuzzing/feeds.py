"""Inputs for a model: by name, type and sizes of its inputs, repeatable by seed."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx

from superopt.onnx_io.subgraphs import subgraphs

from .judge import NotRun, run
from .values import Array, draw

__all__ = ["Shapes", "Subject", "accepted_feeds", "feeds_for"]

Shapes: TypeAlias = Mapping[str, Sequence[int]]  # of inputs, by name

_SIZES = (1, 2, 32, 224)  # of dynamic axes, until the model runs
_BOUNDS = (2, 1, 8)  # of integers, which are most often indices or masks


def feeds_for(model: onnx.ModelProto, seed: int, profile: str, sizes: dict[str, int]) -> dict[str, Array]:
    """Return values for all inputs. `sizes` are those of the symbols."""
    found = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = tuple(sizes[d.dim_param] if d.dim_param else d.dim_value for d in tensor.shape.dim)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
        rng = np.random.default_rng([seed, zlib.crc32(value.name.encode())])
        found[value.name] = draw(rng, dtype, shape, profile)
    return found


def accepted_feeds(model: onnx.ModelProto, shapes: Iterable[Shapes] = ()) -> Iterator[dict[str, Array]]:
    """Yield random inputs on which the model runs, of several sizes, and of these `shapes` after that."""
    for size, given in (*((size, {}) for size in _SIZES), *((1, given) for given in shapes)):
        for bound in _BOUNDS:
            feeds = _feeds_below(model, size, bound, given)
            try:
                run(model, feeds)
            except NotRun:
                continue
            yield feeds


def _feeds_below(model: onnx.ModelProto, size: int, bound: int, shapes: Shapes) -> dict[str, Array]:
    """Return random inputs with dynamic axes of this size, or of their own shapes, and integers below `bound`."""
    rng, found = np.random.default_rng(0), {}
    weights = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in weights:
            tensor = value.type.tensor_type
            stated = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
            usual = [n if n >= 0 else size if k else 1 for k, n in enumerate(stated)]  # some exporters write -1
            shape = shapes.get(value.name, usual)
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            if dtype.kind in "iu":
                found[value.name] = np.asarray(rng.integers(0, bound, shape)).astype(dtype)
            else:
                found[value.name] = draw(rng, dtype.name, tuple(shape), "plain")
    return found


@dataclass(frozen=True)
class Subject:
    """A model to be attacked, the profile of its numbers, sizes for its symbols, and a seed for all that is random."""

    model: onnx.ModelProto
    profile: str
    sizes: dict[str, int]
    seed: int

    def feeds(self) -> list[dict[str, Array]]:
        """Return inputs at the sizes that the graph has grown at, and at others, where it may or may not run.

        A graph with bodies of Loop, Scan or If has no others: the bodies state the sizes that they have grown at.
        """
        rng = np.random.default_rng(self.seed)
        symbols = [d.dim_param for v in self.model.graph.input for d in v.type.tensor_type.shape.dim if d.dim_param]
        names = sorted(set(symbols))
        choices = [self.sizes, self.sizes]
        has_bodies = any(next(subgraphs(node), None) is not None for node in self.model.graph.node)
        if names and not has_bodies:
            choices += [dict.fromkeys(names, size) for size in (1, 2, 5)]
            choices += [{name: int(rng.integers(1, 7)) for name in names} for _ in range(2)]
        return [feeds_for(self.model, self.seed + k, self.profile, sizes) for k, sizes in enumerate(choices)]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the inputs at `sizes`."""
        return {name: value.shape for name, value in feeds_for(self.model, 0, "simple", self.sizes).items()}
