"""Measure the generator: the fingerprint stage by itself, and whole runs over TASO's operators.

    python scripts/bench_generate.py                 the fingerprint stage, and a run with 3 operators a side
    python scripts/bench_generate.py --operators 4   the fingerprint stage, and a run with 4 operators a side

The fingerprint stage computes the fingerprint of every graph of 3 operators over 4x4 matrices (MatMul, Add, Mul, Mul by
a scalar, Relu, Transpose, Concat), including graphs that smaller rules rewrite. Its time is CPU time on one core. A run
is `superopt generate --family taso` in a process of its own, with proofs. Wall time, CPU time and peak memory are
printed.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from superopt.generate.enumeration.blocks import BlockBuilder
from superopt.generate.enumeration.enumerator import enumerate_family
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.enumeration.linear_fingerprints import BlockFingerprints
from superopt.generate.grammar import Family, Use, binary, concat, inputs, transpose, unary


def fingerprint_stage(repeats: int) -> None:
    """Print the graphs enumerated per second."""
    family = Family(
        "matrices",
        (*inputs("a b c d e f", (4, 4)), *inputs("s", ())),
        (
            *binary("MatMul Add Mul"),
            Use("Mul", slots=("*", "s")),
            *unary("Relu"),
            *transpose((1, 0)),
            *concat(-1, -2),
        ),
        runtime=4,
        elements=64,
    )
    evaluator = Evaluator(0)
    state = enumerate_family(family, evaluator, operators=3)
    fingerprints = BlockFingerprints(state.classes, evaluator.hasher)
    blocks = BlockBuilder(state.classes).blocks(3, range(1))
    rates = []
    for _ in range(repeats):
        start, graphs = time.process_time(), 0
        for block in blocks:
            graphs += sum(len(keys) for _, keys in fingerprints.keys(block))
        rates.append(graphs / (time.process_time() - start))
    print(
        f"fingerprint stage: {graphs:,} graphs of 3 operators, {statistics.median(rates) / 1e6:.1f} million a second of"
        f" one core (median of {repeats}; {min(rates) / 1e6:.1f} to {max(rates) / 1e6:.1f})"
    )


def whole_run(operators: int, jobs: int) -> None:
    """Print the time and memory of a run, including proofs."""
    with tempfile.TemporaryDirectory() as folder:
        program = "from superopt.cli import main; main()"
        command = [sys.executable, "-c", program, "generate", "--family", "taso", "--out", f"{folder}/rules"]
        start = time.perf_counter()
        subprocess.run([*command, "--operators", str(operators), "-j", str(jobs)], check=True)
        wall = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"TASO's operators, {operators} a side: {wall:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU,"
        f" {used.ru_maxrss / 1e6:.2f} GB in the largest process"
    )


def main() -> None:
    """Parse the command line, and print both measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, default=3, help="operators a side of the whole run (default 3)")
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of the fingerprint stage (default 5)")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes of the whole run (default 1)")
    options = parser.parse_args()
    fingerprint_stage(options.repeats)
    whole_run(options.operators, options.jobs)


if __name__ == "__main__":
    main()
