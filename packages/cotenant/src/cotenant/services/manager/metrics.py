"""The manager's metrics, read from the engine when a scrape asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from cotenant.drivers.metrics.registry import MetricsRegistry, Sample
from cotenant.engine.manager.gpu_nodes import GpuNodes
from cotenant.engine.manager.manager import Manager
from cotenant.engine.manager.node_ratios import NodeRatioKeeper
from cotenant.engine.manager.quota_profiles import QuotaProfiles


def register(
    registry: MetricsRegistry,
    manager: Manager,
    profiles: QuotaProfiles,
    ratios: NodeRatioKeeper,
    gpus: GpuNodes,
    *,
    leads: Callable[[], bool],
    written: Callable[[], tuple[int, int, int]],
    malformed: Callable[[], dict[str, int]],
    expiries_s: Callable[[], dict[str, float]],
) -> None:
    """Add the metrics. `written` gives writes done, refused, and waiting; `expiries_s` the Unix time at which each
    Service's certificate ends.
    """

    def writes() -> Iterator[Sample]:
        for outcome, count in zip(("written", "refused"), written(), strict=False):
            yield (outcome,), float(count)

    def unreadable() -> Iterator[Sample]:
        for kind, count in sorted(malformed().items()):
            yield (kind,), float(count)

    def expiries() -> Iterator[Sample]:
        for service, at_s in sorted(expiries_s().items()):
            yield (service,), at_s

    gauge, counter = GaugeMetricFamily, CounterMetricFamily
    registry.read(
        gauge,
        "cotenant_manager_certificate_expiry_seconds",
        "Unix time at which the certificate in the Secret of a Service ends; 0 where it was not read yet.",
        ("service",),
        expiries,
    )
    registry.read(gauge, "cotenant_manager_leading", "1 while this replica leads.", (), lambda: [((), float(leads()))])
    registry.read(counter, "cotenant_manager_writes", "Writes of objects by outcome.", ("outcome",), writes)
    registry.read(
        gauge, "cotenant_manager_writes_waiting", "Writes that wait.", (), lambda: [((), float(written()[2]))]
    )
    registry.read(
        gauge,
        "cotenant_manager_config_errors",
        "Keys of the ConfigMap that are not in force.",
        (),
        lambda: [((), float(len(manager.config_errors) + len(ratios.config.refused)))],
    )
    registry.read(
        counter,
        "cotenant_manager_unreadable",
        "Objects that could not be read, and amounts of pods that were not believed, by kind.",
        ("kind",),
        unreadable,
    )
    _register_amounts(registry, manager, profiles, ratios, gpus)


def _register_amounts(
    registry: MetricsRegistry, manager: Manager, profiles: QuotaProfiles, ratios: NodeRatioKeeper, gpus: GpuNodes
) -> None:
    """What is lent, on which nodes, and under which profiles."""

    def nodes() -> Iterator[Sample]:
        for state, count in sorted(manager.totals()[1].items()):
            yield (state,), float(count)

    def lent() -> Iterator[Sample]:
        for resource, amount in sorted(manager.totals()[0].items()):
            yield (resource,), float(amount)

    def gpu_totals() -> Iterator[Sample]:
        for resource, amount in sorted(gpus.total().items()):
            yield (resource,), float(amount)

    def hours() -> Iterator[Sample]:
        yield ("exceeded",), float(manager.lending.broken)
        yield ("kept",), float(manager.lending.hours - manager.lending.broken)

    def profile_states() -> Iterator[Sample]:
        yield ("in_force",), float(len(profiles.quotas))
        yield ("refused",), float(len(profiles.refused))

    gauge, counter = GaugeMetricFamily, CounterMetricFamily
    registry.read(
        gauge,
        "cotenant_manager_nodes",
        "Nodes by state: lent, suggested, withdrawn, failed, unknown.",
        ("state",),
        nodes,
    )
    registry.read(gauge, "cotenant_manager_lent", "Amounts on all nodes, in milli-CPU and bytes.", ("resource",), lent)
    registry.read(
        gauge,
        "cotenant_manager_gpus",
        "GPU resources of all nodes by their Device objects: percent of a device, and bytes.",
        ("resource",),
        gpu_totals,
    )
    registry.read(
        counter,
        "cotenant_manager_node_hours",
        "Node-hours under the peak policy by whether prod + lent exceeded the capacity.",
        ("outcome",),
        hours,
    )
    registry.read(
        gauge,
        "cotenant_manager_quota_profiles",
        "ElasticQuotaProfiles by whether they are in force.",
        ("state",),
        profile_states,
    )
    registry.read(
        gauge,
        "cotenant_manager_unknown_ratios",
        "Nodes whose CPU normalization or amplification ratio is not known.",
        (),
        lambda: [((), float(len(ratios.unknown)))],
    )


def read_spans(registry: MetricsRegistry, samples: Callable[[], Iterable[Sample]]) -> None:
    """Add the spans by outcome, where they are on."""
    about = "Spans of writes, by outcome: exported, refused by the receiver, or dropped."
    registry.read(CounterMetricFamily, "cotenant_manager_spans", about, ("outcome",), samples)
