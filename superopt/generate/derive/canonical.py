"""Attributes of terms of known sizes in one form, as the optimizer reads them from a model.

Axes count from the end and are sorted, and the bounds of a Slice are positions inside its operand.
"""

from __future__ import annotations

from superopt.ir.term import Attr, Term

__all__ = ["canonical"]

_AXES = frozenset({"axis", "axes"})
_FROM_FRONT = frozenset({"Flatten"})  # its axis is a number of axes


def canonical(term: Term) -> Term:
    """Return the term with canonical attributes; the term itself if its sizes are not known."""
    attrs = dict(term.attrs)
    if term.op in _FROM_FRONT or not (_AXES & attrs.keys()):
        return term
    operand = term.inputs[0] if term.inputs else None
    sizes = None if term.type is None else term.type.concrete()
    own = None if operand is None or operand.type is None else operand.type.concrete()
    if sizes is None or own is None:
        return term
    if term.op == "Slice":
        attrs |= _bounds(attrs, own)
    else:
        rank = len(sizes) if term.op == "Unsqueeze" else len(own)
        axis, axes = attrs.get("axis"), attrs.get("axes")
        if isinstance(axis, int) and axis >= 0:
            attrs["axis"] = axis - rank
        if isinstance(axes, tuple):
            known = [item for item in axes if isinstance(item, int)]
            attrs["axes"] = tuple(sorted(item - rank if item >= 0 else item for item in known))
    return term if attrs == dict(term.attrs) else Term.of(term.op, term.inputs, attrs, term.types)


def _bounds(attrs: dict[str, Attr], sizes: tuple[int, ...]) -> dict[str, Attr]:
    """Return the axes and bounds of a Slice in canonical form; nothing for negative steps and unknown bounds."""
    names = ("axes", "starts", "ends", "steps")
    columns = [attrs[name] for name in names]
    rows: list[tuple[int, int, int, int]] = []
    for row in zip(*columns, strict=True):
        if not all(isinstance(item, int) for item in row) or row[3] <= 0:
            return {}
        axis, start, end, step = row
        size = sizes[axis]
        start, end = (min(max(at + size if at < 0 else at, 0), size) for at in (start, end))
        rows.append((axis - len(sizes) if axis >= 0 else axis, start, max(start, end), step))
    return {name: tuple(row[k] for row in sorted(rows)) for k, name in enumerate(names)}
