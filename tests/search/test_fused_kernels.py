"""Prices of operators that the runtime fuses into kernels: what it makes of a graph before it runs it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from superopt.ir.dim import Size, symbol
from superopt.ir.infer import make
from superopt.ir.term import Attr, Term, var
from superopt.ir.types import TensorType, tensor
from tests.support.prices import price
from tests.support.search_graphs import Graphs, image


def test_fused_epilogues_are_free() -> None:
    graphs = Graphs()
    conv = graphs.conv(image(), 3, 8)
    normed = graphs.norm(conv)
    assert price(normed) == price(conv) == price(make("Relu", (normed,))) == price(make("Sigmoid", (conv,)))
    assert price(graphs.norm(image())) > 0
    assert price(make("Relu", (normed,)), conv) > price(conv)  # another user: it cannot be fused


@pytest.mark.parametrize(
    ("op", "attrs", "after_sums"),
    [
        ("Clip", {"bound_high": 6.0, "bound_low": 0.0}, False),
        ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}, True),
        ("HardSwish", {}, True),
        ("LeakyRelu", {"alpha": 0.01}, False),
        ("Tanh", {}, True),
    ],
)
def test_activations_after_a_conv_are_free(op: str, attrs: dict[str, Attr], after_sums: bool) -> None:
    conv = Graphs().conv(image(), 3, 8)
    added = make("Add", (conv, var("y", conv.type)))
    assert price(make(op, (conv,), attrs)) == price(conv)
    assert (price(make(op, (added,), attrs)) == price(added)) == after_sums
    assert price(make("Elu", (conv,), {"alpha": 1.0})) > price(conv)


def test_a_conv_accumulates_into_what_is_computed() -> None:
    graphs = Graphs()
    conv = graphs.conv(image(), 3, 8)
    computed, constant = var("y", conv.type), graphs.const(1, 8, 14, 14)
    alone = price(make("Add", (var("z", conv.type), computed)))
    assert price(make("Add", (conv, computed))) == pytest.approx(price(conv) + alone / 2)
    read_ps = price(make("Add", (var("z", conv.type), constant)))
    assert price(make("Add", (conv, constant))) == pytest.approx(price(conv) + read_ps, rel=0.01)


def test_bias_after_a_product_is_half_an_add() -> None:
    graphs = Graphs()
    weight, bias = graphs.const(64, 64), graphs.const(64)
    for x in (var("x", tensor(8, 64)), var("y", tensor(2, 8, 64))):
        product = make("MatMul", (x, weight))
        biased = make("Add", (product, bias))
        alone = price(make("Add", (var("z", product.type), bias)))
        assert price(biased) == pytest.approx(price(product) + alone / 2)
    assert price(make("Relu", (biased,))) > price(biased)
    flat = make("MatMul", (var("x", tensor(8, 64)), weight))
    biased = make("Add", (flat, bias))
    assert price(make("Relu", (biased,))) == price(biased)
    attrs = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
    assert price(make("Gemm", (var("x", tensor(8, 64)), weight, bias), attrs)) == pytest.approx(price(biased), rel=0.1)


def test_a_factor_of_a_product_is_free() -> None:
    graphs = Graphs()
    product = make("MatMul", (var("x", tensor(4, 8, 16)), var("y", tensor(4, 16, 8))))
    factor = graphs.const()
    for op, operands in (("Mul", (product, factor)), ("Mul", (factor, product)), ("Div", (product, factor))):
        assert price(make(op, operands)) == price(product)
    assert price(make("Div", (factor, product))) > price(product)


@pytest.mark.parametrize("sizes", [(1, 8, 64), (1, symbol("sequence"), 64), (symbol("batch"), symbol("sequence"), 64)])
def test_a_sum_before_a_normalization_becomes_the_skip_kernel(sizes: tuple[Size, ...]) -> None:
    graphs = Graphs()
    x, y = var("x", tensor(*sizes)), var("y", tensor(*sizes))
    scale, shift = graphs.const(64), graphs.const(64)
    attrs = {"axis": -1, "epsilon": 1e-5}
    total = make("Add", (x, y))
    norm = make("LayerNormalization", (total, scale, shift), attrs)
    assert price(norm) == price(make("SkipLayerNormalization", (x, y, scale, shift), {"epsilon": 1e-5}))
    alone = price(make("LayerNormalization", (x, scale, shift), attrs))
    assert price(norm, total) == pytest.approx(price(total) + alone)  # another user: it stays
    blocked = make("LayerNormalization", (make("Sum", (x, y)), scale, shift), attrs)
    assert price(blocked) < price(norm)  # the kernel is slower than what it replaces


def test_the_runtime_does_not_fuse_sums_of_sizes_without_a_name() -> None:
    graphs, attrs = Graphs(), {"axis": -1, "epsilon": 1e-5}
    scale, shift = graphs.const(64), graphs.const(64)

    def normalized(op: str, size: Size) -> float:
        x, y = var("x", tensor(1, size, 64)), var("y", tensor(1, size, 64))
        return price(make("LayerNormalization", (make(op, (x, y)), scale, shift), attrs))

    assert normalized("Add", symbol("length")) > normalized("Sum", symbol("length"))
    assert normalized("Add", symbol("unk_1")) <= normalized("Sum", symbol("unk_1"))


@pytest.mark.parametrize("order", range(4))
def test_gelu_in_parts_is_gelu(order: int) -> None:
    graphs = Graphs()
    x = var("x", tensor(8, 64))
    one = make("Ones", (), {"shape": ()})
    root, half = graphs.const(), graphs.const()
    erf = make("Add", (make("Erf", (make("Div", (x, root)),)), one))
    parts = make("Mul", (x, half)) if order > 1 else make("Mul", (erf, x) if order else (x, erf))
    gelu = make("Mul", ((erf, parts) if order == 3 else (parts, erf)) if order > 1 else (parts, half))
    assert price(gelu) == price(make("Gelu", (x,), {"approximate": "none"}))
    assert price(gelu, erf) > price(gelu)  # another user: it stays as it is


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_bias_before_gelu_is_part_of_it_unless_it_is_part_of_a_product(in_parts: bool) -> None:
    graphs, attrs = Graphs(), {"approximate": "none"}

    def gelu(x: Term) -> Term:
        if not in_parts:
            return make("Gelu", (x,), attrs)
        erf = make("Erf", (make("Div", (x, graphs.const())),))
        return make("Mul", (make("Mul", (x, make("Add", (erf, make("Ones", (), {"shape": ()}))))), graphs.const()))

    x, bias, weight = var("x", tensor(2, symbol("length"), 64)), graphs.const(64), graphs.const(64, 64)
    total = make("Add", (bias, x))
    assert price(gelu(total)) == price(make("BiasGelu", (x, bias))) < price(make("Add", (bias, x))) + price(gelu(x))
    assert price(gelu(total), total) > price(gelu(total))
    product = make("MatMul", (x, weight))
    assert price(gelu(make("Add", (product, bias)))) == price(make("BiasGelu", (product, bias)))
    stacked = make("MatMul", (var("x", tensor(2, 8, 64)), weight))
    assert price(gelu(make("Add", (stacked, bias)))) > price(make("BiasGelu", (stacked, bias)))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_gated_value_is_quick_gelu(swapped: bool) -> None:
    graphs, x = Graphs(), var("x", tensor(8, 64))
    kernel = price(make("QuickGelu", (x,), {"alpha": 1.0}))
    for inner in (x, make("Mul", (x, graphs.const()))):
        gate = make("Sigmoid", (inner,))
        gated = make("Mul", (gate, x) if swapped else (x, gate))
        assert price(gated) == kernel
        assert price(gated, gate) > kernel  # another user: it stays as it is
    assert price(make("Mul", (x, make("Sigmoid", (var("y", tensor(8, 64)),))))) > kernel
    double = var("x", TensorType("double", (8, 64)))
    assert price(make("Mul", (double, make("Sigmoid", (double,))))) > kernel


@pytest.mark.parametrize("inverse", [False, True])
def test_a_root_mean_square_in_parts_is_simplified_layer_normalization(inverse: bool) -> None:
    graphs, x, one = Graphs(), var("x", tensor(2, 4, 64)), make("Ones", (), {"shape": ()})
    mean = make("ReduceMean", (make("Pow", (x, graphs.const())),), {"axes": (-1,), "keepdims": 1})
    root = make("Sqrt", (make("Add", (mean, graphs.const())),))
    normed = make("Mul", (make("Div", (one, root)), x)) if inverse else make("Div", (x, root))
    scale = graphs.const(64)
    kernel = make("SimplifiedLayerNormalization", (x, scale), {"axis": -1, "epsilon": 1e-5})
    assert price(make("Mul", (scale, normed))) == price(kernel)
    assert price(make("Mul", (scale, normed)), root) > price(kernel)  # another user: it stays as it is
    assert price(make("Mul", (graphs.const(4, 64), normed))) > price(kernel)


@pytest.mark.parametrize("dtype", ["float", "float16"])
@pytest.mark.parametrize("summed", [False, True])
def test_a_layer_normalization_in_parts_is_layer_normalization(dtype: str, summed: bool) -> None:
    type = TensorType(dtype, (2, 4, 64))
    scale, shift = (Term.of("Const", (), {"hash": name}, (TensorType(dtype, (64,)),)) for name in "gh")
    exponent, epsilon = (Term.of("Const", (), {"hash": name}, (TensorType(dtype, ()),)) for name in "ce")
    x = make("Add", (var("x", type), var("y", type))) if summed else var("x", type)
    rows = {"axes": (-1,), "keepdims": 1}
    centred = make("Sub", (x, make("ReduceMean", (x,), rows)))

    def normed(square: Term) -> Term:
        root = make("Sqrt", (make("Add", (make("ReduceMean", (square,), rows), epsilon)),))
        return make("Add", (make("Mul", (scale, make("Div", (centred, root)))), shift))

    parts = normed(make("Pow", (centred, exponent)))
    assert price(parts) == price(make("LayerNormalization", (x, scale, shift), {"axis": -1, "epsilon": 1e-5}))
    if not summed:  # the kernel that adds is slower than what it replaces
        assert price(parts) < price(parts, centred)  # another user: it stays as it is
        assert price(parts) < price(normed(make("Mul", (centred, centred))))  # which the runtime does not look for


def test_a_gelu_by_its_approximation_in_parts_is_gelu() -> None:
    graphs, x, one = Graphs(), var("x", tensor(8, 64)), make("Ones", (), {"shape": ()})
    cubic = make("Mul", (make("Pow", (x, graphs.const())), graphs.const()))
    tanh = make("Tanh", (make("Mul", (graphs.const(), make("Add", (x, cubic)))),))
    gelu = make("Mul", (make("Mul", (x, graphs.const())), make("Add", (tanh, one))))
    assert price(gelu) == price(make("FastGelu", (x,)))
    assert price(gelu, tanh) > price(gelu)  # another user: it stays as it is


def _root() -> Term:
    graphs = Graphs()
    return make("Sqrt", (make("Add", (graphs.const(64), graphs.const(64))),))


@pytest.mark.parametrize(
    "normed",
    [
        lambda x: make("Div", (x, _root())),
        lambda x: make("Mul", (x, make("Div", (make("Ones", (), {"shape": (64,)}), _root())))),
        lambda x: make("Mul", (x, make("Div", (make("Ones", (), {"shape": (64,)}), Graphs().const(64))))),
        lambda x: make("Mul", (x, make("Sigmoid", (make("Mul", (Graphs().const(64), Graphs().const(64))),)))),
        lambda x: make("Mul", (x, make("Add", (make("Erf", (_root(),)), make("Ones", (), {"shape": (64,)}))))),
    ],
)
def test_what_is_computed_from_weights_alone_is_no_part_of_a_kernel(normed: Callable[[Term], Term]) -> None:
    """It is folded, so the runtime does not see its operators."""
    term = normed(var("x", tensor(2, 8, 64)))
    assert price(make("Mul", (term, Graphs().const(64)))) > 0 and price(term) > 0
