"""Reports: the verification report (every rule, drawn, with its proofs) and the page for one run of the optimizer.

`collect.py` reads rules and certificates into the data of `data.py`; `page.py`, `run_page.py` and `check_page.py`
render HTML; `drawing.py` draws one side of a rule with the layout of `drawing_layout.py`; `picture.py` makes a picture
of a whole rule.
"""

from superopt.report.check_page import render_check
from superopt.report.collect import ReportError, collect
from superopt.report.data import SCHEMA_VERSION, Report
from superopt.report.page import Pages, render
from superopt.report.run_page import render_run

__all__ = ["SCHEMA_VERSION", "Pages", "Report", "ReportError", "collect", "render", "render_check", "render_run"]
