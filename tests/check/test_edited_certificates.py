"""Certificates that somebody has edited: they prove nothing false, and what is none is a clear error."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from superopt.check.certificate import Certificate
from superopt.check.constant_uses import ConstantUses
from superopt.check.equality import joined, prove_equal
from superopt.files import OutputError
from superopt.ir.infer import make
from superopt.ir.term import Term, topological, var
from superopt.ir.types import tensor
from superopt.onnx_io import ModelError, read_simplified
from tests.support.models import floats, model
from tests.support.pairs import folded, proven, shared, third

JUNK = ("", 0, -1, 1.5, 1e400, math.nan, True, None, [], {}, [[]], "Add", "x: float[n]", "x[_,_] c*1[_,_]", ["", ""])


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


@pytest.mark.parametrize(("made", "wrong"), [(folded, 1.5), (third, 0.5), (shared, 1)])
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


@pytest.mark.parametrize("bound", [math.nan, math.inf, -1.0])
def test_a_bound_is_a_number(bound: float, tmp_path: Path) -> None:
    found, _, _ = proven(*folded())
    assert found.certificate is not None and found.certificate.error > 0
    path = tmp_path / "proof.json"
    found.certificate.write(path)
    content = json.loads(path.read_text())
    for *_, pairs, _ in content["foldings"]:
        for pair in pairs:
            pair[2] = bound
    for entry in content["folded_constants"]:
        entry[2] = bound
    path.write_text(json.dumps(content))
    with pytest.raises(ModelError, match="not a certificate"):
        Certificate.read(path)


@pytest.mark.parametrize(("content", "why"), [({}, "not a certificate"), ({"claims": []}, "of another version")])
def test_other_json_is_no_certificate_of_another_version(content: dict[str, Any], why: str, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_text(json.dumps({"schema_version": 0, **content}))
    with pytest.raises(ModelError, match=why):
        Certificate.read(path)


def test_a_malformed_signature_proves_nothing(tmp_path: Path) -> None:
    found, left, right = proven(*third())
    assert found.certificate is not None
    claims = tuple((a, b, equation, "x[_,_] c*1[_,_]", k) for a, b, equation, _, k in found.certificate.claims)
    assert claims and not dataclasses.replace(found.certificate, claims=claims).replay(left, right)


def _moved_weight(op: str, weight: np.ndarray, moves: int) -> onnx.ModelProto:
    """Apply an operator to x and a weight that is transposed `moves` times, an even number."""
    names = ["w", *(f"t{k}" for k in range(moves))]
    nodes = [helper.make_node("Transpose", [a], [b], perm=[1, 0]) for a, b in itertools.pairwise(names)]
    y = helper.make_tensor_value_info("y", TensorProto.BOOL if op == "Less" else TensorProto.FLOAT, [4, 4])
    return model([*nodes, helper.make_node(op, ["x", names[-1]], ["y"])], [floats("x", 4, 4)], [y], [("w", weight)])


def _number(value: float, *shape: int) -> Term:
    return make("ConstantOfShape", (), {"shape": shape, "value": value})


def _transposed(term: Term) -> Term:
    return make("Transpose", (term,), {"perm": (1, 0)})


def _text(term: Term, weight: Term) -> Any:
    if term is weight:
        return (term.digest,)
    return term.op, term.attrs, tuple(_text(i, weight) for i in term.inputs if i is not None)


def _forged(op: str, weights: tuple[np.ndarray, np.ndarray], values: list[Any], moves: int) -> bool:
    """Replay a certificate that calls the right weight, and each transposed one, a value over the left one, w.

    The last value is (w + c) - c for a large c, whose error is that of c. An equation proves that it is w.
    """
    files = (_moved_weight(op, w, k) for w, k in zip(weights, (0, moves), strict=True))
    left, right = joined(*map(read_simplified, files))
    (weight,) = (term for term in topological(left.outputs) if term.op == "Const")
    image = next(term for term in topological(right.outputs) if term.op == "Const")
    folded = []
    for number, value in enumerate(values):
        made = value(weight)
        made = _transposed(made) if number % 2 else made
        folded.append((image.digest, _text(made, weight), 1.0, False))
        image = _transposed(made)
    end = left.outputs[0]
    whole = make(op, (end.inputs[0], made))
    equation = f"{op}(x0, x1)", f"{op}(x0, Sub(Add(x1, x2), x2))"
    claims = ((whole.digest, end.digest, equation, "x0[4,4] x1[4,4] x2[]", 0),)
    forged = Certificate(("", ""), ((), ()), claims, (), tuple(folded), (), ())
    return forged.replay(left, right)


def _over(c: float, factor: float = 1.0) -> Any:
    """Return w -> (factor w + c) - c."""

    def made(w: Term) -> Term:
        scaled = w if factor == 1 else make("Mul", (w, _number(factor)))
        return make("Sub", (make("Add", (scaled, _number(c))), _number(c)))

    return made


def _copy(array: np.ndarray) -> Any:
    rows = [make("Concat", tuple(_number(float(v), 1, 1) for v in row), {"axis": 1}) for row in array]
    return lambda w: make("Concat", tuple(rows), {"axis": 0})


_W = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4) + np.float32(0.03)


def test_bounds_of_folded_constants_do_not_add_up() -> None:
    """Each of 40 constants is 0.1% from the one before; one step is within the bound."""
    factors = [1 + 1e-3 * k for k in range(41)]
    values = [_over(30000.0, factor) for factor in reversed(factors)]
    assert not _forged("MatMul", (_W, (_W * np.float32(factors[-1])).astype(np.float32)), values, 40)
    assert _forged("MatMul", (_W, (_W * np.float32(factors[1])).astype(np.float32)), [_over(30000.0)], 0)


def test_what_jumps_needs_equal_constants_behind_moves() -> None:
    """A copy of the weight by literals, and then the transposed weights, are no terms of the models."""
    other = (_W * np.float32(1.002)).astype(np.float32)
    assert not _forged("Less", (_W, other), [_copy(other), _over(50000.0), _over(50000.0)], 2)


def test_a_constant_may_be_moved_many_times() -> None:
    weight = Term.of("Const", (), {"hash": "w"}, (tensor(2, 2),))
    moved = weight
    for _ in range(3000):
        moved = make("Transpose", (moved,), {"perm": (1, 0)})
    for op, expected in (("MatMul", True), ("Less", False)):
        uses = ConstantUses((make(op, (var("x", tensor(2, 2)), moved)),))
        assert uses.may_be_rounded(weight) is expected


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, "{}", "[]", "1", "", '{"schema_version": 7}'])
def test_what_is_no_certificate_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_text(text)
    with pytest.raises(ModelError, match="not a certificate"):
        Certificate.read(path)


def test_a_certificate_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = joined(*folded())
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
