"""Fixtures that tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models import LORA_RULES


@pytest.fixture
def lora_rules(tmp_path: Path) -> Path:
    """A file with the rules that merge the branches of `models.lora`."""
    path = tmp_path / "lora.rules"
    path.write_text(LORA_RULES)
    return path
