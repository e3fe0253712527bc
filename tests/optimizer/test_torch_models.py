"""A module of PyTorch in `optimize`, against a stand-in for PyTorch (`tests/pytorch` has the real one)."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import superopt
from superopt.optimizer.torch_models import from_torch
from tests.support.models import lora


class Module:
    def __init__(self, training: bool) -> None:
        self.training = training


_running = threading.Semaphore(1)


@pytest.fixture
def _torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exporter warns of training, prints, and runs in one thread at a time, as PyTorch's does."""

    def export(module: Module, inputs: tuple[object, ...], **settings: object) -> SimpleNamespace:
        if module.training:
            warnings.warn("Exporting a model while it is in training mode.", stacklevel=2)
        assert _running.acquire(blocking=False), "two exports at once"
        sys.stdout.write("of the exporter\n")
        logging.getLogger("onnx_ir.passes").warning("of the exporter")
        time.sleep(0.05)
        _running.release()
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


@pytest.mark.usefixtures("_torch")
def test_threads_export_one_at_a_time(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    stream = sys.stdout
    with ThreadPoolExecutor(4) as threads:
        exports = [threads.submit(from_torch, Module(False), (1,)) for _ in range(4)]
        time.sleep(0.05)
        sys.stdout.write("of the caller\n")
        for one in exports:
            one.result()
    assert sys.stdout is stream
    assert capsys.readouterr().out == "of the caller\n" and not caplog.records
    assert logging.getLogger("onnx_ir").level == logging.NOTSET
