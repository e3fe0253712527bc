"""Traces: the derivation that a search hands to the kernel, region by region and rule by rule.

A region is a small graph cut out of the model. Its leaves stand for any value of their type: `Var` for values computed
outside, `Const` with a placeholder name for weights. A region that occurs twelve times is one `Rewrite` with twelve
`Application`s.
"""

from __future__ import annotations

from dataclasses import dataclass

from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term

__all__ = ["Application", "Rewrite", "Step", "Trace"]


@dataclass(frozen=True)
class Step:
    """One rule applied left to right at the terms `roots` of a region's graph, one for each output of the rule."""

    rule: Rule
    signature: Signature
    roots: tuple[Term, ...]


@dataclass(frozen=True)
class Rewrite:
    """The rewrite of a region: its outputs before, the steps, and its outputs after."""

    before: tuple[Term, ...]
    steps: tuple[Step, ...]
    after: tuple[Term, ...]


@dataclass(frozen=True)
class Application:
    """One occurrence of a `Rewrite`: each leaf of the region, with the term of the model that it stands for."""

    rewrite: Rewrite
    leaves: tuple[tuple[Term, Term], ...]


@dataclass(frozen=True)
class Trace:
    """All applications, in topological order of their regions; regions do not overlap."""

    applications: tuple[Application, ...] = ()
