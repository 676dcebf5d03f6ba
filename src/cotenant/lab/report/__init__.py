"""The report of a comparison: one self-contained HTML page."""

from cotenant.lab.report.page import render, write_report

__all__ = ["render", "write_report"]
