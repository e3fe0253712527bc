"""Rules with an Expand: any shape if that can be proven, else the operand's sizes but for the axes made longer."""

from __future__ import annotations

from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.generate.families import FAMILIES
from superopt.generate.generalise.kept_axes import with_kept_axes
from superopt.ir.notation import parse_rule, parse_terms, show_rule, show_signature
from superopt.ir.types import tensor
from superopt.rulebook.variadic import schema_of

FAMILY = next(family for family in FAMILIES if family.name == "shared_heads")
TYPES = {"x": tensor(5, 6, 4, 7), "v": tensor(5, 3, 7, 8)}
GROUND = "MatMul(x, Reshape[shape=[5, 6, 7, 8]](Expand[shape=[5, 3, 2, 7, 8]](Unsqueeze[axes=[-3]](v))))"
GENERAL = (
    "MatMul(x, Reshape[shape=[x.shape[-4], x.shape[-3], x.shape[-1], v.shape[-1]]](Expand[shape=z](Unsqueeze[axes=[-3]]"
    "(v)))) = MatMul(x, Reshape[shape=[x.shape[-4], v.shape[-3]*z[2], x.shape[-1], v.shape[-1]]](Expand[shape=z]("
    "Unsqueeze[axes=[-3]](v)))) @ v[_,_,_,_] x[_,_,_,_] z=[_,_,_,_,_]"
)


def test_sizes_are_those_of_variables_below() -> None:
    """Keys are x's last axis and v's second last one; below the Expand there is v alone."""
    sides = parse_terms(GROUND, TYPES)
    schema = schema_of(parse_rule(GENERAL))
    schema = type(schema)(schema.rule, schema.base, schema.open, {"z": "expand"})
    (found,) = with_kept_axes(schema, GroundEquation(sides, sides, FAMILY))
    expand = "Expand[shape=[v.shape[-4], v.shape[-3], z2, v.shape[-2], v.shape[-1]]]"
    left, right = show_rule(found.rule).split(" = MatMul")
    assert expand in left and expand in right
    assert "Reshape[allowzero=0, shape=[v.shape[-4], x.shape[-3], v.shape[-2], v.shape[-1]]]" in left
    assert "v.shape[-3]*z2" in right
    assert show_signature(found.base) == "v[_,_,_,_] x[_,_,_,_] z2=_"
    assert found.kinds["z2"] == "n"


def test_a_rule_may_read_the_equation_from_right_to_left() -> None:
    left, right = parse_terms(GROUND, TYPES), parse_terms("MatMul(x, x)", {"x": tensor(5, 6, 7, 7)})
    schema = schema_of(parse_rule(GENERAL))
    schema = type(schema)(schema.rule, schema.base, schema.open, {"z": "expand"})
    assert list(with_kept_axes(schema, GroundEquation(right, left, FAMILY))) == list(
        with_kept_axes(schema, GroundEquation(left, right, FAMILY))
    )


def test_a_rule_without_an_expand_has_no_such_form() -> None:
    sides = parse_terms("MatMul(x, Reshape[shape=[5, 6, 7, 4]](v))", TYPES)
    rule = parse_rule(
        "MatMul(x, Reshape[shape=z](v)) = MatMul(x, Reshape[shape=z](v)) @ v[_,_,_,_] x[_,_,_,_] z=[_,_,_,_]"
    )
    assert not list(with_kept_axes(schema_of(rule), GroundEquation(sides, sides, FAMILY)))
