"""Explains one operator of a model: the rules that match or nearly match there, and what blocks each."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from superopt.ir.dim import evaluate, symbols_of
from superopt.ir.infer import OPERATORS
from superopt.ir.pattern import sizes_in
from superopt.ir.rule import Condition, Signature
from superopt.ir.term import Attr, Term, node_of
from superopt.onnx_io import Model, ModelError, has_kernel, is_writable
from superopt.onnx_io.subgraphs import all_nodes
from superopt.optimizer.equations import show_sides
from superopt.optimizer.input_sizes import InputSizes
from superopt.optimizer.options import Options
from superopt.optimizer.proof_cache import ProofCache
from superopt.optimizer.rule_reading import with_formulas
from superopt.optimizer.source import Source
from superopt.rulebook.loading import chosen_rules
from superopt.runtime import InputError, Unfeedable, input_specs
from superopt.search import AnalyticCost, Device, device_of
from superopt.search.cost.graph_cost import SECONDS_PER_PS, GraphCost
from superopt.search.cost.incremental import IncrementalCost
from superopt.search.cost.work import UNKNOWN_SIZE
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.matcher import Matcher
from superopt.search.match.near_misses import near_misses
from superopt.search.match.occurrence import Match
from superopt.search.match.rule_index import RuleIndex
from superopt.store import ResultStore
from verify.propose.signatures import literal_signatures
from verify.stability.classes import allowed
from verify.verdict import Proved

__all__ = ["BLOCKS", "RuleThere", "Why", "costliest_nodes", "explain_node", "with_sizes"]

# What may be in the way of a rule, in the order in which it is reported.
BLOCKS = ("nothing", "cost", "guard", "numerics", "proof", "attribute", "type", "operator")

_SHOWN_NODES = 5  # in a message about a name that resembles none


@dataclass(frozen=True)
class RuleThere:
    """A rule, from left to right, at an operator. `blocked_by` is one of BLOCKS, and `reason` says more in one line.

    `saved_us` is the predicted time that one application saves, in microseconds (negative: it costs time); None if the
    rule does not match.
    """

    id: str
    left: str
    right: str
    blocked_by: str
    reason: str
    saved_us: float | None = None


@dataclass(frozen=True)
class Why:
    """The rules at one operator of a model, those that match first. `note` says why there is no rule at all."""

    node: str
    operator: str
    type: str
    device: str
    rules: list[RuleThere] = field(default_factory=list)
    note: str = ""


def explain_node(model: str | Path | onnx.ModelProto, node: str, options: Options) -> Why:
    """Return what the rules say about the operator `node`: the name of a node, or of one of its outputs.

    Of `options` those count that choose rules, numerics and device, and the shapes: costs are those at the lower ends
    of their ranges. Nothing is run or measured. Raises ModelError (also for a name that is not in the model, with the
    nearest ones), RulesError, DeviceError, InputError, OSError.
    """
    source = Source(model)
    own = None if options.rules is None else Path(options.rules)
    rules, certificates = chosen_rules(own, map(Path, options.add_rules), options.skip_rules)
    graph = with_formulas(_at_given_shapes(source, options), rules)
    device = _device(options)
    proto = _find_node(source.proto, node)
    term = _find_term(graph, proto, node)
    if term is None:
        note = "it is no operator any more when the model is read: it is a constant, a no-op, or equal to another node"
        return Why(node, proto.op_type, "", device.name, note=note)
    here = node_of(term)
    result = Why(node, here.op, ", ".join(str(t or "unknown type") for t in here.types), device.name)
    if here.op not in OPERATORS:
        return Why(*_head(result), note=f"superopt has no definition of {here.op} in this form, so no rule is about it")

    def available(operator: Term) -> bool:
        return is_writable(operator, graph.opset) and has_kernel(operator, device.provider)

    with ResultStore() as store:
        there = _RulesThere(graph, device, ProofCache(store, certificates, options.numerics), options)
        index = there.prices.index
        matches = Matcher(RuleIndex(rules, available)).matches(index, frozenset({term}))
        found = [there.of_match(one) for one in matches if here in map(node_of, one.covered)]
        misses = near_misses(rules, index, term, there.name, available)
    matched = {one.id for one in found}
    found += [
        RuleThere(miss.rule_id, *show_sides(miss.rule), miss.kind, miss.reason)
        for miss in misses
        if miss.rule_id not in matched
    ]
    found.sort(key=lambda one: (BLOCKS.index(one.blocked_by), -(one.saved_us or 0.0)))
    note = "" if found else "no rule matches or nearly matches here"
    # Orders of commutative operands are one rule to a reader.
    distinct = {(one.id, one.blocked_by, one.reason): one for one in reversed(found)}
    return Why(*_head(result), list(reversed(distinct.values())), note)


def costliest_nodes(model: str | Path | onnx.ModelProto, options: Options, most: int = 8) -> list[str]:
    """Return names of nodes, or of their outputs, each with its operator: those that cost most by the analytic model.

    Raises ModelError, DeviceError, InputError, OSError.
    """
    source = Source(model)
    graph, known = _at_given_shapes(source, options), set(_names(source.proto.graph.node))
    costs = AnalyticCost(_device(options), options.threads, graph.sizes)
    index = GraphIndex(graph.outputs)
    operators = sorted((node_of(term) for term in index.computed), key=lambda one: (-costs.cost(one), one.digest))
    named = {name: term for term in operators if (name := _name(graph, term)) in known}
    return [f"{name} ({term.op})" for name, term in named.items()][:most]


def _name(graph: Model, term: Term) -> str:
    """Return the name of a term's node, else of its tensor; empty if neither has one."""
    note = graph.nodes.get(node_of(term))
    return (note.name if note is not None else "") or graph.names.get(term) or graph.names.get(node_of(term)) or ""


