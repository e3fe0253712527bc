"""Options that several commands share, and checks of the files that options name."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from superopt.cli.terminal import errors
from superopt.files import check_distinct, check_writable
from superopt.search.cost.device import Device, DeviceError, find_device

if TYPE_CHECKING:
    from superopt.runtime import GivenShape

__all__ = ["STREAMS", "check_exist", "check_files", "check_rules", "device", "fixed_shapes", "shapes"]

# Streams that may lead to a file.
STREAMS = {"the standard output": Path("/dev/stdout"), "the standard error": Path("/dev/stderr")}


def device(context: click.Context, parameter: click.Parameter, value: str | None) -> Device | None:
    """Return the device that `--device` names or describes."""
    try:
        return None if value is None else find_device(value)
    except DeviceError as error:
        raise click.BadParameter(str(error), context, parameter) from error
    except OSError as error:
        raise click.BadParameter(f"{value}: {error.strerror}", context, parameter) from error


def shapes(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, GivenShape]:
    """Parse repeated `--shape input=1..64x128` to shapes by name."""
    from superopt.runtime import InputError, parse_shape, show_shape

    found: dict[str, GivenShape] = {}
    try:
        for name, shape in map(parse_shape, values):
            if found.setdefault(name, shape) != shape:
                raise InputError(f"input {name} is given two shapes, {show_shape(found[name])} and {show_shape(shape)}")
    except InputError as error:
        raise click.BadParameter(str(error), context, parameter) from error
    return found


def fixed_shapes(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, tuple[int, ...]]:
    """Parse repeated `--shape input=1x3x224x224`, without ranges, to shapes by name."""
    from superopt.runtime import show_shape

    fixed: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes(context, parameter, values).items():
        fixed[name] = tuple(size for size in shape if isinstance(size, int))
        if len(fixed[name]) < len(shape):
            raise click.BadParameter(f"a range of sizes, {name}={show_shape(shape)}", context, parameter)
    return fixed


def check_files(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Raise OutputError if an output (by role) cannot be written, or is also another file of the command."""
    for path in outputs.values():
        if path is not None:
            check_writable(path)
    check_distinct(outputs, {**inputs, **STREAMS})


def check_exist(paths: Iterable[Path]) -> None:
    """Raise FileNotFoundError for the first file that is missing."""
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))


def check_rules(paths: Iterable[Path | None]) -> None:
    """Print a notice for each path of rules that has none (None: no path). Raises RulesError for what is no rules."""
    from superopt.rulebook.loading import has_rules

    for path in paths:
        if path is not None and not has_rules(path):
            errors().print(f"notice: {path}: has no rules", markup=False)
