"""The verification report: every rule drawn, with its proofs, as one HTML page and as JSON."""

from superopt.report.collect import ReportError, collect
from superopt.report.data import SCHEMA_VERSION, Report
from superopt.report.page import render

__all__ = ["SCHEMA_VERSION", "Report", "ReportError", "collect", "render"]
