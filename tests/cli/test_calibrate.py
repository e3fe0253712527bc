"""`superopt calibrate`: the machine is measured anew, and its description can be used elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from superopt.cli import main
from superopt.ir.term import Term
from superopt.search.cost.device import read_device
from superopt.search.cost.operator_timer import OperatorTimer


def test_the_description_is_printed_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[Term] = []

    def seconds(self: OperatorTimer, alone: Term) -> float:
        timed.append(alone)
        return 1e-5

    monkeypatch.setattr(OperatorTimer, "seconds", seconds)
    out, runner = tmp_path / "server.toml", CliRunner()
    done = runner.invoke(main, ["calibrate", "--ep", "cpu", "--threads", "1", "-o", str(out), "--json"])
    assert done.exit_code == 0 and f"written: {out}" in done.stderr, done.output
    found, device = json.loads(done.stdout), read_device(out)
    assert (found["name"], device.name) == ("this machine (cpu)", "server") and found["slower"] == dict(device.slower)
    count = len(timed)
    shown = runner.invoke(main, ["calibrate", "--ep", "cpu", "--threads", "1"])
    assert len(timed) == 2 * count  # nothing of the first run is used
    assert "kinds of kernels" in shown.stdout and "GFLOP/s" in shown.stdout


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["calibrate", "--ep", "cpu", "-o", str(tmp_path / "none" / "server.toml")])
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
