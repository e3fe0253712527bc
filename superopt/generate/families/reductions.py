"""The grammar of reductions, and of what may be done before or after them. Data only."""

from __future__ import annotations

from superopt.generate.grammar import Family, Use, axes, binary, concat, inputs, transpose, unary

__all__ = ["REDUCTIONS"]


def _reduce(names: str, *over: tuple[int, ...], keepdims: tuple[int, ...] = (1,), **kinds: object) -> tuple[Use, ...]:
    """Reductions by each of the names over each set of axes."""
    return tuple(
        Use(f"Reduce{name}", {"axes": a, "keepdims": k}, (1,), **kinds)  # type: ignore[arg-type]
        for name in names.split()
        for a in over
        for k in keepdims
    )


REDUCTIONS: tuple[Family, ...] = (
    Family(
        "reductions",
        (*inputs("x y", (2, 3)), *inputs("c", (2, 1)), *inputs("s", ())),
        (
            *_reduce("Sum Mean Max Min", (-1,)),
            *binary("Add Sub Mul Div Max Min"),
            *unary("Neg Relu Abs Exp Log Reciprocal"),
        ),
        runtime=2,
        lifts="axes",
    ),
    Family(
        "reductions",
        (*inputs("x y", (2, 3)), *inputs("c", (2, 1))),
        (*_reduce("Sum Mean Max Min", (-1,)), *binary("Add Sub Max Min"), *binary("Mul Div", slots=("*", "c"))),
        runtime=3,
        lifts="axes",
    ),
    Family(
        "reductions",
        inputs("x", (2, 3)),
        (
            *_reduce("Sum Mean Max Min Prod L1 L2 SumSquare LogSum LogSumExp", (-1,)),
            *unary("Abs Sqrt Exp Log Neg"),
            Use("Mul"),
        ),
        runtime=3,
        lifts="axes",
    ),
)
