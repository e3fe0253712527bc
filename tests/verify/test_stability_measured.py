"""Stability classes against measured errors: both sides of shipped rules in float32 by ONNX Runtime, and in float64.

The evaluator in float64 (`superopt.evaluate`) and ONNX Runtime share no code with the analysis.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from scripts.fuzzing.instances import concrete
from superopt.diagnose.confirmation import runnable
from superopt.evaluate import evaluate
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological, var
from superopt.ir.types import TensorType
from superopt.onnx_io import ModelError, new_model, write_model
from superopt.rulebook.loading import certified_rules
from tests.support.sampling import Sampled
from verify.certificates import Certificate

Run = Callable[[Mapping[str, np.ndarray]], list[Any] | str]
Runtime = Callable[[tuple[Term, ...]], Run]
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


def worst(
    rule: Rule, certificate: Certificate, seed: int, runtimes: Sequence[Runtime] = (runnable,)
) -> Iterator[tuple[str, float, float]]:
    """Yield direction, proven factor and largest measured ratio of errors, at the first signature that can be run.

    The error of a side is the largest of all runtimes.
    """
    rng = np.random.default_rng(seed)
    (signature, proof), classes = certificate.proofs[0], certificate.stability[0]
    bindings = concrete(signature, proof.conditions, 5, 2)
    if bindings is None or any(t.type is None or t.type.dtype != "double" for t in bindings.terms.values()):
        return
    floats = Bindings({n: _typed(t, "float") for n, t in bindings.terms.items()}, bindings.attrs)
    sides = [instantiate(side, floats, "float") for side in (rule.lhs, rule.rhs)]
    loaded = [[runtime(side) for runtime in runtimes] for side in sides]
    try:
        exact = instantiate(rule.lhs, bindings, "double")
    except IllTyped:  # a Cast gives some of it another element type
        return
    positive = tuple(t for t in topological(exact) if t.op in ("Exp", "Sigmoid"))
    errors: list[tuple[float, ...]] = []
    shapes = {name: t.type.concrete() or () for name, t in bindings.terms.items() if t.type is not None}
    for values in samples(rng, shapes):
        env = {bindings.terms[name]: value.astype(float) for name, value in values.items()}
        with np.errstate(all="ignore"):
            truth = [one.astype(float) for one in evaluate(exact, env, {})]
            underflows = any((one == 0).any() for one in evaluate(positive, env, {}))
        if underflows:  # exp(-1000) is 0 in float64 too, and no truth to measure against
            continue
        got = [[run(values) for run in runs] for runs in loaded]
        if any(isinstance(one, str) for ran in got for one in ran):
            continue
        for k, t in enumerate(truth):
            both = [[one[k].astype(float) for one in ran] for ran in got]
            if (
                all(np.isfinite(one).all() for one in (t, *itertools.chain(*both)))
                and np.abs(t).max(initial=0.0) < 1e30
            ):
                largest = [max(np.abs(one - t).max(initial=0.0) for one in ran) for ran in both]
                errors.append((*largest, np.abs(t).max(initial=0.0)))
    for direction, (name, one) in enumerate(zip(("forward", "backward"), classes, strict=True)):
        if one.kind != "unstable" and errors:
            ratios = [e[1 - direction] / (e[direction] + 2 * UNIT * e[2] + 1e-37) for e in errors]
            yield name, float(one.factor), max(ratios)


def reference(side: tuple[Term, ...]) -> Run:
    """The side in onnx's own evaluator, which adds up in another order than ONNX Runtime."""
    names = {str(term.attr("name")) for term in topological(side) if term.op == "Var"}
    try:
        model = ReferenceEvaluator(write_model(new_model(side, opset=21)))
    except (ModelError, RuntimeError, NotImplementedError) as error:
        reason = str(error)
        return lambda values: reason
    return lambda values: list(model.run(None, {name: value for name, value in values.items() if name in names}))


def _typed(term: Term, dtype: str) -> Term:
    assert term.type is not None
    return var(str(term.attr("name")), TensorType(dtype, term.type.shape))


@pytest.mark.slow
def test_no_rule_is_less_accurate_than_its_class_says(sampled: Sampled) -> None:
    checked = 0
    places = {listed.rule: listed.place for listed in LISTED}
    for rule in sampled(places, 12):
        certificate = CERTIFICATES[rule]
        found = list(worst(rule, certificate, checked))
        if any(ratio > SLACK * factor for _, factor, ratio in found):
            # Bounds hold for every order of summation. One order may be exact by luck: the lanes of a processor add
            # x1 to -x1 and x2 to -x2 first.
            found = list(worst(rule, certificate, checked, (runnable, reference)))
        for name, factor, ratio in found:
            assert ratio <= SLACK * factor, (places[rule], name, factor, ratio)
            checked += 1
    assert checked > 100
