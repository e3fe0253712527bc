"""Option callbacks that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from superopt.runtime import InputError, parse_shape

__all__ = ["shapes", "writable"]


def shapes(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Parse repeated `--shape input=1x3x224x224` to shapes by name."""
    try:
        return dict(map(parse_shape, values))
    except InputError as error:
        raise click.BadParameter(str(error), context, parameter) from error


def writable(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Refuse an unwritable file before the work begins."""
    if path is not None and path.is_dir():
        raise click.BadParameter(f"{path} is a directory, not a file to write to", context, parameter)
    if path is not None and not path.absolute().parent.is_dir():
        raise click.BadParameter(f"{path.parent}: no such folder to write to", context, parameter)
    return path
