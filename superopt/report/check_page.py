"""Rendering of one answer of `check` as a page: verdict, corresponding tensors, regions that were not proven."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from superopt.report.page import environment
from superopt.report.run_page import is_drawable

__all__ = ["HOW", "render_check"]

# How pairs of tensors were proven equal.
HOW = {
    "same": "by structure",
    "kernel": "by the kernel",
    "rules": "by rules",
    "values": "by value",
    "runtime": "computed by ONNX Runtime, bit for bit",
    "bodies": "equal bodies",
}


def render_check(answer: Mapping[str, Any]) -> str:
    """Return the page for `answer`, an object written by `Answer.to_json` (schema version 1).

    The page loads nothing, like the verification report.
    """
    made = environment()
    made.globals.update(is_drawable=is_drawable)
    pairs = [pair for pair in answer["correspondences"] if not pair.get("is_rewritten")]
    return made.get_template("check.html").render(
        answer=answer,
        names=[PurePath(answer[side]).name for side in ("left", "right")],
        how=HOW,
        changed=[pair for pair in pairs if pair["by"] != "same"],
        same=[pair for pair in pairs if pair["by"] == "same"],
    )
