"""A subcommand imports little before it begins, so that --help and --version answer at once."""

from __future__ import annotations

import importlib
import subprocess
import sys

import click
import pytest

from superopt.cli import main
from superopt.cli.optimize_command import optimize_command
from superopt.cli.terminal import USER_ERRORS
from superopt.onnx_io.opset import NEWEST_OPSET

HEAVY = {"z3", "onnx", "onnxruntime", "openvino", "networkx", "numpy", "google.protobuf", "jinja2", "dask"}
SUBCOMMANDS = main.list_commands(click.Context(main))
_PROGRAM = (
    "import sys; from superopt.cli import PROGRAMS; _, program, *arguments = sys.argv;"
    " PROGRAMS[program].command.main(arguments, standalone_mode=False); print(*sys.modules)"
)


@pytest.mark.parametrize(
    "call",
    [
        *(f"{program} {option}" for program in ("superopt", "optimize") for option in ("--help", "--version")),
        *(f"superopt {name} {option}" for name in SUBCOMMANDS for option in ("--help", "--version")),
        *(f"superopt rules {name} --help" for name in ("asked", "derive", "list", "matrix", "rank")),
    ],
)
def test_little_is_imported(call: str) -> None:
    """NumPy takes nearly as long as all the rest."""
    arguments = [sys.executable, "-c", _PROGRAM, *call.split()]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    *_, imported = done.stdout.splitlines()
    assert not HEAVY & set(imported.split())


@pytest.mark.parametrize("name", USER_ERRORS)
def test_errors_of_users_exist(name: str) -> None:
    """They are named as text."""
    assert issubclass(getattr(importlib.import_module(USER_ERRORS[name]), name), Exception)


def test_versions_of_the_operator_set() -> None:
    """Help names the oldest only; a version that is too new is refused all the same."""
    option = next(one for one in optimize_command.params if one.name == "target_opset")
    context = click.Context(optimize_command)
    assert option.type.convert(str(NEWEST_OPSET), option, context) == NEWEST_OPSET
    with pytest.raises(click.BadParameter, match=f"is not in the range 7<=x<={NEWEST_OPSET}"):
        option.type.convert(str(NEWEST_OPSET + 1), option, context)