def _at_given_shapes(source: Source, options: Options) -> Model:
    """Return the model with the sizes that the given shapes leave to its symbols. Raises InputError."""
    if not options.shapes:
        return source.terms
    try:
        sizes = InputSizes(input_specs(source.proto), options.shapes)
    except Unfeedable as error:  # another input has no known rank
        raise InputError(str(error)) from error
    return source.terms.at_shapes(sizes.shapes(dict.fromkeys(sizes.open, UNKNOWN_SIZE) | sizes.lower_ends))


def _device(options: Options) -> Device:
    return options.load_device() or device_of("cuda" if options.ep == "cuda" else "cpu")


def _head(why: Why) -> tuple[str, str, str, str]:
    return why.node, why.operator, why.type, why.device


def _find_node(proto: onnx.ModelProto, name: str) -> onnx.NodeProto:
    """Return the node called `name`, or that has an output of this name. Raises ModelError with the nearest names."""
    nodes: list[onnx.NodeProto] = list(proto.graph.node)
    for node in nodes:
        if name and node.name == name:
            return node
    for node in nodes:
        if name and name in node.output:
            return node
    if name and any(node.name == name or name in node.output for node in all_nodes(proto.graph)):
        raise ModelError(f"{name!r} is inside the body of a control-flow operator; only nodes outside can be asked for")
    near = difflib.get_close_matches(name, _names(nodes), n=3, cutoff=0.5)
    first = [f"{(node.name or node.output[0])!r} ({node.op_type})" for node in nodes[:_SHOWN_NODES]]
    hint = f"; the nearest are {', '.join(map(repr, near))}" if near else f"; the first are {', '.join(first)}"
    raise ModelError(f"no node and no output of a node is called {name!r}{hint}")


