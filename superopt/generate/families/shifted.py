"""The shift of Softmax's exponentials that `conjectures.softmax_shift` proposes. Data only."""

from __future__ import annotations

from superopt.generate.grammar import Family, inputs

__all__ = ["SHIFTED"]

SHIFTED: tuple[Family, ...] = (
    # The shift for which `conjectures.softmax_shift` makes a conjecture. Nothing is enumerated.
    Family(
        "shifted",
        (*inputs("a", (2, 3)), *inputs("v", (3, 2))),
        (),
        runtime=1,
        variation="matrix",
        # For float32. In float64 e^x is normal for x >= -708; the range of float16 is too small for a shift.
        shifts=(44,),
    ),
)
