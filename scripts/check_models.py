"""Optimize every model of some folders and compare each result with its original, by ONNX Runtime alone.

python scripts/check_models.py models/           all *.onnx below a folder, or single files
python scripts/check_models.py --backend         the models that are in the onnx package
python scripts/check_models.py models/ -- --cost analytic --shape x=1x3x64x64    options for `optimize`

One line for each model: its outcome, the ratio that `optimize` reports, and what is wrong. An outcome is `faster`,
`kept`, or `refused` (exit code 2 and one line of advice). Exit code 1 if anything is wrong: other outputs, another exit
code, a traceback, a file that does not load.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import onnx
from fuzzing.feeds import Shapes, accepted_feeds
from fuzzing.judge import Judge

_COMMAND = [sys.executable, "-c", "from superopt.cli import main; main()", "optimize"]


@dataclass(frozen=True)
class ModelOutcome:
    """The end of a run on one model. `wrong` is empty if nothing is wrong."""

    kind: str
    ratio: float | None = None
    wrong: str = ""
    said: str = ""


def check(path: Path, options: list[str], limit_s: float) -> ModelOutcome:
    """Optimize one model in a process of its own, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.onnx")
        command = [*_COMMAND, str(path), "-o", str(out), "--ep", "cpu", "--json", *options]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired:
            return ModelOutcome("hang", wrong=f"still running after {limit_s:g} s")
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        last = lines[-1] if lines else ""
        if "Traceback" in done.stderr or done.returncode not in (0, 2):
            return ModelOutcome("failed", wrong=f"exit {done.returncode}: {last[:200]}")
        if done.returncode == 2:
            return ModelOutcome("refused", wrong="a result was written" if out.exists() else "", said=last)
        if not out.exists():
            return ModelOutcome("failed", wrong="exit 0 without a result")
        result = json.loads(done.stdout)
        latency = result.get("latency") or {}
        ratio = latency.get("ratio") if result["changed"] else None
        sizes = [one["shapes"] for one in latency.get("sizes", ())]
        wrong = compare(path, out, sizes) if result["changed"] else ""
        return ModelOutcome("faster" if result["changed"] else "kept", ratio, wrong, result.get("reason", ""))


def compare(before: Path, after: Path, shapes: Iterable[Shapes] = ()) -> str:
    """Return where the outputs of two files differ, on the first inputs that the original accepts; "" if nowhere.

    If it accepts none, inputs of these `shapes` are tried.
    """
    original = onnx.load(before)
    feeds = next(accepted_feeds(original, shapes), None)
    if feeds is None:
        return "cannot be compared here: ONNX Runtime refuses all inputs that were tried"
    return Judge(original, [feeds]).problem(onnx.load(after)) or ""


def backend_models() -> list[Path]:
    """Return the models that ship inside the onnx package."""
    return sorted((Path(onnx.__file__).parent / "backend" / "test" / "data").rglob("*.onnx"))


def main() -> None:
    """Run the command."""
    given, options = _split(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="*", help="models, or folders of models")
    parser.add_argument("--backend", action="store_true", help="also the models that are in the onnx package")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one model")
    arguments = parser.parse_args(given)
    files = [file for path in arguments.paths for file in (sorted(path.rglob("*.onnx")) if path.is_dir() else [path])]
    files += backend_models() if arguments.backend else []
    kinds: Counter[str] = Counter()
    wrong = 0
    for number, path in enumerate(files, 1):
        start = time.monotonic()
        found = check(path, options, arguments.limit)
        kinds[found.kind] += 1
        wrong += bool(found.wrong)
        ratio = f" {found.ratio:.3f}" if found.ratio is not None else ""
        said = f"WRONG: {found.wrong}" if found.wrong else found.said[:160]
        name = "/".join(path.parts[-2:])
        print(
            f"{number}/{len(files)} {name}: {found.kind}{ratio}, {time.monotonic() - start:.0f} s; {said}", flush=True
        )
    print(f"{len(files)} models: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}; {wrong} wrong")
    raise SystemExit(wrong > 0)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words before and after the first `--`."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


if __name__ == "__main__":
    main()
