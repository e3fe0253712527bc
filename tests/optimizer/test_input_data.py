"""Values of inputs from files: used for comparison and timing, checked with one clear line."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from superopt.cli import main
from superopt.optimizer.input_data import load_inputs
from superopt.optimizer.options import Options
from superopt.optimizer.source import Source
from superopt.optimizer.validator import Validator
from superopt.runtime import InputError, InputSpec, Target
from tests.support.certified import certified
from tests.support.models import LORA_RULES, floats, lora, model

SPECS = [
    InputSpec("audio", TensorProto.FLOAT, (None, 8), ("batch", None)),
    InputSpec("rate", TensorProto.INT64, ()),
    InputSpec("half", TensorProto.BFLOAT16, (2,)),
    InputSpec("word", TensorProto.STRING, (1,)),
]


def picky() -> onnx.ModelProto:
    """Runs at the rate of 16000 only, which no random draw finds."""
    nodes = [
        helper.make_node("Sub", ["rate", "wanted"], ["difference"]),
        helper.make_node("Gather", ["table", "difference"], ["row"]),
        helper.make_node("Mul", ["x", "row"], ["y"]),
    ]
    rate = helper.make_tensor_value_info("rate", TensorProto.INT64, [])
    constants = [("wanted", np.array(16000, np.int64)), ("table", np.ones((1, 8), np.float32))]
    return model(nodes, [floats("x", "batch", 8), rate], [onnx.ValueInfoProto(name="y")], constants)


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_values_are_read_in_the_types_of_the_inputs(tmp_path: Path) -> None:
    half = np.array([1, 2], ml_dtypes.bfloat16)
    path = npz(tmp_path / "a.npz", audio=np.ones((3, 8), np.float32), rate=np.int64(5), half=half, word=np.array(["a"]))
    found = load_inputs(path, SPECS)
    assert found["audio"].shape == (3, 8) and found["rate"].shape == ()
    assert found["half"].dtype == half.dtype and found["half"].tolist() == [1, 2]
    assert found["word"].dtype == object


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "no arrays"),
        ({"adio": np.ones(1)}, "no input 'adio' (did you mean audio?)"),
        ({"z": np.ones(1)}, "no input 'z' (inputs: audio, rate, half, word)"),
        ({"audio": np.ones((1, 8))}, "input audio is float32, not float64"),
        ({"audio": np.ones((1, 7), np.float32)}, "input audio has shape batch x 8, not 1 x 7"),
        ({"audio": np.ones(8, np.float32)}, "input audio has shape batch x 8, not 8"),
        ({"rate": np.ones(1, np.int64)}, "input rate has shape (), not 1"),
        ({"word": np.ones(1)}, "input word is strings, not float64"),
    ],
)
def test_values_that_do_not_fit(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", **arrays)
    for data, label in ((path, f"{path}: "), (arrays, "")):
        with pytest.raises(InputError) as error:
            load_inputs(data, SPECS)
        assert message in str(error.value) and str(error.value).startswith(label) and "\n" not in str(error.value)


def test_files_that_are_no_values(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.ones(2))
    (tmp_path / "text").write_text("x=1")
    (tmp_path / "empty").touch()
    whole = npz(tmp_path / "whole.npz", audio=np.ones((64, 8), np.float32)).read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    np.savez(tmp_path / "objects.npz", audio=np.full((1, 8), {}, dtype=object))
    for name in ("one.npy", "text", "empty", "cut", "objects.npz"):
        with pytest.raises(InputError, match=r"numpy\.savez"):
            load_inputs(tmp_path / name, SPECS)


def _odd_archives() -> dict[str, bytes]:
    """Archives that NumPy and zipfile refuse with errors of their own."""
    stored, huge = io.BytesIO(), io.BytesIO()
    np.savez(stored, audio=np.ones((2, 8), np.float32))
    np.lib.format.write_array_header_1_0(huge, {"descr": "<f4", "fortran_order": False, "shape": (10**7, 10**7)})
    made = {}
    for name, content in (("huge", huge.getvalue()), ("header", b"\x93NUMPY\x01\x00\x08\x00{'a': (\n")):
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("audio.npy", content)
        made[name] = archive.getvalue()
    central = stored.getvalue().rindex(b"PK\x01\x02")
    for name, places, value in (("password", (6, central + 8), 1), ("method", (8, central + 10), 97)):
        changed = bytearray(stored.getvalue())
        for place in places:
            changed[place] = value
        made[name] = bytes(changed)
    return made


@pytest.mark.parametrize("name", ["huge", "header", "password", "method"])
def test_odd_archives_are_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.npz"
    path.write_bytes(_odd_archives()[name])
    with pytest.raises(InputError, match=r"odd\.npz: [^\n]+$"):
        load_inputs(path, [])


def test_arrays_of_other_shapes_are_not_unpacked(tmp_path: Path) -> None:
    """This one has a header alone: who unpacks it finds that its numbers are missing."""
    path = tmp_path / "huge.npz"
    path.write_bytes(_odd_archives()["huge"])
    with pytest.raises(InputError, match="input audio has shape batch x 8, not 10000000 x 10000000"):
        load_inputs(path, SPECS)


def test_members_that_are_no_arrays(tmp_path: Path) -> None:
    path = tmp_path / "odd.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("audio", b"x = 1")
    with pytest.raises(InputError, match=r"numpy\.savez"):
        load_inputs(path, SPECS)


def test_given_values_make_a_model_run_and_fix_its_sizes() -> None:
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    options = Options(inputs=[{"rate": np.array(16000), "x": x}, {"rate": np.array(16000), "x": x[:2]}])
    validator = Validator(Source(picky()), Target(), options)
    assert validator.shapes == [{"x": (3, 8), "rate": ()}, {"x": (2, 8), "rate": ()}]
    assert all(feeds["rate"] == 16000 for feeds in validator.feeds)
    np.testing.assert_array_equal(validator.feeds[0]["x"], x)
    assert validator.compare(picky().SerializeToString())[0].ok


def test_inputs_that_are_not_given_are_drawn() -> None:
    validator = Validator(Source(picky()), Target(), Options(inputs=[{"rate": np.array(16000)}], shapes={"x": (4, 8)}))
    assert validator.shapes == [{"x": (4, 8), "rate": ()}]
    assert len({feeds["x"].tobytes() for feeds in validator.feeds}) == len(validator.feeds) > 3
    assert all(feeds["rate"] == 16000 for feeds in validator.feeds)


def test_a_given_shape_contradicts_the_values() -> None:
    options = Options(inputs=[{"x": np.ones((2, 64), np.float32)}], shapes={"x": (4, 64)})
    with pytest.raises(InputError, match="input x is given with shape 2x64, and --shape says 4x64"):
        Validator(Source(lora("batch")), Target(), options)


def test_command(tmp_path: Path, short_measurements: None) -> None:
    onnx.save(picky(), tmp_path / "model.onnx")
    rules = certified(tmp_path / "lora.rules", LORA_RULES)
    sample = npz(tmp_path / "sample.npz", rate=np.int64(16000))
    arguments = [
        "optimize",
        tmp_path / "model.onnx",
        "-o",
        tmp_path / "out.onnx",
        "--cost",
        "analytic",
        "--budget",
        "1",
        "--rules",
        rules,
    ]
    refused = CliRunner().invoke(main, [*map(str, arguments)])
    assert "--inputs FILE.npz" in refused.output
    done = CliRunner().invoke(main, [*map(str, arguments), "--inputs", str(sample)])
    assert done.exit_code == 0 and "cannot be run" not in done.output
    typo = CliRunner().invoke(
        main, [*map(str, arguments), "--inputs", str(npz(tmp_path / "typo.npz", rte=np.int64(1)))]
    )
    assert typo.exit_code == 2 and "did you mean rate?" in typo.output
    absent = CliRunner().invoke(main, [*map(str, arguments), "--inputs", str(tmp_path / "no.npz")])
    assert absent.exit_code == 2 and "no.npz" in absent.output
