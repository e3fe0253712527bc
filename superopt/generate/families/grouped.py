"""The grammar of grouped convolutions whose groups are merged in pairs. Data only.

Two groups are equal to one group whose kernel is zero between outputs of one half and inputs of the other half. To make
this kernel, the kernel of g groups, with shape (g, outputs, 1, inputs), is multiplied by a (g, 2) pattern, which has a
1 for the half that each group becomes. Here four groups become two. All sizes are different, so that each size in a
shape of the kernel is unambiguous.
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
