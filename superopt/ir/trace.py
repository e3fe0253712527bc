"""What a search did, in a form that the kernel can replay: region by region, rule by rule.

A region is a small graph cut out of the model. Its leaves stand for anything of their type: `Var` for
values computed elsewhere, `Const` with a placeholder name for weights. So a region that occurs twelve
times is one `Rewrite`, used by twelve `Application`s.
"""

from __future__ import annotations

from dataclasses import dataclass

from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term

__all__ = ["Application", "Rewrite", "Step", "Trace"]


@dataclass(frozen=True)
class Step:
    """One rule applied left to right, at terms `roots` (one for each output of the rule) of the region's graph."""

    rule: Rule
    signature: Signature
    roots: tuple[Term, ...]


@dataclass(frozen=True)
class Rewrite:
    """A region's outputs before, the steps, and its outputs after."""

    before: tuple[Term, ...]
    steps: tuple[Step, ...]
    after: tuple[Term, ...]


@dataclass(frozen=True)
class Application:
    """A `Rewrite` at one place: the term of the original graph that each leaf of the region stands for."""

    rewrite: Rewrite
    leaves: tuple[tuple[Term, Term], ...]


@dataclass(frozen=True)
class Trace:
    """All applications, in topological order of their regions; regions do not overlap."""

    applications: tuple[Application, ...] = ()
