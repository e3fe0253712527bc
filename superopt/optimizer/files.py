"""The files of one run: checks before the search, and the original as the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import onnx

from superopt.files import OutputError, check_distinct, check_writable, is_same, write_whole
from superopt.onnx_io import save_model
from superopt.onnx_io.constant_nodes import is_constant_node
from superopt.onnx_io.external_data import external_files, load_external_data
from superopt.onnx_io.save import check_second_file
from superopt.onnx_io.subgraphs import all_nodes
from superopt.optimizer.options import Options
from superopt.optimizer.source import Source
from superopt.rulebook.loading import rule_files

__all__ = ["RESULT", "check_inputs_stay", "check_outputs", "copy_original", "count_operators", "unread_weights"]

RESULT = "the result"  # role of a file, in messages


def count_operators(model: onnx.ModelProto) -> dict[str, int]:
    """Return the number of nodes of each type, the most frequent first, with those in bodies of If, Loop and Scan.

    Constants are data and do not count.
    """
    counts = Counter(
        f"{n.domain}::{n.op_type}" if n.domain not in ("", "ai.onnx") else n.op_type
        for n in all_nodes(model.graph)
        if not is_constant_node(n)
    )
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def check_outputs(outputs: Mapping[str, Path | None], model: Path | None, options: Options) -> None:
    """Raise OutputError if a file of `outputs` (by role) cannot be written, or is also another file of the run.

    With the option `in_place`, the result may be the model.
    """
    for path in outputs.values():
        if path is not None:
            check_writable(path)
    if options.external_data and (result := outputs.get(RESULT)) is not None:
        check_second_file(result)
    chosen = (*(() if options.rules is None else (options.rules,)), *options.add_rules)
    rules = [file for path in chosen for file in rule_files(Path(path))]
    device = Path(options.device) if isinstance(options.device, (str, Path)) else None
    data = [Path(each) for each in options.inputs if isinstance(each, (str, Path))]
    read = {"the model": model, "the device's file": device, **{f"rules ({path})": path for path in rules}}
    read |= {f"values of inputs ({path.name})": path for path in data}
    if options.in_place:
        check_distinct({role: path for role, path in outputs.items() if role != RESULT}, {"the model": model})
        del read["the model"]
    elif model is not None and (out := outputs.get(RESULT)) is not None and is_same(out, model):
        raise OutputError(f"{out}: cannot be both the result and the model; only with in_place=True")
    check_distinct(outputs, read)


def check_inputs_stay(outputs: Mapping[str, Path | None], source: Source) -> None:
    """Raise OutputError if one of `outputs` holds weights of the model, or there is no room for the result."""
    check_distinct(outputs, {f"weights of the model ({path.name})": path for path in source.external_files})
    if (result := outputs.get(RESULT)) is not None:
        check_writable(result, source.size)


def copy_original(source: Source, out: Path) -> None:
    """Write the original to `out`, byte for byte unless it is in memory or has external data elsewhere.

    Nothing is written if it is that file.
    """
    if source.path is not None and is_same(source.path, out):
        return
    if source.path is None:
        save_model(source.proto, out)
    elif source.external_files and not _finds_weights(source, out):
        whole = onnx.ModelProto()
        whole.CopyFrom(source.proto)
        load_external_data(whole, source.path)
        save_model(whole, out)
    else:
        write_whole(out, source.content())


def _finds_weights(source: Source, out: Path) -> bool:
    """Return True if the model's file would find its weights in other files as `out`, too.

    Locations are relative to the folder of the name that was read, which may be a link to another folder. Runtimes
    refuse weights that are elsewhere, also by links, unless the model is a link to there.
    """
    folder = out.resolve().parent
    is_beside = source.path is not None and folder == source.path.parent.resolve()
    return is_beside and all(file.is_relative_to(folder) for file in source.external_files)


def unread_weights(source: Source, out: Path) -> list[str]:
    """Return a notice if the result took the place of the model and no longer reads one of its files of weights."""
    if source.path is None or not source.external_files or not is_same(source.path, out):
        return []
    read = external_files(onnx.load(out, load_external_data=False), out)
    unread = [path.name for path in source.external_files if path not in read]
    return [f"{out.name} no longer reads {', '.join(unread)} (kept, as other models may read it)"] if unread else []
