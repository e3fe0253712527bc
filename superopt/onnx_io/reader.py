"""ONNX model to terms, one node to one term."""

from __future__ import annotations

import itertools
from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Set
from pathlib import Path

import onnx
from google.protobuf.message import Message

from superopt.evaluate import constant, dtype_name, evaluate, numpy_dtype
from superopt.ir.dim import Size, Sizes
from superopt.ir.infer import OPERATORS, IllTyped, make
from superopt.ir.term import CLOSED_FORM, Attr, Term, Types, var
from superopt.ir.types import TensorType
from superopt.onnx_io.attributes import pack
from superopt.onnx_io.importers import NodeView, import_node
from superopt.onnx_io.inference import check, infer_types, light_copy, proven_shapes, sizes_at
from superopt.onnx_io.load import load_proto, sorted_nodes
from superopt.onnx_io.model import Array, Model, ModelError
from superopt.onnx_io.no_ops import is_noop
from superopt.onnx_io.node_order import LEAVES
from superopt.onnx_io.reshape_targets import in_numbers
from superopt.onnx_io.schemas import DEFAULT_DOMAINS
from superopt.onnx_io.static_values import Values
from superopt.onnx_io.subgraphs import captured, local_names, subgraphs
from superopt.onnx_io.tensors import constant_value, from_proto
from superopt.ops.properties import changes_shape_only

__all__ = ["FIRST_OPSET", "read_model"]

FIRST_OPSET = 7  # before it operators broadcast by attributes; older models, and newer than known, stay opaque

_RANDOM = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
_MEANING = frozenset({"input", "output", "op_type", "domain", "overload", "attribute"})  # of a node; the rest is notes


def read_model(
    source: str | Path | onnx.ModelProto,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    *,
    reduce: bool = False,
    reserved: frozenset[str] = frozenset(),
    stubs: Mapping[str, Term] | None = None,
    weights: dict[str, Array] | None = None,
    label: str = "model",
) -> Model:
    """The model as terms. `shapes` gives sizes to inputs: the terms keep their symbolic types (so what is written
    serves every size), and `Model.sizes` says what each symbol is at those shapes.

    `reduce`: what a node is by its operator's definition, at the types and constants of this model, is read as just
    that: a no-op as its input, arithmetic of known sizes as its result, an If whose condition is known as its branch.
    `reserved`: names that new tensors must not have. `stubs`: terms of weights that are left empty in `source`, their
    arrays in `weights`. `label` names a model in memory in error messages.

    Initializers that are also inputs are variables with a default value, except before IR version 4, where files
    had to list all weights as inputs. Raises ModelError.
    """
    if isinstance(source, onnx.ModelProto):
        proto = source
    else:
        proto, label = load_proto(Path(source)), str(source)
    return _Reader(proto, label, reduce, reserved, stubs or {}, {} if weights is None else weights).read(shapes or {})


