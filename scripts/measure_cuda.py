"""Measure superopt on a machine with a GPU, by one command within a budget of wall time.

python scripts/measure_cuda.py models/ -o cuda.json                  all *.onnx of a folder, or single files
python scripts/measure_cuda.py models/ -o dry.json --ep cpu --dry    the same steps with tiny budgets, on two models

Steps: the CUDA provider is checked; the tests that need a GPU run; a device description is fitted to measured operators
and written beside the JSON (cuda.toml); then each model is optimized and timed in single precision and in half
precision against ONNX Runtime on CUDA, and against TensorRT and torch.compile where these are installed, all in turns.

The JSON is replaced as a whole after every step and every model. The same command again does what is missing. When the
budget ends, the JSON lists the models that were not reached. Models that are in half precision already are measured as
they are; others are converted if ONNX Runtime's converter is installed.

Exit code 0: everything is measured and right. 1: a test failed, a result is wrong, failed or slower, or a model was not
measured or not reached. 2: CUDA or an argument cannot be used.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpu.alarm import OutOfTime, alarm
from gpu.float16 import CONVERTER, is_float16, is_present

from superopt.bench.contest import BenchmarkSettings
from superopt.bench.contestants import choose
from superopt.bench.processes import Failed, call
from superopt.bench.result import Benchmark
from superopt.bench.run import bench
from superopt.files import check_writable, write_text
from superopt.onnx_io import ModelError
from superopt.runtime import InputError, RuntimeUnavailable, Target, resolve_target, versions
from superopt.search import Device, calibrate, device_of, find_device, shipped_devices
from superopt.search.cost.device import to_toml
from superopt.search.cost.measurement_key import conditions, hardware
from superopt.store import ResultStore
from superopt.temporary import temporary_folder

SCHEMA_VERSION = 1
_ENGINES = ("tensorrt", "torch.compile")
_ROOT = Path(__file__).resolve().parent.parent
_TESTS = "tests/cuda"
_HALF = ".fp16"  # at the end of the names of converted models
# Shares of the budget for the tests and the calibration; the rest is for models.
_TESTS_SHARE, _CALIBRATION_SHARE = 0.15, 0.1
# A model's part is the time left by the models left, but at least so much. Shares of it for each optimizer (and each
# first run of its result), and for timing each contestant.
_LEAST_SECONDS, _OPTIMIZER_SHARE, _TIMING_SHARE = 120.0, 0.6, 0.03  # on an H200, 36 s ended 2 of 6 searches
_MAX_OPTIMIZER_SECONDS, _MAX_TIMING_SECONDS = 180.0, 5.0
_DRY_MODELS, _DRY_SECONDS = 2, 0.05


@dataclass(frozen=True)
class Plan:
    """The task: the files, the target, the end of the budget (`time.monotonic()`), and the JSON file."""

    models: Sequence[Path]
    target: Target
    end: float
    minutes: float
    dry: bool
    seed: int
    rules: Path | None
    out: Path

    @property
    def left_s(self) -> float:
        """Seconds left."""
        return max(0.0, self.end - time.monotonic())

    def check_time(self) -> None:
        """Raise OutOfTime before a step if no time is left: the alarm may be lost (see `alarm`)."""
        if not self.left_s:
            raise OutOfTime

    @property
    def cost_table(self) -> Path:
        """The file of the device description."""
        return self.out.with_suffix(".toml")


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, help="folders with *.onnx, or files, measured in this order")
    parser.add_argument("-o", "--out", type=Path, required=True, help="JSON file; an earlier one is completed")
    parser.add_argument("--minutes", type=float, default=40.0, help="budget of wall time (default: 40)")
    parser.add_argument("--ep", choices=("cuda", "cpu"), default="cuda", help="cpu is for dry runs")
    parser.add_argument("--dry", action="store_true", help="tiny budgets, and the two smallest models only")
    parser.add_argument("--seed", type=int, default=0, help="seed of searches, inputs and the order of measurements")
    parser.add_argument("--rules", type=Path, help="file or folder of certified rules instead of the shipped ones")
    given = parser.parse_args()
    try:
        if not given.minutes > 0:
            raise ValueError("--minutes must be above 0")
        if given.ep == "cpu" and not given.dry:
            raise ValueError("--ep cpu is for --dry: on a CPU use superopt bench")
        end = time.monotonic() + 60 * given.minutes
        if given.out.suffix != ".json":
            raise ValueError(f"{given.out}: the name must end in .json; the cost table stands beside it as .toml")
        if given.rules is not None and not given.rules.exists():
            raise ValueError(f"{given.rules}: no such file")
        models = _files(given.models, given.dry)
        check_writable(given.out)
        target = resolve_target(given.ep, 1)
        plan = Plan(models, target, end, given.minutes, given.dry, given.seed, given.rules, given.out)
        state = _earlier(plan)
    except (ValueError, OSError, RuntimeUnavailable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        with alarm(plan.left_s):
            _measure(plan, state)
    except OutOfTime:
        print("the budget has ended", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted; the same command completes {plan.out}", file=sys.stderr)
        return 130
    _write(plan, state)
    return _report(plan, state)


def _files(given: Sequence[Path], dry: bool) -> list[Path]:
    """Return the models that the command names. Raises ValueError if there are none, or two with one name."""
    found = [file for path in given for file in (sorted(path.glob("*.onnx")) if path.is_dir() else [path])]
    if missing := [str(file) for file in found if not file.is_file()]:
        raise ValueError(f"{missing[0]}: no such file")
    if not found:
        raise ValueError(f"{given[0]}: no *.onnx in this folder")
    if dry:
        smallest = sorted(found, key=lambda file: file.stat().st_size)[:_DRY_MODELS]
        found = [file for file in found if file in smallest]
    names = [file.stem for file in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two models are called {twice[0]}: results are listed by name")
    return found


def _earlier(plan: Plan) -> dict[str, Any]:
    """Return the content of the JSON of an earlier run, or that of a new one. Raises ValueError if it is another's."""
    own = {
        "schema_version": SCHEMA_VERSION,
        "conditions": conditions(plan.target, 0),
        "dry": plan.dry,
        "seed": plan.seed,
    }
    new = {**own, "hardware": hardware(plan.target), "versions": versions(), "models": {}}
    if not plan.out.exists():
        return new
    try:
        found = json.loads(plan.out.read_text(encoding="utf-8"))
        same = {key: found[key] for key in own} == own
    except (ValueError, TypeError, KeyError, OSError):
        raise ValueError(f"{plan.out}: is not a file of this command; name another one") from None
    if not same:
        raise ValueError(f"{plan.out}: was measured under other conditions; name another file")
    return dict(found)


