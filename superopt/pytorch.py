"""`torch.compile(model, backend="superopt")`: graphs of PyTorch, optimized and run in ONNX Runtime.

Dynamo finds `backend` by an entry point. On its first call with inputs of some sizes, a graph is exported with its
weights as constants, optimized, and compared with PyTorch on these inputs. Whatever cannot be exported, has an effect
besides its outputs, needs gradients, or gives other values, runs in PyTorch itself.
"""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from superopt.onnx_io.opaque import draws_numbers
from superopt.optimizer import Options, optimize
from superopt.optimizer.arguments import unknown_options
from superopt.optimizer.torch_models import from_torch
from superopt.runtime.loadable import CPU, Loadable
from superopt.runtime.onnx_runtime import local_session
from superopt.runtime.target import reason

__all__ = ["backend"]

_MAX_SESSIONS = 8  # of one graph, for different sizes or weights; more would cost more to make than they save
_RANDOM = "it draws random numbers"
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def backend(graph: torch.fx.GraphModule, example_inputs: Sequence[Any], **settings: Any) -> Any:
    """Return the callable that Dynamo runs in place of `graph`.

    `settings["options"]`: fields of `superopt.Options` by name (by default `quick=True`), and `frozen=True`, a promise
    that nothing writes to weights past PyTorch's version counters (as `weight.data.mul_(2)` does): weights are then not
    compared with those of the compilation at each call. Raises ValueError for an option that cannot be used.
    """
    given = dict(settings.get("options") or {})
    frozen = bool(given.pop("frozen", False))
    unknown = unknown_options(given, ["frozen"])
    if unknown:
        raise ValueError(f"unknown option of the superopt backend: {unknown}")
    if given.setdefault("ep", "cpu") != "cpu":
        raise ValueError("the superopt backend runs on the CPU only: leave out the option ep")
    if given.get("target", "onnxruntime") != "onnxruntime":
        raise ValueError("the superopt backend runs in ONNX Runtime only: leave out the option target")
    threads = given.get("threads", torch.get_num_threads())
    return _Graph(graph, Options(**{"quick": True, **given}), threads, frozen)


class _InPyTorch(Exception):
    """The graph has to run in PyTorch; the message says why."""


class _Graph:
    """A graph, and its sessions by the sizes of the inputs."""

    def __init__(self, graph: torch.fx.GraphModule, options: Options, threads: int, frozen: bool) -> None:
        self._graph, self._options, self._threads, self._frozen = graph, options, threads, frozen
        self._sessions: dict[object, _Session] = {}
        self._making = threading.Lock()  # threads that call at once share one session
        self._made = 0
        self._in_pytorch = False
        placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._weights = [i for i, node in enumerate(placeholders) if _is_weight(node)]

    def __call__(self, *args: Any) -> Any:
        try:
            if not self._in_pytorch:
                _check_arguments(args)
                session = self._session(args)
                if session is not None:
                    return session(args)
        except _InPyTorch as why:
            warnings.warn(f"superopt: a graph runs in PyTorch itself: {why}", stacklevel=2)
            self._in_pytorch = True
        except _NeedsGradients:
            warnings.warn(
                "superopt: a graph runs in PyTorch itself where gradients are recorded; infer in torch.no_grad()",
                stacklevel=2,
            )
        return self._graph(*args)

    def _session(self, args: Sequence[Any]) -> _Session | None:
        """Return a session for `args`, or None if another thread found that there is none. Raises _InPyTorch."""
        key = tuple((x.shape, x.stride()) if isinstance(x, torch.Tensor) else x for x in args)
        session = self._current(key, args)
        if session is not None:
            return session
        with self._making:
            session = self._current(key, args)
            if session is None and not self._in_pytorch:
                try:
                    session = self._sessions[key] = self._make(args)
                except _InPyTorch:
                    self._in_pytorch = True
                    raise
        return session

    def _current(self, key: object, args: Sequence[Any]) -> _Session | None:
        session = self._sessions.get(key)
        return None if session is None or session.is_outdated(args) else session

    def _make(self, args: Sequence[Any]) -> _Session:
        if self._made == _MAX_SESSIONS:
            raise _InPyTorch(f"its sizes or weights have changed more than {_MAX_SESSIONS - 1} times")
        self._made += 1
        return _Session(self._graph, args, self._weights, self._options, self._threads, self._frozen)


class _NeedsGradients(Exception):
    """Gradients are recorded in this call."""


