"""The statement of `verify/README.md` on what must be trusted."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

README = (ROOT / "verify" / "README.md").read_text(encoding="utf-8")
_TOLERANCE = 0.05


def _command() -> str:
    found = re.search(r"python - <<'END'\n(.*?)\nEND\n", README, re.DOTALL)
    assert found is not None
    return found[1]


def _run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_lines_to_trust_are_stated() -> None:
    stated = re.search(r"^([\d,]+) lines in (\d+) files", README, re.MULTILINE)
    assert stated is not None
    lines, files = (int(number.replace(",", "")) for number in stated.groups())
    counted = [int(number) for number in re.findall(r"\d+", _run(_command()))]
    assert abs(counted[0] - lines) <= _TOLERANCE * lines
    assert abs(counted[1] - files) <= _TOLERANCE * files
    parts = re.findall(r"^\| `(?:superopt|verify)/.*?\| ([\d,]+) \|", README, re.MULTILINE)
    assert abs(sum(int(part.replace(",", "")) for part in parts) - lines) <= _TOLERANCE * lines


def test_the_replay_imports_what_is_trusted_only() -> None:
    loaded = _run("import sys, verify.replay; print(*sorted(sys.modules))").split()
    ours = {".".join(name.split(".")[:2]) for name in loaded if name.split(".")[0] in ("superopt", "verify")}
    assert ours == {
        "superopt", "superopt.ir", "superopt.ops", "verify", "verify.proof_book", "verify.propose", "verify.prove",
        "verify.replay", "verify.stability", "verify.verdict",
    }  # fmt: skip


@pytest.mark.parametrize("part", ["prove", "stability"])
def test_every_module_of_the_kernel_is_in_a_table(part: str) -> None:
    modules = {path.name for path in (ROOT / "verify" / part).glob("*.py")} - {"__init__.py"}
    named = set(re.findall(r"`(?:\w+/)*(\w+\.py)`", README))
    assert modules <= named


def test_no_file_named_here_is_missing() -> None:
    for name in re.findall(r"`((?:tests|verify|superopt)/[\w/.]+)`", README):
        assert (ROOT / name).exists(), name
