#!/usr/bin/env python3
"""Export networks by both of PyTorch's exporters at three opsets each, and prove the files of a network equal.

python scripts/check_exporters.py FOLDER                             all networks
python scripts/check_exporters.py FOLDER --python OTHER/bin/python   PyTorch is in another environment

Networks: resnet18, mobilenet_v3_small, swin_t (torchvision), and a BERT of two layers (transformers), with random
weights from a seed. Each file is checked against the network's first one; then the first one with one weight changed in
its last digits. One line for each pair. Files that are in FOLDER already are not exported again. Exit code 1 if a pair
of exports is called Different, or the changed weight Equivalent without a bound.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np

NETWORKS = ("resnet18", "mobilenet_v3_small", "swin_t", "bert_2l")
OPSETS = {"legacy": (14, 17, 20), "dynamo": (18, 20, 22)}
NEEDED = ("torch", "torchvision", "transformers", "onnxscript")
CHANGE = 1e-6  # of the changed weight: about eight roundings


def network(name: str) -> tuple[Any, tuple[Any, ...], list[str]]:
    """Return a network with random weights and statistics, example inputs, and the names of inputs."""
    import torch

    torch.manual_seed(0)
    if name == "bert_2l":
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=1000, hidden_size=256, intermediate_size=1024, num_attention_heads=4, num_hidden_layers=2,
            attn_implementation="eager",
        )  # fmt: skip
        bert = BertModel(config)

        class Outputs(torch.nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
            """The network as a function of one argument, which is what both exporters trace."""

            def __init__(self) -> None:
                super().__init__()
                self.bert = bert

            def forward(self, ids: Any) -> Any:
                return self.bert(input_ids=ids, return_dict=False)[:2]

        made, inputs, names = Outputs(), (torch.randint(0, 1000, (1, 32)),), ["ids"]
    else:
        import torchvision

        made = getattr(torchvision.models, name)(weights=None)
        inputs, names = (torch.randn(1, 3, 224, 224),), ["image"]
    for part in made.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            for values in (part.running_var, part.weight):
                values.data.uniform_(0.5, 1.5)
            for values in (part.running_mean, part.bias):
                values.data.uniform_(-0.5, 0.5)
    return made.eval(), inputs, names


def export(folder: Path, names: list[str]) -> None:
    """Write all files that are missing in `folder`."""
    missing = [module for module in NEEDED if importlib.util.find_spec(module) is None]
    if missing:
        raise SystemExit(f"skipped: {missing[0]} is not installed (pip install {' '.join(NEEDED)})")
    import torch

    warnings.simplefilter("ignore")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        made, inputs, called = network(name)
        for exporter, opsets in OPSETS.items():
            for opset in opsets:
                path = folder / f"{name}.{exporter}{opset}.onnx"
                if not path.exists():
                    torch.onnx.export(
                        made, inputs, str(path), dynamo=exporter == "dynamo", opset_version=opset, input_names=called,
                        output_names=["y"] if name != "bert_2l" else ["hidden", "pooled"], external_data=False,
                    )  # fmt: skip


def changed(path: Path) -> tuple[Any, str]:
    """Return a model with one element of its largest weight changed in its last digits, and what was changed."""
    import onnx

    proto = onnx.load(path)
    tensor = max((t for t in proto.graph.initializer if t.data_type == 1), key=lambda t: len(t.raw_data))
    values = onnx.numpy_helper.to_array(tensor).copy()
    place = int(np.argmax(np.abs(values)))
    values.flat[place] *= np.float32(1 + CHANGE)
    tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    return proto, f"element {place} of {tensor.name} times 1 + {CHANGE:g}"


def checked(first: Path, other: Any, name: str, seconds: float) -> tuple[str, float]:
    """Check a pair, print a line, and return the verdict with the stated bound of weights."""
    from superopt.check import CheckOptions, check

    answer = check(first, other, CheckOptions(seconds=seconds, by_position=True))
    spent = sum(answer.seconds.values())
    print(f"{first.stem} {name}: {answer.verdict}, {spent:.0f} s; {answer.reason}", flush=True)
    return answer.verdict, answer.error


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for the exported files")
    parser.add_argument("--network", action="append", choices=NETWORKS, help="only these (all)")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of one check")
    parser.add_argument("--python", help="interpreter with PyTorch (this one)")
    parser.add_argument("--export-only", action="store_true", help="check nothing")
    arguments = parser.parse_args()
    names = arguments.network or list(NETWORKS)
    expected = [arguments.folder / f"{n}.{e}{o}.onnx" for n in names for e, opsets in OPSETS.items() for o in opsets]
    if arguments.export_only or (not arguments.python and not all(path.exists() for path in expected)):
        export(arguments.folder, names)
    elif arguments.python:
        words = [word for name in names for word in ("--network", name)]
        subprocess.run([arguments.python, __file__, str(arguments.folder), "--export-only", *words], check=True)
    if arguments.export_only:
        return
    wrong = 0
    for name in names:
        first, *others = [path for path in expected if path.name.startswith(f"{name}.")]
        for other in others:
            wrong += checked(first, other, other.suffixes[0][1:], arguments.seconds)[0] == "Different"
        model, what = changed(first)
        verdict, bound = checked(first, model, what, arguments.seconds)
        wrong += verdict == "Equivalent" and not bound
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
