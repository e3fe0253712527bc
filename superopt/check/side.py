"""One of the two models under comparison: its file, its terms, its runs in ONNX Runtime, its evaluations in float64."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from superopt.check.rounding import NOISE
from superopt.check.written_out import needs_writing_out, written_out
from superopt.ir.dim import Dim, evaluate
from superopt.ir.term import Term, topological
from superopt.onnx_io import Model
from superopt.onnx_io.inlining import inlined
from superopt.onnx_io.load import load_proto
from superopt.optimizer.float64 import Float64Model, Noise
from superopt.optimizer.original import open_original
from superopt.optimizer.source import Source
from superopt.runtime import CannotRun, Feeds, InputShapes, RanTooLong, Session, Target

__all__ = ["Side"]

_CPU = Target("cpu", 1)
_MISSING = "NOT_IMPLEMENTED"  # in ONNX Runtime's message: it has no kernel


class Side:
    """A model that is run without ONNX Runtime's optimizations, so that their faults count for neither model.

    A model that does not load so is run with them. `ran` is True once it has run on any input.
    """

    def __init__(self, source: Source) -> None:
        self.source, self.ran = source, False
        self._session: Session | None = None
        self._level = "none"
        self._models: list[tuple[InputShapes, Model]] = []

    @property
    def is_open(self) -> bool:
        """True if ONNX Runtime has the model loaded."""
        return self._session is not None

    @cached_property
    def terms(self) -> Model:
        """The model as terms, with some fused operators written out. Raises ModelError."""
        source = self.source
        if not needs_writing_out(inlined(source.proto)):
            return source.terms
        return Source(written_out(inlined(source.proto if source.path is None else load_proto(source.path)))).terms

    def run(self, feeds: Feeds) -> list[Any]:
        """Return the outputs in ONNX Runtime. Raises CannotRun."""
        if self._session is None:
            self._session = self._opened()
        try:
            outputs = self._session.run(feeds)
        except RanTooLong:
            raise
        except CannotRun as error:
            if self.ran or self._level == "all" or _MISSING not in str(error):
                raise
            # Float16 runs on CPUs only with casts that the optimizer inserts.
            session = open_original(self.source, _CPU)
            outputs = session.run(feeds)
            self._session, self._level = session, "all"
        self.ran = True
        return outputs

    def _opened(self) -> Session:
        try:
            return open_original(self.source, _CPU, self._level)
        except CannotRun:
            self._level = "all"
            return open_original(self.source, _CPU)

    def close(self) -> None:
        """Let the session go; the next run opens it again."""
        self._session = None

    def run_otherwise(self, feeds: Feeds) -> list[Any]:
        """Return the outputs at the other level of optimization. Raises CannotRun."""
        return open_original(self.source, _CPU, "all" if self._level == "none" else "none").run(feeds)

    def at(self, shapes: InputShapes) -> Model:
        """Return the terms with the values of symbolic sizes at the given shapes of the inputs."""
        for known, model in self._models:
            if known == shapes:
                return model
        self._models.append((shapes, self.terms.at_shapes(shapes)))
        return self._models[-1][1]

    def is_empty_at(self, shapes: InputShapes) -> bool:
        """Return True if a computed tensor that has elements at other shapes of the inputs has none at these."""
        model = self.at(shapes)
        types = (type for term in topological(model.outputs) if not term.is_constant for type in term.types)
        sizes = {size for type in types for size in (type.shape if type else None) or () if isinstance(size, Dim)}
        return any(evaluate(size, model.sizes) == 0 for size in sizes)

    def exact(self, feeds: Feeds, seconds: float, observe: Callable[[Term, Any], None] | None = None) -> list[Any]:
        """Return the outputs in float64; conversions to narrower types round. Raises NoReference."""
        return self._float64(feeds).run(feeds, time.process_time() + seconds, observe=observe)

    def simulated(
        self, feeds: Feeds, seed: Sequence[int], seconds: float, other: Side | None, factor: float = NOISE
    ) -> list[Any]:
        """Return the outputs in float64 with simulated roundings, also of weights that are not the `other` model's.

        `factor` is the size of the operators' roundings; without another model, weights are exact. Raises NoReference.
        """
        own = self.weights - other.weights if other is not None else frozenset()
        noise = Noise(np.random.default_rng(list(seed)), factor, own, NOISE)
        return self._float64(feeds).run(feeds, time.process_time() + seconds, noise)

    def _float64(self, feeds: Feeds) -> Float64Model:
        return Float64Model(self.at({name: array.shape for name, array in feeds.items()}), casts=True)

    @cached_property
    def weights(self) -> frozenset[str]:
        """The hashes of the model's constants."""
        return frozenset(str(term.attr("hash")) for term in topological(self.terms.outputs) if term.op == "Const")

    @cached_property
    def literals(self) -> frozenset[float]:
        """The real numbers among the operators' attributes."""
        terms = topological(self.terms.outputs)
        return frozenset(value for term in terms for _, value in term.attrs if isinstance(value, float))

    def tables(self) -> Iterator[int]:
        """Yield the lengths of the constant tables from which the model gathers."""
        for term in topological(self.terms.outputs):
            table = term.inputs[0] if term.inputs else None
            if term.op.rpartition("::")[2] in ("Gather", "Lookup") and table is not None and table.is_constant:
                shape = None if table.type is None else table.type.concrete()
                axis = dict(term.attrs).get("axis", 0)
                if shape and isinstance(axis, int):
                    yield shape[axis]
