"""The experiment of schedulers that know the machine, from figures; the loads themselves are a guest's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from cotenant.drivers.qemu.packages import Kernel
from cotenant.model.errors import Permanent
from cotenant.model.json_object import JsonObject
from cotenant_lab.experiments import page
from cotenant_lab.experiments.site.kernel_guest import GuestRun
from cotenant_lab.experiments.studies.schedulers import APART, CORES, THREADS, TICKS, judged, measure
from cotenant_lab.experiments.studies.thread_loads import BY_NAME, FAIR, ONE_ROW

KERNEL = Kernel("7.3", Path("vmlinux"), ())
BESIDE = {"fair": 0.9, "latency": 0.8, "siblings": 0.16}
WORST = {FAIR: 4.0, ONE_ROW: 8.0, BY_NAME: 0.2}


def core_arms() -> list[JsonObject]:
    return [
        {"work_ms": work, "scheduler": name, "beside_share": share, "service_cpus": 1.0, "batch_cpus": 2.0}
        for work in (20.0, 100.0)
        for name, share in BESIDE.items()
    ]


def apart_arms() -> list[JsonObject]:
    return [
        {"load": load, "scheduler": name, "beside_share": share, "one_cpus": 1.0, "other_cpus": 2.0}
        for load in ("tenants", "service")
        for name, share in (("latency", 0.8), ("apart", 0.008))
    ]


TICK_ARMS = {"fair": {"lost_share": 0.01, "gaps_per_s": 250.0}}


def thread_arms() -> JsonObject:
    return {name: {"delays_ms": [0.1] * 98 + [worst] * 2, "compaction_cpus": 0.9} for name, worst in WORST.items()}


def test_both_guests_have_their_topology_and_the_claims_are_pass_lines(tmp_path: Path) -> None:
    asked = []

    async def guest(
        kernel: Kernel, preempt: str, module: str, say: Callable[[str], None], cpus: int, threads: int
    ) -> GuestRun:
        asked.append((module, cpus, threads))
        arms = {CORES: core_arms(), THREADS: thread_arms(), APART: apart_arms(), TICKS: TICK_ARMS}
        return GuestRun("7.3", preempt, 250, {"arms": arms[module]})

    found = asyncio.run(measure(KERNEL, guest, lambda line: None))
    assert asked == [(CORES, 4, 2), (THREADS, 1, 1), (APART, 4, 2), (TICKS, 1, 1)]
    assert [round(check.measured or 0, 3) for check in found.checks] == [0.2, 0.2, 0.025, 0.01, 0.01]
    assert found.passed
    assert {len(row) for row in found.rows} == {len(found.columns)}
    page.write(tmp_path / "report.html", found, "cotenant node experiment schedulers")
    assert "siblings" in (tmp_path / "report.html").read_text()


def test_a_scheduler_that_keeps_nothing_apart_fails_and_another_kernel_is_told() -> None:
    cores = [arm if arm["scheduler"] != "siblings" else {**arm, "beside_share": 0.7} for arm in core_arms()]
    assert not judged(cores, thread_arms(), apart_arms(), TICK_ARMS).passed
    together = [arm if arm["scheduler"] != "apart" else {**arm, "beside_share": 0.2} for arm in apart_arms()]
    assert not judged(core_arms(), thread_arms(), together, TICK_ARMS).passed

    async def other(*asked: object) -> GuestRun:
        return GuestRun("7.9", "lazy", 250, {})

    with pytest.raises(Permanent, match="runs preempt=lazy and not full"):
        asyncio.run(measure(KERNEL, other, lambda line: None))
