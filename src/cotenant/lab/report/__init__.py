"""The report of a comparison: one self-contained HTML page.

Belongs here: tables, charts, and the sentences about them. Not here: figures and intervals themselves (lab/metrics.py, lab/statistics.py).
"""

from cotenant.lab.report.page import render, write_report

__all__ = ["render", "write_report"]
