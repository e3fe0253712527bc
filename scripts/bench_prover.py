"""Measure the prover: rules per second of CPU time on one core, and the rules with verdict Unknown.

python scripts/bench_prover.py                     the rules of other systems in tests/prover/foreign
python scripts/bench_prover.py rules/ mine.rules   others
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from pathlib import Path

from superopt.ir.notation import show_rule
from superopt.rulebook.loading import read_rules, rule_files
from verify.diagnose.decide import decide

FOREIGN = Path(__file__).resolve().parent.parent / "tests" / "prover" / "foreign"


def main() -> None:
    """Prove every rule of the files at every signature, and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, default=[FOREIGN], metavar="RULES", help="files or folders")
    arguments = parser.parse_args()
    verdicts: Counter[str] = Counter()
    undecided: list[str] = []
    times: list[tuple[float, str]] = []
    signatures = 0
    for path in arguments.paths:
        for file in rule_files(path):
            for listed in read_rules(file):
                start = time.process_time()
                found = [type(decide(listed.rule, signature)).__name__ for signature in listed.rule.signatures]
                times.append((time.process_time() - start, show_rule(listed.rule)))
                signatures += len(found)
                worst = next((name for name in ("Refuted", "Unknown") if name in found), "Proved")
                verdicts[worst] += 1
                if worst == "Unknown":
                    undecided.append(times[-1][1])
    seconds = [each for each, _ in times]
    total = sum(seconds)
    print(f"{len(times)} rules at {signatures} signatures: {dict(verdicts)}")
    print(f"{100 * len(undecided) / len(times):.2f}% Unknown")
    print(f"{total:.1f} s of CPU time: {len(times) / total:.1f} rules/s, {signatures / total:.1f} signatures/s")
    print(f"median {1000 * statistics.median(seconds):.0f} ms a rule; slowest:")
    for each, rule in sorted(times, reverse=True)[:5]:
        print(f"  {each:6.2f} s  {rule[:140]}")
    for rule in undecided:
        print(f"Unknown: {rule[:200]}")


if __name__ == "__main__":
    main()
