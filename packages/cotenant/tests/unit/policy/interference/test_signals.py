from __future__ import annotations

from typing import Any

import pytest

from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import PPM, GroupUse, PodUse, ServiceHealth
from cotenant.policy.interference.settings import SuspectSignal, VictimSignal
from cotenant.policy.interference.signals import activity, victim_level_ppm


def entry(health: ServiceHealth | None = None, **use: Any) -> PodUse:
    pod = NodePod("u", "ns", "p", "pods/p", objective_p99_us=10_000)
    return PodUse(pod, GroupUse("pods/p", **use), health=health)


def health(requests: int) -> ServiceHealth:
    return ServiceHealth(window_us=1_000_000, requests=requests, p99_us=25_000, over_objective=0, age_us=0)


@pytest.mark.parametrize(
    ("signal", "given", "wanted"),
    [
        (VictimSignal.CPI, entry(cpi_milli=1500), 1_500_000),
        (VictimSignal.CPI, entry(), None),
        # waits half a second in each second of CPU time: 0.2 s waited and 0.4 s used, each second
        (VictimSignal.RUN_DELAY, entry(run_delay_ppm=200_000, cpu_m=400), PPM // 2),
        (VictimSignal.RUN_DELAY, entry(run_delay_ppm=200_000, cpu_m=0), None),
        (VictimSignal.RUN_DELAY, entry(cpu_m=400), None),
        (VictimSignal.STALL, entry(cpu_stall_ppm=70_000), 70_000),
        (VictimSignal.LATENCY, entry(health(20)), 2_500_000),
        (VictimSignal.LATENCY, entry(health(19)), None),
        (VictimSignal.LATENCY, entry(), None),
    ],
)
def test_how_a_service_suffers(signal: VictimSignal, given: PodUse, wanted: int | None) -> None:
    assert victim_level_ppm(signal, given) == wanted


@pytest.mark.parametrize(
    ("signal", "given", "wanted"),
    [
        (SuspectSignal.CPU, entry(cpu_m=250), 250),
        (SuspectSignal.CPU, entry(), None),
        (SuspectSignal.IO, entry(io_read_bps=100, io_written_bps=20), 120),
        (SuspectSignal.IO, entry(io_written_bps=20), 20),
        (SuspectSignal.IO, entry(), None),
        (SuspectSignal.BLAME, entry(cpu_m=250), None),
    ],
)
def test_how_active_a_suspect_is(signal: SuspectSignal, given: PodUse, wanted: int | None) -> None:
    assert activity(signal, given) == wanted
