"""The signatures at which a search of models asks for proofs that no certificate has.

A first run on a model proves them while the user waits. The generator proves them beforehand, if it is given the list
(`superopt generate --asked`), because other models ask at the same ranks and attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from superopt.ir.notation import parse_signature, show_rule, show_signature
from superopt.ir.rule import Rule
from superopt.onnx_io import is_writable
from superopt.optimizer.folding import first_allowance
from superopt.optimizer.options import Options
from superopt.optimizer.proof_cache import ProofCache
from superopt.optimizer.rule_reading import with_formulas
from superopt.optimizer.source import Source
from superopt.optimizer.unrun import assumed_shapes
from superopt.search import AnalyticCost, Device, search
from superopt.store import ResultStore
from superopt.temporary import temporary_folder
from verify.certificates import Certificate
from verify.verdict import Proved

__all__ = ["asked_signatures"]

_THREADS = 1


def asked_signatures(
    models: Sequence[Path],
    rules: Sequence[Rule],
    certificates: Mapping[Rule, Certificate],
    devices: Iterable[Device],
    *,
    numerics: str = "normwise",
    work_s: float = 60.0,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Rule]:
    """Return the rules for which searches of `models` asked, each with the signatures that were proven for them.

    Each model is searched once for each of `devices` by the cost model, with `work_s` seconds of work on a typical
    machine. Nothing is run or measured, and no earlier run is remembered, so equal models give an equal list. The order
    is that of the rules' texts. Raises ModelError, OSError.
    """
    found: dict[Rule, dict[str, None]] = {}
    for device in devices:
        for number, path in enumerate(models, 1):
            progress(f"searching: {path} for {device.name} ({number} of {len(models)})")
            with temporary_folder() as folder, ResultStore(folder / "store.sqlite") as store:
                proofs = ProofCache(store, certificates, numerics)
                _search(Source(path), rules, proofs, device, work_s)
            for (rule, signature), verdict in proofs.made.items():
                listed = next((one for one in (rule, rule.reversed()) if one in certificates), None)
                if listed is not None and isinstance(verdict, Proved):
                    found.setdefault(listed, {})[show_signature(signature)] = None
    lines = [(show_rule(Rule(rule.lhs, rule.rhs)), rule, sorted(texts)) for rule, texts in found.items()]
    lines.sort(key=lambda line: line[0])
    return [Rule(rule.lhs, rule.rhs, tuple(map(parse_signature, texts))) for _, rule, texts in lines]


def _search(source: Source, rules: Sequence[Rule], proofs: ProofCache, device: Device, work_s: float) -> None:
    model = with_formulas(source.terms, rules)
    shapes = assumed_shapes(source, Options(cost="analytic"))
    search(
        model.outputs,
        rules,
        proofs.check,
        AnalyticCost(device, _THREADS, model.at_shapes(shapes[-1]).sizes if shapes else {}),
        position=model.position,
        budget_s=work_s,
        available=lambda operator: is_writable(operator, model.opset),
        max_folding_s=first_allowance(work_s),
    )
