"""Operators that give the same elements another shape or place."""

from __future__ import annotations

import random

from tests.support.semantic_cases.case import Case, Maker, broadcast_to, shape_of, values

__all__ = ["CASES", "factored"]

_DTYPES = ["float32", "float32", "float64", "int32", "int64", "bool"]


def factored(rng: random.Random, total: int) -> tuple[int, ...]:
    """A shape of this many elements, 1s among its sizes."""
    sizes: list[int] = []
    while total > 1:
        size = rng.choice([n for n in range(2, total + 1) if total % n == 0])
        sizes.append(size)
        total //= size
    for _ in range(rng.choice([0, 0, 1, 2])):
        sizes.insert(rng.randint(0, len(sizes)), 1)
    return tuple(sizes)


def _reshape(rng: random.Random) -> Case:
    total = rng.choice([1, 2, 6, 8, 12, 12, 24, 30, 36])
    x, y = factored(rng, total), list(factored(rng, total))
    opset = rng.choice([7, 13, 14, 17, 21])
    allowzero = opset >= 14 and rng.random() < 0.2
    if allowzero and rng.random() < 0.5:
        x, y = (*x, 0), [0, *y]
    elif not allowzero:
        for d, (before, after) in enumerate(zip(x, y, strict=False)):
            if before == after and rng.random() < 0.5:
                y[d] = 0
    if y and 0 not in y[len(x) :] and not allowzero and rng.random() < 0.5:
        y[rng.randrange(len(y))] = -1
    return Case({"allowzero": int(allowzero), "shape": tuple(y)}, [values(rng, x, rng.choice(_DTYPES))], opset=opset)


def _flatten(rng: random.Random) -> Case:
    shape = shape_of(rng, 0, 5)
    return Case({"axis": rng.randint(0, len(shape))}, [values(rng, shape, rng.choice(_DTYPES))], opset=13)


def _expand(rng: random.Random) -> Case:
    full = shape_of(rng, 0, 4)
    pair = [full, broadcast_to(rng, full)]
    rng.shuffle(pair)
    opset = rng.choice([8, 13, 17])
    return Case({"shape": pair[0]}, [values(rng, pair[1], rng.choice(_DTYPES))], opset=opset)


def _tile(rng: random.Random) -> Case:
    shape = shape_of(rng, 1, 4)
    repeats = tuple(rng.randint(1, 3) for _ in shape)
    return Case({"repeats": repeats}, [values(rng, shape, rng.choice(_DTYPES))], opset=rng.choice([7, 13, 17]))


def _pad_copy(rng: random.Random) -> Case:
    mode = rng.choice(["edge", "reflect", "wrap"])
    shape = shape_of(rng, 1, 4)
    most = {"edge": lambda n: 5, "reflect": lambda n: n - 1, "wrap": lambda n: n}[mode]
    pads = tuple(rng.choice([0, rng.randint(0, most(n))]) for n in (*shape, *shape))
    opset = rng.choice([19, 21, 23] if mode == "wrap" else [13, 18, 21])  # truth values since 13
    return Case({"mode": mode, "pads": pads}, [values(rng, shape, rng.choice(_DTYPES))], opset=opset)


def _depth_to_space(rng: random.Random) -> Case:
    n, c, h, w, block = (rng.randint(1, 3) for _ in range(5))
    mode, opset = rng.choice([("DCR", 7), ("DCR", 11), ("DCR", 17), ("CRD", 11), ("CRD", 17)])
    # ONNX Runtime computes real ones only.
    x = values(rng, (n, c * block * block, h, w), rng.choice(["float32", "float64"]) if opset > 11 else "float32")
    return Case({"blocksize": block, "mode": mode}, [x], opset=opset)


def _space_to_depth(rng: random.Random) -> Case:
    n, c, h, w, block = (rng.randint(1, 3) for _ in range(5))
    x = values(rng, (n, c, h * block, w * block), rng.choice(["float32", "float64"]))
    return Case({"blocksize": block}, [x], opset=rng.choice([13, 17]))


CASES: dict[str, Maker] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Expand": _expand,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
    "PadCopy": _pad_copy,
    "SpaceToDepth": _space_to_depth,
}
