"""Functions of ONNX Runtime that a provider has no kernel for."""

from __future__ import annotations

import onnxruntime.capi.onnxruntime_pybind11_state as runtime_state
import pytest

from superopt.ir.infer import make
from superopt.ir.notation import parse_rule, parse_terms
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from superopt.onnx_io import has_kernel
from superopt.rulebook.loading import load_rules
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.matcher import Matcher
from superopt.search.match.rule_index import RuleIndex

DOMAINS = ("", "com.microsoft")
X, W, B = var("x", tensor(1, 4, 8, 8)), var("w", tensor(4, 4, 1, 1)), var("b", tensor(4))
_CONV = {"strides": (1, 1), "dilations": (1, 1), "group": 1, "pads": (0, 0, 0, 0)}


def _fused(activation: str) -> Term:
    attrs = {**_CONV, "activation": activation, "activation_alpha": 0.0, "activation_beta": 0.0}
    return make("FusedConv", (X, W, B), attrs)


def _of_doubles(op: str) -> Term:
    return Term.of(op, (var("d", tensor(2, dtype="double")),), {}, (tensor(2, dtype="double"),))


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


def test_no_operator_without_a_kernel_of_double_is_available() -> None:
    """The type of the first operand counts, in the last version of the schema and in any kernel."""
    variables: dict[tuple[str, str], tuple[int, str, set[str]]] = {}
    for schema in runtime_state.get_all_operator_schema():
        key, version = (schema.domain, schema.name), schema.since_version
        if schema.name in OPERATORS and schema.inputs and version > variables.get(key, (0, "", set()))[0]:
            name = schema.inputs[0].typeStr
            allowed = {one.type_param_str: set(one.allowed_type_strs) for one in schema.type_constraints}
            variables[key] = version, name, allowed.get(name, {name})
    kernels: dict[str, set[str]] = {}
    for kernel in runtime_state.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider" and (kernel.domain, kernel.op_name) in variables:
            _, name, allowed = variables[kernel.domain, kernel.op_name]
            kernels.setdefault(kernel.op_name, set()).update(allowed & set(kernel.type_constraints.get(name, ())))
    real = {op for op, types in kernels.items() if "tensor(float)" in types}
    lacking = {op for op in real if "tensor(double)" not in kernels[op]}
    assert "RotaryEmbedding" in lacking
    assert not {op for op in lacking if has_kernel(_of_doubles(op), "cpu")}


@pytest.mark.parametrize(("dtype", "expected"), [("float", 1), ("float16", 1), ("double", 0)])
def test_a_rule_does_not_introduce_what_has_no_kernel_of_the_element_type(dtype: str, expected: int) -> None:
    written = "Concat[axis=-1](Sub(Mul(c, {0}.0), Mul(s, {0}.1)), Add(Mul(c, {0}.1), Mul(s, {0}.0)))"
    rule = parse_rule(
        f"{written.format('Split[axis=-1, split=n](x)')}"
        " = RotaryEmbedding[interleaved=0, num_heads=0](x, Squeeze[axes=[1]](c), Squeeze[axes=[1]](s))"
    )
    types = {name: tensor(2, 1, 5, 4, dtype=dtype) for name in "cs"} | {"x": tensor(2, 3, 5, 8, dtype=dtype)}
    graph = parse_terms(written.format("Split[axis=-1, split=[4, 4]](x)"), types)
    matcher = Matcher(RuleIndex([rule], lambda one: has_kernel(one, "cpu")))
    assert len(list(matcher.matches(GraphIndex(graph)))) == expected