def _write(plan: Plan, state: dict[str, Any]) -> None:
    """Replace the JSON, with what follows from the models' results."""
    benchmark = _benchmark(state)
    derived = {} if benchmark is None else {"summary": _summary(benchmark, state), "losses": benchmark.losses()}
    not_reached = [label for model in plan.models for label in _labels(model) if label not in state["models"]]
    derived["not_reached"] = [label for label in not_reached if label not in state.get("not_converted", {})]
    write_text(plan.out, json.dumps({**state, **derived}, indent=1, allow_nan=False) + "\n")


@functools.cache  # models are large
def _labels(model: Path) -> list[str]:
    """Return the names of a model's results: as it is, and converted, unless it is in half precision already."""
    return [model.stem] if is_float16(model) else [model.stem, model.stem + _HALF]


def _measure(plan: Plan, state: dict[str, Any]) -> None:
    """Do all steps that `state` does not have, and write the JSON after each."""
    if state.get("tests", {}).get("exit_code") is None:
        plan.check_time()
        print("tests", flush=True)
        state["tests"] = _tested(plan)
        _write(plan, state)
    if "device" not in state or not plan.cost_table.exists():
        plan.check_time()
        print("calibration", flush=True)
        state["device"] = _calibrated(plan)
        _write(plan, state)
    contestants, state["absent"] = choose(_ENGINES, plan.target.provider)
    if plan.dry:
        contestants = [one for one in contestants if one.kind == "ours"]
    with temporary_folder() as folder:
        # Sessions are opened anew for each heat; TensorRT takes up to minutes to compile a model.
        os.environ |= {"ORT_TENSORRT_ENGINE_CACHE_ENABLE": "1", "ORT_TENSORRT_CACHE_PATH": str(folder)}
        todo = [(model, label) for model in plan.models for label in _labels(model) if _is_missing(model, label, state)]
        todo.sort(key=lambda one: one[0].stem != one[1])  # models as they are before converted ones
        for position, (model, label) in enumerate(todo):
            plan.check_time()
            file = model if label == model.stem else _converted(model, folder / f"{label}.onnx", plan, state)
            if file is None:
                continue
            part_s = max(_LEAST_SECONDS, plan.left_s / (len(todo) - position))
            precision = "fp16" if file != model or is_float16(model) else "fp32"
            result: dict[str, Any] = {"sha256": _digest(model), "precision": precision}
            try:
                found = bench([file], contestants, _settings(plan, part_s), absent=state["absent"], progress=_say)
                state["models"][label] = result | {"benchmark": json.loads(found.to_json())}
            except (ModelError, InputError) as error:
                state["models"][label] = result | {"problem": str(error)}
            _write(plan, state)
            if file != model:
                file.unlink()


