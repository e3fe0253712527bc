"""Compare the answer of `superopt check` on a mutated model with that of the judge.

The judge compares runs in ONNX Runtime (`judge.py`). Equivalent is a fault if the judge sees a difference; if it sees
none, a person should look. Different should be seen by the judge too, on the input that `check` gives.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from superopt import optimize
from superopt.check import DIFFERENT, EQUIVALENT, Answer, CheckOptions, check

from .attacks import accept
from .feeds import accepted_feeds
from .judge import Feeds, Judge, NotRun, run
from .mutations import MUTATIONS

__all__ = ["Mutant", "check_mutant", "mutant_of"]

_OF_WEIGHTS = {"element", "tensor"}  # kinds of mutations that are a difference, however faint, where weights matter
_TRIES = 20  # of each kind, until the result is a model that runs


@dataclass(frozen=True)
class Mutant:
    """A model with one mutation, its kind, and what was changed."""

    model: onnx.ModelProto
    kind: str
    what: str


def mutant_of(model: onnx.ModelProto, feeds: Feeds, number: int) -> Mutant | None:
    """Return mutant `number` of a model, which runs on `feeds`. Kinds take turns; one that does not fit is left out."""
    rng, kinds = random.Random(number), list(MUTATIONS)
    first = number % len(kinds)
    for kind in kinds[first:] + kinds[:first]:
        for _ in range(1 if kind == "rule" else _TRIES):
            found = onnx.ModelProto()
            found.CopyFrom(model)
            what = MUTATIONS[kind](found, rng)
            if what is None:
                continue
            del found.graph.value_info[:]  # they state what was true before
            try:
                run(found, feeds)
            except NotRun:
                continue
            return Mutant(found, kind, what)
    return None


def check_mutant(
    number: int, paths: Sequence[Path], folder: Path, seconds: float, out: Path | None
) -> tuple[str, str, str | None]:
    """Check mutant `number` against the original of the model that was mutated.

    Return the answer in a few words, a line about the mutant, and what is wrong or None. Optimized models are kept in
    `folder`. A mutant that a person should look at is written to `out`, with the original beside it.
    """
    path = paths[number % len(paths)]
    original = onnx.load(path)
    feeds = next(accepted_feeds(original), None)
    mutant = None if feeds is None else mutant_of(_optimized(path, folder), feeds, number // len(paths))
    if feeds is None or mutant is None:
        return "no mutant", f"{path.stem}: no mutant runs", None
    witness = folder / f"{number}.npz"
    answer = check(original, mutant.model, CheckOptions(seconds=seconds, witness=witness))
    inputs = [feeds]
    if answer.difference is not None and witness.exists():
        with np.load(witness) as values:
            inputs = [dict(values)]
        witness.unlink()
    said, problem = _judged(answer, original, mutant, inputs)
    line = f"{path.stem}, {mutant.kind}: {mutant.what}: {said}"
    if out is not None and said != DIFFERENT:
        out.mkdir(parents=True, exist_ok=True)
        onnx.save(original, out / f"{number}.a.onnx")
        onnx.save(mutant.model, out / f"{number}.b.onnx")
        (out / f"{number}.json").write_text(answer.to_json() + "\n", encoding="utf-8")
    return f"{mutant.kind}: {said}", line, problem


def _judged(
    answer: Answer, original: onnx.ModelProto, mutant: Mutant, inputs: Sequence[Feeds]
) -> tuple[str, str | None]:
    """Return the verdict, with a remark if the judge does not agree, and what is wrong."""
    if answer.verdict not in (EQUIVALENT, DIFFERENT) or answer.interface:
        return answer.verdict, None
    try:
        seen = Judge(original, inputs, quick=True).problem(mutant.model, ("none",))
    except NotRun as error:
        return f"{answer.verdict}, not judged: {error}", None
    if answer.verdict == EQUIVALENT and seen is not None:
        return EQUIVALENT, f"called Equivalent, and {seen}"
    if answer.verdict == DIFFERENT and seen is None:
        if answer.difference is not None and answer.difference.is_faint and mutant.kind in _OF_WEIGHTS:
            return f"{DIFFERENT}, below the roundings of one run", None
        return f"{DIFFERENT}, which the judge does not see", None
    return answer.verdict, None


def _optimized(path: Path, folder: Path) -> onnx.ModelProto:
    """Return the optimized model; every rewrite counts as faster."""
    out = folder / f"{path.stem}.onnx"
    if not out.exists():
        result = optimize(path, ep="cpu", cost="analytic", budget=5.0, samples=1, timer=accept)
        assert result.proto is not None
        onnx.save(result.proto, out)
    return onnx.load(out)
