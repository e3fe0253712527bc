"""What a graph costs: the sum over its run-time operators, less what the runtime fuses away.

ONNX Runtime rewrites a graph before it runs it, and the honest comparison is against that. Modelled here,
for a value with one user only:
- BatchNormalization, Mul and Add with per-channel constants after a Conv with constant kernel are folded: free;
- Relu, Sigmoid and Tanh after a Conv (also after what was folded or added to it), and Relu after a Gemm: free;
- Add of a Conv, or of a sum with one, and another value: half price, the Conv writes on top of it;
- Add of a constant after a two-dimensional MatMul makes it a Gemm: half price, as is a Gemm's constant bias; so does
  Add of a vector after a product of an array of known shape and a matrix (onnxruntime/core/optimizer/
  matmul_add_fusion.cc), with a Reshape before and after that cost nothing;
- Mul by a scalar constant, or Div, after a MatMul becomes a factor of the product (matmul_scale_fusion.cc): free.
What becomes a kernel of another name is in `kernels.py`.
Identity, Add of zeros and Mul by ones that change no shape are dropped by it: free.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from superopt.ir.infer import make
from superopt.ir.term import Term, topological
from superopt.ir.types import TensorType
from superopt.search.cost.analytic import CostModel, bytes_of
from superopt.search.cost.runtime_fusion import KERNELS, Inputs, is_scalar, kernel

__all__ = ["DEPENDENT", "FUSED", "GraphCost", "Price", "collect", "transposed_weights"]

_BIAS = 0.5  # of what an Add costs: adding a vector within a product
_PRODUCTS = frozenset({"MatMul", "Stacked", "Product"})
_ACTIVATIONS = frozenset({"Relu", "Sigmoid", "Tanh"})
FUSED = _ACTIVATIONS | {"BatchNormalization"}  # operators that may go into the one before them
DEPENDENT = FUSED | {"Add", "Div", "Mul"}  # what these take depends on how the operators before them run


class Price(NamedTuple):
    """What states are compared by, in this order. Times are whole picoseconds, so that sums are exact."""

    time: int
    nodes: int  # run-time operators
    # Weights that a Gemm reads transposed: exporters differ here, and rules may be written for the plain form only.
    transposed: int
    weight_bytes: int  # of the constants that run-time operators read
    weight_terms: int  # operators folded away in those constants


class GraphCost:
    """Prices graphs with a cost model; remembers the price of each operator."""

    def __init__(self, model: CostModel) -> None:
        self.model = model
        self._alone: dict[Term, int] = {}
        self._biases: dict[Term, int] = {}
        self._weights: dict[Term, tuple[int, int]] = {}

    def price(self, outputs: Sequence[Term]) -> Price:
        """Price of the graph."""
        order: list[Term] = []
        collect(outputs, (), order, set())
        uses: dict[Term, int] = {}
        weights: set[Term] = set()
        for term in order:
            for used in term.inputs:
                if used is not None:
                    uses[used] = uses.get(used, 0) + 1
                    if used.weight_only:
                        weights.add(used)
        for output in outputs:
            uses[output] = uses.get(output, 0) + 1
        inputs_of = {term: term.inputs for term in order}
        fused: dict[Term, str] = {}
        parts: dict[Term, int] = {}
        time = nodes = transposed = 0
        for term in order:
            if term.op != "Out":
                nodes += 1
                if term.op == "Gemm":
                    transposed += transposed_weights(term)
                parts[term], absorbed = self.part(term, inputs_of, uses, fused)
                time += parts[term] - sum(map(parts.__getitem__, absorbed))
        weight_bytes = weight_terms = 0
        for weight in weights:
            size, terms = self.weight(weight)
            weight_bytes += size
            weight_terms += terms
        return Price(time + self.reading(weight_bytes), nodes, transposed, weight_bytes, weight_terms)

    def part(
        self, term: Term, inputs_of: Inputs, uses: Mapping[Term, int], fused: dict[Term, str]
    ) -> tuple[int, tuple[Term, ...]]:
        """What `term` takes in a graph, and the operators that take nothing more as it does their work.

        What kernel it goes into is noted in `fused`, which must know its inputs.
        """
        if term.op == "Out":
            return 0, ()
        made = kernel(term, inputs_of, uses) if term.op in KERNELS else None
        if made is not None:
            return self._cost(made.term), made.absorbed
        share = _share(term, inputs_of[term], uses, fused)
        time = int(self._cost(term) * share) if share else 0
        if term.op == "Gemm" and len(term.inputs) > 2:
            time += self._bias(term)
        return time, ()

    def reading(self, weight_bytes: int) -> int:
        """Picoseconds of reading so many bytes of constants from memory."""
        return int(weight_bytes * self.model.seconds_per_weight_byte * 1e12)

    def _cost(self, term: Term) -> int:
        cost = self._alone.get(term)
        if cost is None:
            cost = self._alone[term] = max(1, round(self.model.cost(_plain(term)) * 1e12))
        return cost

    def _bias(self, gemm: Term) -> int:
        """What adding a constant costs in a product; the cost model has it without."""
        found = self._biases.get(gemm)
        if found is None:
            bias = gemm.inputs[2]
            constant = bias is not None and bias.weight_only
            found = self._biases[gemm] = int(self._cost(make("Add", (gemm, bias))) * _BIAS) if constant else 0
        return found

    def weight(self, weight: Term) -> tuple[int, int]:
        """Bytes of a constant, and how many operators are folded away in it."""
        found = self._weights.get(weight)
        if found is None:
            found = self._weights[weight] = bytes_of(weight.type), sum(1 for t in topological((weight,)) if t.inputs)
        return found


def _plain(term: Term) -> Term:
    """A Gemm whose constant second operand is transposed as one that reads it as it is: the runtime packs constants
    when it loads a model, and what two measurements of the same packed matrix differ by is noise."""
    weight = term.inputs[1] if term.op == "Gemm" else None
    if weight is None or not weight.weight_only or not term.attr("transB") or weight.type is None:
        return term
    shape = weight.type.shape
    if shape is None:
        return term
    turned = Term.of("Const", (), {"hash": "turned"}, (TensorType(weight.type.dtype, shape[::-1]),))
    inputs = (term.inputs[0], turned, *term.inputs[2:])
    return Term.of("Gemm", inputs, {**dict(term.attrs), "transB": 0}, term.types)


def transposed_weights(gemm: Term) -> int:
    """How many constants the Gemm reads transposed."""
    return sum(
        operand is not None and operand.weight_only and gemm.attr(name) == 1
        for name, operand in zip(("transA", "transB"), gemm.inputs, strict=False)
    )


def collect(roots: Sequence[Term], known: Container[Term], order: list[Term], seen: set[Term]) -> None:
    """Append the run-time terms below `roots` (leaves excepted) that are not `known` or `seen` to `order`, inputs
    first."""
    stack: list[Term | None] = list(reversed(roots))
    open_terms: list[Term] = []
    while stack:
        term = stack.pop()
        if term is None:  # all inputs of the last open term are done
            order.append(open_terms.pop())
        elif not (term.weight_only or term in seen or term.op == "Var" or term in known):
            seen.add(term)
            open_terms.append(term)
            stack.append(None)
            stack.extend([i for i in term.inputs if i is not None and not (i.weight_only or i in seen)])


def _share(term: Term, inputs: tuple[Term | None, ...], uses: Mapping[Term, int], fused: dict[Term, str]) -> float:
    """Which share of its isolated time `term` takes; `fused` tells of each term into what kind of kernel it goes."""
    op = term.op
    if op == "Conv":
        fused[term] = "Conv"
        return 1.0
    if op in ("MatMul", "Gemm"):
        if len(_shape(term) or ()) == 2:
            fused[term] = op
        else:
            fused[term] = "Stacked" if _stacked(inputs) else "Product"
        return 1.0
    if op == "Identity":
        return 0.0
    first = inputs[0] if inputs else None
    kind = fused.get(first, "") if first is not None and uses.get(first) == 1 else ""
    if op == "BatchNormalization":
        if kind == "Conv" and all(i is not None and i.weight_only for i in inputs[1:]):
            fused[term] = "Conv"
            return 0.0
        return 1.0
    if op in _ACTIVATIONS:
        return 0.0 if kind in ("Conv", "Conv+") or (kind == "Gemm" and op == "Relu") else 1.0
    if op in ("Mul", "Div") and kind in _PRODUCTS and inputs[1] is not None and is_scalar(inputs[1]):
        return 0.0
    if op in ("Add", "Mul") and len(inputs) == 2 and first is not None and inputs[1] is not None:
        return _share_binary(term, first, inputs[1], uses, fused)
    return 1.0


def _share_binary(term: Term, a: Term, b: Term, uses: Mapping[Term, int], fused: dict[Term, str]) -> float:
    neutral = "Zeros" if term.op == "Add" else "Ones"
    for x, y in ((a, b), (b, a)):
        if y.op == neutral and x.types == term.types:
            if x in fused:
                fused[term] = fused[x]
            return 0.0
    for x, y in ((a, b), (b, a)):
        kind = fused.get(x, "") if uses.get(x) == 1 and x.types == term.types else ""
        if term.op == "Mul" and kind in _PRODUCTS and is_scalar(y):
            return 0.0
        if kind == "Conv" and y.weight_only and _per_channel(y, term):
            fused[term] = "Conv"
            return 0.0
        if term.op == "Add":
            if kind == "MatMul" and y.weight_only and len(_shape(y) or (0, 0, 0)) <= 2:
                fused[term] = "Gemm"
                return _BIAS
            if kind == "Stacked" and _shape(y) == (_shape(term) or ())[-1:]:
                return _BIAS
            if kind in ("Conv", "Conv+") and y.types == term.types:
                fused[term] = "Conv+"
                return 0.5
    return 1.0


def _stacked(inputs: tuple[Term | None, ...]) -> bool:
    """Whether it is a product of an array of known shape and a matrix."""
    a, b = inputs[:2]
    shape = None if a is None else _shape(a)
    return shape is not None and b is not None and len(_shape(b) or ()) == 2 and all(isinstance(s, int) for s in shape)


def _shape(term: Term) -> tuple[object, ...] | None:
    return None if term.type is None else term.type.shape


def _per_channel(constant: Term, term: Term) -> bool:
    """Whether `constant` has one element, or one a channel (axis 1), of `term`."""
    shape, full = _shape(constant), _shape(term)
    if shape is None or full is None or len(full) < 3:
        return False
    aligned = (1,) * (len(full) - len(shape)) + tuple(shape)
    return all(size == 1 or d == 1 for d, size in enumerate(aligned))
