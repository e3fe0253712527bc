"""The section "JSON" of superopt/README.md lists the keys that commands print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

from superopt import optimize
from superopt.bench.result import Benchmark
from superopt.check import Answer
from superopt.cli import main
from superopt.optimizer.result import OperatorTime, Refusal
from tests.support.models import lora
from tests.support.paths import ROOT
from tests.support.timers import faster

SECTION = re.search(r"^## JSON\n(.*?)^## ", (ROOT / "superopt/README.md").read_text("utf-8"), re.S | re.M)
assert SECTION is not None
OPTIMIZE, OTHERS = SECTION[1].split("Other commands")


def _rows(table: str) -> list[tuple[set[str], set[str]]]:
    """Return the names in the first cell and in the last cell of each row."""
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    first = [set(re.findall(r"`([\w. ]+)`", row[0])) for row in rows]
    last = [set(re.findall(r"`([\w.]+)`", row[-1])) for row in rows]
    return list(zip(first, last, strict=True))


def test_keys_of_optimize(lora_rules: Path) -> None:
    result = optimize(lora(), ep="cpu", rules=lora_rules, cost="analytic", timer=faster, explain=True)
    result.refused.append(Refusal("all rewrites", "slower"))
    result.operator_times.append(OperatorTime("MatMul", 3, 1, 2.0, 1.0))
    found = json.loads(result.to_json())
    for key in ("latency", "difference", "proof"):
        found |= {f"{key}.{inner}": value for inner, value in found[key].items()}
    documented = {key: words for keys, words in _rows(OPTIMIZE) for key in keys}
    assert documented.keys() == {*found, "check"}
    items = {key: value[0].keys() for key, value in found.items() if isinstance(value, list) and key != "notices"}
    assert len(items) == 6 and items == {key: documented[key] for key in items}


@pytest.mark.parametrize("command", [name for (name,), _ in _rows(OTHERS)])
def test_keys_of_other_commands(command: str, lora_rules: Path, tmp_path: Path) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    (named,) = [words for (name,), words in _rows(OTHERS) if name == command]
    if command == "check":
        text = Answer("a.onnx", "b.onnx").to_json()
    elif command == "bench":
        text = Benchmark({}, []).to_json()
    else:
        model, rules = str(tmp_path / "model.onnx"), str(lora_rules)
        arguments = {
            "why": [model, "--node", "y"],
            "verify": [rules],
            "harvest": [model, "-o", str(tmp_path / "corpus.txt")],
            "learn": [model, "-o", str(tmp_path / "mine"), "--budget", "0", "-j", "1"],
            "rules rank": [model, "--rules", rules],
            "rules derive": [rules, rules],
            "rules matrix": [rules, rules],
        }[command]
        text = CliRunner().invoke(main.command, [*command.split(), *arguments, "--json"]).stdout
    found = json.loads(text)
    version = re.search(rf"^\| `{command}` \| (\d) \|", OTHERS, re.M)
    assert version is not None and found.pop("schema_version") == int(version[1])
    assert found.keys() == {word for word in named if "." not in word}
