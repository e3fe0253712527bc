"""One run of the generator, from families to files.

The files depend on the seed, the families and the code only; not on the machine, the number of workers or the memory.
Only `times.json` has times.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

from superopt.folders import check_folder, write_files
from superopt.generate.families import FAMILIES
from superopt.generate.grammar import Family
from superopt.generate.prove.prove_conjectures import CounterexampleCheck, Prover
from superopt.generate.run.dask_cluster import cluster
from superopt.generate.run.local_workers import local
from superopt.generate.run.shard_results import ShardResults
from superopt.generate.run.shards import Shard, run
from superopt.generate.run.workers import Workers, code_hash
from superopt.generate.stage_counts import StageCounts, Summary
from superopt.generate.stages import RunConfig, enumerate_part, merge_families, prove_family, prove_signatures
from verify.diagnose.decide import decide

__all__ = ["UnknownFamily", "choose", "generate"]

Progress: TypeAlias = Callable[[str], None]

_HEADER = "# Found by the generator and proven by verify/; written by `superopt generate`. One equation a line."
_OTHER_FILES = ("certificates.jsonl", "refused.jsonl", "summary.json", "times.json")
_RULES_PER_SHARD = 6  # rules in a shard that proves signatures


class UnknownFamily(ValueError):
    """No family or group has this name; the message lists those that exist."""


def choose(names: Iterable[str], families: Sequence[Family] = FAMILIES) -> tuple[Family, ...]:
    """Return the families with these names or groups; without names, all but optional ones. Raises UnknownFamily."""
    wanted = set(names)
    known = {f.name for f in families} | {f.group for f in families if f.group}
    if wanted - known:
        raise UnknownFamily(f"no family {', '.join(sorted(wanted - known))}; there are {', '.join(sorted(known))}")
    return tuple(f for f in families if ({f.name, f.group} & wanted if wanted else not f.optional))


def generate(
    out_dir: str | Path,
    seed: int = 0,
    progress: Progress | None = None,
    *,
    families: Sequence[Family] | None = None,
    operators: int | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
    memory: int | None = None,
    resume: bool = False,
    prover: Prover = decide,
    confirm: CounterexampleCheck | None = None,
    asked: str = "",
) -> Summary:
    """Find, prove and write all rules of `families` (by default all that are not optional) into `out_dir`.

    The folder is made if it is missing. It gets `<family>.rules`, `certificates.jsonl`, `refused.jsonl`, `summary.json`
    and `times.json`, all at one moment where the system can exchange folders; they replace the files of an earlier run.
    The same seed gives the same bytes, except for the times, for any `jobs` (number of processes),
    `scheduler` (address of a Dask cluster) and `memory` (bytes for compared graphs, in all processes of this machine).
    `operators` is the largest number of operators on a side. Until the files are written, results of shards are in
    `<out_dir>.shards`, and an interrupted run goes on from there; with `resume` those of another run are an error.
    `prover` and `confirm`, which is called for each counterexample, are sent to the workers. `asked` is the text of a
    file of rules with further signatures at which they are to be proven. Raises OSError, ShardFailed, StoreError,
    WorkersError.
    """
    out = Path(out_dir).resolve()
    share = None if memory is None else max(1, memory // max(1, jobs))
    config = RunConfig(
        choose(()) if families is None else tuple(families), operators, seed, share, prover, confirm, asked
    )
    depends_on = repr((code_hash(), seed, operators, config.families, asked))
    identity = hashlib.blake2b(depends_on.encode(), digest_size=16).hexdigest()
    tell = progress or (lambda message: None)
    check_folder(out, {*_OTHER_FILES, *(f"{family.name}.rules" for family in config.families)})
    plan = _Plan(config)
    with _workers(jobs, scheduler) as workers:
        # After the workers have started: opening the store may clear the folder.
        store = ShardResults(out.with_name(out.name + ".shards"), identity, resume)
        run(plan.enumeration, store, workers, tell, "enumeration")
        run(plan.proofs, store, workers, tell, "conjectures")
        run([plan.merging], store, workers, tell, "derivability")
        chunks = plan.signatures(len(json.loads(store.result(plan.merging.name))["kept"]))
        run(chunks, store, workers, tell, "signatures")
    summary = _write(out, config, plan, store, [chunk.name for chunk in chunks])
    shutil.rmtree(store.folder)
    return summary


def _workers(jobs: int, scheduler: str | None) -> AbstractContextManager[Workers]:
    return local(jobs) if scheduler is None else cluster(scheduler)


_MAX_FREE_OPERATORS = 5  # largest number of operators of graphs in which any operator may follow any other


class _Plan:
    """The shards of a run."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.enumeration: list[Shard] = []
        self.proofs: list[Shard] = []
        names = [f"{k:03}-{family.name}" for k, family in enumerate(config.families)]
        for number, family in enumerate(config.families):
            operators = min(family.runtime, config.operators or family.runtime)
            # Families with larger graphs restrict which operators may follow each other.
            work = float(max(1, len(family.variables) * len(family.uses))) ** (min(operators, _MAX_FREE_OPERATORS) / 2)
            needs = [f"enumerated/{names[number]}.{part}" for part in range(family.parts)]
            for part, name in enumerate(needs):
                self.enumeration.append(Shard(name, enumerate_part, (config, number, part), work=work / family.parts))
            # Windows repeat each other far more than they repeat the grammar, whose rules `merge_families` compares.
            before = (k for k, other in enumerate(config.families) if other.wave < family.wave)
            known = [f"proven/{names[k]}" for k in before if config.families[k].origin == family.origin]
            name = f"proven/{names[number]}"
            self.proofs.append(Shard(name, prove_family, (config, number, tuple(known)), (*needs, *known), work**0.25))
        waves = sorted(range(len(names)), key=lambda k: config.families[k].wave)  # stable
        self.order = [f"proven/{names[k]}" for k in waves]
        self.merging = Shard("merged", merge_families, (config, tuple(self.order)), tuple(self.order))

    def signatures(self, rules: int) -> list[Shard]:
        """Return the shards that prove the signatures of `rules` rules."""
        return [
            Shard(
                f"signatures/{start:05}",
                prove_signatures,
                (self.config, "merged", start, start + _RULES_PER_SHARD),
                ("merged",),
            )
            for start in range(0, rules, _RULES_PER_SHARD)
        ]


