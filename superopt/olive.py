"""A pass of Olive (olive-ai), Microsoft's optimization pipeline: it rewrites a model as `superopt.optimize` does.

In Olive's package configuration the pass is `{"passes": {"Superopt": {"module_path": "superopt.olive.Superopt"}}}`, and
in a run's configuration `{"type": "Superopt"}` with the parameters below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from olive.model import ONNXModelHandler
from olive.model.utils import resolve_onnx_path
from olive.passes import Pass
from olive.passes.pass_config import PassConfigParam

from superopt.optimizer import Options, optimize

__all__ = ["Superopt"]

_DEFAULTS = Options()
_PROVIDERS = {"CPUExecutionProvider": "cpu", "CUDAExecutionProvider": "cuda"}
# Parameters of the pass: the options of superopt with the same names.
_PARAMETERS = {
    "threads": (int, "Threads of ONNX Runtime while measuring; 0 is its own choice."),
    "budget": (float, "Seconds of wall time for the whole run."),
    "quick": (bool, "Take seconds: compare outputs, and time nothing."),
    "numerics": (str, "Loosest class of rules to use."),
    "domains": (str, "Operators that rewrites may introduce: onnx, or all for those of ONNX Runtime as well."),
    "external_data": (bool, "Write weights to a second file, whatever their size."),
}


def _default(name: str) -> bool | float | str:
    """Return the value that the option takes if nothing is said."""
    value: bool | float | str = _DEFAULTS.budget_s if name == "budget" else getattr(_DEFAULTS, name)
    return value


class Superopt(Pass):  # type: ignore[misc]  # Olive has no types
    """Make an ONNX model faster with proven rules; a model that cannot be made faster is copied unchanged."""

    @classmethod
    def _default_config(cls, accelerator_spec: Any) -> dict[str, Any]:
        return {
            name: PassConfigParam(type_=type_, default_value=_default(name), description=description)
            for name, (type_, description) in _PARAMETERS.items()
        }

    @classmethod
    def validate_config(cls, config: Any, accelerator_spec: Any) -> bool:
        """Return False for an execution provider that superopt cannot measure on."""
        known = accelerator_spec.execution_provider in _PROVIDERS
        return known and bool(super().validate_config(config, accelerator_spec))

    def _run_for_config(self, model: Any, config: Any, output_model_path: str) -> Any:
        out = Path(resolve_onnx_path(output_model_path, Path(model.model_path).name))
        ep = _PROVIDERS[self.accelerator_spec.execution_provider]
        options = Options(ep=ep, **{name: getattr(config, name) for name in _PARAMETERS})
        out.parent.mkdir(parents=True, exist_ok=True)
        optimize(model.model_path, out, options)
        if any(out.parent.glob(f"{out.name}*.data")):  # Olive then takes the folder as the model
            return ONNXModelHandler(model_path=str(out.parent), onnx_file_name=out.name)
        return ONNXModelHandler(model_path=str(out))
