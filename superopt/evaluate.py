"""Terms to NumPy: what each operator computes, and the folding of subterms that depend on weights only.

Real element types are computed in float64 and integers in their own type. The definitions follow the
operators' pages of the ONNX specification and broadcast as NumPy does, which is ONNX's multidirectional
broadcasting.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from superopt.ir.ops import OPS, replace
from superopt.ir.term import CLOSED_FORM, Attr, Term, topological
from superopt.ir.types import FLOAT_DTYPES, TensorType

__all__ = ["can_evaluate", "constant", "dtype_name", "evaluate", "fold", "folded", "numpy_dtype"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Attrs: TypeAlias = Mapping[str, Any]


def dtype_name(element_type: int) -> str:
    """The terms' name ("float", "int64", ...) of a TensorProto data type. Raises ValueError for an unknown one."""
    name: str = onnx.TensorProto.DataType.Name(element_type).lower()
    return name


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy element type of "float", "bfloat16" and so on (those that NumPy lacks come from ml_dtypes)."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(name.upper())))


def constant(array: Array, dtype: str, weights: MutableMapping[str, Array]) -> Term:
    """The leaf that stands for `array`: Zeros or Ones where every element is exactly +0.0 or 1, else a Const,
    whose array is added to `weights` under the hash of its type, shape and bytes."""
    type = TensorType(dtype, tuple(int(size) for size in array.shape))
    if dtype in FLOAT_DTYPES and array.size:
        first = array.reshape(-1)[:1]  # spares big weights the comparison of every element
        for op, bits in (("Zeros", 0), ("Ones", 1)):
            same = np.array(bits, array.dtype).tobytes()
            if first.tobytes() == same and array.tobytes() == same * array.size:
                return Term.of(op, (), {"shape": type.shape or ()}, (type,))
    digest = hashlib.blake2b(f"{type}|".encode(), digest_size=16)
    if array.dtype == object:
        digest.update(repr(array.tolist()).encode())
    else:
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    weights.setdefault(digest.hexdigest(), array)
    return Term.of("Const", (), {"hash": digest.hexdigest()}, (type,))


