"""The tables of operators, one module a family each: they do not collide, and say something of every operator."""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Mapping
from typing import Any

import onnx
import pytest

from superopt.ir.operator import OPERATORS, register
from superopt.ir.term import CLOSED_FORM
from superopt.onnx_io import new_model, write_model
from superopt.onnx_io.nodes.forms import EXPORTERS, IMPORTERS
from tests.support import semantic_cases
from tests.support.semantic_cases import CASES
from tests.support.semantic_cases.terms import outputs_of

# The package of a table, what its families call their part, and the table.
TABLES: list[tuple[Any, str, Mapping[str, Any]]] = [
    (semantic_cases, "CASES", CASES),
]
named = pytest.mark.parametrize(("package", "part", "table"), TABLES, ids=[part for _, part, _ in TABLES])


@named
def test_no_family_hides_an_operator_of_another(package: Any, part: str, table: Mapping[str, Any]) -> None:
    assert sum(len(getattr(family, part)) for family in package._FAMILIES) == len(table)


@named
def test_every_family_is_in_the_table(package: Any, part: str, table: Mapping[str, Any]) -> None:
    modules = [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    assert {m.__name__ for m in modules if part in m.__all__} == {family.__name__ for family in package._FAMILIES}


def test_the_tables_are_about_the_same_operators() -> None:
    assert set(OPERATORS) >= CLOSED_FORM
    assert set(CASES) == set(OPERATORS) - CLOSED_FORM
    read_as_others = {"Upsample", "GatherND"}  # as Resize, as Reshape
    assert set(OPERATORS) >= ({_plain(name) for name in IMPORTERS} - read_as_others) | set(EXPORTERS)


def _plain(name: str) -> str:
    """The operator's name without its domain."""
    return name.rpartition("::")[2]


@pytest.mark.parametrize("op", sorted(CASES))
def test_onnx_accepts_what_is_written(op: str) -> None:
    """With shapes and element types inferred, and compared with ours."""
    for seed in range(5):
        case = CASES[op](random.Random(f"{op} {seed}"))
        model = write_model(new_model(outputs_of(op, case), opset=case.opset))
        if op == "SimplifiedLayerNormalization":  # ONNX Runtime's addition to the standard domain
            with pytest.raises(onnx.checker.ValidationError, match="No Op registered"):
                onnx.checker.check_model(model)
        else:
            onnx.checker.check_model(model, full_check=True)


def test_names_are_taken_once() -> None:
    with pytest.raises(ValueError, match="Neg is defined twice"):
        register([OPERATORS["Neg"]])


def test_arity_and_defaults_are_those_of_onnx() -> None:
    """For the newest version of each operator that onnx has: operands are inputs, and defaults are equal."""
    for name, operator in OPERATORS.items():
        if operator.domain or not onnx.defs.has(name):
            continue
        schema = onnx.defs.get_schema(name)
        least, most = operator.inputs
        variadic = any(x.option == onnx.defs.OpSchema.FormalParameterOption.Variadic for x in schema.inputs)
        assert least <= schema.max_input and (most is not None or variadic), name
        for key, value in operator.defaults.items():
            if key in schema.attributes and schema.attributes[key].default_value.type:
                default = onnx.helper.get_attribute_value(schema.attributes[key].default_value)
                assert value == (default.decode() if isinstance(default, bytes) else default), (name, key)
