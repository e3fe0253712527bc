"""Arguments that cannot be used: the errors say what is taken."""

from __future__ import annotations

from collections.abc import Callable
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


def test_a_page_that_nobody_would_write_is_not_taken() -> None:
    with pytest.raises(TypeError, match="unknown option report"):
        superopt.optimize(lora(), report="run.html")


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
