"""What the console's view of an experiment answers from inside a report's file.

The console answers questions about runs, and a report carries the answers in its file; both are drawn by the same view.
One form of each answer (`model/results` of the product), packed here.
Limits: those of the answers.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cotenant.model.results.views import MetricView
from cotenant_lab.metric import Metric

LAB_VIEW = '<div id="lab-view" class="services lab"><p class=soft>This part is drawn by a script.</p></div>'


class EmbeddedPage(msgspec.Struct, frozen=True):
    """The console's page of an experiment."""

    name: str
    written: float
    metrics: tuple[MetricView, ...]
    results: dict[str, object]  # of results.json: what the view reads


class EmbeddedRuns(msgspec.Struct, frozen=True):
    """What the view inside the file answers from: deflated JSON in base64, the page's and by policy.

    `machines`: the bytes of a view's cells are by column, machine and frame, which packs to half; None = the run
    records no machines over time.
    """

    page: str
    load: float
    seed: int
    curves: dict[str, str]
    machines: dict[str, str | None]


def metric_views(metrics: Mapping[str, Metric]) -> tuple[MetricView, ...]:
    """The figures of a workload, in their order."""
    return tuple(
        MetricView(metric.name, metric.title, metric.short, metric.unit, metric.better, metric.ranks, metric.definition)
        for metric in metrics.values()
    )
