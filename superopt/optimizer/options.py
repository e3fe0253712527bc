"""Options of one run of `optimize`, checked in one place."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

from superopt.choices import EXECUTION_PROVIDERS, FIRST_OPSET, MOST_THREADS, RUNTIMES
from superopt.optimizer.option_values import SAMPLES, as_list, check_at_least, check_shapes, whole
from superopt.search.cost.device import Device, find_device
from superopt.search.strategy.efforts import EFFORTS
from verify.stability.classes import LEVELS

if TYPE_CHECKING:
    from superopt.optimizer.input_data import InputData
    from superopt.runtime import GivenShape

__all__ = ["COST_SOURCES", "DOMAINS", "Options"]

COST_SOURCES = ("measured", "analytic")
DOMAINS = ("all", "onnx")


@dataclass(frozen=True)
class Options:
    """Options of `superopt.optimize`; the signature shows the defaults.

    Raises ValueError, with one line, for a value that cannot be used.

    Attributes:
        ep: Execution provider to optimize for: "cpu", "cuda", or "auto": CUDA if it works, else the CPU.
        target: Runtime to optimize for, and to measure in: "onnxruntime", or "openvino" on the CPU. For OpenVINO costs
            are analytic, and rewrites introduce operators of ONNX itself only (as with `domains="onnx"`).
        threads: Threads of the runtime while measuring; 0 is its own choice, as in a session with default options.
        shapes: Shapes of dynamic inputs, by name, at which the model is measured: `{"x": ((1, 64), 128)}` for sizes
            from 1 to 64 and of 128. Both ends of a range are measured, and a size between them if they are far apart. A
            size that is not given is 1 (or the first of 32, 224, 1024 and 16384 at which the model runs, if it does not
            run at 1), and a larger one at which the model runs in a sensible time and memory. The result stays dynamic,
            and is not slower at any of these sizes.
        rules: File or folder of certified rules; None: the shipped rules.
        add_rules: Files or folders of certified rules to use besides `rules`.
        skip_rules: Ids of rules that are not used.
        numerics: Loosest class of rules to use (`verify.stability.classes.LEVELS`). With "exact" the result gives the
            original's outputs bit for bit. Up to "normwise" each rule used has a proven bound on its rounding errors,
            as a multiple of the original's, and keeps what replaces NaN or infinity by a number, as far as tests can
            tell; with "real-only" there is no bound, and such guards may be removed.
        seed: Seed of the search and of the random inputs.
        budget: Seconds of wall time for the whole run; None: 40, three times as many for each further `effort`. The run
            ends with the best result that it has validated by then. It takes longer only if reading, comparing and
            timing the model once takes longer; also the first run on a machine, which measures it once (`superopt
            calibrate`), stays within.
        timeout: Seconds after which the run is ended, whatever it is doing; None: no limit. The best result that was
            validated until then is taken, else the original is kept. `budget` is shortened to fit.
        alpha: The search may visit graphs that cost up to `alpha` times the best one found; at least 1.
        effort: Thoroughness in looking for gains behind more expensive graphs, 1 to `superopt.search.EFFORTS`; each
            step takes three times as long.
        cost: Source of the costs that guide the search: "measured" (a description of this machine, measured once, and
            timings of rewritten regions) or "analytic" (a description of `device` only).
        device: Device of the cost model: a description, its TOML file, or the name of a shipped one; None: this
            machine, with measured costs, or the provider's default device.
        quick: True for a result within seconds: the search takes only rewrites that are gains by themselves by the
            analytic costs of all known devices, with operators of ONNX itself only, and nothing is timed. Outputs are
            compared on one random input at each size. The options `budget`, `effort`, `cost` and `domains` are not
            used.
        domains: Operators that rewrites may introduce: "onnx" for those of ONNX itself, which every runtime knows, or
            "all": also functions of ONNX Runtime (com.microsoft). Operators that the model has already stay in it.
        target_opset: Version of ONNX's operator set to convert the model to first; None: the model's own. Times are
            then against the converted model, which was compared with the original.
        external_data: True to write weights to a second file beside the result, whatever their size; otherwise only
            above 2 GB.
        target_absent: True if `device` is not this machine: outputs are compared here, nothing is timed, and
            `Result.notices` says so. Needs analytic costs and a device.
        samples: Number of random inputs on which outputs are compared; at least 1. Inputs of other scales are added.
        inputs: Values of inputs, for comparison and timing: .npz files, or arrays by name, for each sample. They also
            fix dynamic sizes. Inputs that a sample does not name are drawn at random.
        remeasure: True to ignore the searches, comparisons and timings of whole models by earlier runs. Otherwise a
            repeated run uses them, and so has the same result.
        in_place: True if `out` may be the model's own file.
        explain: True to fill `Result.attempts`: how often each rule matched and was tried, and what it saved.
        trace: File to which every step of the derivation is written, as JSON; None: no file.
    """

    ep: str = "auto"
    target: str = "onnxruntime"
    threads: int = 0
    shapes: Mapping[str, GivenShape] = field(default_factory=dict)
    rules: str | Path | None = None
    add_rules: Sequence[str | Path] = ()
    skip_rules: Sequence[str] = ()
    numerics: str = "normwise"
    seed: int = 0
    budget: float | None = None
    timeout: float | None = None
    alpha: float = 2.0
    effort: int = 1
    cost: str = "measured"
    device: Device | str | Path | None = None
    quick: bool = False
    domains: str = "all"
    target_opset: int | None = None
    external_data: bool = False
    target_absent: bool = False
    samples: int = 2
    inputs: Sequence[InputData] = ()
    remeasure: bool = False
    in_place: bool = False
    explain: bool = False
    trace: str | Path | None = None

    def __post_init__(self) -> None:
        for field_name, choices in (
            ("ep", EXECUTION_PROVIDERS),
            ("target", RUNTIMES),
            ("numerics", LEVELS),
            ("cost", COST_SOURCES),
            ("domains", DOMAINS),
        ):
            value = getattr(self, field_name)
            if value not in choices:
                raise ValueError(f"unknown {_CHOICES[field_name]} {value!r} ({', '.join(choices)})")
        for field_name in _WHOLE:
            value = getattr(self, field_name)
            if not (value is None and field_name in _OPTIONAL):
                object.__setattr__(self, field_name, whole(field_name, value))
        for field_name, least in _MINIMA.items():
            value = getattr(self, field_name)
            if not (value is None and field_name in _OPTIONAL):
                check_at_least(field_name, value, least)
        if self.threads > MOST_THREADS:
            raise ValueError(f"threads must be at most {MOST_THREADS} on this machine, not {self.threads}")
        for field_name, (types, expected) in _LISTS.items():
            object.__setattr__(self, field_name, as_list(field_name, getattr(self, field_name), types, expected))
        if self.target_opset is not None:
            from superopt.onnx_io.opset import NEWEST_OPSET  # imports here: the command line's help needs defaults only

            if not FIRST_OPSET <= self.target_opset <= NEWEST_OPSET:
                raise ValueError(f"opset must be {FIRST_OPSET} to {NEWEST_OPSET}, not {self.target_opset}")
        if self.effort > EFFORTS:
            raise ValueError(f"effort must be at most {EFFORTS}, not {self.effort}")
        if self.timeout is not None and not (
            isinstance(self.timeout, Real) and 0 < self.timeout <= threading.TIMEOUT_MAX
        ):
            large = isinstance(self.timeout, Real) and self.timeout > 0
            expected = f"at most {int(threading.TIMEOUT_MAX)}" if large else "a positive number of"
            raise ValueError(f"timeout must be {expected} seconds, not {self.timeout!r}")
        check_shapes(self.shapes)
        if self.target == "openvino" and self.ep == "cuda":
            raise ValueError("OpenVINO runs on the CPU: ep must be auto or cpu")
        if self.target_absent and (self.cost != "analytic" or self.device is None):
            raise ValueError("target_absent needs analytic costs (cost='analytic') and a device")

    @property
    def provider(self) -> str:
        """The provider of the target as far as it is asked for: `ep`, or "openvino"."""
        return self.ep if self.target == "onnxruntime" else self.target

    @property
    def is_timed(self) -> bool:
        """True if candidates are timed on this machine."""
        return not (self.quick or self.target_absent)

    @property
    def budget_s(self) -> float:
        """Seconds of wall time for the whole run, such that it ends before `timeout`."""
        budget = _BUDGET_SECONDS * _EFFORT_FACTOR ** (self.effort - 1) if self.budget is None else self.budget
        if self.quick:
            budget = _QUICK_BUDGET_SECONDS
        return budget if self.timeout is None else min(budget, _TIMEOUT_SHARE * self.timeout)

    def as_run(self) -> Options:
        """Return the options as the run uses them: `quick` and `target` decide others."""
        if self.quick:
            return replace(self, cost="analytic", samples=1, domains="onnx")
        if self.target == "openvino":  # its operators are not timed one by one; it has no functions of ONNX Runtime
            return replace(self, cost="analytic", domains="onnx")
        return self

    def load_device(self) -> Device | None:
        """Return the device of the analytic cost model, read from its file if necessary.

        Raises DeviceError, OSError.
        """
        if self.device is None or isinstance(self.device, Device):
            return self.device
        return find_device(self.device)


_BUDGET_SECONDS, _EFFORT_FACTOR = 40.0, 3.0
_QUICK_BUDGET_SECONDS = 5.0
_TIMEOUT_SHARE = 0.8  # the rest is for what was begun when the budget ended, and for writing
_CHOICES = {
    "ep": "execution provider",
    "target": "runtime",
    "numerics": "class of numerics",
    "cost": "source of costs",
    "domains": "choice of domains",
}
_WHOLE = ("threads", "seed", "effort", "samples", "target_opset")
_OPTIONAL = ("budget", "target_opset")  # numbers that may be None
_LISTS: dict[str, tuple[tuple[type, ...], str]] = {
    "add_rules": ((str, Path), "files or folders of rules"),
    "skip_rules": ((str,), "ids of rules"),
    "inputs": SAMPLES,
}
_MINIMA = {"threads": 0, "seed": 0, "budget": 0, "alpha": 1, "effort": 1, "samples": 1}
