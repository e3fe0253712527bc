"""A model as rules read it."""

from __future__ import annotations

from collections.abc import Iterable

from superopt.ir.infer import replace
from superopt.ir.rule import Rule
from superopt.onnx_io import Model
from superopt.rulebook.number_formulas import formulas_in, numbers_by_formula

__all__ = ["with_formulas"]


def with_formulas(model: Model, rules: Iterable[Rule]) -> Model:
    """Return `model` with the formula in place of each number that rules know by one (`rulebook.number_formulas`)."""
    formulas = (formula for rule in rules for formula in formulas_in((*rule.lhs, *rule.rhs)))
    found = numbers_by_formula(model.outputs, formulas)
    return model.with_outputs(replace(model.outputs, found), found) if found else model
