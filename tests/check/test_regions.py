"""Regions that were not proven: the reasons, the drawings, and the names in them."""

from __future__ import annotations

import onnx
from onnx.helper import make_node as node

from superopt.check import UNKNOWN
from superopt.check.regions import _words
from tests.support.checked import checked
from tests.support.models import floats, model, weights


def test_words_are_short_and_different() -> None:
    names = ["/a/LayerNormalization_output_0", "/b/LayerNormalization_output_0", "x", "/c/0", "/d/0"]
    words = _words(names)
    assert set(words) == set(names) and len(set(words.values())) == len(names)
    assert all(word.isidentifier() and len(word) < 30 for word in words.values())


def test_sides_that_differ_in_a_weight_alone_look_different() -> None:
    """Nothing is known of the last operator, and no runtime has it, so the models cannot be told apart by running."""

    def product(seed: int) -> onnx.ModelProto:
        nodes = [
            node("MatMul", ["x", "w"], ["h"]),
            node("MatMul", ["h", "v"], ["m"]),
            node("Unknown", ["m"], ["y"], domain="mine"),
        ]
        constants = [("w", weights(4, 4, seed=seed)), ("v", weights(4, 4, seed=9))]
        made = model(nodes, [floats("x", 2, 4)], [floats("y", 2, 4)], constants)
        made.opset_import.append(onnx.helper.make_opsetid("mine", 1))
        return made

    pairs = checked(product(0), product(1), seconds=3.0).unproven
    (pair,) = (one for one in pairs if "MatMul" in one.left_graph)
    assert pair.left_graph != pair.right_graph


def test_random_numbers_are_the_reason_why_nothing_is_proven() -> None:
    drawn = model([node("RandomNormalLike", ["x"], ["y"])], [floats("x", 4)], [floats("y", 4)])
    answer = checked(drawn, drawn, seconds=3.0)
    assert (answer.verdict, [pair.reason for pair in answer.unproven]) == (UNKNOWN, ["it draws random numbers"])