class _Session:
    """A graph in ONNX Runtime, for inputs of the sizes of `args` and weights with the values in `args`."""

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        args: Sequence[Any],
        weights: Sequence[int],
        options: Options,
        threads: int,
        frozen: bool,
    ) -> None:
        self._inputs = [i for i, x in enumerate(args) if isinstance(x, torch.Tensor) and i not in weights]
        self._weights, self._frozen = weights, frozen
        self._held = _held_tensors(graph)
        self._snapshots = [_Snapshot(x) for x in self._constants(args)]
        expected = _expected(graph, args, self._held)
        leaves, self._structure = pytree.tree_flatten(expected)
        self._leaves = [(x.shape, x.stride(), x.dtype) if isinstance(x, torch.Tensor) else None for x in leaves]
        names = [f"input_{i}" for i in self._inputs]
        module = _Exported(graph, args, self._inputs)
        try:
            proto = from_torch(module, [args[i].detach() for i in self._inputs], input_names=names)
            if draws_numbers(proto):
                raise _InPyTorch(_RANDOM)
            result = optimize(proto, None, options)
        except _InPyTorch:
            raise
        except Exception as error:  # also protobuf's, for a model above 2 GB
            raise _InPyTorch(str(error)) from error
        assert result.proto is not None
        try:
            model = result.proto.SerializeToString()
            self._session = local_session(Loadable(model, CPU, threads, "any"))
        except Exception as error:  # as above
            raise _InPyTorch(f"ONNX Runtime cannot load it ({reason(error)})") from error
        used = {value.name for value in self._session.get_inputs()}
        self._fed = [(i, name) for i, name in zip(self._inputs, names, strict=True) if name in used]
        self._outputs = [value.name for value in self._session.get_outputs()]
        if len(self._outputs) != sum(leaf is not None for leaf in self._leaves):
            raise _InPyTorch("the exported model has another number of outputs")
        _check_equal(leaves, pytree.tree_leaves(self(args)))

    def is_outdated(self, args: Sequence[Any]) -> bool:
        """Return True if a weight has changed since the session was made."""
        constants = self._constants(args)
        return not all(snapshot.is_of(x, self._frozen) for snapshot, x in zip(self._snapshots, constants, strict=True))

    def __call__(self, args: Sequence[Any]) -> Any:
        """Run on `args`. Raises _InPyTorch."""
        kept = []  # the memory that is bound lives until the run ends
        binding = self._session.io_binding()
        try:
            for i, name in self._fed:
                x = args[i].detach().resolve_neg().contiguous()
                kept.append(x)
                binding.bind_input(name, "cpu", 0, _numpy_type(x.dtype), tuple(x.shape), _address(x))
            results = [None if leaf is None else torch.empty(leaf[0], dtype=leaf[2]) for leaf in self._leaves]
            for name, y in zip(self._outputs, (y for y in results if y is not None), strict=True):
                binding.bind_output(name, "cpu", 0, _numpy_type(y.dtype), tuple(y.shape), _address(y))
            self._session.run_with_iobinding(binding)
        except Exception as error:  # ONNX Runtime's exceptions share no other base class
            raise _InPyTorch(f"ONNX Runtime cannot run it ({reason(error)})") from error
        laid_out = [
            y
            if y is None or leaf is None or y.stride() == leaf[1]
            else torch.empty_strided(*leaf[:2], dtype=leaf[2]).copy_(y)
            for y, leaf in zip(results, self._leaves, strict=True)
        ]
        return pytree.tree_unflatten(laid_out, self._structure)

    def _constants(self, args: Sequence[Any]) -> list[torch.Tensor]:
        return [*(args[i] for i in self._weights), *self._held]


class _Exported(torch.nn.Module):  # type: ignore[misc]  # torch has types, too many to be checked against
    """The graph as a function of its inputs, with its weights as buffers; returns the tensors among its outputs."""

    def __init__(self, graph: torch.fx.GraphModule, args: Sequence[Any], inputs: Sequence[int]) -> None:
        super().__init__()
        self.graph, self._inputs, self._args = graph, inputs, list(args)
        for i, x in enumerate(args):
            if isinstance(x, torch.Tensor):
                self._args[i] = None
                if i not in inputs:
                    self.register_buffer(f"weight_{i}", x.detach())
        self.train(graph.training)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args = list(self._args)
        for name, weight in self.named_buffers(recurse=False):
            args[int(name.removeprefix("weight_"))] = weight
        for i, x in zip(self._inputs, inputs, strict=True):
            args[i] = x
        return tuple(y for y in pytree.tree_leaves(self.graph(*args)) if y is not None)


class _Snapshot:
    """A tensor's values at one time."""

    def __init__(self, x: torch.Tensor) -> None:
        self._copy = x.detach().clone()
        self._state = _state(x)

    def is_of(self, x: torch.Tensor, by_state: bool) -> bool:
        """Return True if `x` has the same values, bit for bit; `by_state`: by address and version counter alone."""
        if by_state and self._state == _state(x):
            return True
        y = self._copy
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        if x.stride() != y.stride():  # a copy keeps the strides of a tensor whose elements fill its memory
            x, y = x.detach().contiguous(), y.contiguous()
        return bool(_compare(x.data_ptr(), y.data_ptr(), x.numel() * x.element_size()) == 0)


