"""Normalisation."""

from __future__ import annotations

import random

from tests.support.semantic_cases.case import Case, Maker, broadcast_to, case, shape_of

__all__ = ["CASES"]

# Smaller ones would magnify what float32 loses in a variance near 0.
_EPSILONS = (0.1, 0.5)


def _instance_normalization(rng: random.Random) -> Case:
    shape = shape_of(rng, 3, 5)
    return case(rng, {"epsilon": rng.choice(_EPSILONS)}, [shape, (shape[1],), (shape[1],)])


def _group_normalization(rng: random.Random) -> Case:
    groups = rng.randint(1, 3)
    channels = groups * rng.randint(1, 3)
    shape = (rng.randint(1, 2), channels, *shape_of(rng, 1, 3))
    made = case(rng, {"epsilon": rng.choice(_EPSILONS), "num_groups": groups}, [shape, (channels,), (channels,)])
    return Case(made.attrs, made.arrays, opset=21)


def _layer_normalization(rng: random.Random) -> Case:
    shape = shape_of(rng, 1, 5)
    axis = rng.randrange(len(shape))
    params = [shape[axis:] if rng.random() < 0.6 else broadcast_to(rng, shape) for _ in range(rng.randint(1, 2))]
    return case(rng, {"axis": axis - len(shape), "epsilon": rng.choice(_EPSILONS)}, [shape, *params])


def _rms_normalization(rng: random.Random) -> Case:
    made = _layer_normalization(rng)
    return Case(made.attrs, made.arrays[:2], opset=23)


def _lp_normalization(rng: random.Random) -> Case:
    shape = shape_of(rng, 1, 5)
    made = case(rng, {"axis": rng.randrange(len(shape)) - len(shape), "p": rng.randint(1, 2)}, [shape])
    # onnx.reference forgets to take absolute values: it divides by sum x, not by the norm sum |x| of p = 1.
    return Case(made.attrs, made.arrays, ("onnxruntime",)) if made.attrs["p"] == 1 else made


def _softmax(rng: random.Random) -> Case:
    shape = shape_of(rng, 1, 5)
    return case(rng, {"axis": rng.randrange(len(shape)) - len(shape)}, [shape])


def _lrn(rng: random.Random) -> Case:
    attrs = {"alpha": rng.choice([0.5, 0.25]), "beta": rng.choice([0.75, 0.5]), "bias": rng.choice([1.0, 2.0])}
    made = case(rng, {**attrs, "size": rng.choice([1, 3, 5, 7])}, [shape_of(rng, 4, 4)])
    return Case(made.attrs, made.arrays, ("onnxruntime",))  # onnx.reference reads beyond the last channel


def _mean_variance_normalization(rng: random.Random) -> Case:
    shape = (*shape_of(rng, 0, 3), 3, 4)  # a variance of few numbers may be near 0
    axes = sorted({-1, *rng.sample(range(-len(shape), 0), rng.randint(0, len(shape)))})
    return case(rng, {"axes": tuple(axes)}, [shape])


CASES: dict[str, Maker] = {
    "LRN": _lrn,
    "InstanceNormalization": _instance_normalization,
    "GroupNormalization": _group_normalization,
    "LayerNormalization": _layer_normalization,
    "RMSNormalization": _rms_normalization,
    "LpNormalization": _lp_normalization,
    "MeanVarianceNormalization": _mean_variance_normalization,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
}