def _is_missing(model: Path, label: str, state: Mapping[str, Any]) -> bool:
    """Return True if there is no result of the model as it is now; an earlier one is dropped."""
    if state["models"].get(label, {}).get("sha256") == _digest(model):
        return False
    state["models"].pop(label, None)
    return True


def _settings(plan: Plan, part_s: float) -> BenchmarkSettings:
    """Return the settings of a model's benchmark that takes about `part_s` seconds."""
    optimizer_s = min(_OPTIMIZER_SHARE * part_s, _MAX_OPTIMIZER_SECONDS)
    timing_s = _DRY_SECONDS if plan.dry else min(_TIMING_SHARE * part_s, _MAX_TIMING_SECONDS)
    ours: dict[str, Any] = {"timeout": optimizer_s, "device": str(plan.cost_table)} | (
        {} if plan.rules is None else {"rules": str(plan.rules)}
    )
    if plan.dry:
        ours |= {"cost": "analytic", "budget": _DRY_SECONDS}
    # The process of superopt gets longer than its own time limit, at which it writes what it has.
    return BenchmarkSettings(
        plan.target, 1, plan.seed, measure_s=timing_s, timeout_s=2 * optimizer_s + _LEAST_SECONDS, ours=ours
    )


def _tested(plan: Plan) -> dict[str, Any]:
    """Run the tests that need a GPU (dry: the same tests on the CPU); return their exit code and last line."""
    marked = "cuda" if plan.target.provider == "cuda" else "not cuda"
    command = [sys.executable, "-m", "pytest", _TESTS, "-q", "-p", "no:cacheprovider", "-m", marked]
    path = os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=_ROOT, env={**os.environ, "PYTHONPATH": path}, text=True, timeout=_TESTS_SHARE * plan.left_s,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"exit_code": None, "result": "did not end within their share of the budget"}
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    result: dict[str, Any] = {"exit_code": done.returncode, "result": lines[-1] if lines else ""}
    if done.returncode:
        result["output"] = lines[-200:]
    return result | {"seconds": round(time.monotonic() - begun, 1)}


def _calibrated(plan: Plan) -> dict[str, Any]:
    """Fit a device description, write its file, and return its figures."""
    gpu = hardware(plan.target).partition("|")[2].partition(",")[0]
    known = [device for device in map(find_device, shipped_devices()) if gpu and device.name in gpu]
    prior = known[0] if known else device_of(plan.target.provider)
    name = gpu or f"{prior.name}, dry run"
    budget_s = _DRY_SECONDS if plan.dry else _CALIBRATION_SHARE * plan.left_s
    with ResultStore() as store:
        found = calibrate(plan.target, prior, store, limit_s=budget_s)
    device = replace(found.device, name=name, measured=False)  # the same for any number of threads of the host
    runtime = versions()["onnxruntime"]
    heading = (
        f"Fitted by scripts/measure_cuda.py to single operators in ONNX Runtime {runtime}.\n"
        f"Measured: {found.measured} of {found.probes} operators. Other figures are those of {prior.name!r}."
    )
    write_text(plan.cost_table, to_toml(device, heading))
    return {"file": plan.cost_table.name, "measured": found.measured, "probes": found.probes,
            "description": _content(device)}  # fmt: skip


