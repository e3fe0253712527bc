"""Models between which no tensor is left to compare: rules rewrite both first, and every step is in the certificate."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from superopt.check.certificate import Certificate
from superopt.check.derivation import derived, devices_of, fused_in, holds_backwards, keeps_operands
from superopt.check.equality import joined, prove_equal
from superopt.ir.dim import symbol
from superopt.ir.infer import make
from superopt.ir.notation import parse_rule
from superopt.ir.pattern import Bindings
from superopt.ir.term import Attr, Term, var
from superopt.ir.types import tensor
from superopt.onnx_io import Model, read_simplified
from superopt.optimizer.equations import parse_side, show_sides
from superopt.rulebook.loading import chosen_rules
from superopt.search import find_device
from tests.support.models import floats, model, weights
from verify.proof_book import ProofBook

node = helper.make_node
STEPS, SIZE = 4, 6
HEADS: dict[str, Attr] = {"num_heads": 2, "scale": 1.0}
GATES = "iofc"  # as ONNX has them: input, output, forget, cell
W, R, B = (
    [weights(*shape, seed=10 * k + n) for n in range(4)] for k, shape in enumerate([(SIZE, SIZE)] * 2 + [(SIZE,)])
)


def unrolled(recurrent: list[np.ndarray] = R) -> onnx.ModelProto:
    """An LSTM over STEPS steps, each written out (ONNX, operator LSTM)."""
    nodes: list[onnx.NodeProto] = []
    constants = [("zero", np.zeros((1, SIZE), np.float32))]
    constants += [(f"w{g}", W[k]) for k, g in enumerate(GATES)] + [(f"b{g}", B[k]) for k, g in enumerate(GATES)]
    constants += [(f"r{g}", recurrent[k]) for k, g in enumerate(GATES)]
    h, c = "zero", "zero"
    for t in range(STEPS):
        constants.append((f"at{t}", np.array(t)))
        nodes.append(node("Gather", ["x", f"at{t}"], [f"x{t}"], axis=0))
        for gate in GATES:
            name = f"{gate}{t}"
            nodes.append(node("MatMul", [f"x{t}", f"w{gate}"], [f"{name}x"]))
            nodes.append(node("MatMul", [h, f"r{gate}"], [f"{name}h"]))
            nodes.append(node("Add", [f"{name}x", f"{name}h"], [f"{name}s"]))
            nodes.append(node("Add", [f"{name}s", f"b{gate}"], [f"{name}a"]))
            nodes.append(node("Tanh" if gate == "c" else "Sigmoid", [f"{name}a"], [name]))
        nodes.append(node("Mul", [f"f{t}", c], [f"kept{t}"]))
        nodes.append(node("Mul", [f"i{t}", f"c{t}"], [f"new{t}"]))
        nodes.append(node("Add", [f"kept{t}", f"new{t}"], [f"cell{t}"]))
        nodes.append(node("Tanh", [f"cell{t}"], [f"shown{t}"]))
        h, c = f"h{t}" if t < STEPS - 1 else "y", f"cell{t}"
        nodes.append(node("Mul", [f"o{t}", f"shown{t}"], [h]))
    return model(nodes, [floats("x", STEPS, 1, SIZE)], [floats("y", 1, SIZE)], constants)


def rolled() -> onnx.ModelProto:
    """The layer of `unrolled` written as one operator."""
    both = [np.concatenate([part.T for part in parts])[None] for parts in (W, R)]
    bias = np.concatenate((*B, np.zeros(4 * SIZE, np.float32)))[None]
    return model(
        [
            node("LSTM", ["x", "w", "r", "b"], ["", "last"], hidden_size=SIZE),
            node("Squeeze", ["last", "axis"], ["y"]),
        ],
        [floats("x", STEPS, 1, SIZE)],
        [floats("y", 1, SIZE)],
        [("w", both[0]), ("r", both[1]), ("b", bias), ("axis", np.array([0]))],
    )


def _read(one: onnx.ModelProto, other: onnx.ModelProto) -> tuple[Model, Model]:
    return joined(read_simplified(one), read_simplified(other))


def test_an_unrolled_layer_is_the_recurrent_operator(tmp_path: Path) -> None:
    pair = _read(unrolled(), rolled())
    found = prove_equal(*pair, seconds=30)
    assert found.outputs == (True,) and found.certificate is not None
    found.certificate.write(tmp_path / "proof.json")
    proof = Certificate.read(tmp_path / "proof.json")
    assert proof.derivations[0] and proof.replay(*pair)
    assert not replace(proof, derivations=((), ())).replay(*pair)


def test_another_weight_is_another_layer() -> None:
    changed = [R[0] + np.float32(0.001), *R[1:]]
    pair = _read(unrolled(changed), rolled())
    assert prove_equal(*pair, seconds=10).outputs == (False,)
    found = prove_equal(*_read(unrolled(), rolled()), seconds=30)
    assert found.certificate is not None and not found.certificate.replay(*pair)


def test_a_false_step_proves_nothing() -> None:
    pair = _read(unrolled(), rolled())
    found = prove_equal(*pair, seconds=30)
    assert found.certificate is not None
    (rewrites, places), *others = found.certificate.derivations[0]
    leaves, ((_, signature, roots), *steps) = rewrites[0]
    false = (leaves, ((("x", "Neg(x)"), signature, roots), *steps))
    wrong = (((false, *rewrites[1:]), places), *others)
    assert not replace(found.certificate, derivations=(wrong, ())).replay(*pair)


@pytest.mark.parametrize(("op", "attrs"), [("Zeros", {"shape": (2, 3)}), ("Var", {"name": "x1"})])
def test_a_leaf_stands_for_any_value(op: str, attrs: dict[str, Attr]) -> None:
    """A forged certificate: z of x + z is called zero. With a name for z, the step does not fit."""
    inputs = [floats("x", 2, 3), floats("z", 2, 3)]
    left = model([node("Add", ["x", "z"], ["y"])], inputs, [floats("y", 2, 3)])
    right = model([node("Identity", ["x"], ["y"])], inputs, [floats("y", 2, 3)])
    pair = _read(left, right)
    (add,) = pair[0].outputs
    x, z = add.inputs
    assert x is not None and z is not None
    leaves = [Term.of("Var", (), {"name": "x0"}, x.types), Term.of(op, (), attrs, z.types)]
    root = make("Add", (leaves[0], leaves[1]), {})
    step = (("Add(x, Zeros[shape=[2, 3]])", "x"), "x[2,3]", (root.digest,))
    rewrites = ((tuple((leaf.op, leaf.attrs) for leaf in leaves), (step,)),)
    forged = ((rewrites, ((0, (add.digest,), (x.digest, z.digest)),)),)
    assert not Certificate(("", ""), (forged, ())).replay(*pair)


@pytest.mark.parametrize("depth", [3, 12])
def test_equations_are_read_as_they_are_written(depth: int) -> None:
    """A term that reads the one below it twice doubles its tree with each level; assignments write it once."""
    term = "x"
    lines = []
    for k in range(depth):
        lines.append(f"t{k} = Add({term}, {term})")
        term = f"t{k}"
    (side,) = parse_side("; ".join((*lines, f"return {term}")))
    rule = replace(parse_rule("x = x"), lhs=(side,))
    shown = show_sides(rule)
    assert len(shown[0]) < 5000
    assert tuple(map(parse_side, shown)) == (rule.lhs, rule.rhs)


def attended(fused: bool, mask: str = "mask") -> onnx.ModelProto:
    """Attention of two heads with a mask, written out, or as one operator for GPUs."""
    rng = np.random.default_rng(0)
    w = {name: rng.standard_normal((8, 8)).astype(np.float32) for name in "qkv"}
    nodes = [helper.make_node("MatMul", ["x", f"w{name}"], [name]) for name in "qkv"]
    heads, back = np.array([0, 0, 2, -1]), np.array([0, 0, -1])
    if fused:
        nodes.append(
            helper.make_node(
                "MultiHeadAttention",
                ["q", "k", "v", "", "", mask],
                ["y"],
                domain="com.microsoft",
                num_heads=2,
                scale=1.0,
            )
        )
    else:
        for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            nodes.append(helper.make_node("Reshape", [name, "heads"], [f"{name}4"]))
            nodes.append(helper.make_node("Transpose", [f"{name}4"], [f"{name}t"], perm=perm))
        nodes += [
            helper.make_node("MatMul", ["qt", "kt"], ["s"]),
            helper.make_node("Add", ["s", mask], ["m"]),
            helper.make_node("Softmax", ["m"], ["p"], axis=-1),
            helper.make_node("MatMul", ["p", "vt"], ["a"]),
            helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", ["t", "back"], ["y"]),
        ]
    constants = [*((f"w{name}", array) for name, array in w.items()), ("heads", heads), ("back", back)]
    inputs = [floats("x", 2, 5, 8), floats("mask", 2, 1, 5, 5), floats("other", 2, 1, 5, 5)]
    made = model(nodes, inputs, [floats("y", 2, 5, 8)], constants)
    made.opset_import.add(domain="com.microsoft", version=1)
    return made


def test_attention_with_a_mask_is_the_operator_of_the_runtime() -> None:
    assert all(prove_equal(*_read(attended(False), attended(True)), seconds=60.0).outputs)


def test_attention_with_another_mask_is_another_one() -> None:
    assert not any(prove_equal(*_read(attended(False), attended(True, "other")), seconds=4.0).outputs)


def test_costs_are_those_of_a_gpu_where_attention_is_fused() -> None:
    plain, fused = _read(attended(False), attended(True))
    assert [device.provider for device in devices_of([plain, plain])] == ["cpu"]
    assert [device.provider for device in devices_of([plain, fused])] == ["cpu", "cuda"]


def test_rules_introduce_no_other_operators_of_runtimes() -> None:
    plain, fused = _read(attended(False), attended(True))
    attention = make("Attention", (var("x", tensor(1, 2, 8)), var("w", tensor(8, 24)), var("b", tensor(24))), HEADS)
    assert fused_in([plain]) == frozenset()
    assert fused_in([plain, fused]) == {"MultiHeadAttention"}
    assert fused_in([replace(plain, outputs=(attention,))]) == {"Attention", "MultiHeadAttention"}
    rules, _ = chosen_rules()
    for models in ([plain], [plain, fused]):
        allowed, book = fused_in(models), ProofBook()
        ends = derived(plain, rules, book, book, 5.0, math.inf, find_device("cuda"), allowed, (), is_second=False)
        assert fused_in([end.model for end in ends]) == allowed


@pytest.mark.parametrize(
    ("rule", "keeps"),
    [
        ("Sub(x, x) = Zeros[shape=x.shape]", False),
        ("Mul(Div(x, y), y) = x", False),
        ("Mul(x, Add(y, z)) = Add(Mul(x, y), Mul(x, z))", True),
        ("Exp(Log(x)) = x", True),
    ],
)
def test_rules_of_the_second_model_keep_operands(rule: str, keeps: bool) -> None:
    assert keeps_operands(parse_rule(rule)) == keeps


def test_what_the_second_model_alone_computes_may_be_undefined() -> None:
    """A node of a domain that nobody knows, whose result is subtracted from itself."""
    ends = [floats("x", "n", 3)], [floats("y", "n", 3)]
    ours = model([node("Relu", ["x"], ["y"])], *ends)
    theirs = model(
        [
            node("Relu", ["x"], ["r"]),
            node("Foo", ["x"], ["f"], domain="unknown"),
            node("Sub", ["f", "f"], ["z"]),
            node("Add", ["r", "z"], ["y"]),
        ],
        *ends,
    )
    theirs.opset_import.add(domain="unknown", version=1)
    theirs.graph.value_info.append(floats("f", "n", 3))
    pair = joined(*(read_simplified(proto) for proto in (ours, theirs)))
    assert prove_equal(*pair, seconds=4).outputs == (False,)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("Mul(x, Reciprocal(z)) = Div(x, z) @ x[_] z[_]", True),
        ("Add(x, z) = Add(z, x) @ x[_] z[_]", True),
        ("Exp(Log(x)) = x @ x[_]", False),
        ("Mul(Sqrt(x), Sqrt(x)) = x @ x[_]", False),
        ("Div(Mul(x, z), Mul(z, z)) = Div(x, z) @ x[_] z[_]", True),
        ("Add(x, Sub(z, z)) = x @ x[_] z[_]", False),
    ],
)
def test_a_step_of_the_second_model_must_not_be_defined_more_often(text: str, holds: bool) -> None:
    rule, n = parse_rule(text), symbol("n")
    (signature,) = rule.signatures
    bindings = Bindings({name: var(name, tensor(n)) for name in ("x", "z")[: text.count("_")]})
    book = ProofBook()
    assert book.allows(rule, signature, bindings)
    assert holds_backwards(rule, signature, bindings, book) is holds
