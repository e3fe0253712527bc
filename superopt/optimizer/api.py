"""`superopt.optimize`: a run from file to file, here or within a time limit, and the end of a run that was stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from superopt.blas import one_thread
from superopt.onnx_io import ModelError, save_model
from superopt.optimizer.arguments import check_files, with_settings
from superopt.optimizer.conversion import converted, converts
from superopt.optimizer.files import RESULT, check_inputs_stay, check_outputs, count_operators
from superopt.optimizer.model_search import Finder
from superopt.optimizer.model_timer import Timer
from superopt.optimizer.options import Options
from superopt.optimizer.outcome import Checkpoint, Outcome
from superopt.optimizer.remembered_search import remembered_search
from superopt.optimizer.result import Result
from superopt.optimizer.run import run
from superopt.optimizer.source import Source
from superopt.optimizer.torch_models import from_torch, is_torch, warn_of_training
from superopt.optimizer.trace_json import traces_to_json
from superopt.runtime.child import Child, ChildFailed, DidNotEnd
from superopt.runtime.child_main import tell
from superopt.temporary import temporary_folder

__all__ = ["finish", "optimize", "optimize_file", "optimize_here"]

Model = str | Path | onnx.ModelProto
_OTHERS = ("example_inputs", "progress")  # arguments besides options


def optimize(
    model: Model | Any,
    out: str | Path | None = None,
    options: Options | None = None,
    *,
    example_inputs: Sequence[Any] | None = None,
    progress: Callable[[str], None] | None = None,
    finder: Finder = remembered_search,
    timer: Timer | None = None,
    **settings: Any,
) -> Result:
    """Make `model` faster on the chosen target, or keep it unchanged; write the result to `out` if given.

    `model` is a path, a model in memory, a `torch.onnx.ONNXProgram`, or a `torch.nn.Module` with a tuple of
    `example_inputs`, which is exported first (`torch.onnx.export`). As there, a dict at the end of the tuple holds
    keyword arguments.

    `options` defaults to `Options()`. Keyword arguments with the names of its fields replace single options:
    `optimize("model.onnx", "fast.onnx", ep="cpu")`. `progress` receives one line when a phase begins. `finder`
    and `timer` replace the search and the measurement in tests. `superopt.report.render_run` makes a page of a result.

    A result is written only if its trace replays in the kernel step by step, its outputs agree with the original's on
    random inputs, and it was not slower in an interleaved measurement. If the whole result fails one of these checks,
    smaller parts of it are tried; if none passes, the original is written unchanged. A model that cannot be run here is
    unchanged with measured costs; with analytic costs it is rewritten by proven rules, and `Result.notices` says that
    nothing was compared or timed. `Result.proto` is the resulting model in memory.

    With the option `timeout`, the run is made in a child process, which is ended when the time is over.

    Raises TypeError, ValueError (an option that cannot be used), OSError, and errors that are attributes of `superopt`:
    ModelError (unreadable model), RulesError, RuntimeUnavailable, InputError (shapes that the model does not take),
    DeviceError, OutputError (a file that cannot be written, or that is also another file of the run).
    """
    options = with_settings(Options() if options is None else options, settings, _OTHERS)
    check_files(model, out)
    if is_torch(model):
        warn_of_training(model)
        model = from_torch(model, example_inputs)
    elif example_inputs is not None:
        raise ValueError("example_inputs are for a torch.nn.Module")
    if finder is not remembered_search or timer is not None:
        return optimize_here(model, out, options, progress=progress, finder=finder, timer=timer)
    return optimize_file(model, out, options, progress=progress)


def optimize_file(
    model: Model,
    out: str | Path | None,
    options: Options,
    *,
    report: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Result:
    """Do the same as `optimize`. `report` is a file that the caller will write; it is checked with the other files."""
    if options.timeout is None:
        return optimize_here(model, out, options, report=report, progress=progress)
    return _optimize_in_time(model, out, options, report, progress or (lambda _: None))


@one_thread()
def optimize_here(
    model: Model,
    out: str | Path | None,
    options: Options,
    *,
    report: Path | None = None,
    progress: Callable[[str], None] | None = None,
    finder: Finder = remembered_search,
    timer: Timer | None = None,
    validated: Callable[[Outcome | None], None] = lambda _: None,
    confirm: Callable[[Source, Result], None] = lambda *_: None,
    writing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Result:
    """Do the same as `optimize` in this process, whose end nothing enforces.

    `validated` receives the best outcome so far each time that it changes (`run`). `confirm` receives the original and
    a changed result before it is written; if it raises, nothing is. The result is put in place in a context
    `writing()`.
    """
    files = _files(model, out, options, report)
    given = _at_target_opset(model, files, options)
    source, outcome = run(given, files, options, progress=progress, finder=finder, timer=timer, validated=validated)
    if given is not model:
        _tell_conversion(outcome.result, model, options)
    if outcome.result.changed:
        confirm(source, outcome.result)
    with writing():
        outcome.write(source, files[RESULT], _path(options.trace), external_data=options.external_data)
    return outcome.result


def finish(model: Model, out: str | Path | None, options: Options, folder: Path, reason: str) -> Result:
    """Write the outcome in the checkpoint `folder`, else the original. `reason`: why the run was stopped, if it was.

    Raises ModelError, OSError.
    """
    source, outcome = Source(model), Checkpoint(folder).load()
    is_converted = converts(source, options)
    if is_converted and not (outcome is not None and outcome.result.changed):
        source = Source(converted(source, options))
    if outcome is None:
        operators = count_operators(source.proto)
        result = Result(
            model=source.name,
            out=None if out is None else str(out),
            changed=False,
            reason=f"{reason}, before a candidate was validated",
            provider=options.provider,
            threads=options.threads,
            seed=options.seed,
            numerics=options.numerics,
            operators_before=operators,
            operators_after=operators,
        )
        outcome = Outcome(result, traces_to_json((), {}))
    elif outcome.result.changed and reason:
        outcome.result.notices.append(f"{reason}; the result is the best one that was validated before")
    if is_converted:
        _tell_conversion(outcome.result, model, options)
    outcome.write(source, _path(out), _path(options.trace), external_data=options.external_data)
    return outcome.result if outcome.result.changed else replace(outcome.result, proto=source.proto)


def _optimize_in_time(
    model: Model, out: str | Path | None, options: Options, report: Path | None, progress: Callable[[str], None]
) -> Result:
    """Run in a child process, and finish here with what it has left when it ended or was ended."""
    assert options.timeout is not None
    begun = time.monotonic()
    files = _files(model, out, options, report)
    with temporary_folder() as folder:
        given = model
        if isinstance(model, onnx.ModelProto):
            given = folder / "original.onnx"
            save_model(model, given)
        child = Child(preload=__name__)
        try:
            limit_s = max(0.0, begun + options.timeout - time.monotonic())
            child.call(_run_in_child, (Path(given).absolute(), files, options, folder), limit_s, progress)
            reason = ""
        except DidNotEnd:
            reason = f"the time limit of {options.timeout:g} s has passed"
        except ChildFailed as error:
            reason = str(error)
        except ModelError as error:
            if given is model:
                raise
            raise ModelError(str(error).replace(str(given), "model")) from error  # as without a time limit
        finally:
            child.kill()
        result = finish(model, out, options, folder, reason)
    result.model = "" if isinstance(model, onnx.ModelProto) else str(model)
    return result


@one_thread()
def _run_in_child(model: Path, files: dict[str, Path | None], options: Options, folder: Path) -> None:
    """Run in a child process, and leave the best outcome so far, in the end the final one, in `folder`."""
    checkpoint = Checkpoint(folder)
    given = _at_target_opset(model, files, options)
    _, outcome = run(given, files, options, progress=tell, validated=checkpoint.replace)
    checkpoint.replace(outcome)


def _at_target_opset(model: Model, files: Mapping[str, Path | None], options: Options) -> Model:
    """Return the model at the opset that is asked for: as it is, or converted in memory. Raises ModelError."""
    if options.target_opset is None:
        return model
    source = Source(model)
    check_inputs_stay(files, source)
    return converted(source, options) if converts(source, options) else model


def _tell_conversion(result: Result, model: Model, options: Options) -> None:
    """Give the result of a converted model the original's name, and say what times are against."""
    result.model = "" if isinstance(model, onnx.ModelProto) else str(model)
    opset = options.target_opset
    result.notices.append(f"the model was converted to opset {opset} first; figures before are those of that model")


def _files(model: Model, out: str | Path | None, options: Options, report: Path | None) -> dict[str, Path | None]:
    """Return the files to be written by their roles. Raises OutputError if one cannot be written."""
    files = {RESULT: _path(out), "the trace": _path(options.trace), "the report": report}
    check_outputs(files, None if isinstance(model, onnx.ModelProto) else Path(model), options)
    return files


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)
