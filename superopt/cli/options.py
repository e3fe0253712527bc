"""Options that several commands share, and checks of the files that options name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from superopt.files import check_distinct, check_writable
from superopt.runtime import InputError, parse_shape

__all__ = ["STREAMS", "check_files", "shapes"]

# Streams that may lead to a file.
STREAMS = {"the standard output": Path("/dev/stdout"), "the standard error": Path("/dev/stderr")}


def shapes(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Parse repeated `--shape input=1x3x224x224` to shapes by name."""
    try:
        return dict(map(parse_shape, values))
    except InputError as error:
        raise click.BadParameter(str(error), context, parameter) from error


def check_files(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Raise OutputError if an output (by role) cannot be written, or is also another file of the command."""
    for path in outputs.values():
        if path is not None:
            check_writable(path)
    check_distinct(outputs, {**inputs, **STREAMS})
