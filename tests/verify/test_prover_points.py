"""Points at which guards hold, found without a solver."""

from __future__ import annotations

import pytest

from superopt.ir.dim import Size, symbol
from superopt.ir.notation import parse_rule
from superopt.ops.algebra import Guard
from verify.diagnose.decide import decide
from verify.propose.points import simple_points
from verify.prove.bounds import satisfies
from verify.verdict import Proved

A, B, C = (symbol(f"{name}.shape[0]") for name in "abc")


def names(*values: Size) -> list[str]:
    return sorted({name for value in values if not isinstance(value, int) for name in value.symbols})


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        (A - B, True),
        (A * B * C - 128, True),
        (128 - A * B * C, True),
        (3 * A * B - 3 * 72, True),
        (A * B * C - 75264, True),
        (A * B - 7, False),
        (A * A - 9, False),
        (A * B + 8, False),
    ],
    ids=str,
)
def test_points_are_within_the_bounds_and_a_product_is_its_factors(value: Size, holds: bool) -> None:
    guard = Guard("==", value)
    points = list(simple_points(names(value), [guard], 2, 64))
    assert all(2 <= size <= 64 for point in points for size in point.values())
    assert any(satisfies(point, [guard]) for point in points) == holds


def test_factors_are_about_as_large_as_each_other() -> None:
    guard = Guard("==", A * B * C - 64)
    assert any(point == dict.fromkeys(names(A, B, C), 4) for point in simple_points(names(A, B, C), [guard], 2, 64))


@pytest.mark.parametrize("rank", [3, 4, 5, 6])
def test_what_a_product_of_sizes_must_be_is_not_left_to_the_solver(rank: int) -> None:
    """A search for such a point ends where the solver's resources do, or not, as the process goes."""
    shape = "_," * (rank - 1) + "_"
    rule = parse_rule(
        "Reshape[allowzero=0, shape=z2](Reshape[allowzero=0, shape=z](x)) = Reshape[allowzero=0, shape=z2](x)"
        f" @ x[{shape}] z=[4,49,384] z2=[196,384]"
    )
    assert isinstance(decide(rule, rule.signatures[0]), Proved)