def _gemm(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    a, b = inputs[:2]
    a, b = (a.T if attrs["transA"] else a), (b.T if attrs["transB"] else b)
    product = attrs["alpha"] * (a @ b) if attrs["alpha"] != 1 else a @ b
    if len(inputs) > 2:
        product = product + (attrs["beta"] * inputs[2] if attrs["beta"] != 1 else inputs[2])
    return [product]


def _split(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    return np.split(inputs[0], np.cumsum(attrs["split"])[:-1], axis=attrs["axis"])


def _slice(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    index = [slice(None)] * inputs[0].ndim
    for axis, start, end, step in zip(attrs["axes"], attrs["starts"], attrs["ends"], attrs["steps"], strict=True):
        index[axis] = slice(start, end, step)
    return [inputs[0][tuple(index)]]


def _pad(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    (x,), pads = inputs, attrs["pads"]
    begins, ends = pads[: x.ndim], pads[x.ndim :]
    cropped = x[tuple(slice(max(-b, 0), n - max(-e, 0)) for b, n, e in zip(begins, x.shape, ends, strict=True))]
    widths = [(max(b, 0), max(e, 0)) for b, e in zip(begins, ends, strict=True)]
    return [np.pad(cropped, widths, constant_values=attrs["value"])]


def _conv(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    """Cross-correlation by `im2col`: every window of x as a row, times the kernels as a matrix, group by group."""
    x, w = inputs[:2]
    spatial, group = x.ndim - 2, attrs["group"]
    (x,) = _pad([x], {"pads": (0, 0, *attrs["pads"][:spatial], 0, 0, *attrs["pads"][spatial:]), "value": 0})
    reach = tuple((k - 1) * d + 1 for k, d in zip(w.shape[2:], attrs["dilations"], strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, x.ndim)))
    steps = (slice(None), slice(None), *(slice(None, None, s) for s in attrs["strides"]))
    windows = windows[(*steps, *(slice(None, None, d) for d in attrs["dilations"]))]
    out_size = windows.shape[2 : 2 + spatial]
    # (N, C, out..., k...) to (group, N*out, C/group * k), against (group, O/group, C/group * k).
    windows = np.moveaxis(windows, 1, 1 + spatial).reshape(x.shape[0], *out_size, group, -1)
    rows = np.moveaxis(windows, -2, 0).reshape(group, x.shape[0] * int(np.prod(out_size)), -1)
    kernels = w.reshape(group, w.shape[0] // group, int(np.prod(w.shape[1:])))
    result = rows @ kernels.swapaxes(1, 2)
    result = result.reshape(group, x.shape[0], *out_size, -1)
    result = np.moveaxis(result, (0, -1), (1, 2)).reshape(x.shape[0], w.shape[0], *out_size)
    return [result + inputs[2].reshape(-1, *(1,) * spatial) if len(inputs) > 2 else result]


def _batch_normalization(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    x, *params = inputs
    scale, bias, mean, variance = (p.reshape(-1, *(1,) * (x.ndim - 2)) for p in params)
    return [(x - mean) * (scale / np.sqrt(variance + attrs["epsilon"])) + bias]


def _dirac(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    kernel = np.zeros(attrs["shape"])
    outputs = attrs["shape"][0]
    centre = tuple((k - 1) // 2 for k in attrs["shape"][2:])
    for o in range(outputs):
        kernel[(o, o % (outputs // attrs["group"]), *centre)] = 1.0
    return [kernel]


def _sum(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    total = inputs[0]
    for array in inputs[1:]:
        total = total + array
    return [total]


def _reduce_sum(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    return [np.sum(inputs[0], axis=attrs["axes"], keepdims=bool(attrs["keepdims"]), dtype=inputs[0].dtype)]


_COMPUTE: Mapping[str, Callable[[Sequence[Array], Attrs], list[Array]]] = {
    "Zeros": lambda inputs, attrs: [np.zeros(attrs["shape"])],
    "Ones": lambda inputs, attrs: [np.ones(attrs["shape"])],
    "Eye": lambda inputs, attrs: [np.eye(attrs["n"])],
    "Dirac": _dirac,
    "MatMul": lambda inputs, attrs: [np.matmul(inputs[0], inputs[1])],
    "Gemm": _gemm,
    "Add": lambda inputs, attrs: [inputs[0] + inputs[1]],
    "Sub": lambda inputs, attrs: [inputs[0] - inputs[1]],
    "Mul": lambda inputs, attrs: [inputs[0] * inputs[1]],
    "Sum": _sum,
    "Neg": lambda inputs, attrs: [-inputs[0]],
    "Identity": lambda inputs, attrs: [inputs[0]],
    "Relu": lambda inputs, attrs: [np.maximum(inputs[0], 0)],
    "Sigmoid": lambda inputs, attrs: [np.exp(-np.logaddexp(0, -inputs[0]))],
    "Tanh": lambda inputs, attrs: [np.tanh(inputs[0])],
    "Concat": lambda inputs, attrs: [np.concatenate(inputs, axis=attrs["axis"])],
    "Split": _split,
    "Slice": _slice,
    "Transpose": lambda inputs, attrs: [np.transpose(inputs[0], attrs["perm"])],
    "Pad": _pad,
    "Unsqueeze": lambda inputs, attrs: [np.expand_dims(inputs[0], attrs["axes"])],
    "Squeeze": lambda inputs, attrs: [np.squeeze(inputs[0], attrs["axes"])],
    "ReduceSum": _reduce_sum,
    "Conv": _conv,
    "BatchNormalization": _batch_normalization,
}


def _literal(value: Attr) -> bool:
    return all(map(_literal, value)) if isinstance(value, tuple) else isinstance(value, (int, float, str))


def can_evaluate(term: Term) -> bool:
    """Whether this operator (its inputs aside) has a definition here, attributes without symbols, and inputs all
    present; a Const counts, a Var does not."""
    if term.op in ("Const", "Out"):
        return True
    return term.op in OPS and None not in term.inputs and all(_literal(value) for _, value in term.attrs)


def evaluate(outputs: Sequence[Term], env: Mapping[Term, Array], weights: Mapping[str, Array]) -> list[Array]:
    """Values of `outputs`, where `env` gives values of terms (inputs, or anything in between) and `weights` those of
    Const terms by hash. Real element types are computed and returned in float64, others in their own type.

    Raises KeyError for a term that has no definition and no value in `env`.
    """
    values: dict[Term, Array] = {}
    several: dict[Term, list[Array]] = {}
    with np.errstate(all="ignore"):  # infinities and NaN arise as they do in the runtime
        for term in _needed(outputs, env):
            if term in env:
                values[term] = _widen(np.asarray(env[term]), term)
            elif term.op == "Const":
                values[term] = _widen(weights[str(term.attr("hash"))], term)
            elif term.op == "Out":
                (node,), index = term.inputs, term.attr("index")
                assert node is not None and isinstance(index, int)
                values[term] = several[node][index]
            else:
                inputs = [values[i] for i in term.inputs if i is not None]
                several[term] = _COMPUTE[term.op](inputs, dict(term.attrs))
                values[term] = several[term][0]
                if term.op in CLOSED_FORM:
                    values[term] = _widen(_narrow(values[term], term), term)
    return [values[term] for term in outputs]


def _needed(outputs: Sequence[Term], env: Mapping[Term, Array]) -> list[Term]:
    """Terms below `outputs`, inputs first, not looking below those whose value is given."""
    done: dict[Term, None] = {}
    stack = list(reversed(outputs))
    while stack:
        term = stack[-1]
        missing = [] if term in env else [i for i in term.inputs if i is not None and i not in done]
        if term in done or not missing:
            done.setdefault(stack.pop())
        else:
            stack.extend(reversed(missing))
    return list(done)


def _widen(array: Array, term: Term) -> Array:
    real = term.type.dtype in FLOAT_DTYPES if term.type is not None else array.dtype.kind == "f"
    return array.astype(np.float64, copy=False) if real else array


def _narrow(array: Array, term: Term) -> Array:
    return array if term.type is None else array.astype(numpy_dtype(term.type.dtype), copy=False)


def folded(outputs: Iterable[Term], weights: MutableMapping[str, Array]) -> dict[Term, Term]:
    """For every maximal subterm that is made of weights and known operators only, the constant that it equals,
    computed in float64 and rounded once to its element type; arrays are added to `weights`. Leaves are left alone."""
    outputs = tuple(outputs)
    foldable: set[Term] = set()
    users: dict[Term, bool] = dict.fromkeys(outputs, False)  # whether all users fold too
    order = list(topological(outputs))
    for term in order:
        if term.weight_only and can_evaluate(term) and all(i in foldable for i in term.inputs):
            foldable.add(term)
    for term in reversed(order):
        inside = term in foldable
        for i in term.inputs:
            if i is not None:
                users[i] = users.get(i, True) and inside
    found: dict[Term, Term] = {}
    values: dict[Term, Array] = {}  # of folded terms that others are made of; the rest may go at once
    read_again = {i for term in foldable for i in term.inputs}
    for term in order:
        leaf = term.op == "Const" or term.op in CLOSED_FORM
        splits = len(term.types) > 1 and term.op != "Out"
        if term in foldable and not leaf and not splits and not users[term] and term.type is not None:
            (array,) = evaluate([term], values, weights)
            if term in read_again:
                values[term] = array
            found[term] = constant(_narrow(array, term), term.type.dtype, weights)
    return found


def fold(outputs: Iterable[Term], weights: MutableMapping[str, Array]) -> tuple[Term, ...]:
    """`outputs` with `folded` subterms exchanged for constants. Closed-form constants stay as they are."""
    outputs = tuple(outputs)
    return replace(outputs, folded(outputs, weights))
