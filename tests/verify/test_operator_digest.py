"""A certificate depends on the kernel's core and on the operators of its rule, and on nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from superopt.ir.operator import OPERATORS
from superopt.ir.term import topological
from superopt.rulebook.loading import load_rules
from tests.support.paths import ROOT
from verify.certificates import rule_kernel_hash

HASHES = """
import json
from superopt.rulebook.loading import load_rules
from verify.certificates import rule_kernel_hash
print(json.dumps({rule.id: rule_kernel_hash(rule) for rule in load_rules()}))
"""


class Copy:
    """A copy of the program, whose sources may be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for package in ("superopt", "verify", "rules"):
            shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def hashes(self) -> dict[str, str]:
        """The hash that a certificate of each shipped rule has to name."""
        done = self.run(HASHES)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def change(self, source: str, old: str, new: str) -> None:
        path = self.folder / source
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    def append(self, source: str, text: str) -> None:
        path = self.folder / source
        path.write_text(path.read_text() + text)


@pytest.fixture(scope="module")
def hashes() -> dict[str, str]:
    return {rule.id: rule_kernel_hash(rule) for rule in load_rules()}


@pytest.mark.parametrize("source", ["verify/prove/facts.py", "superopt/ops/algebra.py", "superopt/ir/dim.py"])
def test_a_byte_of_the_kernels_core_makes_all_rules_unusable(
    tmp_path: Path, hashes: dict[str, str], lora_rules: Path, source: str
) -> None:
    copy = Copy(tmp_path / "copy")
    report = "import sys; from superopt.cli import main; main(sys.argv[1:])", "report", "--rules", str(lora_rules)
    before = copy.run(*report, "-o", str(tmp_path / "r.html"))
    assert before.returncode == 0, before.stderr
    copy.append(source, "\n")
    after = copy.run(*report, "-o", str(tmp_path / "r.html"))
    assert after.returncode == 2
    assert "certified by another kernel" in after.stderr and after.stderr.count("\n") == 1
    assert not hashes.items() & copy.hashes().items()


def test_what_only_explains_verdicts_voids_no_certificate(tmp_path: Path, hashes: dict[str, str]) -> None:
    copy = Copy(tmp_path)
    copy.append("verify/diagnose/counterexample.py", "\n")
    assert copy.hashes() == hashes


NEW_OPERATOR = """

def _twice(g, xs, attrs, shape, i):
    return g.add(xs[0].at(*i), xs[0].at(*i))


operator("Twice", 1, 1)(_twice)
"""


@pytest.mark.parametrize("family", ["conv", "linear", "pool", "recurrent", "scalar"])
def test_a_new_operator_voids_no_certificate(tmp_path: Path, hashes: dict[str, str], family: str) -> None:
    copy = Copy(tmp_path)
    copy.append(f"superopt/ops/{family}.py", NEW_OPERATOR)
    assert copy.run("from superopt.ir.operator import OPERATORS; OPERATORS['Twice']").returncode == 0
    assert copy.hashes() == hashes


def test_a_change_of_an_operator_voids_its_rules_only(tmp_path: Path, hashes: dict[str, str]) -> None:
    copy = Copy(tmp_path)
    copy.change("superopt/ops/conv.py", "spatial, group, pads = len(x) - 2,", "spatial, group, pads = -2 + len(x),")
    after = copy.hashes()
    changed = {id for id in hashes if after[id] != hashes[id]}
    mentioned = {rule.id: {t.op for t in topological((*rule.lhs, *rule.rhs))} for rule in load_rules()}
    assert {id for id, names in mentioned.items() if "Conv" in names} <= changed
    # Operators that a runtime has fused from standard ones are defined through them.
    fused = {name for name, operator in OPERATORS.items() if operator.domain}
    assert changed <= {id for id, names in mentioned.items() if names & {"Conv", *fused}}


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        ("superopt/ops/scalar.py", '_function("sqrt")', '_function("exp")'),  # a closure's value
        ("superopt/ops/scalar.py", 'operator("Sqrt", 1, 1, dtype=floats', 'operator("Sqrt", 1, 1, dtype=numbers'),
        ("superopt/ops/typing.py", "if dtype not in FLOAT_DTYPES:", "if dtype not in FLOAT_DTYPES | {'bool'}:"),
    ],
)
def test_whatever_an_entry_reaches_counts(
    tmp_path: Path, hashes: dict[str, str], source: str, old: str, new: str
) -> None:
    copy = Copy(tmp_path)
    copy.change(source, old, new)
    after = copy.hashes()
    for rule in load_rules():
        if any(term.op == "Sqrt" for term in topological((*rule.lhs, *rule.rhs))):
            assert after[rule.id] != hashes[rule.id]
