"""The result of `optimize` as text and tables."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from superopt.cli.wording import counted
from superopt.optimizer import Result, RuleAttempts
from superopt.optimizer.result import Difference
from superopt.runtime import show_shape

__all__ = ["show_result"]


def show_result(console: Console, result: Result) -> None:
    """Print the result of `optimize`: the table before and after, the rules used, and the checks passed."""
    console.print(_table(result))
    if result.cost_source:
        console.print(f"cost model: {result.cost_source}", markup=False)
    _rules(console, result)
    if result.attempts:
        console.print(_attempts(result.attempts))
    if result.difference is not None:
        _accuracy(console, result.difference, result.numerics == "exact")
    if result.proof is not None:
        p = result.proof
        classes = result.numerics if result.numerics == "exact" else f"{result.numerics} or stricter"
        console.print(
            f"proven: {counted(p.rules, 'rule')} at {counted(p.signatures, 'signature')} ({classes});"
            f" the kernel replayed {counted(p.steps, 'step')} in regions at {counted(p.places, 'place')}",
            markup=False,
        )
    if result.error_factor is not None:
        bound = f"at most {result.error_factor:.3g} times the original's"
        console.print(f"proven: the bound on rounding errors is {bound}", markup=False)
    for refusal in result.refused:
        console.print(f"refused: {refusal.candidate}: {refusal.reason}", markup=False)
    if result.changed:
        console.print(f"written: {result.out} ({result.reason})" if result.out else result.reason, markup=False)
    else:
        where = f", written unchanged to {result.out}" if result.out else ""
        console.print(f"the original is kept{where}: {result.reason}", markup=False)


def _table(result: Result) -> Table:
    threads = counted(result.threads, "thread") if result.threads else "all threads"
    table = Table(title=f"{result.model} on {result.provider}, {threads}", title_justify="left")
    for name in ("", "before", "after", "ratio"):
        table.add_column(name, justify="left" if not name else "right")
    before, after = sum(result.operators_before.values()), sum(result.operators_after.values())
    table.add_row("operators", str(before), str(after), _ratio(before, after))
    if result.latency is not None:
        t = result.latency
        kept = "" if result.changed else " (refused candidate)"
        kept += " (by an earlier run)" if t.remembered else ""
        name = "latency, CPU time" if t.clock == "cpu" else "latency, wall time"
        name += ", mean over sizes" if len(t.sizes) > 1 else ""
        table.add_row(name + kept, _ms(t.before_ms), _ms(t.after_ms), f"{t.ratio:.3f} ({t.low:.3f} to {t.high:.3f})")
        if t.clock == "cpu":
            table.add_row(
                "latency, wall time" + kept,
                _ms(t.wall_before_ms),
                _ms(t.wall_after_ms),
                _ratio(t.wall_before_ms, t.wall_after_ms),
            )
        for one in t.sizes if len(t.sizes) > 1 else ():
            shapes = ", ".join(f"{name}={show_shape(shape)}" for name, shape in one.shapes.items())
            measured = f"{one.ratio:.3f} ({one.low:.3f} to {one.high:.3f})"
            table.add_row(f"  at {shapes}", _ms(one.before_ms), _ms(one.after_ms), measured)
    if result.cost_before_ms is not None and result.cost_after_ms is not None:
        table.add_row(
            "cost model",
            _ms(result.cost_before_ms),
            _ms(result.cost_after_ms),
            _ratio(result.cost_before_ms, result.cost_after_ms),
        )
    return table


def _rules(console: Console, result: Result) -> None:
    if result.rules:
        console.print("rules applied:", markup=False)
    for use in result.rules:
        console.print(f"{use.count:5} x {use.rule}", markup=False)


def _accuracy(console: Console, d: Difference, exact: bool) -> None:
    own = f"the original differs from itself by {d.own_spread:.2e} between ONNX Runtime's optimization levels"
    allowed = "outputs must be bit-identical" if exact else own
    console.print(
        f"largest output difference {d.absolute:.2e} absolute, {d.relative:.2e} relative to the output's magnitude"
        f" on {counted(d.inputs, 'input')} ({allowed})",
        markup=False,
    )
    errors = [f"{kind} {own:.1e} and {error:.1e}" for kind, own, error in d.errors()]
    if errors:
        console.print(f"errors against float64, of the original and of the result: {'; '.join(errors)}", markup=False)
    if not exact:
        for reason, kinds in d.without_reference().items():
            where = ", ".join(dict.fromkeys(kinds))
            console.print(
                f"no float64 reference ({where}): {reason}; compared with the original, tolerance {d.tolerance:.2e}",
                markup=False,
            )


def _attempts(attempts: list[RuleAttempts]) -> Table:
    """Return a table with a row for each rule that matched. `saved` is negative if the predicted cost rose."""
    table = Table(title="rules tried", title_justify="left")
    for name in ("matched", "tried", "unproven", "used", "saved"):
        table.add_column(name, justify="right")
    table.add_column("rule", overflow="fold")
    for one in attempts:
        saved = _ms(one.saved_ms) if one.used else "-"
        table.add_row(str(one.matched), str(one.tried), str(one.unproven), str(one.used), saved, Text(one.rule))
    return table


def _ms(value: float) -> str:
    return f"{value:.3f} ms" if value < 10 else f"{value:.1f} ms"


def _ratio(before: float, after: float) -> str:
    return f"{before / after:.3f}" if after else "-"
