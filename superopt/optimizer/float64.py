"""A model in float64: the outputs that its operators would have without the rounding of their element types.

All real element types are computed and kept in float64, and conversions between them change nothing. Conversions to
integers, comparisons and quantization are computed as the model states them. An operator is computed by its definition;
an operator without one by ONNX Runtime in double, or else by `onnx.reference`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from superopt.evaluate import can_evaluate, evaluate, numpy_dtype
from superopt.ir.operator import OPERATORS
from superopt.ir.term import CLOSED_FORM, Term, topological
from superopt.ir.types import FLOAT_DTYPES, TensorType
from superopt.onnx_io import Model
from superopt.onnx_io.attributes import unpack
from superopt.onnx_io.opaque import is_random
from superopt.onnx_io.schemas import DEFAULT_DOMAINS, specification
from superopt.onnx_io.subgraphs import all_nodes, subgraphs
from superopt.optimizer.numpy_kernels import NUMPY_KERNELS
from superopt.properties import is_conversion, moves
from superopt.runtime import (
    CannotRun,
    Feeds,
    RanTooLong,
    RuntimeUnavailable,
    Target,
    in_child,
    open_session,
    unit_roundoff,
)
from superopt.search.cost.concrete import concrete_attrs

__all__ = ["Float64Model", "NoReference", "Noise"]

# Values that are needed at the same time, with the operands and the result of one operator.
_MAX_BYTES = 1 << 30
_REAL = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


class NoReference(Exception):
    """The model cannot be computed in float64; the message says why, in a few words."""


@dataclass(frozen=True)
class Noise:
    """Random rounding errors: each real element that an operator computes is multiplied by 1 + factor * u * N(0, 1).

    u is the unit roundoff of its element type. So the difference to the outputs without noise shows how large an error
    the roundings of the model's own operators explain (Monte Carlo arithmetic: Parker, IEEE CiSE 2(4), 2000). Inputs
    are exact, and so are weights whose hashes are not in `on_weights`; `weights_factor` is the factor of these.
    """

    rng: np.random.Generator
    factor: float = 1.0
    on_weights: frozenset[str] = frozenset()
    weights_factor: float = 1.0

    def applied(self, value: Any, type: TensorType | None) -> Any:
        """Return the result `value` of an operator with rounding errors."""
        return self._drawn(value, type, self.factor)

    def weighted(self, value: Any, type: TensorType | None) -> Any:
        """Return the weight `value` with rounding errors."""
        return self._drawn(value, type, self.weights_factor)

    def _drawn(self, value: Any, type: TensorType | None, factor: float) -> Any:
        if not isinstance(value, np.ndarray) or value.dtype != np.float64:
            return value
        return value * (1 + factor * _roundoff(type) * self.rng.standard_normal(value.shape))


class Float64Model:
    """A model that is computed in float64. With `casts`, conversions to a narrower real type round, without noise.

    Raises NoReference if it draws random numbers.
    """

    def __init__(self, model: Model, *, casts: bool = False) -> None:
        self._model, self._casts = model, casts
        self._order = list(topological(model.outputs))
        self._readers = Counter(i for term in self._order for i in _reads(term))
        self._readers.update(model.outputs)
        for term in self._order:
            if is_random(term):
                raise NoReference(f"operator {term.op}")

    def run(
        self,
        feeds: Feeds,
        deadline: float,
        noise: Noise | None = None,
        observe: Callable[[Term, Any], None] | None = None,
    ) -> list[Any]:
        """Return the outputs: reals in float64, others in their own type. `observe` receives every term and its value.

        `deadline` is a time of `time.process_time`: other work on the machine takes nothing from it. With `noise`,
        every real element that an operator computes is rounded at random. Raises NoReference if time or memory do not
        suffice, or an operator cannot be computed.
        """
        values: dict[Term, Any] = {}
        left = Counter(self._readers)
        with np.errstate(all="ignore"):  # infinities and NaN arise as they do in the runtime
            for term in self._order:
                if time.process_time() > deadline:
                    raise NoReference("it takes too long")
                try:
                    self._compute(term, values, feeds, noise, deadline)
                except MemoryError:
                    raise NoReference("it needs too much memory") from None
                except (ArithmeticError, LookupError, TypeError, ValueError):
                    node = _only(term) if term.op == "Out" else term
                    raise NoReference(f"operator {node.op}") from None
                if observe is not None and term in values:
                    observe(term, values[term])
                _check_memory(values)
                for read in _reads(term):
                    left[read] -= 1
                    if not left[read]:
                        values.pop(read, None)
        return [values[term] for term in self._model.outputs]

    def _compute(self, term: Term, values: dict[Term, Any], feeds: Feeds, noise: Noise | None, deadline: float) -> None:
        if term.op == "Var":
            values[term] = _widened(self._fed(term, feeds))
        elif term.op == "Const":
            weight = self._model.weights[str(term.attr("hash"))]  # widened where it is used
            if noise is not None and term.attr("hash") in noise.on_weights:
                weight = noise.weighted(_widened(weight), term.type)
            values[term] = weight
        elif term.op == "Out" and _only(term) in values:
            values[term] = values[_only(term)][term.attr("index")]
        elif term.op == "Out":
            found = evaluate([term], {i: values[i] for i in _reads(term)}, {})[0]
            values[term] = found if noise is None else noise.applied(found, term.type)
        elif not _has_parts(term):
            found = self._node(term, values, deadline)
            if noise is None or not _rounds(term) or (self._casts and _is_real_cast(term)):
                values[term] = found
            elif isinstance(found, list):
                values[term] = [noise.applied(one, type) for one, type in zip(found, term.types, strict=True)]
            else:
                values[term] = noise.applied(found, term.type)

    def _fed(self, term: Term, feeds: Feeds) -> Any:
        name = str(term.attr("name"))
        if name not in feeds:  # an input with a default value
            raise NoReference(f"input {name} has a default value")
        return feeds[name]

    def _node(self, term: Term, values: Mapping[Term, Any], deadline: float) -> Any:
        if _defined(term):
            if _is_real_cast(term):
                operand = _widened(values[_only(term)])
                return _widened(operand.astype(numpy_dtype(_dtype(term)))) if self._casts else operand
            if term.op in OPERATORS and OPERATORS[term.op].index_operands:  # a table is not widened as a whole
                return _widened(NUMPY_KERNELS["Gather"]([values[i] for i in _reads(term)], dict(term.attrs)))
            made = self._with_sizes(term)
            _check_size(made, values)
            return evaluate([made], {i: values[i] for i in _reads(term)}, {})[0]
        inputs = [None if i is None else values[i] for i in term.inputs]
        return _opaque(term, inputs, self._model.opset, max(deadline - time.process_time(), 0.0))

    def _with_sizes(self, term: Term) -> Term:
        """Return `term` with numbers for the symbols in its attributes."""
        if can_evaluate(term):
            return term
        attrs = concrete_attrs(term.attrs, self._model.sizes)
        types = tuple(None if type is None else self._model.concrete(type) for type in term.types)
        return Term.of(term.op, term.inputs, attrs, types)


def _defined(term: Term) -> bool:
    return term.op in OPERATORS or term.op in CLOSED_FORM


def _only(term: Term) -> Term:
    operand = term.inputs[0]
    assert operand is not None
    return operand


def _is_real(term: Term) -> bool:
    return term.type is not None and term.type.dtype in FLOAT_DTYPES


def _is_real_cast(term: Term) -> bool:
    """Return True for a conversion from one real type to another."""
    return len(term.inputs) == 1 and _is_real(term) and is_conversion(term.op) and _is_real(_only(term))


def _has_parts(term: Term) -> bool:
    """Return True for a node whose outputs are computed one by one, from the operands of the node."""
    return len(term.types) > 1 and _defined(term)


def _reads(term: Term) -> list[Term]:
    """Return the terms whose values are needed to compute `term`."""
    if term.op == "Out" and _has_parts(_only(term)):
        return _reads_of_node(_only(term))
    return [] if _has_parts(term) else _reads_of_node(term)


def _reads_of_node(term: Term) -> list[Term]:
    return [i for i in term.inputs if i is not None]


def _widened(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind == "f" or array.dtype == np.dtype(ml_dtypes.bfloat16):
        return array.astype(np.float64, copy=False)
    return array


def _dtype(term: Term) -> str:
    return "float" if term.type is None else term.type.dtype


def _rounds(term: Term) -> bool:
    """Return True if the runtime rounds what `term` computes from the model's inputs."""
    if term.is_constant or moves(term.op):
        return False
    return not _is_real_cast(term) or _roundoff(term.type) > _roundoff(_only(term).type)


