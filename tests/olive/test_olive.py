"""The pass of Olive, against a stand-in for the parts of Olive that it uses: olive-ai needs PyTorch and much more."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import onnx
import pytest

from tests.support.models import lora


class Handler:
    def __init__(self, model_path: str, onnx_file_name: str | None = None) -> None:
        self.folder_or_file, self.onnx_file_name = model_path, onnx_file_name

    @property
    def model_path(self) -> str:
        """The file, as Olive's handler gives it."""
        return str(Path(self.folder_or_file) / self.onnx_file_name) if self.onnx_file_name else self.folder_or_file


class Pass:
    def __init__(self, accelerator_spec: Any, config: Any) -> None:
        self.accelerator_spec, self.config = accelerator_spec, config

    @classmethod
    def validate_config(cls, config: Any, accelerator_spec: Any) -> bool:
        return True

    def run(self, model: Handler, output: str) -> Handler:
        result: Handler = self._run_for_config(model, self.config, output)  # type: ignore[attr-defined]
        return result


@pytest.fixture
def superopt_pass(monkeypatch: pytest.MonkeyPatch) -> type[Pass]:
    parts: dict[str, dict[str, Any]] = {
        "olive": {},
        "olive.model": {"ONNXModelHandler": Handler},
        "olive.model.utils": {"resolve_onnx_path": lambda folder, name: str(Path(folder) / name)},
        "olive.passes": {"Pass": Pass},
        "olive.passes.pass_config": {"PassConfigParam": SimpleNamespace},
    }
    for name, content in parts.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "superopt.olive", raising=False)
    found: type[Pass] = importlib.import_module("superopt.olive").Superopt
    monkeypatch.delitem(sys.modules, "superopt.olive")
    return found


def accelerator(provider: str) -> SimpleNamespace:
    return SimpleNamespace(execution_provider=provider)


def defaults(of: type[Pass]) -> SimpleNamespace:
    parameters = of._default_config(accelerator("CPUExecutionProvider"))  # type: ignore[attr-defined]
    assert all(isinstance(one.default_value, one.type_) and one.description for one in parameters.values())
    return SimpleNamespace(**{name: one.default_value for name, one in parameters.items()})


@pytest.mark.parametrize("external_data", [False, True])
def test_a_model_is_rewritten(superopt_pass: type[Pass], tmp_path: Path, external_data: bool) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    config = defaults(superopt_pass)
    config.quick, config.external_data = True, external_data
    made = superopt_pass(accelerator("CPUExecutionProvider"), config)
    result = made.run(Handler(str(tmp_path / "model.onnx")), str(tmp_path / "out"))
    assert result.model_path == str(tmp_path / "out" / "model.onnx")
    assert (result.onnx_file_name is not None) == external_data
    assert len(onnx.load(result.model_path).graph.node) < len(lora().graph.node)


def test_other_providers_are_refused(superopt_pass: type[Pass]) -> None:
    config = defaults(superopt_pass)
    assert superopt_pass.validate_config(config, accelerator("CUDAExecutionProvider"))
    assert not superopt_pass.validate_config(config, accelerator("QNNExecutionProvider"))
