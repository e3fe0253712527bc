"""The original is read once, in whatever form it is given."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import pytest

from superopt.optimizer import optimize, source
from superopt.optimizer.source import Source, model_digest
from tests.support.models import lora


@pytest.mark.parametrize("external", [False, True])
def test_a_file_is_read_and_parsed_once(
    tmp_path: Path, lora_rules: Path, monkeypatch: pytest.MonkeyPatch, external: bool
) -> None:
    """A model with a dynamic size, whose timing asks for its digest."""
    path = tmp_path / "model.onnx"
    onnx.save_model(lora("batch"), path, save_as_external_data=external, location="weights.bin", size_threshold=0)
    calls: Counter[str] = Counter()

    def counted(name: str) -> None:
        function = getattr(source, name)

        def call(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(source, name, call)

    for name in ("read_bytes", "parse_proto", "load_external_data", "read_simplified"):
        counted(name)
    monkeypatch.setattr(onnx, "load", lambda *_, **__: pytest.fail("read again"))
    quick = {"budget": 2.0, "cost": "analytic", "shapes": {"x": (4, 64)}}
    result = optimize(path, ep="cpu", rules=lora_rules, **quick)
    assert result.latency is not None
    assert calls == dict.fromkeys(("read_bytes", "parse_proto", "load_external_data", "read_simplified"), 1)


def test_a_model_in_memory_is_serialized_once_and_stays_as_it_is() -> None:
    model = lora()
    read = Source(model)
    assert (read.name, read.path, read.proto) == ("", None, model)
    assert read.runnable == model.SerializeToString() and read.digest == model_digest(read.runnable)
    assert not read.external_files and read.terms is read.terms


def test_external_data_is_in_the_terms_but_not_in_the_protobuf(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save_model(lora(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    read = Source(path)
    assert read.external_files == (tmp_path / "weights.bin",) and read.runnable == path
    assert len(read.terms.weights) == len(Source(lora()).terms.weights)
    assert not any(tensor.raw_data for tensor in read.proto.graph.initializer)
