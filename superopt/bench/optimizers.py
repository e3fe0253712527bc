"""Calls of the optimizers, as their documentation says, with default settings.

A function imports its package (not part of the measured time) and returns the optimizer: a function of (source, out,
options) that optimizes the model at `source`, writes it to `out`, and returns a note for the user. Each optimizer runs
in its own process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

__all__ = [
    "control",
    "onnxoptimizer",
    "onnxruntime",
    "onnxruntime_basic",
    "onnxscript",
    "onnxsim",
    "onnxslim",
    "openvino",
    "ours",
    "ours_openvino",
    "tensorrt",
    "torch_compile",
]

Optimizer: TypeAlias = Callable[[Path, Path, Mapping[str, Any]], str]

_MAX_PROTO_BYTES = 2_000_000_000  # bytes; protobuf messages end at 2 GiB


def control() -> Optimizer:
    """Return the control: it only saves the model again, so that its figures show the noise."""
    return _on_protos(lambda model: model)


def ours() -> Optimizer:
    """`superopt.optimize`, with `options` as keyword arguments; its JSON result is left beside the model."""
    from superopt.optimizer import optimize

    def run(source: Path, out: Path, options: Mapping[str, Any]) -> str:
        result = optimize(source, out, **options)
        out.with_suffix(".json").write_text(result.to_json(), encoding="utf-8")
        return "" if result.changed else f"kept the original: {result.reason}"

    return run


def ours_openvino() -> Optimizer:
    """`superopt.optimize` for OpenVINO."""
    run = ours()
    return lambda source, out, options: run(source, out, {**options, "target": "openvino"})


def onnxsim() -> Optimizer:
    """onnx-simplifier. The result of its own check of outputs is noted; the benchmark's check decides."""
    import onnxsim as package

    def run(source: Path, out: Path, options: Mapping[str, Any]) -> str:
        model, passed = package.simplify(_load(source))
        _save(model, out)
        return "" if passed else "its own check failed"

    return run


def onnxslim() -> Optimizer:
    """OnnxSlim."""
    import onnxslim as package

    return _on_protos(package.slim)


def onnxscript() -> Optimizer:
    """The optimizer of ONNX Script: constant folding and its rewrite rules."""
    import onnxscript.optimizer as package

    return _on_protos(package.optimize)


def onnxoptimizer() -> Optimizer:
    """The passes that once were onnx.optimizer: fusion and elimination."""
    import onnxoptimizer as package

    return _on_protos(package.optimize)


def onnxruntime() -> Optimizer:
    """ONNX Runtime's offline optimizer at level extended: fusions into its own operators (com.microsoft)."""
    return _offline("EXTENDED")


def onnxruntime_basic() -> Optimizer:
    """ONNX Runtime's offline optimizer at level basic: constant folding and fusions within ONNX."""
    return _offline("BASIC")


def _offline(level: str) -> Optimizer:
    from superopt.runtime import onnx_runtime

    def run(source: Path, out: Path, options: Mapping[str, Any]) -> str:
        onnx_runtime.write_optimized(str(source), str(out), level)
        return ""

    return run


def openvino() -> Optimizer:
    """OpenVINO, which optimizes while it compiles and writes nothing: time and memory are those of compilation."""
    from superopt.runtime import openvino_runtime

    openvino_runtime.version()  # imports OpenVINO
    return _compiled("OpenVINO")


def tensorrt() -> Optimizer:
    """TensorRT within ONNX Runtime, which compiles when a session is opened."""
    return _compiled("TensorRT")


def torch_compile() -> Optimizer:
    """PyTorch's compiler: it compiles in the first run, which is timed with the others; this is the conversion."""
    return _compiled("torch.compile")


def _compiled(name: str) -> Optimizer:
    """Return an optimizer that opens the model in an engine and writes nothing."""
    from superopt.bench.engines import ENGINES
    from superopt.runtime import Target

    def run(source: Path, out: Path, options: Mapping[str, Any]) -> str:
        ENGINES[name](source, Target(options["ep"], options["threads"]))
        return ""

    return run


def _on_protos(change: Callable[[Any], Any]) -> Optimizer:
    import onnx

    assert onnx  # imported here already: not part of the optimizer's time

    def run(source: Path, out: Path, options: Mapping[str, Any]) -> str:
        _save(change(_load(source)), out)
        return ""

    return run


def _load(source: Path) -> Any:
    import onnx

    return onnx.load(source)


def _save(model: Any, out: Path) -> None:
    import onnx

    external = model.ByteSize() > _MAX_PROTO_BYTES
    onnx.save_model(model, out, save_as_external_data=external, location=f"{out.name}.data" if external else None)
