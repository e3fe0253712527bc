"""Names of files and folders on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

__all__ = ["FileName"]


class FileName(click.Path):
    """The name of a file or folder, as a `Path`; an empty name, which pathlib takes for `.`, is a usage error."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name is empty", param, ctx)
        return super().convert(value, param, ctx)
