"""Other optimizers' results, checked: a tool runs in a process of its own, then `check` compares its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from superopt.bench.contestants import Contestant
from superopt.bench.processes import Failed, call
from superopt.check.answer import DIFFERENT, EQUIVALENT, Answer
from superopt.check.known_tools import TOOLS
from superopt.check.options import CheckOptions
from superopt.check.run import check
from superopt.onnx_io import ModelError
from superopt.onnx_io.load import load_proto, parse_proto, read_bytes
from superopt.temporary import temporary_folder

__all__ = ["Checked", "MissingTool", "check_tool", "find_tool"]

_TOOL_SECONDS = 900.0


class MissingTool(ModelError):
    """A tool is not installed; the message is one line."""


@dataclass(frozen=True)
class Checked:
    """A model, the answer on the result of a tool of this version, and the numbers of nodes before and after.

    `answer` is None if the model is unreadable or the tool wrote no result, for the reason `failure`.
    """

    model: str
    tool: str
    version: str | None
    answer: Answer | None
    failure: str = ""
    nodes: tuple[int, int] | None = None
    is_readable: bool = True

    @property
    def verdict(self) -> str:
        """The verdict, "no result" or "unreadable"."""
        if self.answer is None:
            return "no result" if self.is_readable else "unreadable"
        return self.answer.verdict

    @property
    def order(self) -> int:
        """The exit code of this row: 0 for Equivalent, 1 for Different, 2 for an unreadable model, else 3."""
        return {EQUIVALENT: 0, DIFFERENT: 1, "unreadable": 2}.get(self.verdict, 3)


def find_tool(name: str) -> Contestant:
    """Return an optimizer by its name in TOOLS. Raises MissingTool."""
    tool = TOOLS[name]
    if not tool.installed():
        raise MissingTool(tool.how_to_install)
    return tool


def check_tool(
    name: str,
    model: Path,
    options: CheckOptions,
    keep: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Checked:
    """Run a tool on `model` and check its result. With a folder `keep`, result and witness are written there.

    Raises MissingTool, InputError, OSError.
    """
    tool = find_tool(name)
    row = partial(Checked, str(model), name, tool.version())
    try:
        load_proto(model)
    except ModelError as error:
        return row(None, str(error), is_readable=False)
    with temporary_folder() as folder:
        place = folder if keep is None else keep
        out = place / f"{model.stem}.{name}.onnx"
        if progress is not None:
            progress(f"running {name}: {model.name}")
        try:
            call(tool.optimizer, (model.absolute(), out.absolute(), {}), _TOOL_SECONDS)
            if not out.exists():
                raise Failed("it wrote no file")
            nodes = _nodes(model), _nodes(out)
            witness = None if keep is None else keep / f"{model.stem}.{name}.npz"
            answer = check(model, out, replace(options, witness=witness), progress=progress)
            answer.right = str(out) if keep is not None else out.name  # a temporary file is gone with this call
        except Failed as error:
            return row(None, f"{name} failed: {error}")
        except ModelError as error:
            return row(None, f"{name} wrote a model that cannot be read: {error}")
        return row(answer, nodes=nodes)


def _nodes(path: Path) -> int:
    return len(parse_proto(read_bytes(path), str(path)).graph.node)