def _roundoff(type: TensorType | None) -> float:
    return unit_roundoff(numpy_dtype(type.dtype if type is not None else "float"))


def _check_memory(values: Mapping[Term, Any]) -> None:
    held = sum(v.nbytes for t, v in values.items() if t.op != "Const" and isinstance(v, np.ndarray))
    if held > _MAX_BYTES:
        raise NoReference("it needs too much memory")


def _check_size(term: Term, values: Mapping[Term, Any]) -> None:
    """Raise NoReference if the operands and the result of `term` in float64 are larger than the limit."""
    elements = sum(np.size(values[i]) for i in term.inputs if i is not None)
    shape = None if term.type is None else term.type.concrete()
    elements += 0 if shape is None else int(np.prod(shape, dtype=object))
    if 8 * elements > _MAX_BYTES:
        raise NoReference(f"{term.op} needs too much memory")


# Operators without a definition.


def _opaque(term: Term, inputs: Sequence[Any], opset: int, seconds: float) -> Any:
    """Return the output of an opaque term, or the list of its outputs."""
    domain, _, op = term.op.rpartition("::")
    domain = "" if domain in DEFAULT_DOMAINS else domain
    attrs = dict(term.attrs)
    if not domain and op in NUMPY_KERNELS:
        computed = NUMPY_KERNELS[op](inputs, attrs)
        if computed is not None:
            return _widened(computed)
    captured = attrs.get("captures", ())
    declared = attrs.get("declared", len(inputs))
    assert isinstance(captured, tuple) and isinstance(declared, int)
    names = [*(f"input{k}" if inputs[k] is not None else "" for k in range(declared)), *map(str, captured)]
    wide = [None if x is None else _widened(x) for x in inputs]
    node = onnx.NodeProto(op_type=op, domain=domain, input=names[:declared])
    absent = attrs.get("absent", ())
    assert isinstance(absent, tuple)
    node.output.extend("" if k in absent else f"output{k}" for k in range(len(term.types)))
    node.attribute.extend(unpack(term.attrs))
    _in_double(node)
    given = {name: x for name, x in zip(names, wide, strict=True) if x is not None}
    if sum(x.nbytes for x in given.values()) > _MAX_BYTES:
        raise NoReference(f"{op} needs too much memory")
    found = iter(_run_node(node, given, opset, seconds))
    outputs = [_widened(next(found)) if name else None for name in node.output]
    return outputs if len(outputs) > 1 else outputs[0]


