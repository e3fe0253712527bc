"""A result as text, as `print` and the command line show it, and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from superopt.optimizer.result import MEAN_SAVINGS, gain_is_predicted
from superopt.runtime import show_shape
from superopt.wording import counted

if TYPE_CHECKING:
    from superopt.optimizer.result import Difference, Result, RuleAttempts, RuleUse

__all__ = ["beginning", "result_html", "result_text", "verdict"]

_COLUMNS = ("", "before", "after", "times as fast")
_MAX_EQUATION = 300  # characters; half of the rules have 94, and one with lists of numbers 3,250
_MAX_ATTEMPTS = 10  # rules that `--explain` shows
_LEAST_MS = 0.1  # shorter times are microseconds, and those below a thousandth of one are none
_MIN_CHANGE = 0.02  # of the size of the weights, to be shown
Row = tuple[str, str, str, str]


def verdict(result: Result) -> str:
    """Return one sentence: how much faster the result is, and how that is known; or why the original is kept."""
    if not result.changed:
        return f"The original is kept: {result.reason}."
    t = result.latency
    if t is None:
        if not gain_is_predicted(result.cost_before_ms, result.cost_after_ms):
            return "Cleaned up, and not timed here. No gain in speed is predicted."
        predicted = _ratio(result.cost_before_ms, result.cost_after_ms)
        return f"Rewritten, and not timed here. Predicted: {predicted} times as fast."
    kind = "CPU time" if t.clock == "cpu" else "wall time"
    when = "measured by an earlier run" if t.remembered else "measured"
    interval = f"95% interval {t.low:.3f} to {t.high:.3f}, {kind}, {when}"
    if t.low > 1:
        return f"{t.ratio:.3f} times as fast ({interval})."
    return f"As fast as before, within the noise, and smaller ({t.ratio:.3f} times as fast, {interval})."


def result_text(result: Result) -> str:
    """Return the verdict, the table before and after, the rules used, and the checks passed."""
    lines = [verdict(result), "", _title(result), *_aligned([_COLUMNS, *_rows(result)])]
    if result.cost_source:
        lines.append(f"predicted times: {result.cost_source.removesuffix(MEAN_SAVINGS)}")
    if result.rules:
        lines.append("rules applied:")
    lines += [f"{count:5} x {id}  {equation}" for (id, equation), count in _uses(result.rules).items()]
    if result.attempts:
        lines += _attempts(result.attempts, result.cost_source.endswith(MEAN_SAVINGS))
    if result.difference is not None:
        lines += _accuracy(result.difference, result)
    lines += _proof(result)
    known = () if result.changed else result.refused[:1]  # its reason is that of the verdict
    lines += [f"refused: {one.candidate}: {one.reason}" for one in result.refused if one not in known]
    if result.changed:
        lines.append(f"written: {result.out} ({result.reason})" if result.out else f"taken: {result.reason}")
    elif result.out:
        lines.append(f"written, not rewritten: {result.out}")
    if result.out_weights is not None:
        lines.append(f"its weights: {result.out_weights} (move both files together)")
    return "\n".join(lines)


def result_html(result: Result) -> str:
    """Return the verdict, the table and the rules used as HTML without scripts or styles of its own."""
    rows = [_COLUMNS, *_rows(result)]
    cells = ["".join(f"<t{'dh'[not k]}>{escape(cell)}</t{'dh'[not k]}>" for cell in row) for k, row in enumerate(rows)]
    table = "".join(f"<tr>{row}</tr>" for row in cells)
    uses = _uses(result.rules)
    rules = "".join(
        f"<li>{count} x <code>{escape(id)}  {escape(equation)}</code></li>" for (id, equation), count in uses.items()
    )
    notices = "".join(f"<p>notice: {escape(notice)}</p>" for notice in result.notices)
    return (
        f"<p><b>{escape(verdict(result))}</b></p><table><caption>{escape(_title(result))}</caption>{table}</table>"
        f"{f'<ul>{rules}</ul>' if rules else ''}{notices}"
    )


def beginning(equation: str) -> str:
    """Return the equation of a rule, or the beginning of a long one."""
    return equation if len(equation) <= _MAX_EQUATION else f"{equation[:_MAX_EQUATION]} ..."


def _uses(rules: Sequence[RuleUse]) -> dict[tuple[str, str], int]:
    """Return how often each rule was used, by its id, as `superopt rules` lists it, and its equation.

    Forms of a long rule have one beginning, and are one line.
    """
    counts: dict[tuple[str, str], int] = {}
    for use in rules:
        named = use.id, beginning(use.rule)
        counts[named] = counts.get(named, 0) + use.count
    return counts


def _title(result: Result) -> str:
    threads = counted(result.threads, "thread") if result.threads else "all threads"
    provider = "" if result.provider == "auto" else f" on {result.provider}"  # the run ended before it was chosen
    return f"{result.model or 'model in memory'}{provider}, {threads}"


def _rows(result: Result) -> Iterator[Row]:
    before, after = sum(result.operators_before.values()), sum(result.operators_after.values())
    yield "operators", str(before), str(after), ""
    if (grown := _weight_sizes(result.weight_bytes_before, result.weight_bytes_after)) is not None:
        yield "weights", *grown, ""
    t = result.latency
    if t is not None:
        measured, note = ("measured ", "") if result.changed else ("", ", refused candidate")
        note += ", mean over sizes" if len(t.sizes) > 1 else ""
        note += ", by an earlier run" if t.remembered else ""
        if t.clock == "cpu":
            yield f"{measured}CPU time{note}", *_times(t.before_ms, t.after_ms), _interval(t.ratio, t.low, t.high)
            ratio = _ratio(t.wall_before_ms, t.wall_after_ms)
            yield f"{measured}wall time{note}", *_times(t.wall_before_ms, t.wall_after_ms), ratio
        else:
            yield f"{measured}wall time{note}", *_times(t.before_ms, t.after_ms), _interval(t.ratio, t.low, t.high)
        for one in t.sizes if len(t.sizes) > 1 else ():
            shapes = ", ".join(f"{name}={show_shape(shape)}" for name, shape in one.shapes.items())
            yield f"  at {shapes}", *_times(one.before_ms, one.after_ms), _interval(one.ratio, one.low, one.high)
    if result.cost_before_ms is not None and result.cost_after_ms is not None:
        ratio = _ratio(result.cost_before_ms, result.cost_after_ms)
        note = "" if result.changed or not result.refused else ", refused candidate"
        yield f"predicted time{note}", *_times(result.cost_before_ms, result.cost_after_ms), ratio


def _weight_sizes(before: int | None, after: int | None) -> tuple[str, str] | None:
    """Return both sizes as text, None if they are about equal."""
    if before is None or after is None or abs(after - before) <= _MIN_CHANGE * max(before, after):
        return None
    return _bytes(before), _bytes(after)


def _bytes(value: int) -> str:
    """Return a size as text: in kB below 1 MB, where a change that is shown would be lost in MB."""
    return f"{value / 1e6:.1f} MB" if value >= 1e6 or not value else f"{value / 1e3:.1f} kB"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows with columns of one width, the first one flush left and the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        numbers = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        lines.append("  ".join((first.ljust(widths[0]), *numbers)).rstrip())
    return lines


def _proof(result: Result) -> Iterator[str]:
    if result.proof is not None and result.proof.rules:
        p = result.proof
        classes = result.numerics if result.numerics == "exact" else f"{result.numerics} or stricter"
        yield (
            f"proven: {counted(p.rules, 'rule')} at {counted(p.signatures, 'signature')} ({classes});"
            f" the kernel replayed {counted(p.steps, 'step')}, of rewrites applied at {counted(p.places, 'place')}"
        )
    if result.error_factor is not None and result.rules:
        factor = result.error_factor
        size = f"at most {factor:.3g} times the original's" if factor > 1 else "no larger than the original's"
        yield f"proven: the bound on rounding errors is {size}"


def _accuracy(d: Difference, result: Result) -> Iterator[str]:
    exact = result.numerics == "exact"
    whose, own = "" if result.changed else " of the refused candidate", ""
    if exact:
        own = " (outputs must be bit-identical)"
    elif d.own_spread:
        own = f" (the original differs from itself by {d.own_spread:.2e} between ONNX Runtime's optimization levels)"
    yield (
        f"largest output difference{whose} {d.absolute:.2e} absolute, {d.relative:.2e} relative to the output's"
        f" magnitude on {counted(d.inputs, 'input')}{own}{', compared by an earlier run' if d.remembered else ''}"
    )
    errors = [f"{kind} {original:.1e} and {error:.1e}" for kind, original, error in d.errors()]
    if errors:
        other = "result" if result.changed else "refused candidate"
        yield f"errors against float64, of the original and of the {other}: {'; '.join(errors)}"
    for reason, kinds in d.without_reference().items() if not exact else ():
        where = ", ".join(dict.fromkeys(kinds))
        yield (
            f"outputs on these inputs were compared with the original's, tolerance {d.tolerance:.2e}: {where}"
            f" (float64 reference: {reason})"
        )


def _attempts(attempts: Sequence[RuleAttempts], are_means: bool) -> list[str]:
    """Return a table of the rules that matched, those used first. A time is negative if the predicted cost rose.

    `are_means` says that savings are means over several devices, which the predicted times of one do not show.
    """
    ordered = sorted(attempts, key=lambda one: (-one.used, -one.saved_ms, -one.tried))
    saving = "mean saving on all devices" if are_means else "predicted saving"
    rows = [("  rules", "matched", "tried", "unproven", "used", saving)]
    for one in ordered[:_MAX_ATTEMPTS]:
        saved = _ms(one.saved_ms) if one.used else "-"
        rows.append((f"  {one.id}", str(one.matched), str(one.tried), str(one.unproven), str(one.used), saved))
    texts = _aligned(rows)
    lines = [texts[0], *(f"{text}  {one.rule}" for text, one in zip(texts[1:], ordered, strict=False))]
    if len(ordered) > _MAX_ATTEMPTS:
        lines.append(f"  {counted(len(ordered) - _MAX_ATTEMPTS, 'more rule')} (all are in --json)")
    return lines


def _interval(ratio: float, low: float, high: float) -> str:
    return f"{ratio:.3f} ({low:.3f} to {high:.3f})"


def _times(before: float, after: float) -> tuple[str, str]:
    """Return two times in milliseconds as text, in one unit unless one is much longer."""
    least = 10 * _LEAST_MS if 0 < min(before, after) < _LEAST_MS else _LEAST_MS
    return _ms(before, least), _ms(after, least)


def _ms(value: float, least: float = _LEAST_MS) -> str:
    """Return milliseconds as text, in microseconds below `least`: no time but none at all is shown as 0."""
    if abs(value) < least:
        digits = ".0f" if abs(value) >= 0.1 else ".3g"
        return f"{value * 1e3:{digits}} us" if abs(value) >= 1e-6 else "0 us"
    return f"{value:.3f} ms" if value < 10 else f"{value:.1f} ms"


def _ratio(before: float | None, after: float | None) -> str:
    return f"{before / after:.3f}" if before is not None and after else "-"
