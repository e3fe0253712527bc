"""Messages if ONNX Runtime is absent, damaged, too old, or installed twice."""

from __future__ import annotations

import importlib.machinery
from pathlib import Path
from types import ModuleType

import pytest

from superopt.runtime import RuntimeUnavailable, child, installed, resolve_target, sessions, versions
from superopt.runtime.installed import MODULE, OLDEST, check_found, check_usable


def fake(**attributes: object) -> ModuleType:
    module = ModuleType(MODULE)
    module.__dict__.update({"InferenceSession": object, "get_available_providers": list, **attributes})
    return module


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The installed packages by module; empty."""
    found = dict[str, list[str]]()
    monkeypatch.setattr(installed, "packages_distributions", lambda: found)
    return found


@pytest.mark.parametrize("spec", [None, importlib.machinery.ModuleSpec(MODULE, None)], ids=["absent", "left over"])
def test_none_is_installed(monkeypatch: pytest.MonkeyPatch, spec: object) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda _: spec)
    for ep in ("cpu", "auto", "cuda"):
        with pytest.raises(RuntimeUnavailable, match=r"pip install 'superopt\[cpu\]'"):
            resolve_target(ep)


def test_the_one_here_is_found_and_usable() -> None:
    check_found()
    check_usable(fake(__version__=versions()["onnxruntime"]))


@pytest.mark.parametrize("version", ["1.22.0", "1.23.0rc1", "1.100.0.dev20261001", "2.0", "unknown"])
def test_new_enough(version: str) -> None:
    check_usable(fake(__version__=version))


def test_too_old(packages: dict[str, list[str]]) -> None:
    packages[MODULE] = ["onnxruntime-directml"]
    version = f"{OLDEST[0]}.{OLDEST[1] - 1}.2"
    with pytest.raises(RuntimeUnavailable, match=rf"{version} is too old.*pip install -U onnxruntime-directml"):
        check_usable(fake(__version__=version))


def test_damaged(packages: dict[str, list[str]]) -> None:
    packages[MODULE] = ["onnxruntime-gpu", "onnxruntime"]
    with pytest.raises(RuntimeUnavailable) as caught:
        check_usable(ModuleType(MODULE))
    assert str(caught.value) == (
        "the installed ONNX Runtime is incomplete (onnxruntime and onnxruntime-gpu are installed over each other):"
        " pip uninstall onnxruntime onnxruntime-gpu, then pip install 'superopt[cpu]'"
    )


def test_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A library that is missing is an ImportError in the child process, and one line here."""
    (tmp_path / f"{MODULE}.py").write_text("raise ImportError('libfoo.so: cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    sessions._runtime_version.cache_clear()
    child.stop()
    try:
        with pytest.raises(RuntimeUnavailable, match=r"cannot be imported \(libfoo.*pip install 'superopt\[cpu\]'"):
            versions()
    finally:
        child.stop()
