"""A draft: a ground equation in which some attributes have been replaced by variables or expressions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from superopt.generate.conjectures.ground_equation import GroundEquation, operators
from superopt.ir.dim import Dim, symbol
from superopt.ir.infer import REAL_ATTRS, make
from superopt.ir.rule import Rule, Signature, SignatureValue
from superopt.ir.term import Attr, Term, map_terms, topological, var
from superopt.properties import is_linear_product, joins
from superopt.rulebook.variadic import Schema

__all__ = ["NAMES", "REAL", "SIZED", "Draft", "Slot"]

# Attribute -> name of its variable.
NAMES = {
    "activation_alpha": "alpha", "activation_beta": "beta", "alpha": "alpha", "amounts": "p", "axes": "i", "axis": "i",
    "beta": "beta",
    "blocksize": "b", "borders": "p", "bound_high": "high", "bound_low": "low", "coordinate_transformation_mode": "c",
    "count_include_pad": "c", "dilations": "dl", "ends": "to", "epsilon": "e", "exclusive": "e", "expand": "z",
    "gamma": "gamma", "group": "g", "groups": "g", "indices": "j", "keepdims": "k", "kernel": "z", "kernel_shape": "k",
    "linear_before_reset": "l", "mode": "m", "nearest_mode": "r", "num_groups": "g", "num_heads": "h",
    "output_padding": "o", "p": "q", "pads": "p", "perm": "p", "repeats": "r", "reshape": "z", "reverse": "r",
    "scale": "scale", "scales": "s", "shape": "z", "split": "n", "starts": "from", "steps": "by", "strides": "st",
    "transA": "ta", "transB": "tb", "upper": "u", "constant": "v",
}  # fmt: skip
# Rules of Clip may need its bounds in a certain order, so its bounds are tried as numbers.
REAL = ((REAL_ATTRS & NAMES.keys()) - {"bound_high", "bound_low"}) | {"constant"}
SIZED = frozenset({"ends", "expand", "groups", "kernel", "n", "reshape", "shape", "split", "starts"})
_KINDS = {
    ("ConstantOfShape", "value"): "constant",
    ("Dirac", "shape"): "kernel",
    ("Expand", "shape"): "expand",
    ("Pad", "pads"): "amounts",
    ("PadCopy", "pads"): "borders",
    ("Reshape", "shape"): "reshape",
}

Slot = tuple[Term, str]  # a ground operator and the name of one of its attributes


@dataclass(frozen=True)
class Draft:
    """An equation with some attributes replaced."""

    equation: GroundEquation
    names: Mapping[Term, str]  # names of the ground variables in the rule
    filled: Mapping[Slot, Attr]
    values: Mapping[str, SignatureValue]  # values of attribute variables at the instance
    kinds: Mapping[str, str]
    ones: frozenset[str]  # variables whose sizes of 1 are literals, because they broadcast

    def rule(self) -> Rule:
        """Return the equation as a rule; it may not be applicable from left to right."""

        def build(old: Term, inputs: tuple[Term | None, ...]) -> Term:
            if old.op == "Var":
                return var(self.names[old])
            attrs = {name: self.filled.get((old, name), value) for name, value in old.attrs}
            return make(old.op, inputs, attrs)

        count = len(self.equation.lhs)
        terms = map_terms(self.equation.lhs + self.equation.rhs, build)
        return Rule(terms[:count], terms[count:])

    def schema(self) -> Schema:
        """Return the rule with the instance's signature."""
        shapes = []
        for term, name in self.names.items():
            assert term.type is not None
            shape = term.type.concrete()
            assert shape is not None
            shapes.append((name, tuple(1 if name in self.ones and size == 1 else None for size in shape)))
        rule = self.rule()
        if not rule.applicable and rule.reversed().applicable:
            rule = rule.reversed()
        dtypes = tuple((name, t.type.dtype) for t, name in self.names.items() if t.type and t.type.dtype != "float")
        base = Signature(tuple(sorted(shapes)), tuple(sorted(self.values.items())), tuple(sorted(dtypes)))
        return Schema(rule, base, base, dict(self.kinds))

    def filling(self, slots: Mapping[Slot, Attr], values: Mapping[str, SignatureValue], kind: str) -> Draft:
        """Return the draft with `slots` replaced, and with new attribute variables that have these values at the
        instance."""
        return replace(
            self,
            filled={**self.filled, **slots},
            values={**self.values, **values},
            kinds={**self.kinds, **dict.fromkeys(values, kind)},
        )

    def fresh(self, kind: str) -> str:
        """Return an unused name for a variable of attribute `kind`."""
        taken = {*self.values, *self.names.values()}
        name = NAMES[kind]
        return (
            name if name not in taken else next(new for k in itertools.count(2) if (new := f"{name}{k}") not in taken)
        )

    def slots(self) -> dict[str, dict[Attr, list[Slot]]]:
        """Return the attributes of all operators: kind of attribute -> value -> slots."""
        found: dict[str, dict[Attr, list[Slot]]] = {}
        for term in topological(self.equation.lhs + self.equation.rhs):
            if term.op not in ("Var", "Out"):
                for name, value in term.attrs:
                    kind = _KINDS.get((term.op, name), name)
                    if kind == "group" and value != 1:
                        kind = "groups"  # may equal a number of channels
                    if kind == "reshape" and isinstance(value, tuple) and {0, -1} & set(value):
                        kind = "marks"  # with sizes that Reshape copies or infers, which stay literals
                    if kind == "axes" and isinstance(value, tuple) and len(value) == 1:
                        kind, value = "axis", value[0]  # a list of one axis is treated as one axis
                    found.setdefault(kind, {}).setdefault(value, []).append((term, name))
        return found

    def sizes(self) -> list[tuple[Dim, int]]:
        """Return the sizes of variables, with their values at the instance."""
        shapes = [(name, term.type.concrete() or ()) for term, name in self.names.items() if term.type is not None]
        return [
            (symbol(f"{name}.shape[{k - len(shape)}]"), size) for name, shape in shapes for k, size in enumerate(shape)
        ]

    def side(self, slots: list[Slot], left: bool) -> list[Slot]:
        """Return the slots that occur on the left side (or, if not `left`, on the right side)."""
        terms = set(topological(self.equation.lhs if left else self.equation.rhs))
        return [slot for slot in slots if slot[0] in terms]

    @property
    def bound(self) -> bool:
        """True if the rule can be applied in at least one direction; for a target, to the target."""
        rule = self.rule()
        return rule.applicable or (not self.equation.family.targets and rule.reversed().applicable)

    def unbound(self) -> int:
        """Return the number of useful directions in which an attribute variable has no value.

        The direction from right to left is useful in three cases: as many operators run on both sides, it saves a
        Concat that feeds another operator, or it merges several products into one. The shape of a constant that
        disappears (Add(x, Zeros[shape=z]) = x) does not count, because no search would insert the constant.
        """
        rule, equation = self.rule(), self.equation
        runs = [operators(side, equation.weights)[0] for side in (equation.lhs, equation.rhs)]
        saves_join = any(
            joins(t.op) and operators((t,), equation.weights)[0]
            for t in topological(equation.rhs)
            if t not in equation.rhs
        )
        products = [sum(is_linear_product(t.op) for t in topological(side)) for side in (rule.lhs, rule.rhs)]
        back = len(rule.lhs) > 1 or runs[0] == runs[1] or saves_join or 0 < products[0] < products[1]
        if "shape" in self.kinds.values() or not all(t.inputs for t in rule.rhs) or equation.family.targets:
            back = False
        return int(not rule.applicable) + int(back and not rule.reversed().applicable)
