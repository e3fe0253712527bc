"""A test of a rule at a match, in numbers: one that fails there need not be proven for it.

A refuted rule takes the prover 1 to 4 seconds where it sums over windows, this test milliseconds. It can only keep a
rule from being applied.
"""

from __future__ import annotations

import numpy as np

from superopt.evaluate import evaluate
from superopt.evaluate.indices import Array
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule
from superopt.optimizer.match_example import example_of

__all__ = ["differ", "fails_at_example"]

_TOLERANCE = 1e-6  # relative; the numbers are whole and small, so most results are exact in float64
# Draws of numbers where the left side is not a number in the first one: at most, and with numbers on the left side.
_DRAWS, _KNOWN_DRAWS = 12, 4


def fails_at_example(rule: Rule, bindings: Bindings, tolerance: float = _TOLERANCE) -> bool:
    """Return True if both sides differ at one example with the match's attributes and small sizes like the match's.

    Returns False if no example can be made or evaluated. `tolerance` is relative. Where small sizes do not fit together
    (two sizes add up to a third), only the free sizes are small.
    """
    found = _fails(rule, bindings, tolerance, keeps_sizes=False)
    return bool(_fails(rule, bindings, tolerance, keeps_sizes=True) if found is None else found)


def _fails(rule: Rule, bindings: Bindings, tolerance: float, *, keeps_sizes: bool) -> bool | None:
    """Return True if the sides differ at the example, or None if there is none."""
    try:
        example = example_of(rule, bindings, keeps_sizes=keeps_sizes)
        if not example.is_small:
            return False
        left_known = 0
        for draw in range(_DRAWS):
            env = example.values(draw)
            left, right = (evaluate(side, env, {}) for side in (example.left, example.right))
            if any(differ(a, b, tolerance) for a, b in zip(left, right, strict=True)):
                return True
            finite = [np.isfinite(one) for one in left if one.dtype.kind == "f"]
            left_known += all(one.any() for one in finite)
            if left_known == _KNOWN_DRAWS or (not draw and all(one.all() for one in finite)):
                break
    except IllTyped:
        return None
    except (ArithmeticError, LookupError, NotImplementedError, TypeError, ValueError):
        pass
    return False


def differ(left: Array, right: Array, tolerance: float) -> bool:
    """Return True if the sides differ where the left one is a finite number."""
    if left.shape != right.shape:
        return True
    if left.dtype.kind != "f":
        return bool((left != right).any())
    known = np.isfinite(left)
    scale = np.maximum(1.0, np.abs(left[known]))
    with np.errstate(all="ignore"):
        return not bool((np.abs(left[known] - right[known]) <= tolerance * scale).all())
