"""Arguments of `superopt.optimize`, `superopt.simplify` and `superopt.check.check`: errors that say what is taken."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import onnx

from superopt.optimizer.options import Options
from superopt.optimizer.torch_models import is_torch

__all__ = ["check_files", "replaced", "unknown_options", "with_settings"]

T = TypeVar("T")

_HINTS = {
    "bytes": "; onnx.load_model_from_string reads bytes",
    "ExportedProgram": "; torch.onnx.export(program, dynamo=True) returns an ONNXProgram",
}


def check_files(model: object, out: object) -> None:
    """Raise TypeError if `model` is neither a path nor a model of ONNX or PyTorch, or `out` neither a path nor None."""
    if not (isinstance(model, (str, os.PathLike, onnx.ModelProto)) or is_torch(model)):
        name = type(model).__name__
        raise TypeError(
            "the model must be a path, an onnx.ModelProto, a torch.onnx.ONNXProgram or a torch.nn.Module,"
            f" not {name}{_HINTS.get(name, '')}"
        )
    if not isinstance(out, (str, os.PathLike, type(None))):
        raise TypeError(f"out must be a path or None, not {type(out).__name__}")


def with_settings(options: Options, settings: Mapping[str, Any], others: Iterable[str] = ()) -> Options:
    """Return `options` with those named in `settings` replaced.

    `others` are names that the caller takes besides options. Raises TypeError if `options` are no Options, or for a
    name that is no option; ValueError for a value that cannot be used.
    """
    return replaced(options, settings, Options, "superopt.Options", "ep='cpu'", others)


def replaced(
    options: T, settings: Mapping[str, Any], kind: type[T], name: str, example: str, others: Iterable[str] = ()
) -> T:
    """Do the same as `with_settings` for the options of class `kind`, known to users as `name`.

    `example` is a keyword argument.
    """
    if not isinstance(options, kind):
        raise TypeError(f"options must be {name}, not {type(options).__name__}; or give keywords: {example}")
    unknown = unknown_options(settings, others, kind)
    if unknown:
        raise TypeError(f"unknown option {unknown}; help({name}) describes all")
    return replace(options, **settings)  # type: ignore[type-var] # a data class


def unknown_options(names: Iterable[str], others: Iterable[str] = (), kind: type = Options) -> str:
    """Return those of `names` that are no options, each with a name that it resembles; empty if all are."""
    known = [field.name for field in fields(kind)]
    found = []
    for name in sorted(set(names).difference(known)):
        near = difflib.get_close_matches(name, [*known, *others], 1)
        found.append(f"{name} (did you mean {near[0]}?)" if near else name)
    return ", ".join(found)
