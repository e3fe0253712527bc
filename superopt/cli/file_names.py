"""Types of values on the command line: names of files and folders, and numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

__all__ = ["SHIPPED", "FileName", "Integer", "Number", "RulesName", "shown_rules"]

SHIPPED = "shipped"


class FileName(click.Path):
    """The name of a file or folder, as a `Path`; an empty name, which pathlib takes for `.`, is a usage error.

    Permissions are no matter of usage: the error of opening a file says what is wrong.
    """

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(file_okay=file_okay, dir_okay=dir_okay, readable=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name is empty", param, ctx)
        if isinstance(value, str) and value.startswith(("http://", "https://")):  # a path would lose a slash
            self.fail(f"{value}: no file but an address; download it first", param, ctx)
        return super().convert(value, param, ctx)


class RulesName(FileName):
    """The name of a file or folder of rules, as a `Path`; the word `shipped` stands for the shipped rules."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == SHIPPED:
            from superopt.rulebook.loading import shipped_rules

            return shipped_rules()
        return super().convert(value, param, ctx)


def shown_rules(path: Path) -> str:
    """Return a path of rules as a user writes it."""
    from superopt.rulebook.loading import shipped_rules

    return SHIPPED if path == shipped_rules() else str(path)


class Number(click.FloatRange):
    """A number within bounds, called a number in help and errors."""

    name = "number"


class Integer(click.IntRange):
    """An integer within bounds, called an integer in help and errors."""

    name = "integer"
