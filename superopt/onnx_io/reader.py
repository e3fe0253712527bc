"""Reading a model: ONNX protobuf to terms, one node to one term."""

from __future__ import annotations

import itertools
from collections import ChainMap, Counter
from collections.abc import Mapping, MutableMapping
from pathlib import Path

import onnx

from superopt.evaluate import constant, dtype_name, evaluate, numpy_dtype
from superopt.ir.dim import Size, Sizes
from superopt.ir.infer import IllTyped, make
from superopt.ir.operator import OPERATORS
from superopt.ir.term import CLOSED_FORM, Term, var
from superopt.ir.types import TensorType
from superopt.onnx_io.certain_sizes import CertainSizes
from superopt.onnx_io.computed_targets import ComputedTargets
from superopt.onnx_io.coordinates import Coordinates
from superopt.onnx_io.functions import domain_of
from superopt.onnx_io.inference import (
    check,
    forget_stated_shapes,
    infer_types,
    light_copy,
    name_free_sizes,
    proven_shapes,
    sizes_at,
)
from superopt.onnx_io.initial_states import without_zero_states
from superopt.onnx_io.inlining import inlined
from superopt.onnx_io.leaves import constants_of, sparse_constants_of
from superopt.onnx_io.load import load_proto, sorted_nodes
from superopt.onnx_io.model import Array, Model, ModelError
from superopt.onnx_io.moved_constants import MovedConstants
from superopt.onnx_io.no_ops import unchanged_input
from superopt.onnx_io.node_inference import node_types
from superopt.onnx_io.node_order import LEAVES
from superopt.onnx_io.nodes import NodeView, defined_outputs, import_node
from superopt.onnx_io.opaque import opaque_term
from superopt.onnx_io.proven_shapes import ShapeProofs
from superopt.onnx_io.reshape_targets import equal_sizes
from superopt.onnx_io.schemas import DEFAULT_DOMAINS, FIRST_OPSET, opset_of, type_error
from superopt.onnx_io.skeleton import node_notes, skeleton_of
from superopt.onnx_io.static_values import StaticValues
from superopt.onnx_io.subgraphs import local_names, subgraphs
from superopt.onnx_io.tensor_types import merged_type
from superopt.properties import changes_shape_only, is_matrix_product

__all__ = ["read_model"]


def read_model(
    source: str | Path | onnx.ModelProto,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    *,
    simplify: bool = False,
    reserved: frozenset[str] = frozenset(),
    stubs: Mapping[str, Term] | None = None,
    weights: dict[str, Array] | None = None,
    equal: Mapping[str, Size] | None = None,
    label: str = "model",
) -> Model:
    """Return a model as terms.

    `shapes` gives sizes to inputs. The terms keep their symbolic types, so a written model serves every size;
    `Model.sizes` holds the value of each symbol at those shapes. `simplify` replaces a no-op by its input, arithmetic
    of known sizes by its result, and an If with a known condition by its branch. `reserved` are names that new tensors
    must not have. `stubs` are the terms of weights that are empty in `source`, with their arrays in `weights`. `equal`
    has sizes in place of others, by the names of those in ONNX's inference. `label` names a model in memory in errors.

    Initializers that are also inputs are variables with a default value, except before IR version 4, where files had to
    list all weights as inputs. Raises ModelError.
    """
    if isinstance(source, onnx.ModelProto):
        proto = source
    else:
        proto, label = load_proto(Path(source)), str(source)
    kept = {} if weights is None else weights
    return _Reader(inlined(proto), label, simplify, reserved, stubs or {}, kept, equal or {}).read(shapes or {})


