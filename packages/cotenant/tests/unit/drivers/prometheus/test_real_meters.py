"""Cards, energy and stores of managed services, in a real Prometheus that a simulated exporter has filled."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.fakes.servers.real_prometheus import filled
from tests.fakes.servers.simulated_exporter import Card, SimulatedCluster, steady

from .test_real_prometheus import CONTAINERS, HOURS, a_cluster, read

pytestmark = pytest.mark.slow

CARDS = (
    Card("GPU-1", "node-a", steady(20.0), pods=((0.0, "web-7d4b9c6f5d-aaaaa"), (3 * 3600.0, "db-0"))),
    Card("GPU-2", "node-a", lambda t: 90.0 if t > 5 * 3600 else 0.0, pods=((0.0, "db-0"),)),
    Card("GPU-3", "node-b", steady(0.0), memory_used_mib=12000, memory_free_mib=4000),
)


def test_cards_are_known_by_their_days(tmp_path: Path) -> None:
    cluster = replace(a_cluster(60.0), cards=CARDS)
    with filled(cluster, tmp_path) as url:
        found = read(url, 300)
    assert found.faults == ()
    uses = found.meters.cards
    assert uses.names_pods
    assert uses.source.startswith("DCGM_FI_DEV_GPU_UTIL")
    by_card = {card.card: card for card in uses.cards}
    assert {name: card.node for name, card in by_card.items()} == {
        "GPU-1": "node-a",
        "GPU-2": "node-a",
        "GPU-3": "node-b",
    }
    first = by_card["GPU-1"]
    assert first.mean_pct == pytest.approx((20.0,), abs=0.01)  # though it was two pods' in turn
    assert first.pod == "shop/db-0"
    assert by_card["GPU-2"].mean_pct == pytest.approx((90.0 / HOURS,), rel=0.02)
    assert by_card["GPU-2"].p99_pct == pytest.approx((90.0,))
    assert by_card["GPU-3"].memory_pct == pytest.approx(75.0)
    assert by_card["GPU-3"].pod == ""


@pytest.mark.parametrize(
    ("kepler", "metric"), [("0.10", "kepler_pod_cpu_joules_total"), ("0.7", "kepler_container_joules_total")]
)
def test_energy_is_what_was_used(kepler: str, metric: str, tmp_path: Path) -> None:
    cluster = replace(a_cluster(60.0), kepler=kepler)
    with filled(cluster, tmp_path) as url:
        found = read(url, 300)
    energy = found.meters.energy
    assert energy.source.startswith(metric)
    pods = dict(energy.pods)
    assert len(pods) == 4
    steps = np.arange(0.0, HOURS * 3600, 5.0)
    for pod, name in (("shop/web-7d4b9c6f5d-aaaaa", "web-7d4b9c6f5d-aaaaa"), ("data/night-28000000-x",) * 2):
        name = name.rpartition("/")[2]
        of = [one for one in CONTAINERS if one.pod == name]
        core_s = sum(5.0 * one.cores(t) for one in of for t in steps if one.from_s <= t < one.until_s)
        assert pods[pod] == pytest.approx((10.0 * core_s,), rel=0.02)
    assert energy.nodes == pytest.approx((2 * 10.0 * HOURS * 3600,), rel=0.02)


def test_without_these_exporters_it_says_so(tmp_path: Path) -> None:
    with filled(a_cluster(60.0), tmp_path) as url:
        meters = read(url, 300).meters
    assert "DCGM" in meters.cards.why
    assert "Kepler" in meters.energy.why


class Managed(SimulatedCluster):
    """The names under which a managed service stores the same."""

    def text(self) -> str:
        text = super().text()
        cpu, memory = "kubernetes_io:container_cpu_core_usage_time", "kubernetes_io:container_memory_used_bytes"
        for old, new in (
            ("# TYPE container_cpu_usage_seconds counter", f"# TYPE {cpu} unknown"),
            ("container_cpu_usage_seconds_total{", f"{cpu}{{"),
            ("# TYPE container_memory_working_set_bytes gauge", f"# TYPE {memory} gauge"),
            ("container_memory_working_set_bytes{", f'{memory}{{memory_type="non-evictable",'),
        ):
            text = text.replace(old, new)
        return text


def test_a_managed_service_is_read_by_its_names(tmp_path: Path) -> None:
    own = a_cluster(60.0)
    cluster = Managed(
        own.start_s, own.hours, own.scrape_s, own.containers, own.pods, "namespace_name", "pod_name", "container_name",
        has_states=False, nodes={},
    )  # fmt: skip
    with filled(cluster, tmp_path) as url:
        found = read(url, 300)
    assert "Google Cloud" in found.pods.use.source
    row = found.pods.use.cpu_m[found.pods.use.names.index("data/db-0")]
    assert math.isclose(float(np.nanmedian(row)), 1500.0, rel_tol=0.01)
    assert any("a node's is the sum of its pods" in fault for fault in found.faults)