def _run_node(node: onnx.NodeProto, feeds: Feeds, opset: int, seconds: float) -> list[Any]:
    """Run a model of one node, in ONNX Runtime or else in onnx.reference. Raises NoReference."""
    try:
        return open_session(_one_node(node, feeds, opset), Target("cpu", 1)).run(feeds)
    except (CannotRun, RuntimeUnavailable):  # another runtime may be installed alone
        pass
    latest = onnx.defs.onnx_opset_version()
    for one in all_nodes(onnx.GraphProto(node=[node])):
        op = one.op_type
        if one.domain in DEFAULT_DOMAINS and specification(op, opset) != specification(op, latest):
            raise NoReference(f"operator {op} of opset {opset}")  # onnx.reference may compute the latest one
        if op in ("GRU", "LSTM", "RNN") and (any(one.input[4:5]) or any(a.name == "clip" for a in one.attribute)):
            raise NoReference(f"operator {op} with lengths or a clip")  # which onnx.reference 1.23 leaves out
    model = _one_node(node, feeds, opset)
    try:
        return in_child(_run_reference, model.SerializeToString(), dict(feeds), limit_s=seconds)
    except RanTooLong:
        raise NoReference(f"operator {node.op_type} takes too long") from None
    except Exception:  # noqa: BLE001 - onnx.reference raises whatever its NumPy code does
        raise NoReference(f"operator {node.op_type}") from None


def _run_reference(model: bytes, feeds: Feeds) -> list[Any]:
    """Run a model in onnx.reference; in the child process, where a limit of time holds."""
    from onnx.reference import ReferenceEvaluator

    return list(ReferenceEvaluator(onnx.load_from_string(model)).run(None, feeds))


def _one_node(node: onnx.NodeProto, feeds: Feeds, opset: int) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), [None] * x.ndim)
        for name, x in feeds.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(node.domain, 1)] if node.domain else [])
    graph = helper.make_graph([node], "node", inputs, outputs)
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _in_double(node: onnx.NodeProto) -> None:
    """Change the real element types in the attributes of `node`, bodies included, to double."""
    for body in subgraphs(node):
        for tensor in body.initializer:
            _tensor_in_double(tensor)
        for value in (*body.input, *body.output, *body.value_info):
            if value.type.tensor_type.elem_type in _REAL:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE
        for inner in body.node:
            _in_double(inner)
    for attribute in node.attribute:
        if attribute.HasField("t"):
            _tensor_in_double(attribute.t)
        elif attribute.name in ("to", "dtype", "output_dtype") and attribute.i in _REAL:
            attribute.i = TensorProto.DOUBLE


def _tensor_in_double(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in _REAL:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
