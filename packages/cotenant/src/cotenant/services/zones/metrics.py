"""Metrics of this host's Control Zones, from the files that the process of the zones writes.

The process that runs zones is privileged and serves no metrics, and a zone that changes its scheduler, or was left
without one, must be seen by a monitor. The agent reads the states at a scrape and exports those of zones that run.
Limits: as old as one period of the zone; a zone that ended has no series; state files that cannot be read are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cotenant.services.zones.state_file import lacking_mib, read_states


class ZoneMetrics(Collector):
    """A collector of the zones in this folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def describe(self) -> list[Metric]:
        """Nothing is read at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One family for each figure; a figure that is not known is left out."""
        states = [state for state in read_states(self._folder) if state["running"]]
        info = GaugeMetricFamily(
            "cotenant_zone_info", "A zone that runs: its state and setting", labels=("zone", "state", "setting")
        )
        for state in states:
            info.add_metric([state["zone"], str(state.get("state")), str(state.get("setting"))], 1)
        yield info
        for name, text, read in _FIGURES:
            family = GaugeMetricFamily(name, text, labels=("zone",))
            for state in states:
                value = read(state)
                if value is not None:
                    family.add_metric([state["zone"]], value)
            yield family
        ready = GaugeMetricFamily("cotenant_zone_pod_ready", "Whether a zone's pod is ready", labels=("zone", "pod"))
        restarts = CounterMetricFamily(
            "cotenant_zone_pod_restarts", "How often a zone's pod was started again", labels=("zone", "pod")
        )
        for state in states:
            for name, pod in state.get("pods", {}).items():
                ready.add_metric([state["zone"], name], int(pod["ready"]))
                restarts.add_metric([state["zone"], name], pod["restarts"])
        yield ready
        yield restarts


def _of_monitor(side: str, field: str) -> Any:
    return lambda state: state.get("monitors", {}).get(side, {}).get(field)


def _of_reading(field: str) -> Any:
    return lambda state: (state.get("reading") or {}).get(field)


def _of_machine(field: str, unit: int = 1) -> Any:
    return lambda state: state["vm"][field] * unit if field in state.get("vm", {}) else None


def _not_kept_back(state: Any) -> int | None:
    lacking = lacking_mib(state.get("machines", {}))
    return None if lacking is None else lacking << 20


_FIGURES = (
    ("cotenant_zone_groups", "Groups of a zone", lambda state: len(state.get("rows", ()))),
    ("cotenant_zone_late_dispatches_per_second", "Late dispatches of a zone's services", _of_reading("latePerS")),
    ("cotenant_zone_burn_ratio", "Highest burn rate of a zone's services", _of_reading("burn")),
    ("cotenant_zone_batch_cores", "CPUs that a zone's batch groups used", _of_reading("batchCpus")),
    (
        "cotenant_zone_stall_ratio",
        "Longest share of time in which a service of a zone waited for memory or its disk",
        _of_reading("stall"),
    ),
    (
        "cotenant_zone_banned_settings",
        "Settings that are not tried again yet, after an ejection, a refusal or a worse reading",
        lambda state: len(state.get("banned", ())),
    ),
    (
        "cotenant_zone_last_change_timestamp_seconds",
        "When the rows or the setting of a zone were last changed",
        lambda state: state["history"][-1].get("at") if state.get("history") else None,
    ),
    ("cotenant_zone_vm_memory_bytes", "Memory of a zone's machine", _of_machine("memoryMib", 1 << 20)),
    (
        "cotenant_zone_vm_memory_not_kept_back_bytes",
        "Memory of all machines of this node that it does not keep back from pods",
        _not_kept_back,
    ),
    ("cotenant_zone_vm_vcpus", "vCPUs of a zone's machine", _of_machine("cpus")),
    ("cotenant_zone_vm_runnable", "Tasks that run or wait for a CPU in a guest", _of_monitor("frontEnd", "runnable")),
    (
        "cotenant_zone_vm_wait_milliseconds",
        "Mean wait for a CPU in each turn of a task in a guest",
        _of_monitor("frontEnd", "wait_ms"),
    ),
    (
        "cotenant_zone_vm_softirq_cores",
        "CPUs that a guest's soft interrupts use",
        _of_monitor("frontEnd", "softirq_cpus"),
    ),
    (
        "cotenant_zone_vm_cpu_pressure_ratio",
        "Share of time in which a task of a guest waited for a CPU",
        _of_monitor("frontEnd", "cpu_pressure"),
    ),
    (
        "cotenant_zone_vm_memory_pressure_ratio",
        "Share of time in which a task of a guest waited for memory",
        _of_monitor("frontEnd", "memory_pressure"),
    ),
    (
        "cotenant_zone_vm_io_pressure_ratio",
        "Share of time in which a task of a guest waited for its devices",
        _of_monitor("frontEnd", "io_pressure"),
    ),
    (
        "cotenant_zone_vm_steal_cores",
        "CPUs that a guest wanted and its host did not give, as the guest counts them; KVM only",
        _of_monitor("frontEnd", "steal_cpus"),
    ),
    ("cotenant_zone_vm_vcpu_cores", "CPUs that a machine's vCPUs use", _of_monitor("backEnd", "vcpu_cpus")),
    (
        "cotenant_zone_vm_stolen_ratio",
        "Of the time in which a machine's vCPUs wanted to run, the share that the host did not give",
        _of_monitor("backEnd", "stolen"),
    ),
    (
        "cotenant_zone_vm_device_cores",
        "CPUs that QEMU's threads use besides the vCPUs",
        _of_monitor("backEnd", "device_cpus"),
    ),
    ("cotenant_zone_vm_virtiofsd_cores", "CPUs that a machine's virtiofsd uses", _of_monitor("backEnd", "share_cpus")),
    ("cotenant_zone_vm_vhost_cores", "CPUs that a machine's vhost threads use", _of_monitor("backEnd", "vhost_cpus")),
    ("cotenant_zone_vm_exits_per_second", "Exits of KVM from a guest", _of_monitor("backEnd", "exits_per_s")),
    (
        "cotenant_zone_vm_kicks_per_second",
        "Calls of a guest for its devices' queues, sampled",
        _of_monitor("backEnd", "kicks_per_s"),
    ),
    (
        "cotenant_zone_vm_notifications_per_second",
        "Calls of a guest's devices for their queues, sampled",
        _of_monitor("backEnd", "notifications_per_s"),
    ),
)
