"""The original is loaded by the runtime while it is read."""

from __future__ import annotations

import contextlib
import gc
import time
import weakref
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest
from onnx import helper

from superopt.onnx_io import ModelError
from superopt.optimizer import opening as module
from superopt.optimizer.opening import begin_to_open
from superopt.optimizer.options import Options
from superopt.optimizer.original import OriginalSessions
from superopt.optimizer.source import Source
from superopt.runtime import CannotRun, Target, child, open_session
from superopt.runtime.sessions import in_child
from tests.support.models import floats, lora, model

OPTIONS = Options(ep="cpu", threads=1)
_LONG_S = 500.0


def test_the_session_is_that_of_the_original_and_its_users_to_close() -> None:
    source = Source(lora())
    with begin_to_open(source, OPTIONS) as opening:
        target = opening.target()
    assert target == Target("cpu", 1)
    sessions = OriginalSessions(source, target, opening.session)
    session = weakref.ref(sessions._session("all"))
    assert sessions.runs_optimized
    sessions.close()
    gc.collect()
    assert session() is None


def test_a_model_that_the_runtime_does_not_load() -> None:
    unknown = model([helper.make_node("Nonesuch", ["x"], ["y"])], [floats("x", 2)], [floats("y", 2)])
    with begin_to_open(Source(unknown), OPTIONS) as opening:
        with pytest.raises(CannotRun):
            opening.session()
        assert opening.target() == Target("cpu", 1)


def test_nobody_waits_for_the_session_if_the_model_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(lora())
    monkeypatch.setattr(module, "open_original", lambda *_: in_child(time.sleep, _LONG_S, limit_s=_LONG_S))
    with contextlib.suppress(ModelError), begin_to_open(source, OPTIONS) as opening:
        opening.target()
        raise ModelError("no model")
    with pytest.raises((CannotRun, CancelledError)):
        opening.session()
    assert open_session(lora(), Target("cpu", 1)).output_names == ["y"]


def test_calls_of_other_threads_go_on() -> None:
    in_child(time.sleep, 0.0, limit_s=_LONG_S)
    with ThreadPoolExecutor(1) as other:
        call = other.submit(in_child, time.sleep, 0.5, limit_s=_LONG_S)
        while not child._caller:
            time.sleep(0.001)
        with contextlib.suppress(ModelError), begin_to_open(Source(lora()), OPTIONS):
            raise ModelError("no model")
        call.result()
