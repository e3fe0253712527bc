"""Failures as files, and their replay: NAME.onnx, and NAME.json with one line that says what failed and how."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import onnx

from .attacks import ATTACKS, Log, stepped
from .feeds import Subject
from .judge import NotRun
from .shrink import shrunk

__all__ = ["kind_of", "outcome", "replay", "write_case"]


def outcome(subject: Subject, attack: str, log: Log) -> str | None:
    """Return what is wrong in one line, None if nothing is. An error in `superopt` is something wrong."""
    run = stepped(attack.removeprefix("stepped ")) if attack.startswith("stepped ") else ATTACKS[attack]
    try:
        return run(subject, log)
    except NotRun:
        return None
    except Exception as error:  # noqa: BLE001  no error is expected for a valid model
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def kind_of(problem: str) -> str:
    """Return the problem without names and numbers."""
    return " ".join(re.sub(r"\w*\d\w*|\[[^]]*\]", "", problem.split(":")[0].split(";")[0]).split())[:60]


def write_case(folder: Path, subject: Subject, attack: str, problem: str, seconds: float, log: Log) -> Path:
    """Shrink a failure and write it to `folder`. Return the file of the model."""
    if log.culprit is not None and attack == "walked":
        model, rule_id = log.culprit
        step = Subject(model, subject.profile, subject.sizes, subject.seed)
        if outcome(step, f"stepped {rule_id}", Log()) is not None:
            subject, attack = step, f"stepped {rule_id}"
    kind = kind_of(problem) if not attack.startswith("stepped") else None
    last = problem

    def fails(candidate: Subject) -> bool:
        nonlocal last
        found = outcome(candidate, attack, Log())
        if found is None or (kind is not None and kind_of(found) != kind):
            return False
        last = found
        return True

    small = shrunk(subject, fails, seconds)
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{attack.split()[0]}_{subject.seed}"
    path = folder / f"{stem}.onnx"
    onnx.save(small.model, path)
    facts = {"what": last, "attack": attack, "profile": small.profile, "sizes": small.sizes, "seed": small.seed}
    path.with_suffix(".json").write_text(json.dumps(facts) + "\n", encoding="utf-8")
    return path


def replay(path: Path, attacked: Callable[[Subject, str, Log], str | None] = outcome) -> str | None:
    """Repeat the failure in the file `path`. Return what is wrong, or None if nothing is any more."""
    facts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    subject = Subject(onnx.load(path), facts["profile"], facts["sizes"], facts["seed"])
    return attacked(subject, facts["attack"], Log())