def _content(device: Device) -> dict[str, Any]:
    return {key: dict(value) if isinstance(value, Mapping) else value for key, value in vars(device).items()}


def _converted(model: Path, out: Path, plan: Plan, state: dict[str, Any]) -> Path | None:
    """Convert a model to half precision in a process of its own; return its file, or None after noting the reason."""
    refused = state.setdefault("not_converted", {})
    refused.pop(out.stem, None)
    if not is_present():
        refused[out.stem] = f"{CONVERTER} is not installed; a model in half precision is measured as it is"
        return None
    try:
        call("gpu.float16:converter", (model.absolute(), out), max(1.0, plan.left_s))
    except Failed as failed:
        refused[out.stem] = str(failed)
        return None
    return out


def _benchmark(state: Mapping[str, Any]) -> Benchmark | None:
    """Return the models' results as one benchmark, or None if there are none."""
    found = [
        Benchmark.from_json(json.dumps(one["benchmark"])) for one in state["models"].values() if "benchmark" in one
    ]
    if not found:
        return None
    return dataclasses.replace(found[0], contests=[contest for one in found for contest in one.contests])


def _summary(benchmark: Benchmark, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return each contestant's median and geometric mean of the ratios to ONNX Runtime, apart for each precision."""
    found: dict[str, Any] = {}
    for precision in ("fp32", "fp16"):
        own = [one for one in benchmark.contests if state["models"][one.model]["precision"] == precision]
        part = dataclasses.replace(benchmark, contests=own)
        for name, kind in part.contestants.items():
            for clock in part.clocks:
                mean, median = part.mean(name, clock), part.median(name, clock)
                if kind != "baseline" and mean is not None and median is not None:
                    figures = {"median": median, "geometric_mean": mean[0], "models": mean[1]}
                    found.setdefault(precision, {}).setdefault(name, {})[clock] = figures
    return found


def _report(plan: Plan, state: Mapping[str, Any]) -> int:
    """Print the summary of the JSON; return the exit code."""
    content = json.loads(plan.out.read_text(encoding="utf-8"))
    if "tests" in state:
        print(f"tests: {state['tests']['result']}")
    for precision, contestants in content.get("summary", {}).items():
        for name, clocks in contestants.items():
            for clock, at in clocks.items():
                print(f"{precision} {name}, {clock}: median {at['median']:.3f}, geometric mean"
                      f" {at['geometric_mean']:.3f}, {at['models']} models")  # fmt: skip
    for name, reason in state.get("absent", {}).items():
        print(f"absent: {name} ({reason})")
    for name, reason in state.get("not_converted", {}).items():
        print(f"not converted: {name} ({reason})")
    problems = _problems(content)
    for problem in problems:
        print(problem)
    for loss in content.get("losses", []):
        print(f"ours: {loss}")
    if content["not_reached"]:
        print(f"not reached: {', '.join(content['not_reached'])}; the same command completes {plan.out}")
    failed = state.get("tests", {}).get("exit_code") != 0
    return int(failed or bool(problems or content.get("losses") or content["not_reached"]))


def _problems(content: Mapping[str, Any]) -> list[str]:
    """Return one line for each model that could not be measured."""
    contests = [
        contest for one in content["models"].values() for contest in one.get("benchmark", {}).get("contests", [])
    ]
    found = {contest["model"]: contest["problem"] for contest in contests}
    found |= {label: one.get("problem", found.get(label)) for label, one in content["models"].items()}
    return [f"{label}: {problem}" for label, problem in found.items() if problem]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
