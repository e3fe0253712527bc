"""Writing a model: terms to an ONNX protobuf, one term to one node."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import SparseTensorProto, helper

from superopt.evaluate import constant, evaluate, folded, numpy_dtype
from superopt.ir.infer import OPERATORS, replace
from superopt.ir.term import CLOSED_FORM, Term, node_of, output_index, topological
from superopt.ir.types import TensorType
from superopt.onnx_io.attributes import unpack
from superopt.onnx_io.build import value_info
from superopt.onnx_io.constant_nodes import constant_node
from superopt.onnx_io.inference import SMALL, check, light_copy
from superopt.onnx_io.model import Array, Model, ModelError, Unwritable
from superopt.onnx_io.node_order import LEAVES, in_order
from superopt.onnx_io.nodes import export_filled, export_term
from superopt.onnx_io.schemas import DEFAULT_DOMAINS, FIRST_OPSET, OpSchema, is_extension, opset_of, schema_of
from superopt.onnx_io.size_arithmetic import SizeArithmetic
from superopt.onnx_io.subgraphs import all_nodes, graphs_in, local_names, rename_captured, subgraphs
from superopt.onnx_io.tensors import fill_proto

__all__ = ["write_model"]

_SPARSE = "ai.onnx::SparseInitializer"
_EXTENSIONS = "com.microsoft"  # a domain whose operators the checker does not look up


def write_model(
    model: Model,
    origin: Mapping[Term, str] | None = None,
    exact: bool = False,
    fold: bool = True,
    stubs: dict[str, Term] | None = None,
    known: MutableMapping[Term, tuple[Term, Array]] | None = None,
) -> onnx.ModelProto:
    """Return the model as a protobuf at its original opset, checked by onnx.checker.

    `origin` names the rule that made a term; the name of the term's node contains it. `fold` replaces terms over
    weights by their values; with `exact`, only if that changes no bit of a result (`known` is that of `folded`). If
    `stubs` is given, big weights are left empty and their terms are added to `stubs` by name, for `read_model`. Raises
    ModelError if the opset cannot express a term, or if a size in it is neither a number nor computed from the shapes
    of tensors.
    """
    weights = dict(model.weights)
    nodes = dict(model.nodes)
    nodes.update((term, onnx.NodeProto(name=f"{term.op}_{rule}")) for term, rule in (origin or {}).items())
    model = dataclasses.replace(model, weights=weights, nodes=nodes)
    changes = folded(model.outputs, weights, exact, known) if fold else {}
    if changes:
        model = model.with_outputs(replace(model.outputs, changes), replaced=changes)
    written = _Writer(model, stubs if model.skeleton.ir_version >= 4 else None).write()
    if model.checker_error is None:
        error = check(_to_be_checked(written))
        if error is not None:
            raise ModelError(
                f"the written model is not valid, which is an error of superopt; please report it: {error}"
            )
    return written


def _to_be_checked(written: onnx.ModelProto) -> onnx.ModelProto:
    """Return a light copy for the checker.

    Operators that a runtime adds to the standard domain are moved to another domain, because the checker rejects them.
    """
    light, opset = light_copy(written, written.graph.node), opset_of(written)
    for node in all_nodes(light.graph):
        if not node.domain and node.op_type in OPERATORS and is_extension(node.op_type, opset):
            node.domain = _EXTENSIONS
    light.opset_import.extend(_missing_imports(light))
    return light


def _missing_imports(model: onnx.ModelProto) -> list[onnx.OperatorSetIdProto]:
    """Return imports, at version 1, of the registry's domains that are used but not imported."""
    imported, used = {opset.domain for opset in model.opset_import}, {node.domain for node in all_nodes(model.graph)}
    known = dict.fromkeys(operator.domain for operator in OPERATORS.values() if operator.domain)
    return [helper.make_opsetid(domain, 1) for domain in known if domain in used - imported]


