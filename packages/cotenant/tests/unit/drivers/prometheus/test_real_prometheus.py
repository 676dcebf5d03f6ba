"""A real Prometheus, filled by a simulated exporter, read by ours, and compared with what was really used."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.fakes.servers.real_prometheus import filled
from tests.fakes.servers.simulated_exporter import Container, Pod, SimulatedCluster, daily, steady

from cotenant.drivers.prometheus.client import Prometheus, PrometheusClient
from cotenant.drivers.prometheus.part_files import PartFiles
from cotenant.drivers.prometheus.use_reading import HistoryRequest, read_history
from cotenant.model.assess.history import ClusterHistory

pytestmark = pytest.mark.slow

HOURS = 6.0
WEB = daily(0.4, 0.3, 6.0)
PODS = (
    Pod("web-7d4b9c6f5d-aaaaa"),
    Pod("web-7d4b9c6f5d-bbbbb", node="node-b"),
    Pod("db-0", "data", "node-b", "StatefulSet", "db", 2.0),
    Pod("night-28000000-x", "data", "node-a", "Job", "night-28000000", 1.0),
)
CONTAINERS = (
    Container("web-7d4b9c6f5d-aaaaa", WEB, 120.0),
    Container("web-7d4b9c6f5d-aaaaa", steady(0.05), 30.0, "sidecar"),
    Container("web-7d4b9c6f5d-bbbbb", WEB, 120.0, from_s=7200.0, resets_s=(3 * 3600.0, 4 * 3600.0)),
    Container("db-0", steady(1.5), 900.0, gaps_s=((2 * 3600.0, 2.5 * 3600.0),)),
    Container("night-28000000-x", steady(0.9), 50.0, until_s=3600.0),
)


def a_cluster(scrape_s: float) -> SimulatedCluster:
    start_s = (time.time() // 3600 - HOURS) * 3600
    nodes = {"node-a": "10.0.0.1", "node-b": "10.0.0.2"}
    return SimulatedCluster(start_s, HOURS, scrape_s, CONTAINERS, PODS, nodes=nodes)


def read(url: str, step_s: int, store: PartFiles | None = None, seen: list[str] | None = None) -> ClusterHistory:
    async def ask() -> ClusterHistory:
        async with PrometheusClient(Prometheus(url, qps=200.0), monotonic=time.monotonic) as client:
            found = await read_history(
                client,
                HistoryRequest(days=0.5, step_s=step_s),
                time.time(),
                store=store,
                progress=lambda what, done, of: seen.append(f"{what} {done}/{of}") if seen is not None else None,
            )
            if seen is not None:
                seen.append(f"requests {client.requests}")
            return found

    return asyncio.run(ask())


def mean_error(found: ClusterHistory, name: str, cluster: SimulatedCluster, of: list[Container]) -> tuple[float, int]:
    """Mean relative error of the known values, and how many are known. The first window of a life has less in it."""
    use = found.pods.use
    row = use.cpu_m[use.names.index(name)]
    errors = []
    for column in np.flatnonzero(~np.isnan(row)):
        end = use.start_s + column * use.step_s - cluster.start_s
        times = np.arange(end - use.step_s, end, 5.0)
        if times[0] < max(one.from_s for one in of) + 120.0:
            continue
        real = 1000.0 * sum(np.mean([one.cores(t) for t in times]) for one in of)
        errors.append(abs(float(row[column]) - real) / real)
    return float(np.mean(errors)), len(errors)


@pytest.mark.parametrize("late_s", [30.0, 240.0])
def test_the_time_between_scrapes_is_known_minutes_after_the_last_one(late_s: float, tmp_path: Path) -> None:
    cluster = replace(a_cluster(15.0), start_s=time.time() - late_s - HOURS * 3600)
    with filled(cluster, tmp_path) as url:
        assert "scraped every 15 s" in read(url, 300).pods.use.source


@pytest.mark.parametrize(("scrape_s", "step_s", "tolerance"), [(15.0, 300, 0.01), (60.0, 300, 0.02), (60.0, 60, 0.03)])
def test_use_is_what_was_used(scrape_s: float, step_s: int, tolerance: float, tmp_path: Path) -> None:
    cluster = a_cluster(scrape_s)
    with filled(cluster, tmp_path) as url:
        found = read(url, step_s)
    use = found.pods.use
    assert set(use.names) == {f"{pod.namespace}/{pod.name}" for pod in PODS}
    two = [one for one in CONTAINERS if one.pod == "web-7d4b9c6f5d-aaaaa"]
    error, known = mean_error(found, "shop/web-7d4b9c6f5d-aaaaa", cluster, two)
    assert error < tolerance
    assert known > 0.9 * HOURS * 3600 / step_s
    # two resets among hours: they do not show as dips to nothing or as jumps
    once = [one for one in CONTAINERS if one.pod == "web-7d4b9c6f5d-bbbbb"]
    error, known = mean_error(found, "shop/web-7d4b9c6f5d-bbbbb", cluster, once)
    assert error < 2 * tolerance
    assert known > 0.9 * (HOURS - 2) * 3600 / step_s
    memory = use.memory_mib[use.names.index("shop/web-7d4b9c6f5d-aaaaa")]
    assert np.nanmax(np.abs(memory - 150.0)) < 0.01


def test_gaps_stay_gaps_and_the_rest_is_joined(tmp_path: Path) -> None:
    cluster = a_cluster(15.0)
    with filled(cluster, tmp_path) as url:
        found = read(url, 300)
    use = found.pods.use
    row = use.cpu_m[use.names.index("data/db-0")]
    times = use.start_s + np.arange(use.steps) * use.step_s - cluster.start_s
    assert np.isnan(row[(times > 2 * 3600 + 300) & (times < 2.5 * 3600)]).all()
    assert np.nanmax(np.abs(row[(times > 3 * 3600) & (times < 5 * 3600)] - 1500.0)) < 10.0
    join = dict(zip(use.names, zip(found.pods.node, found.pods.workload, strict=True), strict=True))
    assert join["shop/web-7d4b9c6f5d-bbbbb"] == ("node-b", "shop/Deployment/web")
    assert join["data/db-0"] == ("node-b", "data/StatefulSet/db")
    assert join["data/night-28000000-x"] == ("node-a", "data/CronJob/night")  # gone for hours
    request = dict(zip(use.names, found.pods.cpu_request_m.tolist(), strict=True))
    assert request["data/db-0"] == 2000.0
    # whole nodes by the root group, whose `instance` is the kubelet's address
    assert found.nodes.names == ("node-a", "node-b")
    assert math.isclose(float(np.nanmedian(found.nodes.cpu_m)), 3000.0, rel_tol=0.01)
    assert float(np.nanmedian(found.nodes.memory_mib)) == 4096.0
    assert "cAdvisor, scraped every 15 s" in use.source
    assert "days asked for are not in the store" in use.source
    assert found.faults == ()


@pytest.mark.parametrize(
    ("labels", "layout"),
    [
        (("namespace", "pod_name", "container_name"), "cAdvisor before 1.16"),
        (("exported_namespace", "exported_pod", "exported_container"), "cAdvisor, labels set aside"),
    ],
)
def test_renamed_labels_and_doubled_series(labels: tuple[str, str, str], layout: str, tmp_path: Path) -> None:
    namespace, pod, container = labels
    renamed = replace(
        a_cluster(60.0),
        namespace_label=namespace,
        pod_label=pod,
        container_label=container,
        doubles=True,
        has_states=False,
    )
    with filled(renamed, tmp_path) as url:
        found = read(url, 300)
    assert layout in found.pods.use.source
    row = found.pods.use.cpu_m[found.pods.use.names.index("data/db-0")]
    assert math.isclose(float(np.nanmedian(row)), 1500.0, rel_tol=0.01)  # and not twice as much
    assert any("kube-state-metrics has no pods here" in fault for fault in found.faults)
    assert set(found.pods.node) == {""}


def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with filled(a_cluster(60.0), tmp_path) as url:
        first: list[str] = []
        before = read(url, 60, PartFiles(kept, url, {}), first)
        second: list[str] = []
        after = read(url, 60, PartFiles(kept, url, {}), second)
    requests = [int(lines[-1].split()[1]) for lines in (first, second)]
    assert requests[0] - requests[1] == len(list(kept.glob("*.npz"))) >= 4
    shared = before.pods.use.between(before.pods.use.start_s + 3600, before.pods.use.end_s - 7200)
    again = after.pods.use.between(shared.start_s, shared.end_s)
    np.testing.assert_array_equal(shared.cpu_m, again.cpu_m)
