"""Stability classes against measured errors: both sides of shipped rules in float32 by ONNX Runtime, and in float64.

The evaluator in float64 (`superopt.evaluate`) and ONNX Runtime share no code with the analysis.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from superopt.diagnose.confirmation import run_terms
from superopt.evaluate import evaluate
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Rule
from superopt.ir.term import Term, var
from superopt.ir.types import TensorType
from superopt.rulebook.loading import certified_rules
from tests.verify.test_mutation import concrete
from verify.certificates import Certificate

LISTED, CERTIFICATES = certified_rules()
SAMPLES = 12
# Bounds are worst cases, and what is measured is one case: a class that is wrong shows ratios of thousands.
SLACK = 40.0
UNIT = 2.0**-24


def samples(rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, np.ndarray]]:
    """Yield values of several scales; some lie close together far from 0, some cancel others."""
    for number in range(SAMPLES):
        values = {}
        for name, shape in shapes.items():
            kind = rng.integers(0, 5) if number else 0
            noise = rng.standard_normal(shape)
            if kind == 1:
                noise = noise * 10.0 ** rng.uniform(-3, 3, shape)
            elif kind == 2:
                noise = noise + rng.choice([-1.0, 1.0]) * 10.0 ** rng.integers(2, 5)
            elif kind == 3:
                other = [v for v in values.values() if v.size == noise.size]
                noise = -other[-1].reshape(shape).astype(float) * (1 + 1e-4 * noise) if other else noise
            values[name] = noise.astype(np.float32)
        yield values


def worst(rule: Rule, certificate: Certificate, seed: int) -> Iterator[tuple[str, float, float]]:
    """Yield direction, proven factor and largest measured ratio of errors, at the first signature that can be run."""
    rng = np.random.default_rng(seed)
    (signature, proof), classes = certificate.proofs[0], certificate.stability[0]
    bindings = concrete(signature, proof.conditions, 5, 2)
    if bindings is None or any(t.type is None or t.type.dtype != "double" for t in bindings.terms.values()):
        return
    floats = Bindings({n: _typed(t, "float") for n, t in bindings.terms.items()}, bindings.attrs)
    sides = [instantiate(side, floats, "float") for side in (rule.lhs, rule.rhs)]
    exact = instantiate(rule.lhs, bindings, "double")
    errors: list[tuple[float, ...]] = []
    shapes = {name: t.type.concrete() or () for name, t in bindings.terms.items() if t.type is not None}
    for values in samples(rng, shapes):
        env = {bindings.terms[name]: value.astype(float) for name, value in values.items()}
        with np.errstate(all="ignore"):
            truth = evaluate(exact, env, {})
        got = [run_terms(side, values) for side in sides]
        if any(isinstance(one, str) for one in got) or not all(np.isfinite(one).all() for one in truth):
            continue
        for t, a, b in zip(truth, *got, strict=True):
            if np.isfinite(a).all() and np.isfinite(b).all() and np.abs(t).max(initial=0.0) < 1e30:
                errors.append(tuple(np.abs(one).max(initial=0.0) for one in (a - t, b - t, t)))
    for direction, (name, one) in enumerate(zip(("forward", "backward"), classes, strict=True)):
        if one.kind != "unstable" and errors:
            ratios = [e[1 - direction] / (e[direction] + 2 * UNIT * e[2] + 1e-37) for e in errors]
            yield name, float(one.factor), max(ratios)


def _typed(term: Term, dtype: str) -> Term:
    assert term.type is not None
    return var(str(term.attr("name")), TensorType(dtype, term.type.shape))


@pytest.mark.parametrize("part", range(4))
def test_no_rule_is_less_accurate_than_its_class_says(part: int) -> None:
    checked = 0
    for listed in LISTED:
        if zlib.crc32(listed.rule.id.encode()) % 4 != part:
            continue
        for name, factor, ratio in worst(listed.rule, CERTIFICATES[listed.rule], checked):
            assert ratio <= SLACK * factor, (listed.place, name, factor, ratio)
            checked += 1
    assert checked > 100