class _Reader:
    def __init__(
        self,
        proto: onnx.ModelProto,
        label: str,
        reduce: bool,
        reserved: frozenset[str],
        stubs: Mapping[str, Term],
        weights: dict[str, Array],
    ) -> None:
        self.proto, self.label, self.reduce, self.reserved = proto, label, reduce, reserved
        self.stubs, self.weights = stubs, weights
        self.learnt = Values(self.weights)
        self.reduced = 0
        self.constants: MutableMapping[str, Term] = {}
        self.values: MutableMapping[str, Term] = {}
        self.position: dict[Term, int] = {}
        self.names: dict[Term, str] = {}
        self.nodes: dict[Term, onnx.NodeProto] = {}
        self.types: dict[str, TensorType] = {}
        self.proven: dict[str, Sizes] = {}
        self.listed: dict[str, Term] = {}
        self.opset = 0
        # Functions of the file that take the place of operators.
        self.functions = {(_domain(function), function.name) for function in proto.functions}

    def read(self, shapes: Mapping[str, tuple[int, ...]]) -> Model:
        graph = self.proto.graph
        self.opset = next((o.version for o in self.proto.opset_import if o.domain in DEFAULT_DOMAINS), 0)
        if not self.proto.opset_import and graph.node:
            raise ModelError(f"{self.label}: not an ONNX model, or a truncated one (it names no operator set)")
        nodes = sorted_nodes(graph, self.label)
        self.read_constants(graph, nodes)
        light = light_copy(self.proto, nodes)
        self.types = infer_types(light)
        self.proven = proven_shapes(light) if self.reduce else {}
        inputs = self.read_leaves(graph)
        self.serial = itertools.count(len(nodes))  # of nodes in bodies
        for index, node in enumerate(nodes):
            self.read_node(index, node)
        return Model(
            outputs=tuple(self.values[value.name] for value in graph.output),
            inputs=inputs,
            weights=self.weights,
            skeleton=self.skeleton(inputs),
            position=self.position,
            names=self.names,
            nodes=self.nodes,
            sizes=sizes_at(light, self.types, shapes) if shapes else {},
            listed=self.listed,
            complaint=check(light),
            reduced=self.reduced,
            proven=self.learnt.shapes,
            reserved=self.reserved,
            light=light,
        )

    def read_constants(self, graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
        """Initializers and Constant nodes, before anything else looks at the sizes that they claim."""
        for tensor in graph.initializer:
            stub = self.stubs.get(tensor.name)
            self.constants[tensor.name] = stub or constant(*from_proto(tensor, self.label), self.weights)
        for node in nodes:
            if node.domain in DEFAULT_DOMAINS and node.op_type == "Constant" and len(node.output) == 1:
                value = constant_value(node, self.label)
                if value is not None:
                    self.constants[node.output[0]] = constant(*value, self.weights)

    def read_leaves(self, graph: onnx.GraphProto) -> tuple[Term, ...]:
        fixed = self.proto.ir_version < 4
        inputs: list[Term] = []
        for value in graph.input:
            if not (fixed and value.name in self.constants):
                self.values[value.name] = var(value.name, self.types.get(value.name))
                inputs.append(self.values[value.name])
                if value.name in self.proven:
                    self.learnt.shapes[self.values[value.name]] = self.proven[value.name]
        if len({value.name for value in graph.input}) != len(graph.input):
            raise ModelError(f"{self.label}: two inputs have the same name")
        self.read_weights(graph)
        if fixed:
            self.listed = {v.name: self.values[v.name] for v in graph.input if v.name in self.constants}
        return tuple(inputs)

    def read_weights(self, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            if tensor.name not in self.values:
                self.define(tensor.name, self.constants[tensor.name])
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            if name not in self.values:
                content = sparse.SerializeToString(deterministic=True).hex()
                type = TensorType(dtype_name(sparse.values.data_type), tuple(sparse.dims))
                self.define(name, Term.of("ai.onnx::SparseInitializer", (), {"proto": content}, (type,)))

    def define(self, name: str, term: Term) -> None:
        self.values[name] = term
        if not isinstance(self.values, ChainMap):  # names in a branch may be those of another one, too
            self.names.setdefault(term, name)
            if name in self.proven:
                self.learnt.shapes.setdefault(term, self.proven[name])

    def read_node(self, index: int, node: onnx.NodeProto, serial: int | None = None) -> None:
        """`index` is the node's place, `serial` a number that it alone has."""
        default = node.domain in DEFAULT_DOMAINS
        outputs = list(node.output)
        while outputs and not outputs[-1]:
            outputs.pop()
        if not outputs:
            return
        if outputs[0] in self.constants:
            self.define(outputs[0], self.constants[outputs[0]])
            return
        inputs = [self.values[name] if name else None for name in node.input]
        while inputs and inputs[-1] is None:
            inputs.pop()
        known_opset = FIRST_OPSET <= self.opset <= onnx.defs.onnx_opset_version()
        modelled = known_opset and (_domain(node), node.op_type) not in self.functions
        unique = index if serial is None else serial
        if self.reduce and modelled and default and self.read_reduced(index, unique, node, inputs, outputs):
            self.reduced += 1
            return
        term = self.known(node, tuple(inputs), outputs) if modelled else None
        if term is None:
            term = self.opaque(unique, node, inputs, outputs)
        if self.reduce:
            found = self.settled(term)
            self.reduced += found is not term
            term = found
        if term not in inputs and term.op not in LEAVES and term not in self.position:
            self.position[term] = index
            self.nodes[term] = onnx.NodeProto()
            _copy_fields(node, self.nodes[term], _MEANING)
        if len(term.types) == 1:
            self.define(outputs[0], term)
        else:
            for k, name in enumerate(outputs):
                if name:
                    self.define(name, self.settled(term.out(k)) if self.reduce else term.out(k))

    def settled(self, term: Term) -> Term:
        """The constant that `term` is, where it is a small one that is no real number (those are for the writer)."""
        if len(term.types) > 1 and term.op != "Out":
            return term
        value = self.learnt.learn(term, self.opset)
        if value is None or term.op in CLOSED_FORM or term.op == "Const" or value.dtype.kind not in "iub":
            return term
        return constant(value, dtype_name(onnx.helper.np_dtype_to_tensor_dtype(value.dtype)), self.weights)

    def read_reduced(
        self, index: int, unique: int, node: onnx.NodeProto, inputs: list[Term | None], outputs: list[str]
    ) -> bool:
        """Whether the node is its input, or one of its branches, and has been read as that."""
        if node.op_type == "If":
            return self.read_branch(index, node, inputs, outputs)
        view = NodeView(node, self.opset, tuple(inputs), len(outputs), None, self.array)
        if inputs and (target := in_numbers(view, self.learnt)) is not None:
            inputs[1] = constant(target, "int64", self.weights)  # read on with that
        if not is_noop(view, self.learnt):
            return False
        assert inputs[0] is not None
        self.define(outputs[0], inputs[0])
        if len(outputs) > 1:  # the mask of a Dropout
            whole = self.opaque(unique, node, inputs, outputs)
            self.position.setdefault(whole, index)
            self.define(outputs[1], whole.out(1))
        return True

    def read_branch(self, index: int, node: onnx.NodeProto, inputs: list[Term | None], outputs: list[str]) -> bool:
        """An If whose condition is known: the nodes of its branch, in its place."""
        condition = self.array(inputs[0]) if len(inputs) == 1 and inputs[0] is not None else None
        wanted = None if condition is None or condition.size != 1 else bool(condition.reshape(-1)[0])
        name = "then_branch" if wanted else "else_branch"
        graph = next((a.g for a in node.attribute if a.name == name and a.HasField("g")), None)
        if wanted is None or graph is None or len(graph.output) < len(outputs) or graph.input:
            return False
        if not local_names(graph).isdisjoint({*self.values, *self.constants}):  # not valid ONNX
            return False
        nodes = sorted_nodes(graph, self.label, self.values)
        outer = self.values, self.constants
        self.values, self.constants = ChainMap({}, outer[0]), ChainMap({}, outer[1])
        self.read_constants(graph, nodes)
        self.read_weights(graph)
        for inner in nodes:
            self.read_node(index, inner, next(self.serial))
        found = [self.values[value.name] for value in graph.output[: len(outputs)]]
        self.values, self.constants = outer
        for name, term in zip(outputs, found, strict=True):
            if name:
                self.define(name, term)
        return True

    def known(self, node: onnx.NodeProto, inputs: tuple[Term | None, ...], outputs: list[str]) -> Term | None:
        """The term of an operator of the table, or None where the node has no canonical form."""
        first = self.types.get(outputs[0])
        view = NodeView(node, self.opset, inputs, len(outputs), first.shape if first else None, self.array)
        form = import_node(view)
        if form is None or (form.op in CLOSED_FORM and first is None):
            return None
        dtype = first.dtype if first else "float"
        uncertain: list[str] = []

        def need(relation: str, left: Size, right: Size) -> None:
            if relation == "==":
                uncertain.append(relation)

        try:
            term = make(form.op, form.inputs, form.attrs, dtype, need)
        except IllTyped:
            return None  # not for the table to judge: the runtime will
        value = self.array(term) if term.op in CLOSED_FORM else None
        if value is not None:  # one constant, in whichever way the file says it
            return constant(value.astype(numpy_dtype(dtype)), dtype, self.weights)
        outputs = [*outputs, *[""] * (len(term.types) - len(outputs))]  # those that the file leaves out
        ours = term.types if len(term.types) == len(outputs) and not uncertain else (None,) * len(outputs)
        operand = form.inputs[0] if form.attrs and changes_shape_only(form.op) else None  # an Identity stays
        if operand is not None and ours == operand.types and self.certain(operand):
            self.reduced += 1
            return operand
        types = tuple(_merged(own, self.types.get(name)) for own, name in zip(ours, outputs, strict=True))
        return term if types == term.types else Term.of(form.op, form.inputs, dict(form.attrs), types)

    def certain(self, term: Term) -> bool:
        """Whether its shape is known, and its sizes that are numbers are proven."""
        proven = self.learnt.shape(term)
        claimed = None if term.type is None else term.type.shape
        if proven is None or claimed is None or len(proven) != len(claimed):
            return False
        return all(p == c for p, c in zip(proven, claimed, strict=True) if isinstance(c, int))

    def array(self, term: Term) -> Array | None:
        if self.reduce and (value := self.learnt.numbers(term)) is not None:
            return value
        if term.op == "Const":
            return self.weights[str(term.attr("hash"))]
        if term.op in CLOSED_FORM and term.type is not None and term.type.concrete() is not None:
            return evaluate([term], {}, {})[0]
        return None

    def opaque(self, index: int, node: onnx.NodeProto, inputs: list[Term | None], outputs: list[str]) -> Term:
        attrs: dict[str, Attr] = dict(map(pack, node.attribute))
        bodies = list(subgraphs(node))
        if bodies:
            outer = tuple(dict.fromkeys(name for body in bodies for name in captured(body)))
            attrs["captures"], attrs["declared"] = outer, len(inputs)
            inputs = [*inputs, *(self.values[name] for name in outer)]
        function = (_domain(node), node.op_type) in self.functions
        if bodies or function or node.domain not in DEFAULT_DOMAINS or node.op_type in _RANDOM:
            attrs["node"] = index
        absent = tuple(k for k, name in enumerate(outputs) if not name)
        if absent:
            attrs["absent"] = absent
        if node.overload:
            attrs["overload"] = node.overload
        types: Types = tuple(self.types.get(name) for name in outputs)
        return Term.of(opaque_name(node), inputs, attrs, types)

    def skeleton(self, inputs: tuple[Term, ...]) -> onnx.ModelProto:
        """The file without nodes and weights; default values of inputs stay."""
        kept = onnx.ModelProto()
        _copy_fields(self.proto, kept, {"graph"})
        _copy_fields(self.proto.graph, kept.graph, {"node", "initializer", "sparse_initializer"})
        names = {str(term.attr("name")) for term in inputs}
        kept.graph.initializer.extend(t for t in self.proto.graph.initializer if t.name in names)
        kept.graph.sparse_initializer.extend(t for t in self.proto.graph.sparse_initializer if t.values.name in names)
        kept.graph.SetInParent()
        return kept


def _copy_fields(source: Message, target: Message, left_out: Set[str]) -> None:
    """Copy the fields that are set: numbers, text, and lists (the messages that this serves have no other)."""
    for field, value in source.ListFields():
        if field.name not in left_out:
            if isinstance(value, (str, bytes, int, float)):
                setattr(target, field.name, value)
            else:
                getattr(target, field.name).MergeFrom(value)


def _domain(named: onnx.NodeProto | onnx.FunctionProto) -> str:
    return "" if named.domain in DEFAULT_DOMAINS else named.domain


def opaque_name(node: onnx.NodeProto) -> str:
    """Name for the default domain, domain::Name for others; a name that the terms give a meaning is qualified too."""
    if node.domain not in DEFAULT_DOMAINS:
        return f"{node.domain}::{node.op_type}"
    taken = node.op_type in OPERATORS or node.op_type in CLOSED_FORM or node.op_type in ("Var", "Const", "Out")
    return f"ai.onnx::{node.op_type}" if taken else node.op_type


def _merged(ours: TensorType | None, theirs: TensorType | None) -> TensorType | None:
    """Our type with sizes that only ONNX's inference knows."""
    if ours is None or ours.shape is None or theirs is None or theirs.shape is None:
        return ours if ours is not None and ours.shape is not None else theirs or ours
    if len(ours.shape) != len(theirs.shape):
        return ours
    sizes = tuple(
        t if isinstance(t, int) and not isinstance(o, int) else o for o, t in zip(ours.shape, theirs.shape, strict=True)
    )
    return TensorType(ours.dtype, sizes)
