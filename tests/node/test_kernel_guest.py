"""The loads of the experiment of kernels, in a guest whose clock counts instructions."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from cotenant.drivers.ebpf.libbpf import objects_folder
from cotenant.drivers.qemu.kernel import zone_kernel
from cotenant.drivers.qemu.machine import missing
from cotenant.drivers.qemu.packages import GuestUnavailable
from cotenant_lab.experiments.site.kernel_guest import run_in_guest
from cotenant_lab.experiments.studies.kernel_loads import ALONE, FAIR, WEIGHTS
from cotenant_lab.experiments.studies.kernels import MODULE, SCHEDULERS


@pytest.mark.slow
def test_redis_beside_batch_under_every_scheduler() -> None:
    if lack := missing():
        pytest.skip(f"a virtual machine needs {lack}")
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        pytest.skip("no redis-server here")
    if not (objects_folder() / "zone_latency.bpf.o").is_file():
        pytest.skip("no built objects (make bpf)")
    try:
        kernel = zone_kernel()
    except GuestUnavailable as error:
        pytest.skip(f"no kernel for a guest: {error}")
    found = asyncio.run(run_in_guest(kernel, "full", MODULE, print))
    assert found.preempt == "full"
    arms = found.result
    assert arms.keys() == {ALONE, *SCHEDULERS}
    # The p99 of 200 requests is the second worst: two that met a kernel thread at work would decide.
    p95 = {name: arm["latencies_ms"][len(arm["latencies_ms"]) * 95 // 100] for name, arm in arms.items()}
    # batch that is in the kernel for long delays a service of the fair class, and not one that comes first
    assert max(p95[WEIGHTS], p95["latency"]) < p95[FAIR] < p95["throughput"], p95
    assert arms[ALONE]["batch_cpus"] < 0.01 < arms[FAIR]["batch_cpus"]
    assert arms[ALONE]["requests_per_s"] > arms[FAIR]["requests_per_s"] > 0
