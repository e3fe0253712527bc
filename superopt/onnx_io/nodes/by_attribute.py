"""Readers of attributes whose canonical form differs from their value, by name; they serve every operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters, ascii_lowercase

from onnx import AttributeProto

from superopt.ir.term import Attr
from superopt.onnx_io.nodes.view import NodeView, Unreadable
from superopt.onnx_io.nodes.windows import read_windows
from superopt.properties import fused_activations

__all__ = ["GROUPS", "check_attributes"]

_COUNTS = frozenset({"group", "num_heads"})  # at least 1
# Values that have a definition here.
_CHOICES: Mapping[str, tuple[Attr, ...]] = {"approximate": ("none", "tanh")}


def check_attributes(view: NodeView, attrs: Mapping[str, Attr]) -> None:
    """Raise Unreadable for a value that the specification does not allow."""
    for name, value in attrs.items():
        too_few = name in _COUNTS and isinstance(value, int) and value < 1
        if too_few or (name in _CHOICES and value not in _CHOICES[name]):
            raise Unreadable(name)


def _activation(view: NodeView, attrs: Sequence[str]) -> dict[str, Attr]:
    """Read a fused activation, with its parameters as one list or as two attributes."""
    name, pair = view.text("activation", ""), ("activation_alpha", "activation_beta")
    count, parameters = fused_activations(view.node.op_type).get(name), view.reals("activation_params")
    stated = [view.attribute(key, AttributeProto.FLOAT, None) for key in pair]
    if parameters is None:
        parameters = stated[:count]
    if len(parameters) != count or any(value is None or math.isnan(value) for value in parameters):
        raise Unreadable("activation")
    alpha, beta = (*map(float, parameters), 0.0, 0.0)[:2]
    return {"activation": name, "activation_alpha": alpha, "activation_beta": beta}


def _equation(view: NodeView, attrs: Sequence[str]) -> dict[str, Attr]:
    """Read Einstein's notation: a, b, c, ... in order of appearance, with the result always stated."""
    left, arrow, right = view.text("equation", "").replace(" ", "").partition("->")
    letters = left.replace(",", "")
    if not set(letters) <= set(ascii_letters):  # an ellipsis
        raise Unreadable("equation")
    if not arrow:
        right = "".join(sorted(letter for letter in letters if letters.count(letter) == 1))
        if right and not right.islower():
            raise Unreadable("equation")  # ONNX Runtime fails: it does not take them for letters
    first = dict.fromkeys(letters)
    if len(first) > len(ascii_lowercase) or not set(right) <= first.keys():
        raise Unreadable("equation")
    renamed = str.maketrans(dict(zip(first, ascii_lowercase, strict=False)))
    return {"equation": f"{left}->{right}".translate(renamed)}


def _permutation(view: NodeView, attrs: Sequence[str]) -> dict[str, Attr]:
    """Read a permutation of axes; without one the axes are reversed."""
    perm = view.integers("perm")
    return {"perm": tuple(reversed(range(view.rank))) if perm is None else perm}


# Readers by the attribute that calls for them. A reader gets the names of all attributes and returns values of some.
GROUPS: Mapping[str, Callable[[NodeView, Sequence[str]], Mapping[str, Attr]]] = {
    "activation": _activation,
    "equation": _equation,
    "perm": _permutation,
    "strides": read_windows,
}
