"""Rates of counters, and figures as Prometheus and a collector of OTLP get them."""

from __future__ import annotations

from dataclasses import replace

from cotenant.model.fleet.figures import ContainerFigures, HostFigures, Measured
from cotenant.services.fleet.functions.figure_table import families, resources
from cotenant.services.fleet.functions.meter import CounterRates

HOST = HostFigures(8, 2500, 3 << 30, 16 << 30, 0.5, 0.25, 0.125, 10, 20, 30, 40)
CONTAINER = ContainerFigures(
    "c-1",
    "shop",
    "web",
    "web:1",
    throttled_permille=250,
    memory_bytes=4096,
    tasks=7,
    load_1=1.0,
    load_5=2.0,
    load_15=3.0,
    oom_kills=1,
    restarts=2,
    cpu_total_us=1_500_000,
    system_total_us=500_000,
    received_total_bytes=11,
    sent_total_bytes=22,
    read_total_bytes=33,
    written_total_bytes=44,
)
MEASURED = Measured("host-1", "node.example", 1000.0, HOST, (CONTAINER, ContainerFigures("c-2", image="job:2")))


def test_a_rate_is_the_growth_over_the_time_between_two_readings() -> None:
    rates = CounterRates()
    assert rates.per_s("c", "cpu", 100, 1.0) == 0.0  # nothing to compare with
    assert rates.per_s("c", "cpu", 150, 3.0) == 25.0
    assert rates.last("c", "cpu") == 25.0
    assert rates.per_s("c", "cpu", 150, 3.0) == 0.0  # no time has passed
    assert rates.per_s("c", "cpu", 150, 4.0) == 0.0
    assert rates.per_s("c", "cpu", 10, 5.0) == 0.0  # it began anew
    assert rates.per_s("c", "cpu", 30, 6.0) == 20.0
    assert rates.per_s("c", "cpu", None, 7.0) is None
    assert rates.per_s("c", "cpu", 50, 8.0) == 10.0  # since the last value


def test_rates_of_what_is_gone_are_forgotten() -> None:
    rates = CounterRates()
    for guid in ("a", "b"):
        rates.per_s(guid, "cpu", 100, 1.0)
    rates.keep({"b"})
    assert (rates.last("a", "cpu"), rates.last("b", "cpu"), rates.last("b", "read")) == (None, 0.0, None)
    assert rates.per_s("a", "cpu", 900, 2.0) == 0.0


def test_prometheus_reads_every_figure_that_is_there() -> None:
    samples = {
        (sample.name, sample.labels.get("guid", "")): sample.value
        for family in families(MEASURED)
        for sample in family.samples
    }
    assert samples == {
        ("cotenant_host_cpu_cores", ""): 2.5,
        ("cotenant_host_cpus", ""): 8,
        ("cotenant_host_memory_used_bytes", ""): 3 << 30,
        ("cotenant_host_memory_bytes", ""): 16 << 30,
        ("cotenant_host_load1", ""): 0.5,
        ("cotenant_host_load5", ""): 0.25,
        ("cotenant_host_load15", ""): 0.125,
        ("cotenant_host_network_received_bytes_per_second", ""): 10,
        ("cotenant_host_network_sent_bytes_per_second", ""): 20,
        ("cotenant_host_disk_read_bytes_per_second", ""): 30,
        ("cotenant_host_disk_written_bytes_per_second", ""): 40,
        ("cotenant_container_cpu_seconds_total", "c-1"): 1.5,
        ("cotenant_container_system_seconds_total", "c-1"): 0.5,
        ("cotenant_container_throttled_ratio", "c-1"): 0.25,
        ("cotenant_container_memory_bytes", "c-1"): 4096,
        ("cotenant_container_network_received_bytes_total", "c-1"): 11,
        ("cotenant_container_network_sent_bytes_total", "c-1"): 22,
        ("cotenant_container_disk_read_bytes_total", "c-1"): 33,
        ("cotenant_container_disk_written_bytes_total", "c-1"): 44,
        ("cotenant_container_tasks", "c-1"): 7,
        ("cotenant_container_load1", "c-1"): 1.0,
        ("cotenant_container_load5", "c-1"): 2.0,
        ("cotenant_container_load15", "c-1"): 3.0,
        ("cotenant_container_oom_kills_total", "c-1"): 1,
        ("cotenant_container_restarts_total", "c-1"): 2,
    }


def test_a_collector_gets_a_resource_for_the_host_and_each_container() -> None:
    host, web, job = resources(MEASURED, 900.0)
    assert host.attributes == {"host.id": "host-1", "host.name": "node.example"}
    assert web.attributes == {"service.instance.id": "c-1", "service.name": "web", "host.id": "host-1"}
    assert job.attributes["service.name"] == "job:2"  # what has no appkey is known by its image
    assert (len(host.points), len(job.points)) == (11, 0)
    points = {point.name: point for point in web.points}
    total, gauge = points["cotenant_container_cpu_seconds_total"], points["cotenant_container_tasks"]
    assert (total.value, total.since_s, total.unit) == (1.5, 900.0, "s")
    assert (gauge.value, gauge.since_s) == (7, None)


def test_a_figure_of_nought_is_a_figure() -> None:
    idle = replace(CONTAINER, throttled_permille=0, cpu_total_us=0)
    points = {point.name: point.value for point in resources(replace(MEASURED, containers=(idle,)), 0.0)[1].points}
    assert points["cotenant_container_throttled_ratio"] == 0.0
    assert points["cotenant_container_cpu_seconds_total"] == 0.0
