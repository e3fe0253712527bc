"""An answer as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from superopt.check.answer import Answer, Unproven
from superopt.report.check_page import HOW
from superopt.runtime import show_shape
from superopt.wording import counted

__all__ = ["answer_text"]

_MAX_PAIRS = 20  # of corresponding tensors that are listed; JSON and the page have all
_MAX_UNPROVEN = 8


def answer_text(answer: Answer) -> str:
    """Return the verdict, where the models differ or what was not proven, and the corresponding tensors."""
    lines = [f"{answer.verdict}: {answer.reason}", f"  A: {answer.left}", f"  B: {answer.right}"]
    lines += [f"  {line}" for line in answer.interface if line not in answer.reason]
    lines += _difference(answer)
    lines += _unproven(answer.unproven)
    lines += _correspondences(answer)
    if answer.certificate:
        lines.append(f"certificate: {answer.certificate}")
    return "\n".join(lines)


def _difference(answer: Answer) -> Iterator[str]:
    found, parting = answer.difference, answer.parting
    if found is None:
        return
    shapes = ", ".join(f"{name}={show_shape(shape)}" for name, shape in found.shapes.items())
    yield f"input: {found.inputs}, {shapes}" + (f"; saved to {found.file}" if found.file else "")
    if parting is not None:
        after = f" from {', '.join(parting.agreeing)}, which agree" if parting.agreeing else ""
        yield "the models part at:"
        yield f"  A: {parting.left} ({parting.left_operator})"
        yield f"  B: {parting.right} ({parting.right_operator})"
        yield f"  computed{after}" if after else "  computed from inputs and constants"


def _unproven(pairs: Sequence[Unproven]) -> Iterator[str]:
    if pairs:
        yield "not proven equal:"
    for pair in pairs[:_MAX_UNPROVEN]:
        yield f"  {pair.left} and {pair.right}: {pair.reason}"
        if pair.left_graph and pair.right_graph:
            yield f"    A: {pair.left_graph}"
            yield f"    B: {pair.right_graph}"
    if len(pairs) > _MAX_UNPROVEN:
        yield f"  and {len(pairs) - _MAX_UNPROVEN} more (--json, --html)"


def _correspondences(answer: Answer) -> Iterator[str]:
    found = [one for one in answer.correspondences if not one.is_rewritten]
    if not found:
        return
    kinds = Counter(one.by for one in found)
    by = ", ".join(f"{count} {HOW.get(kind, kind)}" for kind, count in kinds.items())
    yield f"{counted(len(found), 'pair')} of tensors proven equal: {by}"
    listed = [one for one in found if one.by != "same"][:_MAX_PAIRS]
    width = max(map(len, (one.left for one in listed)), default=0)
    for one in listed:
        error = f", within {one.error:.1e}" if one.error else ""
        yield f"  {one.left:{width}}  =  {one.right}  ({HOW.get(one.by, one.by)}{error})"
    if listed and len(found) > len(listed):
        yield f"  and {len(found) - len(listed)} more (--json, --html)"
