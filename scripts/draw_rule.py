"""Draw a rule as an SVG file: both sides as graphs, with an arrow between them.

    python scripts/draw_rule.py 'Add(MatMul(a, b), MatMul(a, c)) = MatMul(a, Add(b, c))' rule.svg

The picture in the README is made this way.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from superopt.ir.notation import NotationError, parse_rule
from superopt.report.picture import picture


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rule", help="equation, in the notation of rules")
    parser.add_argument("out", type=Path, help="SVG file to write")
    arguments = parser.parse_args()
    try:
        rule = parse_rule(arguments.rule)
    except NotationError as error:
        parser.error(str(error))
    arguments.out.write_text(picture(rule), encoding="utf-8")


if __name__ == "__main__":
    main()
