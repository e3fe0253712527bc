"""A crash, an endless loop or a lack of memory in the child process costs one call."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.optimizer import optimize
from superopt.runtime import CannotRun, RanTooLong, Target, TimedModel, child, open_session, sessions, time_pair
from tests.support.models import endless, floats, lora, model
from tests.support.paths import ROOT

RELU = model([helper.make_node("Relu", ["x"], ["y"])], [floats("x", 2)], [floats("y", 2)])
FEEDS = {"x": np.array([-1.0, 2.0], np.float32)}


def child_pid() -> int:
    return child.call(os.getpid, limit_s=60.0)


def echo(*values: object) -> tuple[object, ...]:
    return values


def test_values_and_arrays_pass_unchanged() -> None:
    arrays = [
        np.arange(12.0).reshape(3, 4),
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12)[::2],
        np.zeros((0, 3), np.float16),
        np.array(["a", "ü"], dtype=object),
        np.array(5, np.int64),
        numpy_helper.to_array(helper.make_tensor("t", TensorProto.BFLOAT16, [3], [1.0, 2.0, -3.0])),
    ]
    for array, back in zip(arrays, child.call(echo, *arrays, limit_s=60.0), strict=True):
        assert isinstance(back, np.ndarray) and (back.dtype, back.shape) == (array.dtype, array.shape)
        assert back.tolist() == array.tolist()


def test_exceptions_pass() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        child.call(int, "no number", limit_s=60.0)
    assert child.call(int, "5", limit_s=60.0) == 5


def test_a_crash_costs_one_call() -> None:
    session = open_session(RELU, Target())
    with pytest.raises(child.ChildFailed, match="SIGSEGV"):
        child.call(os.kill, child_pid(), signal.SIGSEGV, limit_s=60.0)
    assert session.run(FEEDS)[0].tolist() == [0.0, 2.0]  # opened again in another child


def test_an_abort_says_why() -> None:
    with pytest.raises(child.ChildFailed, match=r"exit code 3: the reason$"):
        child.call(exec, "import os; os.write(2, b'first\\nthe reason\\n'); os._exit(3)", limit_s=60.0)


def test_a_child_that_is_killed_costs_one_run() -> None:
    session = open_session(RELU, Target())
    os.kill(child_pid(), signal.SIGKILL)
    time.sleep(0.1)
    assert session.run(FEEDS)[0].tolist() == [0.0, 2.0]
    killer = threading.Timer(0.5, os.kill, (child_pid(), signal.SIGKILL))
    killer.start()
    with pytest.raises(CannotRun, match="SIGKILL"):
        open_session(endless(), Target()).run({"x": np.array(0, np.float32)})
    assert session.run(FEEDS)[0].tolist() == [0.0, 2.0]


def test_an_endless_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_RUN_SECONDS", 1.0)
    session = open_session(endless(), Target())
    with pytest.raises(RanTooLong, match="did not end within 1 s"):
        session.run({"x": np.array(0, np.float32)})


def test_too_little_memory_is_one_line() -> None:
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["z"]), helper.make_node("ReduceSum", ["z"], ["y"], keepdims=0)]
    size = np.array([1 << 20, 1 << 20], np.int64)  # 4 TiB
    shape = helper.make_tensor_value_info("s", TensorProto.INT64, [2])
    session = open_session(model(nodes, [shape], [floats("y")]), Target())
    with pytest.raises(CannotRun, match="more memory than is available"):
        session.run({"s": size})
    assert open_session(RELU, Target()).run(FEEDS)[0].tolist() == [0.0, 2.0]


def test_what_a_model_prints_disturbs_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    child.call(exec, "import os; print('spam', flush=True); os.write(1, b'more'); os.write(2, b'most')", limit_s=60.0)
    child.call(exec, "import sys; sys.stdin.read()", limit_s=60.0)  # empty, not the parent's
    assert capfd.readouterr() == ("", "")


def test_large_models_pass_by_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sessions, "_MAX_INLINE_BYTES", 10)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    session = open_session(RELU, Target())
    assert [path.name for path in tmp_path.glob("superopt-*/*.onnx")] == ["model.onnx"]
    child.stop()
    assert session.run(FEEDS)[0].tolist() == [0.0, 2.0]
    timing = time_pair(TimedModel(RELU, FEEDS), TimedModel(RELU, FEEDS), Target(), budget_s=0.01, sample_s=0.001)
    assert timing.before > 0
    del session
    assert not list(tmp_path.glob("superopt-*"))


def test_sessions_are_closed_in_the_child() -> None:
    held = open_session(RELU, Target())
    for _ in range(5):
        open_session(RELU, Target())
    held.run(FEEDS)
    count = child.call(eval, "len(__import__('superopt.runtime.engine').runtime.engine._sessions)", limit_s=60.0)
    assert count <= 2


def test_threads_take_turns() -> None:
    found: list[list[float]] = []

    def work() -> None:
        session = open_session(RELU, Target())
        found.extend(session.run(FEEDS)[0].tolist() for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[0.0, 2.0]] * 80


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_has_a_child_of_its_own() -> None:
    first = child_pid()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            status = 0 if child_pid() != first else 1
            child.stop()
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert child_pid() == first


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_the_child_ends_with_its_parent() -> None:
    """The parent is killed while the child runs an endless loop."""
    program = (
        "import sys, os, threading, numpy as np\n"
        "from superopt.runtime import child, open_session, Target\n"
        "from tests.runtime.test_child import endless\n"
        "session = open_session(endless(), Target())\n"
        "print(child._child.process.pid, flush=True)\n"
        "session.run({'x': np.array(0, np.float32)})\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.3)
        parent.kill()
    until = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]:
        assert time.monotonic() < until, "the child has stayed"
        time.sleep(0.05)


def test_scripts_without_a_main_guard_work(tmp_path: Path) -> None:
    """Multiprocessing would import the script again in the child; also from a thread and in a daemonic process."""
    onnx.save(lora(), tmp_path / "m.onnx")
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, sys, threading\n"
        "print('start')\n"
        "def run():\n"
        "    import superopt\n"
        "    print(superopt.optimize('m.onnx', ep='cpu', cost='analytic', budget=0).provider)\n"
        "run()\n"
        "thread = threading.Thread(target=run)\n"
        "thread.start()\n"
        "thread.join()\n"
        "process = multiprocessing.get_context('fork').Process(target=run, daemon=True)\n"
        "process.start()\n"
        "process.join()\n"
        "assert process.exitcode == 0 and 'onnxruntime' not in sys.modules\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-u", str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["start", "cpu", "cpu", "cpu"], done.stderr


def test_an_original_that_does_not_end_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_RUN_SECONDS", 1.0)
    result = optimize(endless(), ep="cpu", budget=0)
    assert not result.changed
    assert "did not end within 1 s" in result.reason
