"""A whole random graph."""

from __future__ import annotations

import random

from .feeds import Subject
from .graphs import Graph, Unfit
from .nodes import NODES
from .opaque_nodes import OPAQUE
from .patterns import PATTERNS

__all__ = ["random_model"]

_TRIES = 60


def random_model(seed: int) -> Subject:
    """Return a random model whose nodes all run in ONNX Runtime."""
    rng = random.Random(seed)
    while True:
        graph = Graph(rng)
        wanted, defined, opaque = rng.randint(2, 16), list(NODES.values()), list(OPAQUE.values())
        opaque_share = rng.choice([0.0, 0.05, 0.2])
        for _ in range(_TRIES):
            if sum(node.op_type != "Constant" for node in graph.nodes) >= wanted:
                break
            kind = rng.random()
            makers = opaque if kind < opaque_share else PATTERNS if kind < 0.45 else defined
            try:
                rng.choice(makers)(graph)
            except (Unfit, ValueError, IndexError):  # what was drawn is no node
                continue
        model = graph.finish()
        if model.graph.output:
            return Subject(model, graph.profile, graph.sizes, seed)