class _Writer:
    def __init__(self, model: Model, stubs: dict[str, Term] | None) -> None:
        self.model, self.stubs = model, stubs
        self.opset = model.opset
        self.order = in_order(model.outputs, model.position)
        graph = model.skeleton.graph
        self.inputs = {value.name for value in graph.input}
        # Names in use, and names that a new tensor must not have.
        self.used = self.inputs | set(model.output_names)
        self.avoid = self.used | set(model.names.values()) | model.reserved
        self.node_names: set[str] = set()
        self.counts: dict[str, int] = {}
        self.node_counts: dict[str, int] = {}
        self.named: dict[tuple[Term, int], str] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.front: list[onnx.NodeProto] = []  # Constant nodes, for IR versions whose initializers must be inputs
        self.proto = onnx.ModelProto()
        self.proto.CopyFrom(model.skeleton)
        self.weights = self.proto.graph.initializer
        self.defaults = len(self.weights)  # of inputs
        self.sparse: list[SparseTensorProto] = []
        self.imports: list[onnx.OperatorSetIdProto] = []
        self.stated: dict[str, TensorType] = {}  # types of tensors that ONNX's shape inference cannot know
        self.bodies: dict[Term, list[onnx.AttributeProto]] = {}
        self.read_outputs = {term for term in topological(model.outputs) if term.op == "Out"}
        self.sizes = SizeArithmetic(self.opset, self.write_size_node, self.parameter)

    def write(self) -> onnx.ModelProto:
        for term in self.order:
            if term.op not in OPERATORS:
                self.bodies[term] = unpack(term.attrs)
                for graph in graphs_in(self.bodies[term]):
                    self.avoid |= local_names(graph)
        for term in self.model.inputs:
            self.named[term, 0] = str(term.attr("name"))
            self.sizes.learn(self.named[term, 0], term.type)
        aliases = self.name_outputs()
        for term in self.order:
            self.write_node(term)
        if aliases and not self.opset and all(node.domain for node in self.nodes):
            self.imports.append(helper.make_opsetid("", FIRST_OPSET))  # only the Identity nodes need it
        for term, name in aliases:
            self.nodes.append(helper.make_node("Identity", [self.name(term)], [name], name=self.node_name("Identity")))
        return self.assemble()

    def name_outputs(self) -> list[tuple[Term, str]]:
        """Give terms the names of the graph's outputs; return the outputs that repeat another value."""
        aliases: list[tuple[Term, str]] = []
        for term, name in zip(self.model.outputs, self.model.output_names, strict=True):
            slot = node_of(term), output_index(term)
            if slot in self.named:
                if self.named[slot] != name:
                    aliases.append((term, name))
            elif name in self.inputs and not self.is_listed_weight(term, name):
                raise ModelError(f"output {name!r} is an input of the graph, and may not be another value; rename it")
            elif slot[0].op in LEAVES:
                self.define_leaf(slot[0], name)
            else:
                self.named[slot] = name
        return aliases

    def is_listed_weight(self, term: Term, name: str) -> bool:
        return self.model.listed_weights.get(name) is term

    def fresh(self, stem: str) -> str:
        return _distinct(stem, self.avoid, self.counts)

    def node_name(self, wanted: str) -> str:
        return _distinct(wanted, self.node_names, self.node_counts)

    def name(self, term: Term | None) -> str:
        """Return the tensor's name. A leaf is written when it is named for the first time."""
        if term is None:
            return ""
        slot = node_of(term), output_index(term)
        if slot not in self.named:
            own = self.model.names.get(term)
            listed = own is not None and self.is_listed_weight(term, own)
            if own is None or (own in self.used and not listed):
                stem = f"{term.op.lower()}_{term.digest[:8]}" if slot[0].op in LEAVES else slot[0].op.split("::")[-1]
                own = self.fresh(stem)
            self.used.add(own)
            if slot[0].op in LEAVES:
                self.define_leaf(slot[0], own)
            else:
                self.named[slot] = own
        return self.named[slot]

    def define_leaf(self, term: Term, name: str) -> None:
        self.named[term, 0] = name
        if term.op == "Var":
            raise ModelError(f"the graph has no input {term.attr('name')!r}")
        if term.op == _SPARSE:
            sparse = SparseTensorProto.FromString(bytes.fromhex(str(term.attr("proto"))))
            sparse.values.name = name
            self.sparse.append(sparse)
            return
        if self.stubs is not None and term.op == "Const" and self.array(term).size > SMALL and term.type is not None:
            self.stubs[name] = term
            data_type = onnx.TensorProto.DataType.Value(term.type.dtype.upper())
            self.weights.add(name=name, data_type=data_type, dims=self.array(term).shape)
            return
        if term.op in CLOSED_FORM and (term.type is None or term.type.concrete() is None):
            for node in export_filled(term, self.opset, name, self.parameter, self.sizes):
                node.name = self.node_name(f"{node.op_type}_{name}")
                self.nodes.append(node)
            return
        if self.model.skeleton.ir_version >= 4 or name in self.inputs:
            self.fill(self.weights.add(), term, name)
        else:
            tensor = onnx.TensorProto()
            self.fill(tensor, term, name)
            self.front.append(constant_node(tensor, name, self.node_name(name)))

    def fill(self, tensor: onnx.TensorProto, term: Term, name: str) -> None:
        """Make the empty `tensor` the constant `term`, called `name`."""
        fill_proto(tensor, self.array(term), term.type.dtype if term.type is not None else "float", name)

    def array(self, term: Term) -> Array:
        if term.op == "Const":
            return self.model.weights[str(term.attr("hash"))]
        assert term.type is not None
        return evaluate([term], {}, {})[0].astype(numpy_dtype(term.type.dtype))

    def parameter(self, array: Array, dtype: str) -> str:
        return self.name(constant(array, dtype, self.model.weights))

    def write_node(self, term: Term) -> None:
        known = term.op in OPERATORS
        declared = len(term.inputs) if known else _integer(term, "declared", len(term.inputs))
        absent = self.unused(term) if known else _attr(term, "absent", ())
        assert isinstance(absent, tuple)
        inputs = [self.name(i) for i in term.inputs[:declared]]
        if len(term.types) == 1:
            outputs = [self.name(term)]
        else:
            outputs = ["" if k in absent else self.name(term.out(k)) for k in range(len(term.types))]
            while len(outputs) > 1 and known and not outputs[-1]:
                outputs.pop()
        if known:
            try:
                made = export_term(term, self.opset, inputs, outputs, self.parameter, self.sizes)
            except ModelError as error:
                raise Unwritable(str(error), term) from None
            if (lost := _rounded_attribute(term, made)) is not None:
                raise Unwritable(f"{term.op} computes in double precision, and a file rounds {lost!r} to single", term)
        else:
            domain, _, op = term.op.rpartition("::")
            domain = "" if domain == "ai.onnx" else domain
            schema = None if domain else schema_of(op, self.opset)
            if schema is not None:  # the reader drops empty names at the end, and Loop needs two names
                inputs += [""] * (schema.min_input - len(inputs))
            node = onnx.NodeProto(op_type=op, input=inputs, output=outputs)
            if domain:
                node.domain = domain
            if overload := _attr(term, "overload", None):
                node.overload = str(overload)
            node.attribute.extend(self.bodies[term])
            self.rename_captures(term, node, declared)
            made = [node]
        note = self.model.nodes.get(term)
        for node in made:
            if note is not None:
                node.MergeFrom(note)
                if note.name:
                    node.name = self.node_name(note.name)
            else:
                node.name = self.node_name(f"{node.op_type}_{outputs[0]}")
            self.sizes.reuse(node)
        self.nodes.extend(made)
        for name, type in zip(outputs, term.types, strict=False):
            if name:
                self.sizes.learn(name, type)
                if type is not None and type.shape is not None and any(name in _foreign_outputs(one) for one in made):
                    self.stated[name] = type

    def unused(self, term: Term) -> tuple[int, ...]:
        """Return the indices of the optional outputs of a known operator that nothing reads."""
        schema, optional = schema_of(term.op, self.opset), list(range(1, len(term.types)))
        if not OPERATORS[term.op].domain:
            kinds = [] if schema is None else [formal.option for formal in schema.outputs[: len(term.types)]]
            optional = [k for k, kind in enumerate(kinds) if kind == OpSchema.FormalParameterOption.Optional]
        return tuple(k for k in optional if term.out(k) not in self.read_outputs)

    def write_size_node(self, op: str, inputs: Sequence[str], attributes: dict[str, Any]) -> str:
        """Append a node that computes sizes; return the name of its output."""
        output = self.fresh("sizes")
        self.nodes.append(helper.make_node(op, inputs, [output], name=self.node_name(f"{op}_{output}"), **attributes))
        return output

    def rename_captures(self, term: Term, node: onnx.NodeProto, declared: int) -> None:
        """Rename the outer tensors that the bodies of `node` read, to the names that they have now."""
        names = _attr(term, "captures", ())
        if not names:
            return
        assert isinstance(names, tuple)
        local: set[str] = set()
        for graph in subgraphs(node):
            local |= local_names(graph)
        new = {str(old): self.name(outer) for old, outer in zip(names, term.inputs[declared:], strict=True)}
        for old, name in new.items():
            if name in local and name != old:  # ONNX does not allow a body to use a name of the graph around it
                raise ModelError(
                    f"tensor name {name!r} is used both inside and outside the body of {term.op}; rename one"
                )
        for graph in subgraphs(node):
            rename_captured(graph, new)

    def assemble(self) -> onnx.ModelProto:
        model, graph = self.proto, self.proto.graph
        self.relist(graph)
        graph.node.extend(self.front)
        graph.node.extend(self.nodes)
        graph.sparse_initializer.extend(self.sparse)
        model.opset_import.extend(self.imports)
        model.opset_import.extend(_missing_imports(model))
        there = set(self.named.values())
        values = [value for value in graph.value_info if value.name in there]
        listed = {value.name for value in (*values, *graph.output)}
        values += [value_info(name, type) for name, type in self.stated.items() if name not in listed]
        del graph.value_info[:]
        graph.value_info.extend(values)
        notes = [
            note
            for note in graph.quantization_annotation
            if {note.tensor_name, *(entry.value for entry in note.quant_parameter_tensor_names)} <= there
        ]
        del graph.quantization_annotation[:]
        graph.quantization_annotation.extend(notes)
        return model

    def relist(self, graph: onnx.GraphProto) -> None:
        """List used weights as inputs as well, under all of their names, as IR versions before 4 require."""
        there = {tensor.name for tensor in self.weights[self.defaults :]}
        for name, term in self.model.listed_weights.items():
            if name not in there and (term, 0) in self.named:
                self.fill(self.weights.add(), term, name)
                there.add(name)
        gone = self.model.listed_weights.keys() - there
        inputs = [value for value in graph.input if value.name not in gone]
        del graph.input[:]
        graph.input.extend(inputs)


