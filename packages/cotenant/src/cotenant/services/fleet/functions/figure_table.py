"""The figures of a host as metrics, under the same names for Prometheus and for OTLP.

`_total` counts since the container was made, all else is a level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from cotenant.drivers.otlp.metric_encoding import MetricPoint, ResourceMetrics
from cotenant.model.fleet.figures import ContainerFigures, HostFigures, Measured


@dataclass(frozen=True, slots=True)
class FigureColumn:
    """One metric. `unit` as UCUM has it, for OTLP."""

    name: str
    help: str
    unit: str

    @property
    def is_total(self) -> bool:
        """Whether it counts up."""
        return self.name.endswith("_total")


def _per(value: int | None, divisor: float) -> float | None:
    return None if value is None else value / divisor


HOST: tuple[tuple[FigureColumn, Callable[[HostFigures], float | None]], ...] = (
    (
        FigureColumn("cotenant_host_cpu_cores", "CPUs that the host uses now.", "{cpu}"),
        lambda found: found.cpu_milli / 1000,
    ),
    (FigureColumn("cotenant_host_cpus", "CPUs of the host.", "{cpu}"), lambda found: found.cpus),
    (FigureColumn("cotenant_host_memory_used_bytes", "Memory in use.", "By"), lambda found: found.memory_bytes),
    (FigureColumn("cotenant_host_memory_bytes", "Memory of the host.", "By"), lambda found: found.memory_total_bytes),
    (FigureColumn("cotenant_host_load1", "Load average of a minute.", "1"), lambda found: found.load_1),
    (FigureColumn("cotenant_host_load5", "Load average of 5 minutes.", "1"), lambda found: found.load_5),
    (FigureColumn("cotenant_host_load15", "Load average of 15 minutes.", "1"), lambda found: found.load_15),
    (
        FigureColumn("cotenant_host_network_received_bytes_per_second", "Received by its real devices.", "By/s"),
        lambda found: found.received_bytes,
    ),
    (
        FigureColumn("cotenant_host_network_sent_bytes_per_second", "Sent by its real devices.", "By/s"),
        lambda found: found.sent_bytes,
    ),
    (
        FigureColumn("cotenant_host_disk_read_bytes_per_second", "Read from its disks.", "By/s"),
        lambda found: found.read_bytes,
    ),
    (
        FigureColumn("cotenant_host_disk_written_bytes_per_second", "Written to its disks.", "By/s"),
        lambda found: found.written_bytes,
    ),
)
CONTAINER: tuple[tuple[FigureColumn, Callable[[ContainerFigures], float | None]], ...] = (
    (
        FigureColumn("cotenant_container_cpu_seconds_total", "CPU time.", "s"),
        lambda found: _per(found.cpu_total_us, 1e6),
    ),
    (
        FigureColumn("cotenant_container_system_seconds_total", "CPU time in the kernel.", "s"),
        lambda found: _per(found.system_total_us, 1e6),
    ),
    (
        FigureColumn("cotenant_container_throttled_ratio", "Share of the time it was held by its CPU limit.", "1"),
        lambda found: _per(found.throttled_permille, 1000),
    ),
    (
        FigureColumn("cotenant_container_memory_bytes", "Working set: memory less inactive files.", "By"),
        lambda found: found.memory_bytes,
    ),
    (
        FigureColumn("cotenant_container_network_received_bytes_total", "Received.", "By"),
        lambda found: found.received_total_bytes,
    ),
    (FigureColumn("cotenant_container_network_sent_bytes_total", "Sent.", "By"), lambda found: found.sent_total_bytes),
    (FigureColumn("cotenant_container_disk_read_bytes_total", "Read.", "By"), lambda found: found.read_total_bytes),
    (
        FigureColumn("cotenant_container_disk_written_bytes_total", "Written.", "By"),
        lambda found: found.written_total_bytes,
    ),
    (FigureColumn("cotenant_container_tasks", "Processes and threads.", "1"), lambda found: found.tasks),
    (
        FigureColumn("cotenant_container_load1", "Tasks that run or wait, averaged over a minute.", "1"),
        lambda found: found.load_1,
    ),
    (FigureColumn("cotenant_container_load5", "The same over 5 minutes.", "1"), lambda found: found.load_5),
    (FigureColumn("cotenant_container_load15", "The same over 15 minutes.", "1"), lambda found: found.load_15),
    (
        FigureColumn("cotenant_container_oom_kills_total", "Processes that were ended for want of memory.", "1"),
        lambda found: found.oom_kills,
    ),
    (FigureColumn("cotenant_container_restarts_total", "Restarts by the runtime.", "1"), lambda found: found.restarts),
)
_LABELS = ("guid", "group", "appkey", "image")


def families(measured: Measured) -> Iterable[Metric]:
    """As Prometheus reads them."""
    for column, value_of in HOST:
        value = value_of(measured.host)
        if value is not None:
            yield GaugeMetricFamily(column.name, column.help, value=value)
    for column, of_container in CONTAINER:
        family: CounterMetricFamily | GaugeMetricFamily
        if column.is_total:
            family = CounterMetricFamily(column.name, column.help, labels=_LABELS)
        else:
            family = GaugeMetricFamily(column.name, column.help, labels=_LABELS)
        for found in measured.containers:
            value = of_container(found)
            if value is not None:
                family.add_metric((found.guid, found.group, found.appkey, found.image), value)
        yield family


def resources(measured: Measured, since_s: float) -> list[ResourceMetrics]:
    """As OTLP has them; the host and each container is a resource of its own."""
    host = [
        MetricPoint(column.name, column.unit, value)
        for column, of_host in HOST
        if (value := of_host(measured.host)) is not None
    ]
    made = [ResourceMetrics({"host.id": measured.guid, "host.name": measured.hostname}, host)]
    for found in measured.containers:
        points = [
            MetricPoint(column.name, column.unit, value, since_s if column.is_total else None)
            for column, of_container in CONTAINER
            if (value := of_container(found)) is not None
        ]
        attributes = {
            "service.instance.id": found.guid,
            "service.name": found.appkey or found.image,
            "host.id": measured.guid,
        }
        made.append(ResourceMetrics(attributes, points))
    return made
