"""The verification report: every rule drawn, with its proofs, as one HTML page and as JSON;
and a page for one run of the optimizer."""

from superopt.report.collect import ReportError, collect
from superopt.report.data import SCHEMA_VERSION, Report
from superopt.report.page import render
from superopt.report.run_page import render_run

__all__ = ["SCHEMA_VERSION", "Report", "ReportError", "collect", "render", "render_run"]