def _names(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """Return the names of nodes and of their outputs."""
    return [text for node in nodes for text in (node.name, *node.output) if text]


def _find_term(graph: Model, node: onnx.NodeProto, name: str) -> Term | None:
    """Return the run-time term of a node: of its output called `name`, else of the first one that there still is."""
    there = GraphIndex(graph.outputs).computed
    named = {graph.names[term]: term for term in there if term in graph.names}
    # A node may be called as an output of another node is.
    for output in sorted(node.output, key=lambda output: output != name):
        if output in named:
            return named[output]
    notes = {graph.nodes[term].name: term for term in there if term in graph.nodes}
    return notes.get(node.name) if node.name else None


class _RulesThere:
    """Tells what blocks the matches of rules in one graph."""

    def __init__(self, graph: Model, device: Device, proofs: ProofCache, options: Options) -> None:
        self._graph, self._proofs, self._level = graph, proofs, options.numerics
        costs = GraphCost(AnalyticCost(device, options.threads, graph.sizes))
        self._device = device
        self.prices = IncrementalCost(costs, GraphIndex(graph.outputs))
        self._before_ps = costs.price(graph.outputs).time_ps

    def name(self, term: Term) -> str:
        """Return the operator and the name of a term's node, or of its tensor."""
        if term.op == "Var":
            return repr(term.attr("name"))
        operator, found = node_of(term).op, _name(self._graph, term)
        return f"{operator} {found!r}" if found else operator

    def of_match(self, found: Match) -> RuleThere:
        """Return what blocks a complete match, if anything does."""
        saved_ps = self._before_ps - self.prices.price(found.roots, found.results).time_ps
        blocked_by, reason = self._proof_problem(found) or self._cost_problem(found, saved_ps)
        sides = show_sides(found.compiled.rule)
        return RuleThere(found.compiled.rule_id, *sides, blocked_by, reason, saved_ps * SECONDS_PER_PS * 1e6)

    def _proof_problem(self, found: Match) -> tuple[str, str] | None:
        rule, bindings = found.compiled.listed, found.bindings
        if self._proofs.check(rule, bindings) is not None:
            return None
        env = bindings.shape_env()
        signatures = dict.fromkeys((*rule.signatures, *literal_signatures(rule, bindings)))
        problems = [self._problem_at(found, one, env) for one in signatures if one.covers(bindings)]
        if not problems:
            return "proof", "the rule is not proven for these ranks, element types and attributes"
        return min(problems, key=lambda one: BLOCKS.index(one[0]))

    def _problem_at(self, found: Match, signature: Signature, env: Mapping[str, Attr]) -> tuple[str, str]:
        rule = found.compiled.listed
        verdict = self._proofs.verdict(rule, signature)
        if not isinstance(verdict, Proved):
            return "proof", f"not proven at these ranks and attributes: {verdict.reason}"
        failing = [condition for condition in verdict.conditions if not condition.holds(env)]
        if failing:
            return "guard", "; ".join(with_sizes(condition, env) for condition in failing)
        stability = self._proofs.stability(rule, signature)
        if not allowed(self._level, verdict.numerics, stability):
            kinds = " and ".join(dict.fromkeys((verdict.numerics, stability.kind)))
            return "numerics", f"its class is {kinds}, looser than --numerics {self._level} allows"
        if self._proofs.loses_guard(rule, found.bindings):
            return "numerics", "its sides differ at NaN or infinity, which only --numerics real-only allows"
        return "proof", "it is proven for one real element type only"

    def _cost_problem(self, found: Match, saved_ps: int) -> tuple[str, str]:
        share = abs(saved_ps) / max(1, self._before_ps)
        us = abs(saved_ps) * SECONDS_PER_PS * 1e6
        amount = f"{f'{us:.3g}' if us >= 0.001 else 'less than 0.001'} us, {share:.2%} of the model,"
        if saved_ps > 0:
            return "nothing", f"saves {amount} by the cost model"
        cost = f"costs {amount} by the cost model" if saved_ps < 0 else "saves nothing by the cost model"
        return "cost", "; ".join((cost, *self._other_users(found)))

    def _other_users(self, found: Match) -> Iterable[str]:
        """Yield a text for each inner value of the match that is also read elsewhere, so that its operator stays."""
        index = self.prices.index
        for term in sorted(found.covered.difference(found.roots), key=index.position.__getitem__):
            if term.op == "Out" or node_of(term) is not term:
                continue
            users = [user for user in index.users.get(term, ()) if user not in found.covered]
            if users:
                yield f"{self.name(term)} stays: it is also read by {', '.join(map(self.name, users[:3]))}"
            elif term in index.outputs:
                yield f"{self.name(term)} stays: it is an output of the model"


def with_sizes(condition: Condition, env: Mapping[str, Attr]) -> str:
    """Return the condition, and the values of its sides at the sizes of a match."""
    sizes = sizes_in(env, symbols_of(condition.left) | symbols_of(condition.right))
    left, right = (evaluate(side, sizes) for side in (condition.left, condition.right))
    return f"it needs {condition}, and here that is {left} {condition.relation} {right}"
