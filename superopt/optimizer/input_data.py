"""Values of inputs that the user gives, in .npz files (`numpy.savez`) or as arrays by name."""

from __future__ import annotations

import contextlib
import difflib
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from superopt.optimizer.input_sizes import InputSizes
from superopt.runtime import (
    Feeds,
    GivenShape,
    InputError,
    InputSpec,
    Unfeedable,
    input_specs,
    shape_problem,
    show_shape,
)
from superopt.runtime.feeds import Array

__all__ = ["InputData", "check_given", "given_shapes", "load_inputs"]

InputData = str | Path | Mapping[str, Array]

# What reading raises for a file that holds no arrays. RuntimeError: an archive with a password, or compressed in a way
# that Python does not know.
_NO_ARRAYS = (
    ValueError, LookupError, EOFError, RuntimeError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def load_inputs(data: InputData, specs: Sequence[InputSpec]) -> Feeds:
    """Return the values in `data` for the inputs `specs`. Raises InputError if one does not fit, OSError."""
    label = f"{data}: " if isinstance(data, (str, Path)) else ""
    by_name = {spec.name: spec for spec in specs}

    def check(name: str, shape: tuple[int, ...]) -> None:
        if name not in by_name:
            near = difflib.get_close_matches(str(name), by_name)
            kind = "did you mean" if near else "inputs:"
            names = ", ".join(near or by_name) or "none"
            raise InputError(f"{label}there is no input {name!r} ({kind} {names}{'?' if near else ''})")
        if (problem := shape_problem(by_name[name], shape)) is not None:
            raise InputError(label + problem)

    if isinstance(data, (str, Path)):
        arrays = _read(Path(data), check)
    else:
        arrays = {name: np.asarray(array) for name, array in data.items()}
        for name, array in arrays.items():
            check(name, array.shape)
    if not arrays:
        raise InputError(f"{label}it has no arrays; numpy.savez(file, NAME=array) writes them")
    return {name: _typed(array, by_name[name], label) for name, array in arrays.items()}


def given_shapes(feeds: Feeds, shapes: Mapping[str, GivenShape]) -> dict[str, GivenShape]:
    """Return the given `shapes` with those of `feeds`. Raises InputError if they contradict each other."""
    found = dict(shapes)
    for name, array in feeds.items():
        if found.setdefault(name, array.shape) != array.shape:
            given, said = show_shape(array.shape), show_shape(found[name])
            raise InputError(f"input {name} is given with shape {given}, and --shape says {said}")
    return found


def check_given(model: onnx.ModelProto, inputs: Sequence[InputData], shapes: Mapping[str, GivenShape]) -> None:
    """Raise InputError if given values or shapes do not fit the inputs of `model`, OSError."""
    if not inputs and not shapes:
        return
    with contextlib.suppress(Unfeedable):  # said when the model is run
        specs = input_specs(model)
        for values in [load_inputs(data, specs) for data in inputs] or [Feeds()]:
            InputSizes(specs, given_shapes(values, shapes))


def _read(path: Path, check: Callable[[str, tuple[int, ...]], None]) -> Feeds:
    """Return the arrays of a file. `check` sees all shapes before: a few kilobytes may unpack to gigabytes."""
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.lib.npyio.NpzFile):
            with file:
                for name in file.files:
                    check(name, _stated_shape(file, name))
                return {name: file[name] for name in file.files}
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(f"{path}: its arrays do not fit into memory") from error
    except _NO_ARRAYS as error:
        raise InputError(f"{path}: not an .npz file of arrays; numpy.savez(file, NAME=array) writes one") from error
    raise InputError(f"{path}: one array without a name; numpy.savez(file, NAME=array) writes an .npz file")


def _stated_shape(file: np.lib.npyio.NpzFile, name: str) -> tuple[int, ...]:
    """Return the shape in the header of an array. Raises ValueError if there is none, LookupError."""
    if file.zip is None:
        raise ValueError("the file is closed")
    with file.zip.open(f"{name}.npy") as stream:
        if np.lib.format.read_magic(stream) == (1, 0):
            return np.lib.format.read_array_header_1_0(stream)[0]
        return np.lib.format.read_array_header_2_0(stream)[0]


def _typed(array: Array, spec: InputSpec, label: str) -> Array:
    """Return `array` in the type of the input. Raises InputError for another type."""
    wanted = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(spec.elem_type))
    if spec.elem_type == onnx.TensorProto.STRING:
        array = array.astype(object) if array.dtype.kind in "US" else array
    elif array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize:  # .npz has no bfloat16
        array = array.view(wanted)
    if array.dtype != wanted:
        needed = "strings" if spec.elem_type == onnx.TensorProto.STRING else str(wanted)
        raise InputError(f"{label}input {spec.name} is {needed}, not {array.dtype}; .astype converts an array")
    return np.asarray(array)
