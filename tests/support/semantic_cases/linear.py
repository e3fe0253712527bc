"""Matrix products."""

from __future__ import annotations

import random

from tests.support.semantic_cases.case import Case, Maker, values

__all__ = ["CASES"]


def _einsum(rng: random.Random) -> Case:
    sizes = {letter: rng.randint(1, 3) for letter in "abcde"}
    operands = [rng.choices("abcde", k=rng.randint(1, 4)) for _ in range(rng.choice([1, 2, 2, 3]))]
    if rng.random() < 0.7:  # else an operand may have a letter twice
        operands = [list(dict.fromkeys(letters)) for letters in operands]
    first = list(dict.fromkeys(letter for letters in operands for letter in letters))
    out = rng.sample(first, rng.randint(0, len(first)))
    shapes = [tuple(sizes[letter] for letter in letters) for letters in operands]
    names = str.maketrans(dict(zip(first, "abcde", strict=False)))
    equation = (",".join(map("".join, operands)) + "->" + "".join(out)).translate(names)
    dtype = rng.choice(["float32", "float32", "float64", "int32", "int64"])
    return Case({"equation": equation}, [values(rng, shape, dtype) for shape in shapes])


CASES: dict[str, Maker] = {"Einsum": _einsum}
