"""Forms that Gather, Slice, Resize and their relatives take in the opsets, and the one form that terms have."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from onnx import helper

from superopt.evaluate import evaluate
from superopt.ir.dim import evaluate as at_sizes
from superopt.ir.dim import symbol
from superopt.ir.infer import make
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from superopt.onnx_io import ModelError, new_model, read_model, write_model
from superopt.ops.meaning import Meaning
from tests.support.canonical_nodes import read, shown
from tests.support.models import floats
from tests.support.models import model as built
from tests.support.runtime_oracle import round_trip, session
from tests.support.simplified import parsed
from verify.diagnose.numeric import Numeric

WEIGHTS = (
    "int64 i = {-1}, int64[1] i1 = {1}, int64[2] pair = {1, -1}, int32[2] short = {0, 1}, int64[1, 2] table = {1, 0}, "
    "float[4] s22 = {1, 1, 2, 2}, float[4] s23 = {1, 1, 2, 3}, float[4] s11 = {1, 1, 1, 1}, "
    "float[4] s2222 = {2, 2, 2, 2}, float[4] half = {1, 1, 0.5, 2}, float[4] long = {1, 1, 2, 0.5}, "
    "float[4] third = {1, 1, 2.3333333, 1}, int64[4] thin = {1, 2, 6, 1}, int64[4] fifths = {1, 2, 5, 5}, "
    "float[0] none = {}, int64[4] sizes = {1, 2, 6, 12}, "
    "float[2] s2 = {3, 2}, int64[2] sizes2 = {6, 12}, float[4] s33 = {1, 1, 3, 3}"
)

_C = "coordinate_transformation_mode"
REPEATS = f"Resize {_C}=half_pixel nearest_mode=round_prefer_floor"
LINEAR = f"ResizeLinear {_C}="


def _of(node: str, opset: int) -> Term:
    inputs = "float[1, 2, 3, 4] x"
    return read(parsed(f"g ({inputs}) => (float[] y) <{WEIGHTS}> {{ y = {node} }}", opset))


@pytest.mark.parametrize(
    ("opset", "node", "expected"),
    [
        (11, "Gather<axis = 2>(x, i)", "Gather axis=-2 indices=2"),
        (13, "Gather<axis = -1>(x, pair)", "Gather axis=-1 indices=(1, 3)"),
        (7, "Gather<axis = 1>(x, short)", "Gather axis=-3 indices=(0, 1)"),
        (13, "Gather<axis = 1>(x, i1)", "Gather axis=-3 indices=(1,)"),
        (13, "Gather<axis = 1>(x, table)", "Lookup axis=-3"),
        (14, "Trilu(x)", "Trilu k=0 upper=1"),
        (14, "Trilu<upper = 0>(x, i)", "Trilu k=-1 upper=0"),
        (14, "Trilu<upper = 5>(x, i1)", "ai.onnx::Trilu upper=5"),
        (11, "CumSum(x, i)", "CumSum axis=-1 exclusive=0 reverse=0"),
        (14, "CumSum<exclusive = 1, reverse = 1>(x, i1)", "CumSum axis=-3 exclusive=1 reverse=1"),
        (7, "Upsample<scales = [1.0, 1.0, 2.0, 3.0]>(x)", f"{REPEATS} scales=(2, 3)"),
        (9, "Upsample(x, s23)", f"{REPEATS} scales=(2, 3)"),
        (10, "Resize(x, s23)", f"{REPEATS} scales=(2, 3)"),
        (10, "Resize(x, s11)", f"{REPEATS} scales=(1, 1)"),
        (11, "Resize(x, none, s23)", f"{REPEATS} scales=(2, 3)"),
        (13, "Resize(x, , s23)", f"{REPEATS} scales=(2, 3)"),
        (13, "Resize(x, , , sizes)", f"{REPEATS} scales=(2, 3)"),
        (18, "Resize<axes = [3, 2]>(x, , s2)", f"{REPEATS} scales=(2, 3)"),
        (18, "Resize<axes = [2, 3]>(x, , , sizes2)", f"{REPEATS} scales=(2, 3)"),
        (13, "Resize(x, , s2222)", f"{REPEATS} scales=(2, 2, 2, 2)"),
        (13, "Resize(x, , long)", f"{REPEATS} scales=(2, 0.5)"),
        (13, 'Resize<mode = "linear">(x, , s23)', f"{LINEAR}half_pixel scales=(2, 3)"),
        (13, 'Resize<mode = "linear">(x, , long)', f"{LINEAR}half_pixel scales=(2, 0.5)"),
        (13, 'Resize<mode = "linear">(x, , , sizes)', f"{LINEAR}half_pixel scales=(2, 3)"),
        (13, f'Resize<mode = "linear", {_C} = "pytorch_half_pixel">(x, , s23)', f"{LINEAR}half_pixel scales=(2, 3)"),
        (13, f'Resize<mode = "linear", {_C} = "align_corners">(x, , s23)', f"{LINEAR}align_corners scales=(2, 3)"),
        (10, 'Resize<mode = "linear">(x, s23)', f"{LINEAR}asymmetric scales=(2, 3)"),
        (10, 'Resize<mode = "linear">(x, long)', f"{LINEAR}asymmetric scales=(2, 0.5)"),
        (9, 'Upsample<mode = "linear">(x, s23)', f"{LINEAR}asymmetric scales=(2, 3)"),
    ],
)
def test_forms(opset: int, node: str, expected: str) -> None:
    assert shown(_of(node, opset)) == expected


TRANSFORMATIONS = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners", "tf_half_pixel_for_nn",
                   "half_pixel_symmetric")  # fmt: skip
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@pytest.mark.parametrize("scales", ["s11", "s22", "s23", "s33", "long"])
@pytest.mark.parametrize(("transformation", "rounding"), list(itertools.product(TRANSFORMATIONS, ROUNDINGS)))
def test_nearest_element(transformation: str, rounding: str, scales: str) -> None:
    """ONNX Runtime gives the same for the node as it was and as it is written, see `round_trip`, and as it is read."""
    modes = f'coordinate_transformation_mode = "{transformation}", nearest_mode = "{rounding}"'
    opset = {"tf_half_pixel_for_nn": 11, "half_pixel_symmetric": 19}.get(transformation, 13)
    region = "none" if opset == 11 else ""
    term = _of(f"Resize<{modes}>(x, {region}, {scales})", opset)
    whole = scales != "long"
    centred = "half_pixel" in transformation and transformation != "tf_half_pixel_for_nn"
    repeats = (centred and rounding.startswith("round")) or (
        transformation in ("asymmetric", "tf_half_pixel_for_nn") and rounding == "floor"
    )
    assert term.op == "Resize" or not (centred or transformation == "asymmetric" or (repeats and whole))
    if term.op == "Resize":
        x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
        (y,) = session(write_model(new_model([term], opset=opset))).run(None, {"x": x})
        assert np.array_equal(y, evaluate([term], {var("x", tensor(1, 2, 3, 4)): x}, {})[0])
        if repeats and whole:
            assert shown(term).startswith(REPEATS)
            rows, columns = {"s11": (1, 1), "s22": (2, 2), "s23": (2, 3), "s33": (3, 3)}[scales]
            assert np.array_equal(y, x.repeat(rows, 2).repeat(columns, 3))


@pytest.mark.parametrize(
    ("opset", "node"),
    [
        (13, "Resize(x, , half)"),  # 3 * 0.5 is not whole
        (13, "Resize(x, , third)"),  # float32 has rounded 7/3
        (13, "Resize(x, , , fifths)"),  # 5/3 of 3
        (13, 'Resize<mode = "cubic">(x, , s22)'),
        (19, f'Resize<mode = "linear", {_C} = "half_pixel_symmetric">(x, , s23)'),
        (18, 'Resize<mode = "linear", antialias = 1>(x, , long)'),
        (13, f'Resize<mode = "linear", {_C} = "align_corners">(x, , , thin)'),  # a single column has no corners
        (10, "Resize(x, long)"),  # before opset 11 ONNX Runtime rounds up where it reduces
    ],
)
def test_forms_that_stay_as_they_are(opset: int, node: str) -> None:
    assert _of(node, opset).op == f"ai.onnx::{node.split('(')[0].split('<')[0]}"


def test_what_is_computed_is_no_attribute() -> None:
    model = parsed("g (float[2, 3] x, int64[2] i) => (float[2, 3] y) { y = Gather(x, i) }", 17)
    round_trip(model, {"x": np.ones((2, 3), np.float32), "i": np.array([1, 0])})
    assert shown(read_model(model).outputs[0]) == "Lookup axis=-2"


def test_gather_from_the_end_of_a_size_that_is_not_known() -> None:
    model = parsed("g (float[n, 2] x) => (float[] y) <int64[2] i = {-1, 0}> { y = Gather(x, i) }", 17)
    term = read(model)
    assert shown(term) == "Gather axis=-2 indices=(-1, 0)"
    (x,) = term.inputs
    assert x is not None
    rows: list[object] = []
    for place in (0, 1):
        reached: list[object] = []
        algebra = Numeric({"x": lambda _: 0.0}, {})
        algebra.access = lambda tensor, index, reached=reached: reached.append(index)  # type: ignore[method-assign]
        Meaning(algebra).scalar(term, (place, 0))
        rows += reached
    assert rows == [(symbol("n") - 1, 0), (0, 0)]


def test_indices_in_equal_steps_need_no_cases() -> None:
    position = symbol("p")
    term = make("Gather", [var("x", tensor(9))], {"axis": -1, "indices": (7, 5, 3)})
    reached: list[object] = []
    algebra = Numeric({}, {})
    algebra.access = lambda tensor, index: reached.append(index)  # type: ignore[method-assign]
    Meaning(algebra).scalar(term, (position,))
    assert reached == [(7 - 2 * position,)]
    assert [at_sizes(7 - 2 * position, {"p": p}) for p in range(3)] == [7, 5, 3]


def test_slices_of_any_sign() -> None:
    """Starts and ends from anywhere, against ONNX Runtime: read, written, computed and by definition."""
    rng = random.Random(0)
    far = (2**63 - 1, -(2**63), 2**31 - 1, -(2**31))
    for _ in range(150):
        size, step = rng.randint(1, 6), rng.choice([-1, -1, -2, -3, 1, 2, -(2**40)])
        start, end = (rng.choice([rng.randint(-9, 9), rng.randint(-9, 9), rng.choice(far)]) for _ in range(2))
        constants = [(k, np.array([v])) for k, v in (("s", start), ("e", end), ("a", 1), ("t", step))]
        output = helper.make_tensor_value_info("y", 1, [2, "n"])
        node = helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"])
        proto = built([node], [floats("x", 2, size)], [output], constants, opset=13)
        x = np.arange(2 * size, dtype=np.float32).reshape(2, size)
        round_trip(proto, {"x": x})
        (term,) = read_model(proto).outputs
        if step < 0 and end in far[::2]:  # ONNX Runtime does not clamp it as the specification says
            assert term.op == "ai.onnx::Slice"
            continue
        (expected,) = session(proto).run(None, {"x": x})
        assert term.type == tensor(*expected.shape)
        assert np.array_equal(evaluate([term], {var("x", tensor(2, size)): x}, {})[0], expected)
        meaning = Meaning(Numeric({"x": lambda place, x=x: float(x[place])}, {}))
        for place in np.ndindex(expected.shape):
            assert meaning.scalar(term, place) == expected[place]


def test_opsets_that_lack_an_operator() -> None:
    x = var("x", tensor(2, 2, 2))
    for term, opset in (
        (make("Trilu", [x], {"k": 0, "upper": 1}), 13),
        (make("CumSum", [x], {"axis": -1, "exclusive": 0, "reverse": 0}), 10),
    ):
        with pytest.raises(ModelError):
            write_model(new_model([term], opset=opset))
        write_model(new_model([term], opset=17))
