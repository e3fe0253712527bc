"""`learn`: rules for the windows of a user's own models, found and proven within a time budget.

The windows come in batches, those with the largest share of cost first. Each batch is a small run of the generator, and
the folder of rules is complete after each. So the run may end after any batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from superopt.folders import check_folder, write_files
from superopt.generate import generate
from superopt.generate.conjectures.written_functions import function_families
from superopt.generate.targets import window_families
from superopt.harvest import harvest
from superopt.ir.rule import Rule
from superopt.rulebook.loading import CERTIFICATES, Listed, certificate_lines, load_rules, read_rules
from superopt.search import CPU, Device
from superopt.temporary import temporary_folder
from superopt.wording import counted, duration
from verify.certificates import line_hash

__all__ = ["Learned", "learn"]

RULES = "learned.rules"
_BATCH = 2  # windows for each process
_HEADER = "# Found by `superopt learn` and proven by verify/. One equation a line."


@dataclass(frozen=True)
class Learned:
    """The end of a run: numbers of windows found, windows tried, and rules written, and the wall time in seconds."""

    windows: int
    tried: int
    rules: int
    seconds: float


def learn(
    models: Sequence[Path],
    out: str | Path,
    *,
    budget_s: float = 600.0,
    jobs: int = 1,
    scheduler: str | None = None,
    seed: int = 0,
    device: Device = CPU,
    progress: Callable[[str], None] = lambda _: None,
) -> Learned:
    """Find rules for the windows of `models`, and write them with certificates to the folder `out`.

    Rules that are shipped are left out. After `budget_s` seconds the batch that is running is given up; with one job
    this waits for the end of its present step. `jobs`, `scheduler` and `seed` are those of `generate`. The rules of a
    batch do not depend on the machine, but the number of batches does.

    Raises ModelError, RulesError, OSError, and the errors of `generate`.
    """
    begun = time.monotonic()
    out = Path(out).resolve()
    check_folder(out, {RULES, CERTIFICATES})
    found = harvest(models, device=device, progress=progress)
    families = (*function_families(found.windows), *window_families(found.windows))
    known = {rule_id for rule in load_rules(None) for rule_id in _ids(rule)}
    lines: dict[str, str] = {}  # certificate by the rule's line
    tried, size = 0, _BATCH * jobs
    out.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(out.parent, f".{out.name}-") as scratch:
        while tried < len(families):
            batch = families[tried : tried + size]
            last = tried + len(batch)
            span = f"window {last}" if len(batch) == 1 else f"windows {tried + 1} to {last}"
            title = f"{span} of {len(families)}, {counted(len(lines), 'rule')} so far"
            folder = scratch / str(tried)
            tell = partial(_tell, progress, title, begun + budget_s)
            try:
                generate(folder, seed, tell, families=batch, jobs=jobs, scheduler=scheduler)
            except _TimeIsUp:
                break
            for listed, certificate in _proven(folder):
                if listed.rule.id not in known:
                    known.update(_ids(listed.rule))
                    lines[listed.text] = certificate
            tried += len(batch)
            content = {RULES: [_HEADER, *lines], CERTIFICATES: sorted(lines.values())}
            files = {file: "".join(f"{line}\n" for line in text).encode() for file, text in content.items()}
            write_files(out, files, set(), scratch)
    return Learned(len(families), tried, len(lines), time.monotonic() - begun)


class _TimeIsUp(Exception):
    """The budget is used up."""


def _tell(progress: Callable[[str], None], title: str, end: float, line: str) -> None:
    """Pass on the stage in a line of the generator, whose counts are those of a batch.

    Raises _TimeIsUp after the time `end`, which ends the generator's processes.
    """
    left_s = end - time.monotonic()
    if left_s < 0:
        raise _TimeIsUp
    stage = line.partition(":")[0].removesuffix(" done")
    progress(f"learning: {title}, {duration(left_s)} left; {stage}")


def _ids(rule: Rule) -> set[str]:
    return {rule.id, rule.reversed().id}


def _proven(folder: Path) -> Iterator[tuple[Listed, str]]:
    """Yield the rules in a folder, each with the line of its certificate."""
    certificates = certificate_lines(folder / CERTIFICATES)
    for file in sorted(folder.glob("*.rules")):
        for listed in read_rules(file):
            yield listed, certificates[listed.rule.id, line_hash(listed.text)]
