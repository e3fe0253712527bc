"""Arguments that cannot be used: the errors say what is taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import superopt
from tests.support.models import lora


class ExportedProgram:
    """A stand-in for that of torch.export."""


@pytest.mark.parametrize(
    ("model", "hint"),
    [(b"...", "not bytes; onnx.load"), (ExportedProgram(), "torch.onnx.export"), (None, "not NoneType")],
)
@pytest.mark.parametrize("settings", [{}, {"timeout": 5.0}])
@pytest.mark.parametrize("function", [superopt.optimize, superopt.simplify])
def test_a_model_that_is_not_taken(
    function: Callable[..., object], model: object, hint: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match=r"must be a path, an onnx\.ModelProto, a torch\.onnx\.ONNXProgram") as refused:
        function(model, **settings)
    assert hint in str(refused.value)


def test_other_arguments_that_are_not_taken() -> None:
    with pytest.raises(TypeError, match=r"options must be superopt\.Options, not dict"):
        superopt.optimize(lora(), None, {"ep": "cpu"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"options must be superopt\.Options, not dict"):
        superopt.optimize(lora(), None, {})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="out must be a path or None, not Options"):
        superopt.optimize(lora(), superopt.Options())  # type: ignore[arg-type]


def test_the_report_may_be_named_by_text(tmp_path: Path) -> None:
    folder = str(tmp_path)
    with pytest.raises(superopt.OutputError, match="is a directory"):
        superopt.optimize(lora(), report=folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("budgt", r"unknown option budgt \(did you mean budget\?\)"),
        ("example_input", r"unknown option example_input \(did you mean example_inputs\?\)"),
        ("qqq", r"unknown option qqq; help\(superopt\.Options\)"),
    ],
)
def test_near_names_of_options(name: str, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        superopt.optimize(lora(), **{name: 3})  # type: ignore[arg-type]
