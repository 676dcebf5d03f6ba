"""The shadow's metrics. Labels are the words of `model/decisions/shadow.py` and names of filters and score terms, of
which the engine keeps a bounded number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.engine.shadow.scheduler import ShadowScheduler


def add_metrics(
    registry: MetricsRegistry,
    shadow: ShadowScheduler,
    malformed: Callable[[], Mapping[str, int]],
    requests: Callable[[], int],
) -> None:
    """Add what the shadow counts; its values are read at each scrape."""
    read = registry.read
    read(
        CounterMetricFamily,
        "cotenant_shadow_pods",
        "Pods of the other scheduler, by how its choice compares with ours and the picture that ours was made on",
        ("outcome", "picture"),
        lambda: ((key, pods) for key, pods in shadow.outcomes.items()),
    )
    read(
        CounterMetricFamily,
        "cotenant_shadow_differences",
        "Pods that are not where we would have put them, by the filter, score term or plugin that makes the difference",
        ("outcome", "reason"),
        lambda: ((key, pods) for key, pods in shadow.reasons.items()),
    )
    read(
        CounterMetricFamily,
        "cotenant_shadow_nominations",
        "Nodes that the other scheduler nominated pods for, where it evicts others, by what we would have done",
        ("ours",),
        lambda: (((ours.value,), count) for ours, count in shadow.nominations.items()),
    )
    read(
        CounterMetricFamily,
        "cotenant_shadow_followed",
        "Pods on another node than ours, followed for ten minutes: on which of both nodes a signal was worse",
        ("signal", "worse"),
        lambda: ((key, pods) for key, pods in shadow.following.counts.items()),
    )
    read(
        GaugeMetricFamily,
        "cotenant_shadow_pending_pods",
        "Pods without a node, by what we would do with them; unseen = not judged yet",
        ("choice",),
        lambda: (((choice,), pods) for choice, pods in shadow.pending().items()),
    )
    read(
        CounterMetricFamily,
        "cotenant_shadow_judgements",
        "Judgements of pods; a pod counts each time that it is judged",
        (),
        lambda: (((), shadow.judged),),
    )
    read(
        CounterMetricFamily,
        "cotenant_shadow_judging_cpu_seconds",
        "CPU time of judgements and comparisons",
        (),
        lambda: (((), shadow.budget.spent_s),),
    )
    read(
        CounterMetricFamily,
        "cotenant_shadow_put_off",
        "Binds that were not judged at their moment, because there was no CPU time left of the share",
        (),
        lambda: (((), shadow.put_off),),
    )
    read(
        CounterMetricFamily,
        "cotenant_shadow_forgotten_pods",
        "Pods beyond the most that are remembered without a node",
        (),
        lambda: (((), shadow.forgotten),),
    )
    read(
        GaugeMetricFamily,
        "cotenant_shadow_cache_size",
        "Nodes and pods in the shadow's picture",
        ("type",),
        lambda: zip((("nodes",), ("pods",)), shadow.cluster.size(), strict=True),
    )
    read(
        CounterMetricFamily,
        "cotenant_shadow_malformed_objects",
        "Objects that could not be read",
        ("kind",),
        lambda: (((kind,), count) for kind, count in malformed().items()),
    )
    read(
        CounterMetricFamily,
        "cotenant_shadow_requests",
        "Requests to the API server, all of them reads",
        (),
        lambda: (((), requests()),),
    )
