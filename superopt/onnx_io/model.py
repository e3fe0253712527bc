"""A model as terms, together with the other content of its file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import onnx

from superopt.ir.dim import Size, Sizes
from superopt.ir.term import Term
from superopt.ir.types import TensorType
from superopt.onnx_io.inference import infer_types, sizes_at
from superopt.onnx_io.provenance import corresponding_terms
from superopt.onnx_io.schemas import opset_of

__all__ = ["Array", "EqualSizes", "Model", "ModelError", "Unwritable"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
# Two sizes that are equal; if there is a 1 as well, one of them may be 1. A set of sizes stands for the least of them.
EqualSizes: TypeAlias = frozenset["Size | frozenset[Size]"]


class ModelError(ValueError):
    """A model cannot be read or written; the message is one line with the place and the reason."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))  # names in a damaged file may contain line breaks


class Unwritable(ModelError):
    """No node of the model's opset computes `term`."""

    def __init__(self, message: str, term: Term) -> None:
        super().__init__(message)
        self.term = term


@dataclass(frozen=True)
class Model:
    """A graph as terms, with all that the writer needs to write the file again.

    `weights` is shared by all models that come from one file and only ever grows.
    """

    outputs: tuple[Term, ...]  # one term for each output, in order
    inputs: tuple[Term, ...]  # Var terms in order, those with a default value included
    weights: dict[str, Array]  # arrays of Const terms by hash
    skeleton: onnx.ModelProto  # the file without nodes and weights: metadata, opset imports, functions, inputs, outputs
    position: dict[Term, int] = field(default_factory=dict)  # place of a term's node in the file
    names: dict[Term, str] = field(default_factory=dict)  # names of tensors
    nodes: dict[Term, onnx.NodeProto] = field(default_factory=dict)  # only names and notes of nodes
    sizes: dict[str, int] = field(default_factory=dict)  # values of symbolic sizes at the given `shapes`
    listed_weights: dict[str, Term] = field(default_factory=dict)  # constants listed as inputs, before IR version 4
    checker_error: str | None = None  # onnx.checker's error for the file as read
    simplified_nodes: int = 0  # nodes replaced by a constant, by their input or by a branch
    proven_shapes: dict[Term, Sizes] = field(default_factory=dict)  # shapes that the inputs' imply (`simplify` only)
    computed_sizes: dict[Term, tuple[Size, ...]] = field(
        default_factory=dict
    )  # elements that are such sizes (likewise)
    assumed_sizes: Mapping[str, Set[EqualSizes]] = field(default_factory=dict)  # without which a tensor is not computed
    # Reshapes with other targets, equal where the model is defined (if it is joined with another model).
    other_targets: Mapping[Term, Term] = field(default_factory=dict)
    reserved: frozenset[str] = frozenset()  # tensor names of the graphs around a body, forbidden inside it
    first: Model | None = field(default=None, repr=False, compare=False)  # of several readings: it has all nodes
    as_read: Model | None = field(default=None, repr=False, compare=False)  # before its terms were joined with others
    light: onnx.ModelProto | None = field(
        default=None, repr=False, compare=False
    )  # the copy that shape inference ran on

    # What was read of the chosen branch of an If with a known condition, by the name of the If's first output.
    branches: Mapping[str, Sequence[tuple[onnx.NodeProto, Term]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def opset(self) -> int:
        """Version of the default operator set, or 0 if the file imports none."""
        return opset_of(self.skeleton)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the graph's outputs, in order."""
        return tuple(value.name for value in self.skeleton.graph.output)

    def concrete(self, type: TensorType) -> TensorType:
        """Return `type` with symbolic sizes replaced by their values at the `shapes` that the model was read for."""
        env: dict[str, Size] = dict(self.sizes)
        return type.with_sizes(env)

    def at_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> Model:
        """Return the same terms, with the `sizes` of their symbols when the inputs have the given `shapes`.

        Runs shape inference once; the file is not read again.
        """
        assert self.light is not None
        return replace(self, sizes=sizes_at(self.light, infer_types(self.light), shapes))

    def with_outputs(
        self,
        outputs: Iterable[Term],
        replaced: Mapping[Term, Term] | None = None,
    ) -> Model:
        """Return the model with other terms that compute the same outputs.

        Unchanged operators keep their place and their names. They are found with the help of `replaced`, which maps
        old terms to their replacements.
        """
        outputs = tuple(outputs)
        if len(outputs) != len(self.outputs):
            raise ModelError(
                f"{len(outputs)} terms for a model with {len(self.outputs)} outputs; give one term an output"
            )
        same = corresponding_terms(self.outputs, outputs, replaced or {})
        return replace(
            self,
            outputs=outputs,
            position=_moved(self.position, same),
            names=_moved(self.names, same),
            nodes=_moved(self.nodes, {old: new for old, new in same.items() if old.op == new.op}),
        )


def _moved(table: dict[Term, Any], same: Mapping[Term, Term]) -> dict[Term, Any]:
    moved = dict(table)
    for old, new in same.items():
        if old in table:
            moved.setdefault(new, table[old])
    return moved
