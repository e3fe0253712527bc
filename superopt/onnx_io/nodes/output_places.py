"""Places of outputs in a node's list, for operators some of whose outputs have no definition here."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

__all__ = ["defined_outputs", "placed_outputs"]

# Mean and inverse deviation, between a normalised sum and the sum, are for training.
_PLACES = {"SkipLayerNormalization": (0, 3), "SkipSimplifiedLayerNormalization": (0, 3)}


def defined_outputs(node: onnx.NodeProto, outputs: Sequence[str]) -> list[str] | None:
    """Return those of a node's `outputs` that have a definition, or None if another one is used."""
    places = _PLACES.get(node.op_type, range(len(outputs)))
    if any(name and place not in places for place, name in enumerate(outputs)):
        return None
    return [outputs[place] for place in places if place < len(outputs)]


def placed_outputs(op: str, outputs: Sequence[str]) -> list[str]:
    """Return the list of a node's outputs, with "" for those without a definition."""
    places = _PLACES.get(op, range(len(outputs)))[: len(outputs)]
    names = dict(zip(places, outputs, strict=True))
    return [names.get(place, "") for place in range(max(places, default=-1) + 1)]
