"""Metrics of zones that run, from their state files."""

from __future__ import annotations

import os
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from cotenant.services.zones.metrics import ZoneMetrics
from cotenant.services.zones.state_file import write_state

STATE = {
    "zone": "shop",
    "pid": os.getpid(),
    "state": "active",
    "setting": "root/latency",
    "rows": {"web": {}, "batch": {}},
    "reading": {"seconds": 1, "latePerS": 2.5, "batchCpus": 0.5, "burn": None},
    "banned": {"root/throughput": 12.5},
    "history": [{"at": 1000.5}],
}


def page(folder: Path) -> list[str]:
    registry = CollectorRegistry()
    registry.register(ZoneMetrics(folder))
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_a_zone_has_its_figures_and_what_is_not_known_is_left_out(tmp_path: Path) -> None:
    write_state(tmp_path, STATE)
    write_state(tmp_path, {**STATE, "zone": "gone", "state": "gone"})
    write_state(tmp_path, {"zone": "young", "pid": os.getpid(), "state": "preparing", "setting": "fair"})
    (tmp_path / "broken.json").write_text("[")
    assert page(tmp_path) == [
        'cotenant_zone_info{setting="root/latency",state="active",zone="shop"} 1.0',
        'cotenant_zone_info{setting="fair",state="preparing",zone="young"} 1.0',
        'cotenant_zone_groups{zone="shop"} 2.0',
        'cotenant_zone_groups{zone="young"} 0.0',
        'cotenant_zone_late_dispatches_per_second{zone="shop"} 2.5',
        'cotenant_zone_batch_cores{zone="shop"} 0.5',
        'cotenant_zone_banned_settings{zone="shop"} 1.0',
        'cotenant_zone_banned_settings{zone="young"} 0.0',
        'cotenant_zone_last_change_timestamp_seconds{zone="shop"} 1000.5',
    ]


def test_both_sides_of_a_machine_have_series(tmp_path: Path) -> None:
    front = {"runnable": 2, "memory_pressure": 0.5, "io_pressure": 0.25, "steal_cpus": 0.125, "cpu_pressure": None}
    machine = {"vm": {"memoryMib": 512, "cpus": 2}, "monitors": {"frontEnd": front, "backEnd": {"stolen": 0.5}}}
    write_state(tmp_path, {**STATE, **machine, "reading": {"stall": 0.75}})
    found = [line for line in page(tmp_path) if "_vm_" in line or "stall" in line]
    assert found == [
        'cotenant_zone_stall_ratio{zone="shop"} 0.75',
        'cotenant_zone_vm_memory_bytes{zone="shop"} 5.36870912e+08',
        'cotenant_zone_vm_vcpus{zone="shop"} 2.0',
        'cotenant_zone_vm_runnable{zone="shop"} 2.0',
        'cotenant_zone_vm_memory_pressure_ratio{zone="shop"} 0.5',
        'cotenant_zone_vm_io_pressure_ratio{zone="shop"} 0.25',
        'cotenant_zone_vm_steal_cores{zone="shop"} 0.125',
        'cotenant_zone_vm_stolen_ratio{zone="shop"} 0.5',
    ]


def test_memory_that_pods_may_take_has_a_series_where_it_is_known(tmp_path: Path) -> None:
    machines = {"memoryMib": [512, 4096], "vcpus": [1, 16], "diskMib": [0, 8192], "inPod": False}
    name = "cotenant_zone_vm_memory_not_kept_back_bytes"
    for told, expected in (({}, None), ({"keptBackMib": 256}, 256 << 20), ({"keptBackMib": 600}, 0)):
        write_state(tmp_path, {**STATE, "machines": {**machines, **told}})
        found = [line for line in page(tmp_path) if line.startswith(name)]
        assert [float(line.split()[-1]) for line in found] == ([] if expected is None else [expected])
    write_state(tmp_path, {**STATE, "machines": {**machines, "inPod": True, "keptBackMib": 0}})
    assert not any(line.startswith(name) for line in page(tmp_path))  # the pod's requests stand for it


def test_a_host_without_zones_has_no_series(tmp_path: Path) -> None:
    assert page(tmp_path / "none") == []
