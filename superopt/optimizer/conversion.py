"""Conversion of a model to another opset before a run, compared with the original."""

from __future__ import annotations

import onnx

from superopt.onnx_io import Model, ModelError, write_model
from superopt.onnx_io.opset import at_opset
from superopt.onnx_io.save import INLINE_LIMIT, inline_bytes
from superopt.onnx_io.schemas import DEFAULT_DOMAINS
from superopt.onnx_io.subgraphs import all_nodes
from superopt.optimizer.options import Options
from superopt.optimizer.source import Source
from superopt.optimizer.validator import Validator, runnable_form
from superopt.runtime import CannotRun, Unfeedable, resolve_target

__all__ = ["converted", "converts"]


def converts(source: Source, options: Options) -> bool:
    """Return True if the model is to be converted to another opset than its own."""
    return options.target_opset is not None and source.terms.opset != options.target_opset


def converted(source: Source, options: Options) -> onnx.ModelProto:
    """Return the model at the opset of `options`.

    The outputs of both are compared if the original runs here. Raises ModelError if the opset cannot express the model,
    or if outputs differ; RuntimeUnavailable, InputError, OSError.
    """
    wanted = options.target_opset
    assert wanted is not None
    written = _written(at_opset(source.terms, wanted), wanted)
    foreign = {(node.domain, node.op_type) for node in all_nodes(written.graph) if node.domain not in DEFAULT_DOMAINS}
    foreign -= {(node.domain, node.op_type) for node in all_nodes(source.proto.graph)}
    if foreign and options.as_run().domains == "onnx":
        lacking = ", ".join(sorted(op for _, op in foreign))
        raise ModelError(
            f"the model cannot be written at opset {wanted} with operators of ONNX only: it lacks {lacking}"
        )
    if inline_bytes(written) > INLINE_LIMIT:
        raise ModelError(f"the model is too large to be converted to opset {wanted}: its weights exceed 2 GB")
    try:
        target = resolve_target(options.ep, options.threads, options.target)
        validator = Validator(source, target, options, thorough=False)
        with runnable_form(written) as runnable:
            comparison, _ = validator.compare(runnable)
    except (CannotRun, Unfeedable):
        return written  # the run on it says that nothing can be compared
    if comparison.problem is not None:
        raise ModelError(f"converted to opset {wanted}, the model has other outputs: {comparison.problem}")
    return written


def _written(model: Model, opset: int) -> onnx.ModelProto:
    try:
        return write_model(model, fold=False)
    except (ModelError, onnx.checker.ValidationError) as error:
        raise ModelError(f"the model cannot be written at opset {opset}: {error}") from error
