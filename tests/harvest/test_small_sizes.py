"""Windows at small sizes: conditions of typing hold, kernels keep their size, and axes broadcast as before."""

from __future__ import annotations

import pytest

import superopt.ops  # noqa: F401
from superopt.harvest.pieces import Piece
from superopt.harvest.small_sizes import LeftOut, Small, shrunk
from superopt.ir.dim import symbol
from superopt.ir.notation import parse_terms, show_terms
from superopt.ir.types import TensorType, tensor


def small(text: str, **types: TensorType) -> Small:
    return shrunk(Piece(parse_terms(text, types), frozenset()))


def shapes(found: Small) -> dict[str, tuple[int, ...] | None]:
    return {name: type.concrete() for name, type in found.types.items()}


def test_the_same_size_is_the_same_size() -> None:
    found = shapes(small("Add(MatMul(x, w), b)", x=tensor(128, 768), w=tensor(768, 3072), b=tensor(3072)))
    (rows, inner), (deep, columns), (bias,) = found["x"], found["w"], found["b"]  # type: ignore[misc]
    assert inner == deep and columns == bias
    assert len({rows, inner, columns}) == 3 and max(rows, inner, columns) <= 5 and min(rows, inner, columns) > 1


def test_heads_are_factors() -> None:
    found = small("Transpose[perm=[0, 2, 1, 3]](Reshape[shape=[1, 128, 12, 64]](x))", x=tensor(1, 128, 768))
    one, tokens, width = shapes(found)["x"]  # type: ignore[misc]
    shape = found.outputs[0].inputs[0].attr("shape")  # type: ignore[union-attr]
    assert one == 1
    assert isinstance(shape, tuple) and shape[:2] == (1, tokens)
    assert shape[2] * shape[3] == width and min(shape[2:]) > 1  # type: ignore[operator, type-var]


def test_parts_add_up() -> None:
    found = small(
        "Mul(Split[axis=-1, split=[128, 256]](x).1, Slice[axes=[-1], ends=[384], starts=[128], steps=[1]](x))",
        x=tensor(4, 384),
    )
    text = show_terms(found.outputs)
    _, width = shapes(found)["x"]  # type: ignore[misc]
    split = found.outputs[0].inputs[0].inputs[0].attr("split")  # type: ignore[union-attr]
    assert isinstance(split, tuple)
    assert sum(split) == width and f"ends=[{width}], starts=[{split[0]}]" in text  # type: ignore[arg-type]


@pytest.mark.parametrize(("channels", "group", "each"), [(256, 256, 1), (128, 32, 4), (64, 1, 64)])
def test_groups_stay_groups(channels: int, group: int, each: int) -> None:
    text = f"Conv[dilations=[1, 1], group={group}, pads=[1, 1, 1, 1], strides=[1, 1]](x, w)"
    found = small(text, x=tensor(1, channels, 56, 56), w=tensor(channels, each, 3, 3))
    x, w, groups = shapes(found)["x"], shapes(found)["w"], found.outputs[0].attr("group")
    assert isinstance(groups, int) and x is not None and w is not None
    assert w[2:] == (3, 3) and x[1] == groups * w[1] and x[2] == x[3] >= 3
    assert (groups == 1, w[1] == 1) == (group == 1, each == 1)


def test_strides_that_cut_evenly_still_do() -> None:
    attrs = "dilations=[1, 1], group=1, pads=[0, 0, 0, 0], strides=[4, 4]"
    found = shapes(small(f"Conv[{attrs}](x, w)", x=tensor(1, 3, 224, 224), w=tensor(96, 3, 4, 4)))
    assert found["x"] is not None and found["x"][2] % 4 == 0 and found["x"][2] > 4


def test_windows_of_different_size_see_different_parts() -> None:
    pools = ", ".join(
        f"MaxPool[dilations=[1, 1], kernel_shape=[{k}, {k}], pads=[{k // 2}, {k // 2}, {k // 2}, {k // 2}],"
        " strides=[1, 1]](x)"
        for k in (5, 9, 13)
    )
    found = shapes(small(f"({pools})", x=tensor(1, 256, 20, 20)))
    assert found["x"] is not None and found["x"][2] > 13 // 2


def test_an_axis_of_one_stays_one_and_no_other_becomes_one() -> None:
    found = shapes(small("Mul(Add(x, y), z)", x=tensor(8, 1, 32), y=tensor(1, 16, 32), z=tensor()))
    x, y, z = found["x"], found["y"], found["z"]
    assert x is not None and y is not None
    assert (x[1], y[0], z) == (1, 1, ()) and x[0] > 1 and y[1] > 1 and x[2] == y[2] > 1


def test_an_inner_axis_of_one_stays_one() -> None:
    """A kernel as large as the image leaves one pixel, which broadcasts afterwards."""
    attrs = "dilations=[1, 1], group=1, pads=[0, 0, 0, 0], strides=[1, 1]"
    types = {"x": tensor(1, 64, 7, 7), "w": tensor(64, 64, 7, 7), "y": tensor(1, 64, 5, 5)}
    found = shapes(small(f"Mul(Conv[{attrs}](x, w), y)", **types))
    assert found["x"] is not None and found["x"][2:] == (7, 7)


def test_open_sizes_get_numbers() -> None:
    batch = symbol("batch")
    found = shapes(small("MatMul(x, w)", x=tensor(batch, 2 * batch, 64), w=tensor(64, 64)))
    assert found["x"] is not None and found["x"][1] == 2 * found["x"][0]


def test_indices_stay_different() -> None:
    found = small("(Gather[axis=0, indices=19](x), Gather[axis=0, indices=18](x))", x=tensor(20, 200))
    assert len(set(found.outputs)) == 2


def test_real_types_become_float() -> None:
    found = small("Add(x, y)", x=tensor(64, dtype="float16"), y=tensor(64, dtype="float16"))
    assert {type.dtype for type in found.types.values()} == {"float"}


def test_what_cannot_be_small_is_left_out() -> None:
    pool = "MaxPool[dilations=[1, 1], kernel_shape=[300, 300], pads=[0, 0, 0, 0], strides=[1, 1]](x)"
    with pytest.raises(LeftOut, match=r"no small sizes|elements"):
        small(pool, x=tensor(1, 64, 400, 400))
    with pytest.raises(LeftOut, match="more than 8 indices"):
        small(f"Gather[axis=0, indices={list(range(9))}](x)", x=tensor(20))
