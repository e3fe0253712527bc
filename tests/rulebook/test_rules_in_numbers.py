"""Every shipped rule at some of its signatures, in numbers: both sides computed by `superopt.evaluate`, which shares no
code with the kernel that proved them."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from superopt.evaluate import can_evaluate, evaluate, numpy_dtype
from superopt.generate.derive import instances
from superopt.ir.notation import show_rule, show_signature
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.rulebook.loading import certified_rules, rule_files

SHIPPED = rule_files()
SIGNATURES = 2  # of each rule; the suite would take many minutes with all


def _values(terms: tuple[Term, ...], positive: bool, seed: int) -> dict[Term, np.ndarray]:  # type: ignore[type-arg]
    rng = np.random.default_rng(seed)
    env = {}
    most = min([9, *(table.type.shape[axis] for table, axis in _tables(terms))])  # integers may be indices
    for term in sorted((t for t in topological(terms) if t.op == "Var"), key=lambda t: str(t.attr("name"))):
        assert term.type is not None
        shape = term.type.concrete()
        assert shape is not None
        dtype = numpy_dtype(term.type.dtype)
        if dtype == np.bool_:
            env[term] = rng.random(shape) < 0.5
        elif dtype.kind in "iu":
            least = -most if not positive and dtype.kind == "i" else min(1, most - 1)
            env[term] = rng.integers(least, most, shape).astype(dtype)
        else:
            env[term] = rng.uniform(0.5, 2.0, shape) if positive else rng.normal(size=shape)
    return env


def _tables(terms: tuple[Term, ...]) -> list[tuple[Term, int]]:
    """Return what is looked up in, and along which axis."""
    return [(term.inputs[0], term.attr("axis")) for term in topological(terms) if term.op == "Lookup"]  # type: ignore[misc]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_both_sides_are_equal(path: Path) -> None:
    listed, certificates = certified_rules()
    compared = 0
    for rule in (one.rule for one in listed if one.file == path):
        conditions = {signature: proved.conditions for signature, proved in certificates[rule].proofs}
        step = max(1, len(rule.signatures) // SIGNATURES)
        for signature in rule.signatures[::step]:
            for made in instances(rule, signature, 1, conditions[signature]):
                both = made.lhs + made.rhs
                if not all(can_evaluate(t) for t in topological(both) if t.op not in ("Var", "Out")):
                    continue
                for positive in (False, True):
                    env = _values(both, positive, zlib.crc32(rule.id.encode()))
                    with np.errstate(all="ignore"):
                        left, right = evaluate(made.lhs, env, {}), evaluate(made.rhs, env, {})
                    for a, b in zip(left, right, strict=True):
                        # What is proven speaks of defined left sides; undefined ones are no numbers here.
                        if np.isfinite(a).all():
                            text = f"{show_rule(Rule(rule.lhs, rule.rhs))} @ {show_signature(signature)} {made.sizes}"
                            np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-9, err_msg=text)
                            compared += 1
    assert compared
