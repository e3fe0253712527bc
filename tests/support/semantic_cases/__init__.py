"""Random cases for each operator of the table, one module a family."""

from tests.support.semantic_cases import (
    constants,
    contrib,
    conv,
    linear,
    logic,
    normalization,
    pool,
    quantize,
    rearrange,
    recurrent,
    reduce,
    resize,
    scalar,
    select,
    standard,
)
from tests.support.semantic_cases.case import Case, Maker

__all__ = ["CASES", "Case"]

_FAMILIES = (
    constants, contrib, conv, linear, logic, normalization, pool, quantize, rearrange, recurrent, reduce, resize,
    scalar, select, standard,
)  # fmt: skip
CASES: dict[str, Maker] = {op: maker for family in _FAMILIES for op, maker in family.CASES.items()}
