"""The installed runtimes. ONNX Runtime is one of several packages, all of which hold the module `onnxruntime`.

Two of them in one environment overwrite each other's files, so superopt requires none and uses what it finds.
"""

from __future__ import annotations

import re
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from types import ModuleType

from superopt.choices import RUNTIMES
from superopt.runtime.target import RuntimeUnavailable

__all__ = ["MODULE", "OLDEST", "OPENVINO", "check_found", "check_usable", "with_advice"]

MODULE, OPENVINO = RUNTIMES
OLDEST = (1, 22)  # version; the same as in the project's extras
_INSTALL = {
    MODULE: "no ONNX Runtime is installed: pip install 'superopt[cpu]', or 'superopt[cuda]' for GPUs of NVIDIA",
    OPENVINO: "OpenVINO is not installed: pip install 'superopt[openvino]'",
}


def check_found(module: str = MODULE) -> None:
    """Raise RuntimeUnavailable, with advice, if no package with the module is installed. Does not import it."""
    try:
        spec = find_spec(module)
    except ValueError:  # imported already, by hand
        return
    if spec is None or spec.origin is None:  # a folder without code is left over from a package that was removed
        raise RuntimeUnavailable(_INSTALL[module])


def check_usable(module: ModuleType) -> None:
    """Raise RuntimeUnavailable, with advice, if the imported module is damaged or too old."""
    if not all(hasattr(module, name) for name in ("__version__", "InferenceSession", "get_available_providers")):
        raise RuntimeUnavailable(with_advice("the installed ONNX Runtime is incomplete"))
    version = str(module.__version__)
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and tuple(map(int, found.groups())) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        package = " ".join(_packages()) or MODULE
        raise RuntimeUnavailable(f"ONNX Runtime {version} is too old, {oldest} is needed: pip install -U {package}")


def with_advice(problem: str, extra: str = "cpu") -> str:
    """Return a message about an unusable runtime: `problem`, and how to replace what is installed by an extra."""
    packages = _packages()
    over = f" ({' and '.join(packages)} are installed over each other)" if len(packages) > 1 else ""
    removed = f"pip uninstall {' '.join(packages)}, then " if packages else ""
    return f"{problem}{over}: {removed}pip install 'superopt[{extra}]'"


def _packages() -> list[str]:
    """Return the installed packages that hold the module."""
    return sorted(set(packages_distributions().get(MODULE, ())))
