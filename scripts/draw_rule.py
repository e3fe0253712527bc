"""Draw a rule as an SVG file: both sides as graphs, with an arrow between them.

    python scripts/draw_rule.py 'Add(MatMul(a, b), MatMul(a, c)) = MatMul(a, Add(b, c))' rule.svg

The picture in the README is made this way.
"""

from __future__ import annotations

import sys
from pathlib import Path

from superopt.ir.notation import NotationError, parse_rule
from superopt.report.picture import picture


def main(arguments: list[str]) -> int:
    """Write the picture; return the exit code."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    text, out = arguments
    try:
        rule = parse_rule(text)
    except NotationError as error:
        print(f"draw_rule: {error}", file=sys.stderr)
        return 2
    Path(out).write_text(picture(rule), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