class _Reader:
    def __init__(
        self,
        proto: onnx.ModelProto,
        label: str,
        simplify: bool,
        reserved: frozenset[str],
        stubs: Mapping[str, Term],
        weights: dict[str, Array],
        equal: Mapping[str, Size],
    ) -> None:
        self.proto, self.label, self.simplify, self.reserved = proto, label, simplify, reserved
        self.stubs, self.weights, self.equal = stubs, weights, dict(equal)
        self.static, self.moved = StaticValues(self.weights), MovedConstants(self.weights)
        self.coordinates = Coordinates(self.static)
        self.simplified_nodes = 0
        self.constants: MutableMapping[str, Term] = {}
        self.values: MutableMapping[str, Term] = {}
        self.position: dict[Term, int] = {}
        self.names: dict[Term, str] = {}
        self.nodes: dict[Term, onnx.NodeProto] = {}
        self.types: dict[str, TensorType] = {}
        self.proven_shapes: dict[str, Sizes] = {}
        self.listed_weights: dict[str, Term] = {}
        self.branches: dict[str, list[tuple[onnx.NodeProto, Term]]] = {}
        self.branch: list[tuple[onnx.NodeProto, Term]] | None = None  # that is being read
        self.opset = 0
        # Functions of the file, which replace operators of the same name.
        self.functions = {(domain_of(function), function.name) for function in proto.functions}

    def read(self, shapes: Mapping[str, tuple[int, ...]]) -> Model:
        graph = self.proto.graph
        self.opset = opset_of(self.proto)
        if not self.proto.opset_import and graph.node:
            raise ModelError(
                f"{self.label}: not an ONNX model, or a truncated one (it names no operator set); export it again"
            )
        versions = sorted({one.version for one in self.proto.opset_import if one.domain in DEFAULT_DOMAINS})
        if len(versions) > 1:
            raise ModelError(f"{self.label}: it names several versions of ONNX's operator set, {versions}; keep one")
        nodes = sorted_nodes(graph, self.label)
        self.read_constants(graph, nodes)
        light = light_copy(self.proto, nodes)
        forget_stated_shapes(light)
        name_free_sizes(light)
        try:
            self.types = {name: type.with_sizes(self.equal) for name, type in infer_types(light).items()}
        except TimeoutError as error:
            raise ModelError(
                f"{self.label}: ONNX's shape inference has no end ({error}); export the model again"
            ) from None
        self.proven_shapes = proven_shapes(light) if self.simplify else {}
        inputs = self.read_leaves(graph)
        self.certain = CertainSizes(self.static.shapes.get(term, ()) for term in inputs)
        self.proofs = ShapeProofs(self.static, self.opset, self.certain.has)
        self.targets = ComputedTargets(self.static, self.certain, self.opset, self.weights)
        self.serial = itertools.count(len(nodes))  # of nodes in bodies
        for index, node in enumerate(nodes):
            self.read_node(index, node)
        return Model(
            outputs=tuple(self.values[value.name] for value in graph.output),
            inputs=inputs,
            weights=self.weights,
            skeleton=skeleton_of(self.proto, inputs),
            position=self.position,
            names=self.names,
            nodes=self.nodes,
            sizes=sizes_at(light, self.types, shapes) if shapes else {},
            listed_weights=self.listed_weights,
            checker_error=check(light),
            simplified_nodes=self.simplified_nodes,
            proven_shapes=self.static.shapes,
            computed_sizes=self.static.computed_sizes(),
            assumed_sizes=self.proofs.assumed,
            reserved=self.reserved,
            light=light,
            branches=self.branches,
        )

    def read_constants(self, graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
        """Read constants first, so that malformed ones are errors before shape inference runs."""
        self.constants.update(constants_of(graph, nodes, self.stubs, self.weights, self.label))

    def read_leaves(self, graph: onnx.GraphProto) -> tuple[Term, ...]:
        """Read inputs and weights; return the inputs."""
        lists_weights = self.proto.ir_version < 4
        inputs: list[Term] = []
        for value in graph.input:
            if not (lists_weights and value.name in self.constants):
                self.values[value.name] = var(value.name, self.types.get(value.name))
                inputs.append(self.values[value.name])
                if value.name in self.proven_shapes:
                    self.static.shapes[self.values[value.name]] = self.proven_shapes[value.name]
        twice = [name for name, count in Counter(value.name for value in graph.input).items() if count > 1]
        if twice:
            raise ModelError(f"{self.label}: two inputs have the same name, {twice[0]!r}; rename one of them")
        self.read_weights(graph)
        if lists_weights:
            self.listed_weights = {v.name: self.values[v.name] for v in graph.input if v.name in self.constants}
        return tuple(inputs)

    def read_weights(self, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            if tensor.name not in self.values:
                self.define(tensor.name, self.constants[tensor.name])
        for name, term in sparse_constants_of(graph, self.label):
            if name not in self.values:
                self.define(name, term)

    def define(self, name: str, term: Term) -> None:
        """Record `term` as the tensor called `name`."""
        self.values[name] = term
        if not isinstance(self.values, ChainMap):  # two inlined branches may use the same names
            self.names.setdefault(term, name)
            if name in self.proven_shapes:
                self.static.shapes.setdefault(term, self.proven_shapes[name])

    def read_node(self, index: int, node: onnx.NodeProto, serial: int | None = None) -> None:
        """Read the node at place `index`. `serial` is a unique number of the node (default: the index)."""
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
        modelled = known_opset and (domain_of(node), node.op_type) not in self.functions
        unique = index if serial is None else serial
        if self.simplify and modelled and default:
            inputs = self.leave_out_zero_states(node, inputs)
            node, inputs = self.with_numeric_target(node, inputs)
        if self.simplify and modelled and default and self.simplify_node(index, unique, node, inputs, outputs):
            self.simplified_nodes += 1
            return
        defined = defined_outputs(node, outputs) if modelled else None
        term = None if defined is None else self.import_term(node, tuple(inputs), defined)
        if defined is not None and term is not None:
            outputs = defined
        if term is None:
            term = self.opaque(unique, node, inputs, outputs)
        if self.simplify:
            if term not in inputs and term.op not in LEAVES:
                term = self.prove(node, term, inputs, outputs)
                term = self.targets.as_one(term)
                self.coordinates.note(term)
                if self.branch is not None:
                    self.branch.append((node, term))
            found = self.as_constant(term)
            self.simplified_nodes += found is not term
            term = found
        if term not in inputs and term.op not in LEAVES and term not in self.position:
            self.position[term] = index
            self.nodes[term] = node_notes(node)
        if len(term.types) == 1:
            self.define(outputs[0], term)
        else:
            for k, name in enumerate(outputs):
                if name:
                    self.define(name, self.as_constant(term.out(k)) if self.simplify else term.out(k))

    def leave_out_zero_states(self, node: onnx.NodeProto, inputs: list[Term | None]) -> list[Term | None]:
        """Return the inputs of a node without initial states that are zeros."""
        found = without_zero_states(node, inputs, self.static)
        left_out = set(inputs) - set(found)
        self.simplified_nodes += any(term is not None and not term.is_constant for term in left_out)
        return found

    def with_numeric_target(
        self, node: onnx.NodeProto, inputs: list[Term | None]
    ) -> tuple[onnx.NodeProto, list[Term | None]]:
        """Return a Reshape or Expand and its inputs with numbers as its target if they are equivalent, or as it is."""
        view = NodeView(node, self.opset, tuple(inputs), len(node.output), None, self.array)
        found = self.targets.with_numbers(view)
        if found is None:
            return node, inputs
        self.simplified_nodes += 1  # those that compute the target may be left out
        if len(equal := equal_sizes(view, self.static)) > 1:  # the numbers no longer ask for that
            self.proofs.assume(node.output[0], {equal})
        return found

    def prove(self, node: onnx.NodeProto, term: Term, inputs: list[Term | None], outputs: list[str]) -> Term:
        """Record the proven shapes of the outputs of `term`, and return the term with these sizes in its types."""
        named = not isinstance(self.values, ChainMap) and self.proofs.may_infer(node, inputs)
        shapes: list[Sizes | None] = []
        for name, ours in zip(outputs, self.proofs.outputs(node, term, inputs, len(outputs)), strict=False):
            theirs = self.proven_shapes.get(name) if named else None
            shapes.append(self.certain.better(ours, theirs))
        stated = itertools.zip_longest(term.types, shapes[: len(term.types)])
        types = tuple(self.certain.refined(type, shape) for type, shape in stated)
        if types != term.types:
            term = Term.of(term.op, term.inputs, dict(term.attrs), types)
        for k, shape in enumerate(shapes):
            if shape is not None:
                self.static.shapes.setdefault(term if len(term.types) == 1 else term.out(k), shape)
        return term

    def as_constant(self, term: Term) -> Term:
        """Return the constant value of `term` if it is known, else `term`. The writer folds real numbers later."""
        if (len(term.types) > 1 and term.op != "Out") or term.op in CLOSED_FORM or term.op == "Const":
            return term
        value = self.static.infer(term, self.opset)
        if value is None or value.dtype.kind not in "iub":
            value = self.moved.find(term)
        if value is None:
            return term
        return constant(value, dtype_name(onnx.helper.np_dtype_to_tensor_dtype(value.dtype)), self.weights)

    def simplify_node(
        self, index: int, unique: int, node: onnx.NodeProto, inputs: list[Term | None], outputs: list[str]
    ) -> bool:
        """Read a no-op as its input, or an If as its branch. Return False if the node is neither."""
        if node.op_type == "If":
            return self.inline_branch(index, node, inputs, outputs)
        view = NodeView(node, self.opset, tuple(inputs), len(outputs), None, self.array)
        same = unchanged_input(view, self.static) or self.coordinates.replaced(view)
        if same is None:
            return False
        if same not in inputs:
            self.position.setdefault(same, index)
            if same.type is not None and same.type.shape is not None and all(map(self.certain.has, same.type.shape)):
                self.static.shapes.setdefault(same, same.type.shape)
        self.define(outputs[0], same)
        if len(outputs) > 1:  # the mask of a Dropout
            whole = self.opaque(unique, node, inputs, outputs)
            self.position.setdefault(whole, index)
            self.define(outputs[1], whole.out(1))
        return True

    def inline_branch(self, index: int, node: onnx.NodeProto, inputs: list[Term | None], outputs: list[str]) -> bool:
        """Read an If with a known condition as the nodes of its branch. Return False if the condition is unknown."""
        condition = self.array(inputs[0]) if len(inputs) == 1 and inputs[0] is not None else None
        wanted = None if condition is None or condition.size != 1 else bool(condition.reshape(-1)[0])
        name = "then_branch" if wanted else "else_branch"
        graph = next((a.g for a in node.attribute if a.name == name and a.HasField("g")), None)
        if wanted is None or graph is None or len(graph.output) < len(outputs) or graph.input:
            return False
        if not local_names(graph).isdisjoint({*self.values, *self.constants}):  # not valid ONNX
            return False
        nodes = sorted_nodes(graph, self.label, self.values)
        outer, branch = (self.values, self.constants), self.branch
        if branch is None:
            self.branch = self.branches.setdefault(outputs[0], [])
        self.values, self.constants = ChainMap({}, outer[0]), ChainMap({}, outer[1])
        self.read_constants(graph, nodes)
        self.read_weights(graph)
        for inner in nodes:
            self.read_node(index, inner, next(self.serial))
        found = [self.values[value.name] for value in graph.output[: len(outputs)]]
        (self.values, self.constants), self.branch = outer, branch
        for name, term in zip(outputs, found, strict=True):
            if name:
                self.define(name, term)
        return True

    def import_term(self, node: onnx.NodeProto, inputs: tuple[Term | None, ...], outputs: list[str]) -> Term | None:
        """Return the term of a node that has a canonical form, or None."""
        first = self.types.get(outputs[0])
        view = NodeView(node, self.opset, inputs, len(outputs), first.shape if first else None, self.array)
        form = import_node(view)
        computed = self.targets.with_polynomials(view) if form is None and self.simplify else None
        form = form or computed
        if form is None or (form.op in CLOSED_FORM and first is None):
            return None
        typed = dict(zip(node.input, (None if i is None else i.type for i in inputs), strict=False))
        if type_error(node, self.opset, typed | {name: self.types.get(name) for name in outputs}):
            return None  # stays opaque; the runtime will report the error
        dtype = first.dtype if first else "float"
        uncertain: list[str] = []

        def need(relation: str, left: Size, right: Size) -> None:
            if relation == "==":
                uncertain.append(relation)

        try:
            term = make(form.op, form.inputs, form.attrs, dtype, need)
        except IllTyped:
            return None  # stays opaque; the runtime will report the error
        if uncertain and computed is not None:
            return None  # it fails at other sizes than those at which it fits
        value = self.array(term) if term.op in CLOSED_FORM else None
        if value is not None:  # equal constants are one term, however the file states them
            return constant(value.astype(numpy_dtype(dtype)), dtype, self.weights)
        outputs = [*outputs, *[""] * (len(term.types) - len(outputs))]  # the file may leave out the last ones
        ours = term.types if len(term.types) == len(outputs) and not uncertain else (None,) * len(outputs)
        operand = form.inputs[0] if form.attrs and changes_shape_only(form.op) else None  # an Identity stays
        if operand is not None and ours == operand.types and self.has_proven_shape(operand):
            self.simplified_nodes += 1
            return operand
        types = tuple(merged_type(own, self.types.get(name)) for own, name in zip(ours, outputs, strict=True))
        broadcasts = OPERATORS[form.op].elementwise or is_matrix_product(form.op)  # a size that is not stated may be 1
        if uncertain and not broadcasts and len(types) == len(term.types):  # sizes of several names that must be equal
            types = tuple(own if type is None else type for own, type in zip(term.types, types, strict=True))
        return term if types == term.types else Term.of(form.op, form.inputs, dict(form.attrs), types)

    def has_proven_shape(self, term: Term) -> bool:
        """Return True if the term's shape is known, and its sizes that are numbers follow from the inputs' shapes."""
        proven = self.static.shape(term)
        claimed = None if term.type is None else term.type.shape
        if proven is None or claimed is None or len(proven) != len(claimed):
            return False
        return all(p == c for p, c in zip(proven, claimed, strict=True) if isinstance(c, int))

    def array(self, term: Term) -> Array | None:
        """Return the value of a constant, or None."""
        if self.simplify and (value := self.static.numbers(term)) is not None:
            return value
        if term.op == "Const":
            return self.weights[str(term.attr("hash"))]
        if term.op in CLOSED_FORM and term.type is not None and term.type.concrete() is not None:
            return evaluate([term], {}, {})[0]
        return None

    def opaque(self, number: int, node: onnx.NodeProto, inputs: list[Term | None], outputs: list[str]) -> Term:
        types = tuple(self.types.get(name) for name in outputs)
        is_known = all(type is not None and type.shape is not None for type in types)
        if not is_known and node.domain in DEFAULT_DOMAINS and next(subgraphs(node), None) is None:
            # Our types of the inputs may say more than ONNX's.
            own = node_types(node, self.opset, (None if term is None else term.type for term in inputs))
            types = tuple(merged_type(type, ours) for type, ours in zip(types, (*own, *types), strict=False))
        is_function = (domain_of(node), node.op_type) in self.functions
        return opaque_term(node, inputs, outputs, types, number, is_function, self.values.__getitem__)
