"""Drawing of one side of a rule as an inline SVG: operators are boxes, variables are ovals, data flows down."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from html import escape
from typing import NamedTuple

from superopt.ir.notation import show_terms
from superopt.ir.term import CLOSED_FORM, Term, repr_attrs, topological
from superopt.properties import moves, reduces
from superopt.report.drawing_layout import Box, Edge, lay_out

__all__ = ["Drawing", "draw"]

# Advance widths in pixels of the fonts of style.css (`.op` and `.var` 13px, `.at` 10px); generous, as fonts differ.
_NAME, _SMALL = 7.9, 6.1
_LINE, _ROW = 13.0, 26.0
_WIDEST = 30  # characters of an attribute line before it is broken
_SHRINK = 0.8  # a drawing may be shown this much smaller before it scrolls


class Drawing(NamedTuple):
    """An `<svg>` element and its width in pixels."""

    svg: str
    width: int


def draw(roots: Sequence[Term], side: str) -> Drawing:
    """Draw the graph below `roots` (shared terms once) as one `<svg>` element, styled by the page.

    Several roots end in numbered dots, a single root in a plain dot. `side` names the drawing for screen readers.
    """
    body, w, h = _picture(tuple(roots))
    svg = (
        f'<svg class="graph" role="img" width="{w}" height="{h}" viewBox="0 0 {w} {h}"'
        f' style="min-width:{round(_SHRINK * w)}px">'
        f"<title>{escape(f'{side}: {show_terms(roots)}')}</title>{body}</svg>"
    )
    return Drawing(svg, w)


@lru_cache(maxsize=256)  # many a rule is followed by its reverse, and several rules share a side
def _picture(roots: tuple[Term, ...]) -> tuple[str, int, int]:
    """Return the elements of the drawing, its width and its height."""
    terms = [term for term in topological(roots) if term.op != "Out"]
    boxes = {term: _box(term) for term in terms}
    edges: list[Edge] = []
    ports: dict[int, str] = {}  # an edge that leaves a numbered output -> the number
    for term in terms:
        for place, value in enumerate(term.inputs):
            if value is not None:
                _connect(value, boxes, edges, ports, roots).target = boxes[term]
                edges[-1].enter = _spread(place, len(term.inputs), boxes[term].width)
    ends = [Box(place, 20.0, 14.0) for place, _ in enumerate(roots)]
    for root, end in zip(roots, ends, strict=True):
        _connect(root, boxes, edges, ports, roots).target = end
    size = lay_out([*boxes.values(), *ends], edges)
    parts = [_edge(edge, ports.get(number)) for number, edge in enumerate(edges)]
    parts += [_node(term, box) for term, box in boxes.items()]
    parts += [_end(end, place + 1 if len(roots) > 1 else None) for place, end in enumerate(ends)]
    return "".join(parts), round(size.width), round(size.height)


def _connect(
    value: Term, boxes: dict[Term, Box], edges: list[Edge], ports: dict[int, str], roots: Sequence[Term]
) -> Edge:
    """Append a new edge that leaves `value`; the caller sets its target."""
    leave = 0.0
    node = value
    if value.op == "Out":
        inner = value.inputs[0]
        index = value.attr("index")
        assert inner is not None and isinstance(index, int)
        node = inner
        ports[len(edges)] = str(index)
        leave = _spread(index, _outputs(node, roots), boxes[node].width)
    edges.append(Edge(boxes[node], boxes[node], leave))
    return edges[-1]


def _outputs(node: Term, roots: Sequence[Term]) -> int:
    """Return the number of outputs to leave room for: one per size of a Split, or at least two if sizes are unknown."""
    sizes = dict(node.attrs).get("split")
    if isinstance(sizes, tuple):
        return len(sizes)
    used = [term.attr("index") for term in topological(roots) if term.op == "Out" and term.inputs[0] is node]
    return max([2, *(index + 1 for index in used if isinstance(index, int))])


def _spread(place: int, count: int, width: float) -> float:
    """Return the offset of port `place` from the centre; `count` ports lie evenly over the middle of the box."""
    return (place - (count - 1) / 2) * min(26.0, 0.8 * width / max(count, 1))


def _label(term: Term) -> tuple[str, list[str]]:
    """Return the name and the attribute lines of a box."""
    if term.op == "Var":
        return str(term.attr("name")), []
    lines = [line for pair in term.attrs for line in _broken(repr_attrs([pair]))]
    return term.op, lines


def _broken(text: str) -> list[str]:
    lines, line = [], ""
    for word in text.replace("=", " = ", 1).split(", "):
        longer = f"{line}, {word}" if line else word
        if line and len(longer) > _WIDEST:
            lines.append(line + ",")
            longer = word
        line = longer
    return [*lines, line]


def _box(term: Term) -> Box:
    name, lines = _label(term)
    if term.op == "Var":
        return Box(term, max(34.0, _NAME * len(name) + 22), _ROW)
    width = max(_NAME * len(name), *(_SMALL * len(line) for line in lines), 13.0 * len(term.inputs)) + 24
    return Box(term, max(56.0, width), _ROW + 4 + (_LINE * len(lines) + 2 if lines else 0))


def _kind(op: str) -> str:
    """Return the style class of an operator."""
    if op == "Const" or op in CLOSED_FORM:
        return "constant"
    if moves(op):
        return "move"
    return "contract" if reduces(op) else "pointwise"


def _node(term: Term, box: Box) -> str:
    name, lines = _label(term)
    x, y = box.x, box.y
    if term.op == "Var":
        return (
            f'<g class="v"><ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{box.width / 2:.1f}" ry="{box.height / 2:.1f}"/>'
            f'<text class="var" x="{x:.1f}" y="{y + 4:.1f}">{escape(name)}</text></g>'
        )
    kind = _kind(term.op)
    top = y - box.height / 2
    text = f'<text class="op" x="{x:.1f}" y="{top + 19:.1f}">{escape(name)}</text>'
    for number, line in enumerate(lines):
        text += f'<text class="at" x="{x:.1f}" y="{top + 34 + _LINE * number:.1f}">{escape(line)}</text>'
    return (
        f'<g class="o {kind}"><rect x="{x - box.width / 2:.1f}" y="{top:.1f}" width="{box.width:.1f}"'
        f' height="{box.height:.1f}" rx="7"/>{text}</g>'
    )


def _edge(edge: Edge, port: str | None) -> str:
    (x, y), *rest = edge.path
    path = f"M{x:.1f} {y:.1f}"
    for number, (to_x, to_y) in enumerate(rest):
        if number % 2:  # beside the boxes of a layer that is crossed
            path += f"V{to_y:.1f}"
        else:
            bend = (to_y - y) * 0.5
            path += f"C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
    shown = f'<path class="e" d="{path}"/><path class="a" d="M{x - 3.2:.1f} {y - 6:.1f}h6.4L{x:.1f} {y:.1f}z"/>'
    if port is not None:
        at_x, at_y = edge.path[0]
        anchor, dx = ("end", -4) if edge.leave < 0 else ("start", 4)
        shown += f'<text class="port" text-anchor="{anchor}" x="{at_x + dx:.1f}" y="{at_y + 11:.1f}">{port}</text>'
    return shown


def _end(box: Box, number: int | None) -> str:
    dot = f'<circle class="end" cx="{box.x:.1f}" cy="{box.y:.1f}" r="{7 if number else 4}"/>'
    if number is None:
        return dot
    return dot + f'<text class="no" x="{box.x:.1f}" y="{box.y + 3.5:.1f}">{number}</text>'
