"""The generator from end to end: grammar -> graphs -> equal pairs -> rules -> proofs -> files.

What is written depends on the seed, the grammar and the code only: on no machine, number of workers or memory, and no
times stand anywhere but in `times.json`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

from superopt.generate.families import FAMILIES
from superopt.generate.grammar import Family
from superopt.generate.prove.prove_conjectures import CounterexampleCheck, Prover
from superopt.generate.run.dask_cluster import cluster
from superopt.generate.run.processes import local
from superopt.generate.run.shards import Shard, run
from superopt.generate.run.store import Store, write_whole
from superopt.generate.run.workers import Workers, code_hash
from superopt.generate.stage_counts import StageCounts, Summary
from superopt.generate.stages import RunConfig, enumerated, merged, proven, settled
from verify.diagnose.decide import decide

__all__ = ["UnknownFamily", "choose", "generate"]

Progress: TypeAlias = Callable[[str], None]

_HEAD = "# Found by the generator and proven by verify/; written by `superopt generate`. One equation a line."
_CHUNK = 6  # rules of a shard that proves signatures


class UnknownFamily(ValueError):
    """A name that no family or group of families has; the message lists those that there are."""


def choose(names: Iterable[str], families: Sequence[Family] = FAMILIES) -> tuple[Family, ...]:
    """The families with these names or groups, all but the optional ones without a name. Raises UnknownFamily."""
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
    witness: CounterexampleCheck | None = None,
) -> Summary:
    """Finds, proves and writes all rules of `families` (all that are not optional) into `out_dir` (made where missing):
    `<family>.rules`, `certificates.jsonl`, `refused.jsonl`, `summary.json`, `times.json`.

    The same seed gives the same bytes, the prover's times aside, whatever `jobs` (processes), `scheduler` (address of a
    Dask cluster) and `memory` (bytes for compared graphs, all workers of this machine together) are. `operators`: at
    most so many a side. Until the files are written, results of shards lie in `<out_dir>.shards`, and `resume`
    continues from there. `prover` and `witness`, which is asked about each counterexample, travel to the workers.
    Raises OSError, ShardFailed, StoreError, WorkersError.
    """
    out = Path(out_dir).resolve()
    share = None if memory is None else max(1, memory // max(1, jobs))
    config = RunConfig(choose(()) if families is None else tuple(families), operators, seed, share, prover, witness)
    identity = hashlib.blake2b(
        repr((code_hash(), seed, operators, config.families)).encode(), digest_size=16
    ).hexdigest()
    tell = progress or (lambda message: None)
    plan = _Plan(config)
    with _workers(jobs, scheduler) as workers:
        store = Store(out.with_name(out.name + ".shards"), identity, resume)  # after the workers: it may clear a folder
        run(plan.enumeration, store, workers, tell, "enumeration")
        run(plan.settling, store, workers, tell, "conjectures")
        run([plan.merging], store, workers, tell, "derivability")
        chunks = plan.proving(len(json.loads(store.result(plan.merging.name))["kept"]))
        run(chunks, store, workers, tell, "signatures")
    summary = _write(out, config, plan, store, [chunk.name for chunk in chunks])
    shutil.rmtree(store.folder)
    return summary


def _workers(jobs: int, scheduler: str | None) -> AbstractContextManager[Workers]:
    return local(jobs) if scheduler is None else cluster(scheduler)


_LARGEST = 5  # operators of graphs that are put together freely


class _Plan:
    """The shards of a run."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.enumeration: list[Shard] = []
        self.settling: list[Shard] = []
        names = [f"{k:03}-{family.name}" for k, family in enumerate(config.families)]
        for number, family in enumerate(config.families):
            operators = min(family.runtime, config.operators or family.runtime)
            # Larger graphs are those of families that say what may stand under what.
            work = float(max(1, len(family.variables) * len(family.uses))) ** (min(operators, _LARGEST) / 2)
            needs = [f"enumerated/{names[number]}.{part}" for part in range(family.parts)]
            for part, name in enumerate(needs):
                self.enumeration.append(Shard(name, enumerated, (config, number, part), work=work / family.parts))
            known = [f"settled/{names[k]}" for k, other in enumerate(config.families) if other.wave < family.wave]
            name = f"settled/{names[number]}"
            self.settling.append(Shard(name, settled, (config, number, tuple(known)), (*needs, *known), work**0.25))
        waves = sorted(range(len(names)), key=lambda k: config.families[k].wave)  # stable
        self.order = [f"settled/{names[k]}" for k in waves]
        self.merging = Shard("merged", merged, (config, tuple(self.order)), tuple(self.order))

    def proving(self, rules: int) -> list[Shard]:
        """Shards for the signatures of so many rules."""
        return [
            Shard(f"proven/{start:05}", proven, (self.config, "merged", start, start + _CHUNK), ("merged",))
            for start in range(0, rules, _CHUNK)
        ]


def _write(folder: Path, config: RunConfig, plan: _Plan, store: Store, chunks: Iterable[str]) -> Summary:
    """Writes the files; what other runs left there under these names is replaced."""
    settled_ = [json.loads(store.result(shard.name)) for shard in plan.settling]
    counts = [StageCounts(**result["counts"]) for result in settled_]
    counts = [
        count + StageCounts(**more)
        for count, more in zip(counts, json.loads(store.result("merged"))["counts"], strict=True)
    ]
    times = {rule: seconds for result in settled_ for rule, seconds in result["seconds"].items()}
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
    files["refused.jsonl"] = [json.dumps(entry) for result in settled_ for entry in result["refused"]]
    kept = {json.loads(line)["rule"] for line in certificates}
    summary = Summary(config.seed, by_name, [*sorted(files), "summary.json", "times.json"])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(files):
        head = [_HEAD] if name.endswith(".rules") else []
        write_whole(folder / name, "".join(f"{line}\n" for line in head + files[name]).encode())
    write_whole(folder / "summary.json", summary.to_json().encode())
    seconds = {rule: round(times[rule], 3) for rule in sorted(kept & times.keys())}
    write_whole(folder / "times.json", json.dumps(seconds, indent=0).encode() + b"\n")
    return summary
