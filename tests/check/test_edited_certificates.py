"""Certificates that somebody has edited: they prove nothing false, and what is none is a clear error."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from superopt.check.certificate import Certificate
from superopt.check.equality import joined, prove_equal
from superopt.files import OutputError
from superopt.onnx_io import ModelError
from tests.check.test_equality import _folded, _shared, _third

JUNK = ("", 0, -1, 1.5, 1e400, True, None, [], {}, [[]], "Add", "x: float[n]", ["", ""])


def _edited(content: Any, rng: random.Random) -> Any:
    """Return a copy with one value replaced, repeated, exchanged or dropped."""
    content = copy.deepcopy(content)
    places: list[tuple[Any, Any]] = []
    stack = [content]
    while stack:
        value = stack.pop()
        keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
        places += [(value, key) for key in keys if key != "schema_version"]
        stack += [value[key] for key in keys]
    holder, key = rng.choice(places)
    other, place = rng.choice(places)
    if rng.random() < 0.4:
        holder[key] = rng.choice(JUNK)
    elif rng.random() < 0.5:
        holder[key] = copy.deepcopy(other[place])
    elif isinstance(holder, list) and rng.random() < 0.5:
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        del holder[key]
    return content


@pytest.mark.parametrize(("made", "wrong"), [(_folded, 1.5), (_third, 0.5), (_shared, 1)])
def test_edited_certificates_prove_nothing_of_other_models(made: Any, wrong: float, tmp_path: Path) -> None:
    found = prove_equal(*joined(*made()), seconds=20)
    assert found.certificate is not None
    path, other = tmp_path / "proof.json", joined(*made(wrong))
    found.certificate.write(path)
    content, rng, read = json.loads(path.read_text()), random.Random(0), 0
    for _ in range(60):
        path.write_text(json.dumps(_edited(content, rng)))
        try:
            certificate = Certificate.read(path)
        except ModelError:
            continue
        read += 1
        certificate.replay(*joined(*made()))  # either answer is true: these are equal
        assert not certificate.replay(*other)
    assert read > 10


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, "{}", "[]", "1", "", '{"schema_version": 7}'])
def test_what_is_no_certificate_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_text(text)
    with pytest.raises(ModelError, match="not a certificate"):
        Certificate.read(path)


def test_a_certificate_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = joined(*_folded())
    found = prove_equal(left, right, seconds=20)
    assert found.certificate is not None
    path = tmp_path / "proof.json"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("superopt.files.os.replace", full)
    with pytest.raises(OutputError):
        found.certificate.write(path)
    assert path.read_text() == "old" and [one.name for one in tmp_path.iterdir()] == ["proof.json"]
