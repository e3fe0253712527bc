"""Optimizers for tests of the benchmark: they behave as the real ones sometimes do."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from superopt.bench.optimizers import Optimizer


def good() -> Optimizer:
    """Copies the model, and talks."""

    def run(source: Path, out: Path, options: Mapping[str, Any]) -> str:
        print("this must not be on our stdout")  # noqa: T201
        shutil.copyfile(source, out)
        return "copied"

    return run


def wrong() -> Optimizer:
    """Changes a weight."""

    def run(source: Path, out: Path, options: Mapping[str, Any]) -> str:
        model = onnx.load(source)
        first = model.graph.initializer[0]
        first.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(first) * np.float32(1.5), first.name))
        onnx.save(model, out)
        return ""

    return run


def raising() -> Optimizer:
    """Gives up."""

    def run(source: Path, out: Path, options: Mapping[str, Any]) -> str:
        raise NotImplementedError("no such\noperator")

    return run


def crashing() -> Optimizer:
    """Dies without a word to Python."""

    def run(source: Path, out: Path, options: Mapping[str, Any]) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    return run


def hanging() -> Optimizer:
    """Waits for a process that does not end; its number is in a file beside the model."""

    def run(source: Path, out: Path, options: Mapping[str, Any]) -> str:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        source.with_suffix(".pid").write_text(str(child.pid), encoding="utf-8")
        time.sleep(600)
        return ""

    return run


def unloadable() -> Optimizer:
    """Writes a model that no runtime takes."""

    def run(source: Path, out: Path, options: Mapping[str, Any]) -> str:
        model = onnx.load(source)
        model.graph.node[0].op_type = "NoSuchOperator"
        onnx.save(model, out)
        return ""

    return run


def silent() -> Optimizer:
    """Writes nothing at all."""

    def run(source: Path, out: Path, options: Mapping[str, Any]) -> str:
        return ""

    return run


def greedy() -> Optimizer:
    """Copies the model and holds 200 MiB for a moment."""

    def run(source: Path, out: Path, options: Mapping[str, Any]) -> str:
        shutil.copyfile(source, out)
        return f"{len(bytearray(200 * 2**20))} bytes"

    return run