def _distinct(stem: str, taken: set[str], counts: dict[str, int]) -> str:
    """Return the first of `stem`, `stem_1`, ... that is not `taken`; `counts` holds the last number of each stem."""
    name = stem
    while name in taken:
        counts[stem] = counts.get(stem, 0) + 1
        name = f"{stem}_{counts[stem]}"
    taken.add(name)
    return name


def _foreign_outputs(node: onnx.NodeProto) -> Sequence[str]:
    """Return the outputs of a node of another domain than ONNX's."""
    return () if node.domain in DEFAULT_DOMAINS else node.output


def _attr(term: Term, name: str, default: object) -> object:
    return dict(term.attrs).get(name, default)


def _rounded_attribute(term: Term, made: Sequence[onnx.NodeProto]) -> float | None:
    """Return an attribute in `made` that has fewer digits than the double numbers of `term` need; None if none has."""
    if not any(type is not None and type.dtype == "double" for type in term.types):
        return None
    stored = {a.f for node in made for a in node.attribute if a.type == onnx.AttributeProto.FLOAT}
    reals = [value for _, value in term.attrs if isinstance(value, float)]
    return next((value for value in reals if value not in stored and float(np.float32(value)) in stored), None)


def _integer(term: Term, name: str, default: int) -> int:
    value = _attr(term, name, default)
    assert isinstance(value, int)
    return value
