"""Attack `superopt` with random graphs, damaged files, and mutated models. Failures become cases.

python scripts/fuzz.py graphs --time 3600 --out found/     random graphs: written back, rewritten, optimized
python scripts/fuzz.py reader --count 20000 --out found/   damaged files: read, or one clear line
python scripts/fuzz.py mutants MODEL... --count 500        optimized models with one mutation: what does `check` say?
python scripts/fuzz.py replay tests/fuzz/cases             repeat the cases of a folder

A graph is a function of its number alone, so `--seed` and `--count` repeat a run. Exit code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fuzzing.attacks import ATTACKS, Log
from fuzzing.cases import kind_of, outcome, replay, write_case
from fuzzing.damage import damaged
from fuzzing.growth import random_model
from fuzzing.mutants import check_mutant
from fuzzing.reading import base_models, damage_and_read
from fuzzing.workers import Ended, OriginalCrashed, results


@dataclass
class Found:
    """Findings of one task: (attack, what is wrong, where the case is), a note and its log."""

    problems: list[tuple[str, str, str]] = field(default_factory=list)
    note: str = ""  # a line to be printed, though nothing is wrong
    log: Log = field(default_factory=Log)


def attack_graph(seed: int, attacks: list[str], optimize_every: int, out: Path | None, shrink_s: float) -> Found:
    """Grow graph number `seed` and attack it; shrink and write what is found."""
    subject, found = random_model(seed), Found()
    for attack in attacks:
        if attack == "optimized" and seed % optimize_every:
            continue
        found.log.culprit = None
        problem = outcome(subject, attack, found.log)
        if problem is not None:
            path = write_case(out, subject, attack, problem, shrink_s, found.log) if out is not None else ""
            found.problems.append((attack, problem, str(path)))
    found.log.culprit = None
    return found


def attack_reader(seed: int, models: list[bytes], whole_every: int) -> Found:
    """Damage a file and read it."""
    problem = damage_and_read(models, seed, whole_every)
    return Found([("reader", problem, "")] if problem else [])


def attack_check(seed: int, models: list[Path], folder: Path, seconds: float, out: Path | None) -> Found:
    """Check a mutated model."""
    said, line, problem = check_mutant(seed, models, folder, seconds, out)
    found = Found([("check", problem, str(out or ""))] if problem else [], line)
    found.log.counts[said] += 1
    return found


class Progress:
    """Counts what was found, and prints a line every few seconds with the time that is left."""

    def __init__(self, count: int | None, seconds: float | None) -> None:
        self.count, self.seconds, self.start, self.last = count, seconds, time.monotonic(), 0.0
        self.done, self.log = 0, Log()
        self.kinds: Counter[str] = Counter()

    def tasks(self, first: int) -> Iterator[int]:
        """Yield numbers from `first` until count or time is used up."""
        for number in itertools.count(first) if self.count is None else range(first, first + self.count):
            if self.seconds is not None and time.monotonic() - self.start > self.seconds:
                return
            yield number

    def add(self, task: int, result: Found | Ended) -> None:
        """Count one result; print what is wrong."""
        self.done += 1
        problems: list[tuple[str, str, str]] = []
        if isinstance(result, OriginalCrashed):
            self.log.counts[f"originals that end ONNX Runtime ({str(result).removeprefix('crash: ')})"] += 1
        elif isinstance(result, Ended):
            problems = [("", str(result), "")]
        else:
            problems = result.problems
        for attack, problem, path in problems:
            self.kinds[f"{attack}: {kind_of(problem)}"] += 1
            print(f"{task} {attack}: {problem}{f' ({path})' if path else ''}", flush=True)
        if isinstance(result, Found):
            if result.note:
                print(f"{task} {result.note}", flush=True)
            self.log.rules.update(result.log.rules)
            self.log.counts.update(result.log.counts)
        now = time.monotonic()
        if now - self.last > 10:
            self.last = now
            print(f"{self.done} done, {sum(self.kinds.values())} found{self._left(now)}", file=sys.stderr, flush=True)

    def _left(self, now: float) -> str:
        spent = now - self.start
        left = [self.seconds - spent] if self.seconds is not None else []
        left += [spent / self.done * (self.count - self.done)] if self.count is not None else []
        return f", {min(left):.0f} s left" if left else ""

    def summary(self) -> str:
        """Return the figures of the run."""
        spent = time.monotonic() - self.start
        lines = [
            f"{self.done} in {spent:.0f} s ({3600 * self.done / spent:.0f} an hour), {sum(self.kinds.values())} found"
        ]
        lines += [f"  {count} {kind}" for kind, count in self.kinds.most_common()]
        counts = ", ".join(f"{count} {name}" for name, count in self.log.counts.most_common())
        return "\n".join([*lines, *([f"{counts}; {len(self.log.rules)} rules used"] if counts else [])])


def main() -> None:
    """Run the command."""
    arguments = _arguments()
    if arguments.command == "replay":
        failed = 0
        for path in sorted(arguments.folder.glob("*.onnx")):
            problem = replay(path)
            failed += problem is not None
            print(f"{'FAIL' if problem else 'ok  '} {path.stem}{f': {problem}' if problem else ''}")
        raise SystemExit(failed > 0)
    progress = Progress(arguments.count, arguments.time)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache  # no verdict and no time of another run
        if arguments.command == "graphs":
            names = arguments.attack or list(ATTACKS)
            work = partial(
                attack_graph, attacks=names, optimize_every=arguments.optimize_every, out=arguments.out,
                shrink_s=arguments.shrink,
            )  # fmt: skip
        elif arguments.command == "mutants":
            work = partial(
                attack_check, models=arguments.models, folder=Path(cache), seconds=arguments.seconds, out=arguments.out
            )
        else:
            models = base_models(arguments.models)
            work = partial(attack_reader, models=models, whole_every=arguments.whole_every)
        for task, result in results(work, progress.tasks(arguments.seed), arguments.jobs, arguments.limit):
            progress.add(task, result)
            if arguments.command == "reader" and arguments.out and (isinstance(result, Ended) or result.problems):
                arguments.out.mkdir(parents=True, exist_ok=True)
                (arguments.out / f"damaged_{task}.onnx").write_bytes(damaged(models, task))
    print(progress.summary())
    raise SystemExit(bool(progress.kinds))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    graphs, reader, mutants, again = (commands.add_parser(name) for name in ("graphs", "reader", "mutants", "replay"))
    for command, limit in ((graphs, 300.0), (reader, 10.0), (mutants, 300.0)):
        command.add_argument("--seed", type=int, default=0, help="number of the first graph or file")
        command.add_argument("--count", type=int, help="how many")
        command.add_argument("--time", type=float, help="seconds after which no new one is begun")
        command.add_argument("-j", "--jobs", type=int, default=1, help="processes")
        command.add_argument("--out", type=Path, help="folder for what is found")
        command.add_argument("--limit", type=float, default=limit, help="seconds for one; more is a hang")
    graphs.add_argument("--attack", action="append", choices=list(ATTACKS), help="only these (all)")
    graphs.add_argument("--optimize-every", type=int, default=4, help="graphs of which one is also optimized")
    graphs.add_argument("--shrink", type=float, default=60.0, help="seconds to shrink a failure")
    reader.add_argument(
        "--whole-every", type=int, default=10, help="files of which one is given to `optimize` (0: none)"
    )
    reader.add_argument("models", type=Path, nargs="*", help="folders with more small models to damage")
    mutants.add_argument("--seconds", type=float, default=20.0, help="seconds of one check")
    mutants.add_argument("models", type=Path, nargs="+", help="models to optimize, mutate and check")
    again.add_argument("folder", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
