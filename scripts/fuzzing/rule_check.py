"""Both sides of a rule, or of wrong rules made from it, run in ONNX Runtime and compared."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from superopt.ir.notation import show_rule
from superopt.ir.rule import Rule

from .feeds import Subject
from .instances import mutants, sides
from .judge import Judge, NotRun

__all__ = ["check_rule"]

_REAL, _WHOLE = ("plain", "simple"), ("edge", "wide", "plain")  # profiles of numbers


def check_rule(task: int, rules: Sequence[Rule], dtypes: Sequence[str], wrong: bool) -> tuple[Counter[str], list[str]]:
    """Check rule number `task`, or if `wrong` one mutant of each of its operators, at all `dtypes`.

    Return the pairs compared for each type, and where outputs differ.
    """
    compared: Counter[str] = Counter()
    found: list[str] = []
    rule = rules[task % len(rules)]
    for candidate in mutants(rule, random.Random(task)) if wrong else [rule]:
        for dtype in dtypes:
            count, problems = _differences(candidate, dtype, task, wrong)
            compared[dtype] += count
            found += problems
    return compared, found


def _differences(rule: Rule, dtype: str, seed: int, wrong: bool) -> tuple[int, list[str]]:
    compared, found = 0, []
    for number, (left, right) in enumerate(sides(rule, dtype, random.Random(seed))):
        profiles = _REAL if dtype in ("float", "double", "float16") else _WHOLE
        feeds = [Subject(left, profile, {}, seed + number).feeds()[0] for profile in profiles]
        try:
            problem = Judge(left, feeds, seed=seed, cancels=not wrong).problem(right, ("none",))
        except NotRun:
            continue  # the runtime has no kernel for this type
        compared += 1
        if problem is not None:
            found.append(f"{rule.id} at {dtype}: {problem}; {show_rule(rule)[:400]}")
    return compared, found
