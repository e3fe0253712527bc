"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_letters, ascii_lowercase

from superopt.ir.term import Attr
from superopt.onnx_io.importers.view import ANY, NodeView, Row

__all__ = ["READERS"]


def _einsum(view: NodeView) -> dict[str, Attr] | None:
    left, arrow, right = view.text("equation", "").replace(" ", "").partition("->")
    letters = left.replace(",", "")
    if not set(letters) <= set(ascii_letters):  # an ellipsis
        return None
    if not arrow:
        right = "".join(sorted(letter for letter in letters if letters.count(letter) == 1))
    first = dict.fromkeys(letters)
    if len(first) > len(ascii_lowercase) or not set(right) <= first.keys():
        return None
    renamed = str.maketrans(dict(zip(first, ascii_lowercase, strict=False)))
    return {"equation": f"{left}->{right}".translate(renamed)}


READERS: Mapping[str, Row] = {"Einsum": Row(1, ANY, _einsum)}
