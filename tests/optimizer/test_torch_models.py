"""A module of PyTorch in `optimize`, against a stand-in for PyTorch (`tests/pytorch` has the real one)."""

from __future__ import annotations

import contextlib
import sys
import warnings
from types import SimpleNamespace

import pytest

import superopt
from tests.support.models import lora


class Module:
    def __init__(self, training: bool) -> None:
        self.training = training


@pytest.fixture
def _torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exporter warns of training, as PyTorch's does."""

    def export(module: Module, inputs: tuple[object, ...], **settings: object) -> SimpleNamespace:
        if module.training:
            warnings.warn("Exporting a model while it is in training mode.", stacklevel=2)
        return SimpleNamespace(model_proto=lora())

    attention = SimpleNamespace(get_fastpath_enabled=lambda: True, set_fastpath_enabled=lambda _: None)
    torch = SimpleNamespace(
        nn=SimpleNamespace(Module=Module),
        onnx=SimpleNamespace(export=export),
        backends=SimpleNamespace(mha=attention),
        no_grad=contextlib.nullcontext,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)


@pytest.mark.usefixtures("_torch")
@pytest.mark.parametrize("training", [False, True])
def test_training_mode_is_told_once(training: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        superopt.optimize(Module(training), example_inputs=(1,), quick=True, ep="cpu")
    told = [warning for warning in caught if "training mode" in str(warning.message)]
    assert len(told) == training and all(warning.filename == __file__ for warning in told)
