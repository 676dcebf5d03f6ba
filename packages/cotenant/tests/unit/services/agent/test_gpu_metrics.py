"""GPUs in /metrics: what is not known is left out, and held but idle is a figure of its own."""

from __future__ import annotations

from cotenant.engine.node.idle_cards import HeldTime, IdleCards
from cotenant.model.devices.gpu_use import IdleGpus
from cotenant.model.machine.counters import GpuCounters
from cotenant.services.agent.gpu_metrics import of_gpus

KNOWN = GpuCounters(
    0, "GPU-a", "H100", True, 40, 80, 7, pcie_bps=5, nvlink_bps=9, power_mw=312_500, sm_clock_mhz=1410,
    throttled_by=("sw_power_cap",), xids=((31, 2),),
)  # fmt: skip
UNKNOWN = GpuCounters(1, "GPU-b", "A100", False, None, 80, 0)


def read(*gpus: GpuCounters, idle: IdleCards | None = None) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in of_gpus(gpus, idle or IdleCards())
        for sample in family.samples
    }


def test_figures_of_a_card_in_prometheus_units() -> None:
    found = read(KNOWN)
    assert found["cotenant_gpu_utilisation_ratio", "GPU-a"] == 0.4
    assert found["cotenant_gpu_pcie_bytes_per_second", "GPU-a"] == 5
    assert found["cotenant_gpu_nvlink_bytes_per_second", "GPU-a"] == 9
    assert found["cotenant_gpu_power_watts", "GPU-a"] == 312.5
    assert found["cotenant_gpu_sm_clock_hertz", "GPU-a"] == 1.41e9
    assert found["cotenant_gpu_throttled", "GPU-a", "sw_power_cap"] == 1
    assert found["cotenant_gpu_xid_errors_total", "GPU-a", "31"] == 2


def test_what_a_driver_does_not_say_is_left_out() -> None:
    found = read(UNKNOWN)
    named = {name for name, *labels in found if "GPU-b" in labels}
    assert named == {"cotenant_gpu_memory_used_bytes", "cotenant_gpu_memory_total_bytes", "cotenant_gpu_healthy"}


def test_cards_that_are_held_and_idle_now_and_over_time() -> None:
    idle = IdleCards()
    idle.times["GPU-a"] = HeldTime(10_000_000, 2_500_000)
    idle.now = IdleGpus(4, 1, 1, 7, ("ml/train",))
    found = read(KNOWN, UNKNOWN, idle=idle)
    assert found["cotenant_gpu_held_seconds_total", "GPU-a"] == 10
    assert found["cotenant_gpu_held_idle_seconds_total", "GPU-a"] == 2.5
    assert [found["cotenant_gpus_held", use] for use in ("busy", "idle", "unknown")] == [2, 1, 1]
    assert found[("cotenant_gpus_held_idle_memory_bytes",)] == 7


def test_a_node_without_gpus_has_no_such_series() -> None:
    assert read() == {}
