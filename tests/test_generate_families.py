"""Laws that models need come out of single families of the grammar, as they are written here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from superopt.generate.families.conv import CONV_FAMILIES
from superopt.generate.families.grouped import GROUPED
from superopt.generate.families.linear import LINEAR
from superopt.generate.grammar import Family
from superopt.generate.pipeline import generate
from superopt.ir.text import parse_rules

_CONV = "Conv[dilations=dl, group={g}, pads=p, strides=st]"
_PARTS = "Split[axis=-3, split=[x.shape[1], y.shape[1]]](w)"
_WIDENED = (
    "Reshape[allowzero=0, shape=[w.shape[0], 2*w.shape[1], w.shape[2], w.shape[3]]](MatMul("
    "Transpose[perm=[0, 2, 1, 3]](Dirac[group=g // 2, shape=[g, 2, 1, 1]]), "
    "Reshape[allowzero=0, shape=[g, w.shape[0] // g, 1, w.shape[1]*w.shape[2]*w.shape[3]]](w)))"
)
_ONE, _PAIRED, _GROUPED = (_CONV.format(g=g) for g in ("1", "g // 2", "g"))


def _with_input(families: Sequence[Family], *names: str) -> list[Family]:
    """Those with exactly these inputs."""
    return [family for family in families if {variable.name for variable in family.variables} == set(names)]


# name -> (families, rules that come out of them)
_LAWS: dict[str, tuple[Sequence[Family], tuple[str, ...]]] = {
    "two groups as one": (
        GROUPED,
        (f"{_PAIRED}(x, {_WIDENED}) = {_GROUPED}(x, w)", f"{_PAIRED}(x, {_WIDENED}, b) = {_GROUPED}(x, w, b)"),
    ),
    "channels side by side in parts": (
        [family for family in _with_input(CONV_FAMILIES, "x", "y", "w", "b") if (2, 4, 3, 3) in (family.shapes or ())],
        (
            f"Add({_ONE}(x, {_PARTS}.0), {_ONE}(y, {_PARTS}.1)) = {_ONE}(Concat[axis=-3](x, y), w)",
            f"Add({_ONE}(x, {_PARTS}.0), {_ONE}(y, {_PARTS}.1, b)) = {_ONE}(Concat[axis=-3](x, y), w, b)",
        ),
    ),
    "a low-rank branch beside a bias": (
        [family for family in _with_input(LINEAR, "x", "w", "u", "t", "b") if family.runtime == 5],
        ("Add(Add(b, MatMul(x, w)), MatMul(MatMul(x, u), t)) = Add(b, MatMul(x, Add(w, MatMul(u, t))))",),
    ),
}


@pytest.mark.parametrize("name", _LAWS)
def test_a_family_gives_the_law(name: str, tmp_path: Path) -> None:
    families, laws = _LAWS[name]
    generate(tmp_path / "rules", families=families)
    found = [rule for path in (tmp_path / "rules").glob("*.rules") for rule in parse_rules(path.read_text(), path.name)]
    ids = {known for rule in found for known in (rule.id, rule.reversed().id)}
    for law in laws:
        (rule,) = parse_rules(law)
        assert rule.id in ids, law
