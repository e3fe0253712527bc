"""Who may import whom, read from the source itself: the table of the README, without running anything.

import-linter holds the same contracts over the import graph (`lint-imports`); this test needs no tool and also
sees imports inside functions.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# One module alone -> what of an extra it imports when it is asked to.
OPTIONAL = {
    "superopt.generate.executors": frozenset({"dask", "distributed"}),
    "superopt.bench.optimizers": frozenset({"onnxsim", "onnxslim", "onnxscript", "onnxoptimizer", "openvino"}),
    "superopt.bench.engines": frozenset({"openvino"}),
}
# Layer -> what its modules may import besides the standard library and themselves.
ALLOWED: dict[str, frozenset[str]] = {
    "superopt.ir": frozenset(),
    "verify": frozenset({"superopt.ir", "z3", "cvc5"}),
    "superopt.evaluate": frozenset({"superopt.ir", "numpy", "ml_dtypes", "onnx"}),
    "superopt.onnx_io": frozenset({"superopt.ir", "superopt.evaluate", "numpy", "ml_dtypes", "onnx", "google"}),
    "superopt.runtime": frozenset({"numpy", "ml_dtypes", "onnx", "onnxruntime"}),
    "superopt.operands": frozenset({"superopt.ir"}),
    "superopt.rulebook": frozenset({"superopt.ir", "verify"}),
    "superopt.confirm": frozenset(
        {"superopt.ir", "superopt.evaluate", "superopt.onnx_io", "superopt.runtime", "verify", "numpy", "onnx"}
    ),
    "superopt.search": frozenset(
        {
            "superopt.ir",
            "superopt.operands",
            "superopt.evaluate",
            "superopt.onnx_io",
            "superopt.runtime",
            "numpy",
            "ml_dtypes",
            "onnx",
            "onnxruntime",
            "platformdirs",
        }
    ),
    "superopt.generate": frozenset(
        {"superopt.ir", "superopt.operands", "superopt.evaluate", "verify", "numpy", "ml_dtypes"}
    ),
    "superopt.optimizer": frozenset(
        {
            "superopt.ir",
            "superopt.evaluate",
            "superopt.onnx_io",
            "superopt.runtime",
            "superopt.rulebook",
            "superopt.search",
            "verify",
            "numpy",
            "onnx",
        }
    ),
    "superopt.report": frozenset({"superopt.ir", "verify", "jinja2"}),
    "superopt.bench": frozenset(
        {"superopt.onnx_io", "superopt.runtime", "superopt.optimizer", "onnx", "google", "jinja2"}
    ),
    "superopt.cli": frozenset(
        {
            "superopt",
            "superopt.bench",
            "superopt.ir",
            "superopt.confirm",
            "superopt.onnx_io",
            "superopt.runtime",
            "superopt.rulebook",
            "superopt.search",
            "superopt.generate",
            "superopt.optimizer",
            "superopt.report",
            "verify",
            "click",
            "rich",
        }
    ),
    "superopt": frozenset({"superopt.optimizer"}),
}


def sources() -> Iterator[tuple[str, Path]]:
    """Module name and file of every module of the two packages."""
    for package in ("superopt", "verify"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def layer_of(module: str) -> str:
    """`superopt.ir.term` is in layer `superopt.ir`; another distribution is a layer of its own."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "superopt" else parts[0]


def imported(path: Path) -> Iterator[str]:
    """Every module that the file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            if node.module == "superopt":
                yield from (f"superopt.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize(("module", "path"), [pytest.param(m, p, id=m) for m, p in sources()])
def test_imports_stay_within_their_layer(module: str, path: Path) -> None:
    layer = layer_of(module)
    assert layer in ALLOWED, f"{layer} is no known layer"
    for name in imported(path):
        target = layer_of(name)
        if target.split(".")[0] in sys.stdlib_module_names or target == layer:
            continue
        assert target in ALLOWED[layer] | OPTIONAL.get(module, frozenset()), f"{module} imports {name}"


def test_nobody_imports_cli() -> None:
    for module, path in sources():
        if layer_of(module) != "superopt.cli":
            assert not any(layer_of(name) == "superopt.cli" for name in imported(path)), module


def test_only_the_second_opinion_imports_cvc5() -> None:
    for module, path in sources():
        assert module == "verify.second_opinion" or "cvc5" not in imported(path), module