def _write(folder: Path, config: RunConfig, plan: _Plan, store: ShardResults, chunks: Iterable[str]) -> Summary:
    """Write the files, and return the summary.

    They replace all that an earlier run has written to the folder: its rules have no certificates any more.
    """
    proven = [json.loads(store.result(shard.name)) for shard in plan.proofs]
    counts = [StageCounts(**result["counts"]) for result in proven]
    counts = [
        count + StageCounts(**more)
        for count, more in zip(counts, json.loads(store.result("merged"))["counts"], strict=True)
    ]
    times = {rule: seconds for result in proven for rule, seconds in result["seconds"].items()}
    files: dict[str, list[str]] = {}
    certificates: list[str] = []
    for name in chunks:
        for entry in json.loads(store.result(name))["rules"]:
            family = config.families[entry["family"]]
            files.setdefault(f"{family.name}.rules", []).append(entry["rule"])
            certificates.append(entry["certificate"])
            counts[entry["family"]].rules += 1
            counts[entry["family"]].extended += entry["extended"]
            counts[entry["family"]].signatures += entry["signatures"]
            times[entry["id"]] = times.get(entry["id"], 0.0) + entry["seconds"]
    by_name: dict[str, StageCounts] = {}
    for family, count in zip(config.families, counts, strict=True):
        by_name[family.name] = by_name.get(family.name, StageCounts()) + count
    files["certificates.jsonl"] = sorted(certificates)
    files["refused.jsonl"] = [json.dumps(entry) for result in proven for entry in result["refused"]]
    kept = {json.loads(line)["rule"] for line in certificates}
    origins: dict[str, StageCounts] = {}
    for family, count in zip(config.families, counts, strict=True):
        origins[family.origin] = origins.get(family.origin, StageCounts()) + count
    summary = Summary(config.seed, by_name, origins, [*sorted(files), "summary.json", "times.json"])
    content: dict[str, bytes] = {}
    for name in sorted(files):
        head = [_HEADER] if name.endswith(".rules") else []
        content[name] = "".join(f"{line}\n" for line in head + files[name]).encode()
    content["summary.json"] = summary.to_json().encode()
    seconds = {rule: round(times[rule], 3) for rule in sorted(kept & times.keys())}
    content["times.json"] = json.dumps(seconds, indent=0).encode() + b"\n"
    write_files(folder, content, _own_rules(folder) - content.keys(), store.folder)
    return summary


def _own_rules(folder: Path) -> set[str]:
    """Return the names of the files of rules in `folder` that an earlier run has written."""
    first = f"{_HEADER}\n".encode()
    return {path.name for path in folder.glob("*.rules") if path.is_file() and path.read_bytes().startswith(first)}
