"""Imports go down: the contracts are stated once, in `pyproject.toml`, and kept by import-linter."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT, TESTS


def test_contracts_of_imports_are_kept() -> None:
    script = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([script, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_tests_import_test_code_from_support_only() -> None:
    imports = re.compile(r"^(?:from|import) (tests\.(?!support\b)\S+)", re.M)
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted(TESTS.rglob("*.py"))
        for name in imports.findall(path.read_text(encoding="utf-8"))
    }
    assert not found
