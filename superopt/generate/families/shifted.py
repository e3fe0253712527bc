"""How far the exponentials of Softmax are shifted, which `shifting` proposes. Data only."""

from __future__ import annotations

from superopt.generate.grammar import Family, inputs

__all__ = ["SHIFTED"]

SHIFTED: tuple[Family, ...] = (
    Family(
        "shifted",
        (*inputs("a", (2, 3)), *inputs("v", (3, 2))),
        (),
        runtime=1,
        variation="matrix",
        shifts=(44,),  # float32; in float64 e^x is normal from -708 on, and float16 has no room for it
    ),
)
