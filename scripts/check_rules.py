"""Run both sides of rules in ONNX Runtime, at every element type at which the kernel allows them.

python scripts/check_rules.py                      all shipped rules
python scripts/check_rules.py --mutants 2000       wrong rules: whatever the kernel still proves must agree as well

Integers and truth values are compared exactly, also at the ends of their types and around powers of two; real numbers
within the spread that noise of the size of roundings causes in both sides (`fuzzing/judge.py`). Exit code 1 if two
sides differ.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from functools import partial

from fuzzing.instances import DTYPES
from fuzzing.rule_check import check_rule
from fuzzing.workers import Ended, results

from superopt.ir.term import topological
from superopt.rulebook.loading import load_rules


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, help="how many rules to make wrong, instead of checking the right ones")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="only these element types (all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one rule")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    arguments = parser.parse_args()
    wrong = arguments.mutants is not None
    rules = load_rules(None)
    if wrong:  # mutants of minimal filtering take minutes to refute
        rules = [rule for rule in rules if all(term.op != "Constant" for term in topological(rule.rhs))]
        random.Random(arguments.seed).shuffle(rules)
    compared, failed, start, last = Counter[str](), 0, time.monotonic(), 0.0
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        work = partial(check_rule, rules=rules, dtypes=tuple(arguments.dtype or DTYPES), wrong=wrong)
        count = arguments.mutants if wrong else len(rules)
        tasks = iter(range(arguments.seed, arguments.seed + count))
        for task, result in results(work, tasks, arguments.jobs, arguments.limit):
            problems = [f"{rules[task % len(rules)].id}: {result}"] if isinstance(result, Ended) else result[1]
            failed += len(problems)
            compared.update({} if isinstance(result, Ended) else result[0])
            if time.monotonic() - last > 10:
                last = time.monotonic()
                left = (last - start) / (task + 1 - arguments.seed) * (arguments.seed + count - task - 1)
                print(f"{task + 1 - arguments.seed} of {count}, {left:.0f} s left", file=sys.stderr, flush=True)
            for problem in problems:
                print(problem, flush=True)
    counts = ", ".join(f"{pairs} {dtype}" for dtype, pairs in compared.items() if pairs)
    print(f"{sum(compared.values())} pairs compared ({counts}) in {time.monotonic() - start:.0f} s, {failed} differ")
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
