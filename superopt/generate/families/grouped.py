"""The grammar of grouped convolutions whose groups are merged in pairs. Data only.

Two groups are one whose kernel is zero where an output of one group meets an input of the other: for a kernel of g
groups, as (g, outputs, 1, inputs), the product with the (g, 2) pattern that says which half of a pair each group is.
Four groups are two pairs. All sizes differ, so each size in a shape of the kernel shows where it comes from.
"""

from __future__ import annotations

from superopt.generate.grammar import Family, Use, dirac, inputs, transpose

__all__ = ["GROUPED"]

_GROUPS, _PAIRS, _OUTPUTS, _INPUTS, _WINDOW = 4, 2, 5, 3, (7, 8)
_ROWS = (_GROUPS, _OUTPUTS, 1, _INPUTS * _WINDOW[0] * _WINDOW[1])
_WIDENED = (_GROUPS * _OUTPUTS, 2 * _INPUTS, *_WINDOW)


def _conv(group: int) -> Use:
    attrs = {"dilations": (1, 1), "group": group, "pads": (0,) * 4, "strides": (1, 1)}
    return Use("Conv", attrs, (2, 3), ("x!Conv", "w", "b"))


GROUPED: tuple[Family, ...] = (
    # Grouped Convs, and the pattern that widens their kernels: two groups as one.
    Family(
        "conv",
        (
            *inputs("x", (1, _GROUPS * _INPUTS, *_WINDOW)),
            *inputs("w", (_GROUPS * _OUTPUTS, _INPUTS, *_WINDOW), "w", True),
            *inputs("b", (_GROUPS * _OUTPUTS,), "b", True),
        ),
        (
            _conv(_GROUPS),
            _conv(_PAIRS),
            Use("Reshape", {"shape": _ROWS}, (1,), ("w0!b,Dirac",), run=False, fold=True),
            *transpose((0, 2, 1, 3), slots=("Dirac",), run=False, fold=True),
            Use("MatMul", slots=("w1!b,w,Dirac",), run=False, fold=True),
            Use("Reshape", {"shape": _WIDENED}, (1,), ("w!w,b,Dirac,Reshape,Transpose",), run=False, fold=True),
        ),
        runtime=1,
        folded=(4, 4),
        constants=(dirac(_PAIRS, _GROUPS, 2, 1, 1),),
        elements=_GROUPS * _OUTPUTS * 2 * _INPUTS * _WINDOW[0] * _WINDOW[1],
        variation="conv",
    ),
)
