"""Constants in closed form: they have no inputs, and no node that an oracle could be asked about."""

from __future__ import annotations

import math
import random

from tests.support.semantic_cases.case import Case, Maker, shape_of

__all__ = ["CASES", "CONSTANTS"]


def _dirac(rng: random.Random) -> Case:
    group, inside = rng.randint(1, 3), rng.randint(1, 3)
    kernel = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 2)))
    return Case({"group": group, "shape": (group * inside, inside, *kernel)}, ())


def _range(rng: random.Random) -> Case:
    return Case({"delta": rng.choice([1.0, -2.0]), "n": rng.randint(0, 5), "start": rng.choice([0.0, 3.0])}, ())


def _constant(rng: random.Random) -> Case:
    shape = shape_of(rng, 0, 3)
    return Case(
        {"shape": shape, "value_floats": tuple(rng.choice([0.0, 1.0, -2.5]) for _ in range(math.prod(shape)))}, ()
    )


CASES: dict[str, Maker] = {}
# As weights of a model they are what their array is.
CONSTANTS: dict[str, Maker] = {
    "Zeros": lambda rng: Case({"shape": shape_of(rng, 0, 3)}, ()),
    "Ones": lambda rng: Case({"shape": shape_of(rng, 0, 3)}, ()),
    "Eye": lambda rng: Case({"n": rng.randint(1, 4)}, ()),
    "Constant": _constant,
    "Dirac": _dirac,
    "ConstantOfShape": lambda rng: Case({"shape": shape_of(rng, 0, 3), "value": rng.choice([0.0, 1.0, -2.5])}, ()),
    "Range": _range,
}
