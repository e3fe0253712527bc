"""The benchmark: who takes part, that nobody takes the run down, and what is written. Nothing here asks who is fast."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import onnx
import pytest
from click.testing import CliRunner

from superopt.bench import contestants
from superopt.bench.chart import draw
from superopt.bench.contest import BASELINE, BenchmarkSettings
from superopt.bench.contestants import ALWAYS, PEERS, Contestant, UnknownPeer, choose
from superopt.bench.processes import Failed, call
from superopt.bench.result import Benchmark, Contest, EngineSpeed, Row
from superopt.bench.run import bench
from superopt.cli import main
from superopt.onnx_io import ModelError
from superopt.runtime import InputError, time_contest
from tests.support.models import lora

CONTROL, OURS = ALWAYS
QUICK = BenchmarkSettings(measure_s=0.01, timeout_s=120.0, threads=1, ours={"budget": 1.0})


def fake(name: str, kind: contestants.Kind = "peer") -> Contestant:
    return Contestant(name, kind, f"tests.support.bench_fakes:{name}")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "lora.onnx"
    onnx.save(lora(), path)
    return path


@pytest.fixture(autouse=True)
def _own_cost_cache_in_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def rows(benchmark: Benchmark) -> dict[str, Row]:
    (contest,) = benchmark.contests
    return {row.contestant: row for row in contest.rows}


def speed(ratio: float) -> EngineSpeed:
    return EngineSpeed(1.0, 0.9, 1.1, ratio, ratio - 0.01, ratio + 0.01, 12)


def benchmark(*contests: Contest) -> Benchmark:
    return Benchmark({"cpu": "CPU time", "wall": "wall time"}, list(contests))


def test_everybody_is_measured_by_both_clocks(model: Path, lora_rules: Path, tmp_path: Path) -> None:
    options = replace(QUICK, ours={"budget": 1.0, "rules": str(lora_rules)})
    said: list[str] = []
    finished: list[Contest] = []
    keep = tmp_path / "kept"
    found = bench([model], [CONTROL, OURS], options, keep=keep, progress=said.append, finished=finished.append)
    assert found.contests == finished
    assert [row.kind for row in found.contests[0].rows] == ["baseline", "control", "ours"]
    for row in rows(found).values():
        assert row.status == "ok", row
        assert row.speeds.keys() == {"cpu", "wall"}
        for one in row.speeds.values():
            assert 0 < one.low <= one.ratio <= one.high
            assert 0 < one.low_ms <= one.ms <= one.high_ms
    baseline, control, ours = rows(found).values()
    assert (baseline.contestant, baseline.speeds["cpu"].ratio, baseline.seconds) == (BASELINE, 1.0, None)
    assert (control.relative, control.operators) == (0.0, 5)
    for row in (control, ours):
        assert row.seconds is not None and row.seconds > 0
        assert row.peak_mb is None or row.peak_mb > 10
        assert row.relative is not None and row.tolerance is not None and row.relative <= row.tolerance
    assert {path.name for path in (keep / "lora").iterdir()} >= {"saved_again.onnx", "superopt.onnx", "superopt.json"}
    assert any("superopt" in line for line in said)
    assert found.machine["cores"] >= 1


def test_nobody_takes_the_run_down(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    names = ("good", "wrong", "raising", "crashing", "unloadable", "silent")
    found = rows(bench([model], [fake(name) for name in names], QUICK))
    assert {name: found[name].status for name in names} == {
        "good": "ok",
        "wrong": "wrong",
        "raising": "failed",
        "crashing": "failed",
        "unloadable": "failed",
        "silent": "failed",
    }
    assert found["good"].note == "copied"
    assert found["raising"].note == "NotImplementedError: no such operator"
    assert "SIGKILL" in found["crashing"].note
    assert "NoSuchOperator" in found["unloadable"].note
    assert found["silent"].note == "wrote no model"
    assert "over the tolerance" in found["wrong"].note
    assert {name for name, row in found.items() if row.speeds} == {BASELINE, "good"}
    assert "stdout" not in capfd.readouterr().out


def test_who_hangs_is_stopped_with_what_it_started(model: Path) -> None:
    started = model.with_suffix(".pid")
    for patience in (3.0, 20.0, 100.0):  # a busy machine may need them to get so far
        with pytest.raises(Failed, match=f"stopped after {patience:.0f} s"):
            call("tests.support.bench_fakes:hanging", (model, model, {}), patience)
        if started.exists():
            break
    assert started.exists()
    deadline = time.monotonic() + 10
    while _runs(int(started.read_text(encoding="utf-8"))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(int(started.read_text(encoding="utf-8")))


def _runs(pid: int) -> bool:
    """Return True if the process runs; an ended process may still wait for init to notice."""
    status = Path(f"/proc/{pid}/stat")
    if status.exists():
        return status.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not Path("/proc/self").exists()


def test_memory_is_that_of_the_optimizer(model: Path) -> None:
    held = bytearray(300 * 2**20)  # here, and not in the processes below
    held[:: 2**12] = b"x" * len(held[:: 2**12])
    small = call("tests.support.bench_fakes:good", (model, model.with_name("a.onnx"), {}), 60.0)
    large = call("tests.support.bench_fakes:greedy", (model, model.with_name("b.onnx"), {}), 60.0)
    if small.peak_bytes is None or large.peak_bytes is None:
        pytest.skip("this system does not tell")
    assert large.peak_bytes - small.peak_bytes > 150 * 2**20
    if Path("/proc/self/status").exists():
        assert small.peak_bytes < len(held)


def test_the_original_that_does_not_run_is_said_so(model: Path, tmp_path: Path) -> None:
    proto = onnx.load(model)
    proto.graph.node[-1].op_type = "NoSuchOperator"
    onnx.save(proto, tmp_path / "odd.onnx")
    proto.graph.input[0].type.CopyFrom(onnx.helper.make_sequence_type_proto(proto.graph.input[0].type))
    onnx.save(proto, tmp_path / "sequence.onnx")
    found = bench([tmp_path / "odd.onnx", tmp_path / "sequence.onnx", model], [CONTROL], QUICK)
    for contest in found.contests[:2]:
        assert contest.rows == []
        assert "cannot be run" in (contest.problem or "")
    assert len(found.contests[2].rows) == 2


def test_what_cannot_be_used_is_said_before_anything_is_done(model: Path, tmp_path: Path) -> None:
    begun: list[str] = []
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError):
        bench([model, tmp_path / "bad.onnx"], [CONTROL], QUICK, progress=begun.append)
    with pytest.raises(InputError, match="'z'"):
        bench([model], [CONTROL], replace(QUICK, shapes={"z": (1,)}), progress=begun.append)
    with pytest.raises(InputError, match="input x has shape"):
        bench([model], [CONTROL], replace(QUICK, shapes={"x": (1, 2, 3)}), progress=begun.append)
    assert begun == []


def test_equal_names_are_told_apart(model: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    twin = tmp_path / "other" / model.name
    twin.write_bytes(model.read_bytes())
    found = bench([model, twin], [], QUICK)
    assert [contest.model for contest in found.contests] == [f"{tmp_path.name}_lora", "other_lora"]


def test_in_each_heat_all_are_made_anew_and_in_turns() -> None:
    made: list[int] = []

    def maker(number: int) -> Callable[[], Callable[[], object]]:
        def make() -> Callable[[], object]:
            made.append(number)
            return lambda: sum(range(1000))

        return make

    standings = time_contest([maker(n) for n in range(4)], budget_s=0.0, cpu_clock=False, sample_s=1e-4)
    heats = [made[i : i + 4] for i in range(0, len(made), 4)]
    assert len(heats) == 4
    assert all(sorted(heat) == [0, 1, 2, 3] for heat in heats)
    assert heats[0] == heats[1][::-1] and heats[2] == heats[3][::-1]
    first = standings[0].timing
    assert (first.ratio, first.low, first.high) == (1.0, 1.0, 1.0)
    for standing in standings:
        assert standing.low <= standing.timing.after <= standing.high
        assert standing.timing.low <= standing.timing.ratio <= standing.timing.high
        assert standing.timing.rounds == 12


def test_choosing_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Contestant, "installed", lambda self: {*self.modules} <= {"onnxsim", "openvino"})
    chosen, absent = choose(None, "cpu")
    assert [one.name for one in chosen] == ["saved again", "superopt", "onnxsim", "openvino", "superopt+openvino"]
    assert absent == dict.fromkeys(("onnxslim", "onnxscript", "onnxoptimizer"), "not installed")
    chosen, absent = choose(["openvino", "onnxslim"], "cuda")
    assert chosen == list(ALWAYS)
    assert absent == {"onnxslim": "not installed", "openvino": "runs on the CPU only"}
    assert choose(["tensorrt", "openvino"], "cpu")[1] == {"tensorrt": "not installed"}
    assert choose(None, "cuda")[1].keys() >= {"tensorrt", "torch.compile"}
    assert choose([], "cpu") == (list(ALWAYS), {})
    with pytest.raises(UnknownPeer, match="nobody"):
        choose(["nobody"], "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_peers_that_are_installed_are_right(peer: Contestant, model: Path) -> None:
    if not peer.installed():
        pytest.skip(f"{peer.name} is not installed")
    row = rows(bench([model], [peer], QUICK))[peer.name]
    assert row.status == "ok", row
    assert row.speeds.keys() == {"cpu", "wall"}
    assert peer.version() is not None


FULL = benchmark(
    Contest("a<b", [Row(BASELINE, "baseline", speeds={"cpu": speed(1.0), "wall": speed(1.0)}),
                    Row("superopt", "ours", speeds={"cpu": speed(2.0), "wall": speed(1.5)}, relative=1e-7),
                    Row("peer", "peer", "failed", "crashed (SIGSEGV)")]),
    Contest("c", [Row("superopt", "ours", speeds={"cpu": speed(8.0)}),
                  Row("peer", "peer", speeds={"cpu": speed(0.5), "wall": speed(0.4)})], ["a notice"]),
    Contest("d", problem="does not run"),
)  # fmt: skip


def test_json_round_trip() -> None:
    content = json.loads(FULL.to_json())
    assert content["schema_version"] == 1
    assert content["geometric_means"]["superopt"] == {"cpu": pytest.approx(4.0), "wall": pytest.approx(1.5)}
    assert Benchmark.from_json(FULL.to_json()) == FULL


def test_means_are_over_what_was_measured() -> None:
    assert FULL.mean("superopt", "cpu") == (pytest.approx(4.0), 2)
    assert FULL.mean("peer", "wall") == (pytest.approx(0.4), 1)
    assert FULL.mean("nobody", "cpu") is None


@pytest.mark.parametrize(
    ("row", "lost"),
    [
        (Row("superopt", "ours", speeds={"cpu": speed(1.0)}), False),
        (Row("superopt", "ours", speeds={"cpu": speed(0.975)}), False),  # its interval reaches 0.985
        (Row("superopt", "ours", speeds={"cpu": speed(1.2), "wall": speed(0.9)}), True),
        (Row("superopt", "ours", "wrong", "differs"), True),
        (Row("superopt", "ours", "failed", "crashed"), True),
        (Row("onnxsim", "peer", "wrong", "differs", speeds={"cpu": speed(0.5)}), False),
    ],
)
def test_losses_are_ours(row: Row, lost: bool) -> None:
    assert bool(benchmark(Contest("m", [row])).losses()) == lost


@pytest.mark.parametrize("drawn", [FULL, benchmark(), benchmark(Contest("m", problem="none"))])
def test_chart_is_well_formed(drawn: Benchmark) -> None:
    root = ElementTree.fromstring(draw(drawn))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert all(contest.model in texts for contest in drawn.contests)
    if drawn is FULL:
        assert {"geometric mean", "failed", "2.000", "0.400 (1)"} <= set(texts)
    bars = [bar for bar in root.iter("{http://www.w3.org/2000/svg}rect") if bar.get("class")]
    assert all(float(bar.attrib["width"]) >= 0 for bar in bars)


def command(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["bench", *map(str, arguments), "--ep", "cpu"])
    return done.exit_code, done.stdout, done.stderr


def only(monkeypatch: pytest.MonkeyPatch, ours: str, peers: Sequence[Contestant] = ()) -> None:
    """`ours` stands in for our optimizer."""
    monkeypatch.setattr(contestants, "ALWAYS", (CONTROL, fake(ours, "ours")))
    monkeypatch.setattr(contestants, "PEERS", tuple(peers))


QUICKLY = ("--measure-s", "0", "--budget", "0", "--threads", "1")


def test_command(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "good", [Contestant("missing", "peer", "none:none", "no_such_module_anywhere")])
    code, out, _ = command(model, *QUICKLY, "--svg", tmp_path / "chart.svg")
    assert code in (0, 1)  # 1 where this machine found a copy slower; by which figures, the table says
    assert "good" in out and "geometric mean" in out and "saved again" in out
    assert "…" not in out
    assert "missing (not installed)" in out
    ElementTree.fromstring((tmp_path / "chart.svg").read_text(encoding="utf-8"))
    _, out, _ = command(model, *QUICKLY, "--json")
    assert rows(Benchmark.from_json(out))["good"].status == "ok"
    _, out, _ = command(model, *QUICKLY, "--markdown")
    assert "|---" in out.replace(" ", "") or "|:--" in out.replace(" ", "")


@pytest.mark.parametrize("ours", ["wrong", "crashing"])
def test_command_fails_where_ours_does(ours: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, ours)
    code, out, errors = command(model, *QUICKLY)
    assert code == 1
    assert f"ours: lora: {'wrong' if ours == 'wrong' else 'failed'}" in errors
    assert "geometric mean" in out


def test_command_passes_over_what_does_not_run(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "good")
    proto = onnx.load(model)
    proto.graph.node[-1].op_type = "NoSuchOperator"
    onnx.save(proto, tmp_path / "odd.onnx")
    code, out, _ = command(tmp_path / "odd.onnx", *QUICKLY)
    assert code == 2
    assert "odd: the original cannot be run here" in out


def test_command_refuses_a_peer_that_is_asked_for_and_not_installed(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Contestant, "installed", lambda self: self.name != "onnxslim")
    code, out, errors = command(model, "--peers", "onnxsim,onnxslim")
    assert (code, out) == (2, "")
    assert "onnxslim is not installed here; pip install onnxslim" in errors


def test_command_refuses_what_it_cannot_use(model: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    for arguments in [
        (tmp_path / "bad.onnx",),
        (model, "--shape", "z=1"),
        (model, "--shape", "x"),
        (model, "--peers", "nobody"),
        (model, "--svg", tmp_path),
        (),
    ]:
        code, out, errors = command(*arguments)
        assert (code, out) == (2, ""), arguments
        assert "Traceback" not in errors
