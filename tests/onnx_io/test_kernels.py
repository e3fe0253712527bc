"""Functions of ONNX Runtime that a provider has no kernel for."""

from __future__ import annotations

import pytest

from superopt.ir.infer import make
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from superopt.onnx_io import has_kernel
from superopt.rulebook.loading import load_rules
from superopt.search.match.rule_index import RuleIndex

X, W, B = var("x", tensor(1, 4, 8, 8)), var("w", tensor(4, 4, 1, 1)), var("b", tensor(4))
_CONV = {"strides": (1, 1), "dilations": (1, 1), "group": 1, "pads": (0, 0, 0, 0)}


def _fused(activation: str) -> Term:
    attrs = {**_CONV, "activation": activation, "activation_alpha": 0.0, "activation_beta": 0.0}
    return make("FusedConv", (X, W, B), attrs)


def test_a_gpu_lacks_what_the_cpu_has() -> None:
    gemm = make(
        "FusedGemm",
        (var("a", tensor(2, 3)), var("m", tensor(3, 4)), B),
        {"activation": "Relu", "activation_alpha": 0.0, "activation_beta": 0.0, "alpha": 1.0, "beta": 1.0,
         "transA": 0, "transB": 0},
    )  # fmt: skip
    found = {provider: [has_kernel(one, provider) for one in (_fused("Relu"), _fused("Tanh"), gemm)]
             for provider in ("cpu", "cuda")}  # fmt: skip
    assert found == {"cpu": [True, True, True], "cuda": [True, False, False]}


def test_a_gpu_adds_more_than_two_only_in_steps() -> None:
    two, three = (make("Sum", (X,) * count) for count in (2, 3))
    assert [has_kernel(one, provider) for one in (two, three) for provider in ("cpu", "cuda")] == [True] * 3 + [False]


@pytest.mark.parametrize(("provider", "activations"), [("cpu", {"Relu", "Tanh"}), ("cuda", {"Relu"})])
def test_shipped_rules_introduce_only_what_runs(provider: str, activations: set[str]) -> None:
    index = RuleIndex(load_rules(), lambda one: has_kernel(one, provider))
    found = set()
    for activation in ("Relu", "Tanh"):
        term = make(activation, (make("Conv", (X, W, B), _CONV),))
        for compiled in index.candidates(term):
            found |= {one.attr("activation") for one in compiled.rule.rhs if one.op == "FusedConv"}
    assert found == activations
