"""The node's GPUs as metrics; `gpu` is the UUID.

What a driver does not say is left out, never 0: a card of which nobody says how busy it is is no idle one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import Metric

from cotenant.engine.node.idle_cards import IdleCards
from cotenant.model.machine.counters import GpuCounters
from cotenant.services.agent.metric_families import counter, gauge

_GPU = ("gpu",)


def _part(amount: float | None, whole: float) -> float | None:
    return None if amount is None else amount / whole


# name, what it is, and its amount in Prometheus' unit
_GAUGES: tuple[tuple[str, str, Callable[[GpuCounters], float | None]], ...] = (
    (
        "cotenant_gpu_utilisation_ratio",
        "Time in which any kernel ran on a GPU",
        lambda gpu: _part(gpu.utilisation_percent, 100),
    ),
    ("cotenant_gpu_memory_used_bytes", "Memory of a GPU in use", lambda gpu: gpu.memory_used_bytes),
    ("cotenant_gpu_memory_total_bytes", "Memory of a GPU", lambda gpu: gpu.memory_total_bytes),
    ("cotenant_gpu_healthy", "1 where a GPU is well", lambda gpu: float(gpu.healthy)),
    ("cotenant_gpu_pcie_bytes_per_second", "Sent and received over PCIe", lambda gpu: gpu.pcie_bps),
    ("cotenant_gpu_nvlink_bytes_per_second", "Sent and received over all NVLinks", lambda gpu: gpu.nvlink_bps),
    ("cotenant_gpu_power_watts", "What a GPU draws", lambda gpu: _part(gpu.power_mw, 1000)),
    ("cotenant_gpu_sm_clock_hertz", "Clock of the multiprocessors", lambda gpu: _part(gpu.sm_clock_mhz, 1e-6)),
)


def of_gpus(gpus: Sequence[GpuCounters], idle: IdleCards) -> Iterator[Metric]:
    """As last read, and for how long each card was held, and idle meanwhile."""
    for name, text, amount in _GAUGES:
        yield gauge(name, text, _GPU, [((gpu.uuid,), amount(gpu)) for gpu in gpus])
    yield gauge(
        "cotenant_gpu_throttled",
        "1 for each reason for which a GPU is slower than it could be, against its will",
        ("gpu", "reason"),
        [((gpu.uuid, reason), 1) for gpu in gpus for reason in gpu.throttled_by],
    )
    yield counter(
        "cotenant_gpu_xid_errors",
        "Errors that the driver reported by Xid, those that programs cause too",
        ("gpu", "xid"),
        [((gpu.uuid, str(xid)), times) for gpu in gpus for xid, times in gpu.xids],
    )
    times = idle.times.items()
    yield counter(
        "cotenant_gpu_held_seconds",
        "Time in which a GPU was given to a pod, or a process ran on it, and its use was known",
        _GPU,
        [((uuid,), one.held_us / 1e6) for uuid, one in times],
    )
    yield counter(
        "cotenant_gpu_held_idle_seconds",
        "The part of that in which no kernel ran on it",
        _GPU,
        [((uuid,), one.idle_us / 1e6) for uuid, one in times],
    )
    now = idle.now
    states = (("busy", now.allocated - now.idle - now.unknown), ("idle", now.idle), ("unknown", now.unknown))
    rows = [((state,), number) for state, number in states] if gpus else []
    yield gauge("cotenant_gpus_held", "GPUs of this node that are held, by their use now", ("use",), rows)
    yield gauge(
        "cotenant_gpus_held_idle_memory_bytes",
        "Memory in use on held GPUs that are idle",
        (),
        [((), now.idle_memory_bytes)] if gpus else [],
    )