_compare = ctypes.CDLL(None).memcmp
_compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


_NO_ELEMENTS = torch.empty(1)


def _address(x: torch.Tensor) -> int:
    """Return where the elements of `x` are; ONNX Runtime takes no null pointer, even if there are none."""
    return int(x.data_ptr() or _NO_ELEMENTS.data_ptr())


def _state(x: torch.Tensor) -> tuple[int, int | None]:
    return x.data_ptr(), None if x.is_inference() else x._version


def _is_weight(node: torch.fx.Node) -> bool:
    value = node.meta.get("example_value")
    kept: Mapping[str, object] = node.meta.get("tensor_dict") or {}
    return isinstance(value, torch.nn.Parameter) or "_dynamo_static_input_type" in kept


def _held_tensors(graph: torch.fx.GraphModule) -> list[torch.Tensor]:
    """Return the tensors that the graph holds itself."""
    held = [*graph.parameters(), *graph.buffers()]
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            value: Any = graph
            for name in str(node.target).split("."):
                value = getattr(value, name)
            if isinstance(value, torch.Tensor):
                held.append(value)
    return list({id(x): x for x in held}.values())


def _check_arguments(args: Sequence[Any]) -> None:
    """Raises _InPyTorch, or _NeedsGradients."""
    for x in args:
        if isinstance(x, torch.Tensor):
            if type(x) not in _PLAIN_TENSORS or x.layout is not torch.strided:
                raise _InPyTorch(f"an input is not a plain tensor ({type(x).__name__})")
            if x.device.type != "cpu":
                raise _InPyTorch(f"an input is on {x.device}, and the superopt backend runs on the CPU")
        elif not isinstance(x, int):
            raise _InPyTorch(f"an input is not a tensor ({type(x).__name__})")
    if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in args):
        raise _NeedsGradients


def _expected(graph: torch.fx.GraphModule, args: Sequence[Any], held: Sequence[torch.Tensor]) -> Any:
    """Return the outputs in PyTorch on copies of `args`. Raises _InPyTorch if the graph does more than return them."""
    copies = [_copy(x) if isinstance(x, torch.Tensor) else x for x in args]
    tensors = [*(x for x in copies if isinstance(x, torch.Tensor)), *held]
    before = [_Snapshot(x) for x in tensors]
    random_state = torch.get_rng_state()
    with torch.no_grad():
        expected = graph(*copies)
    drawn = not torch.equal(random_state, torch.get_rng_state())
    torch.set_rng_state(random_state)
    if drawn:
        raise _InPyTorch(_RANDOM)
    if not all(
        snapshot.is_of(x, True) and _state(x) == snapshot._state for snapshot, x in zip(before, tensors, strict=True)
    ):
        raise _InPyTorch("it writes to its inputs or buffers")
    leaves = pytree.tree_leaves(expected)
    if not all(y is None or type(y) in _PLAIN_TENSORS for y in leaves):
        raise _InPyTorch("an output is not a plain tensor")
    if any(y is not None and y.requires_grad for y in leaves):
        raise _InPyTorch("it records gradients by itself, as in torch.enable_grad()")
    memory = [y.untyped_storage()._cdata for y in leaves if y is not None]
    if len(set(memory)) < len(memory) or {x.untyped_storage()._cdata for x in tensors} & set(memory):
        raise _InPyTorch("an output shares memory with an input or another output")
    return expected


def _copy(x: torch.Tensor) -> torch.Tensor:
    """Return a copy that requires gradients if `x` does, but is no leaf: those must not be written to."""
    with torch.enable_grad():
        return x.detach().requires_grad_(x.requires_grad).clone()


def _check_equal(expected: Sequence[Any], given: Sequence[Any]) -> None:
    """Raises _InPyTorch if values differ by more than the root of the type's precision, relative to the largest."""
    for y, z in zip(expected, given, strict=True):
        if y is None:
            continue
        if y.is_floating_point():
            finite = y.isfinite()
            scale = y[finite].abs().max().item() if finite.any() else 0.0
            bound = torch.finfo(y.dtype).eps ** 0.5 * scale
            if not torch.allclose(z, y, rtol=0.0, atol=bound, equal_nan=True):
                raise _InPyTorch("the exported model gives other values")
        elif not torch.equal(y, z):
            raise _InPyTorch("the exported model gives other values")


def _numpy_type(dtype: torch.dtype) -> Any:
    return torch.empty(0, dtype=dtype).numpy().dtype.type
