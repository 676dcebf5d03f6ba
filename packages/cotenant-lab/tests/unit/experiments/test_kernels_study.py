"""The experiment of kernels: its claims, words and pictures, from figures; the loads themselves are a guest's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from cotenant.drivers.qemu.packages import Kernel
from cotenant.model.errors import Permanent, Unsupported
from cotenant_lab.experiments import page, registry
from cotenant_lab.experiments.site.kernel_guest import GuestRun
from cotenant_lab.experiments.studies.kernel_loads import ALONE
from cotenant_lab.experiments.studies.kernels import MODULE, SCHEDULERS, judged, measure

KERNELS = (Kernel("slow", Path("slow"), ()), Kernel("fast", Path("fast"), ()))
WORST = {"full": 1.0, "lazy": 4.0}


async def guest(kernel: Kernel, preempt: str, module: str, say: Callable[[str], None]) -> GuestRun:
    """A kernel that knows two models; the tick makes waits shorter under lazy, and requests dearer."""
    assert module == MODULE
    hz = 250 if kernel.version == "slow" else 1000
    if preempt == "none":
        return GuestRun("7.3", "lazy", hz, {})
    worst = WORST[preempt] if hz == 250 else 1.0
    arm = {"batch_cpus": 0.8, "requests_per_s": 5000.0, "requests_per_cpu_s": 10_000.0 - hz}
    named = {name: {**arm, "latencies_ms": [0.1] * 97 + [worst] * 3} for name in (ALONE, *SCHEDULERS)}
    named["throughput"]["latencies_ms"] = [40.0] * 100
    return GuestRun("7.3", preempt, hz, named)


def test_every_kernel_with_every_model_and_the_claims_it_can_show(tmp_path: Path) -> None:
    found = asyncio.run(measure(KERNELS, guest, lambda line: None, rounds=2, at_once=3))
    assert found.rounds == 2
    assert len(found.rows) == 2 * 2 * (1 + len(SCHEDULERS))
    assert {len(row) for row in found.rows} == {len(found.columns)}
    measured = {check.what: check.measured for check in found.checks}
    assert measured == pytest.approx(
        {
            "low load, 250 Hz: p99, full / lazy": 0.25,
            "low load, 1000 Hz: p99, full / lazy": 1.0,
            "low load, lazy: p99, 1000 Hz / 250 Hz": 0.25,
            "low load, full: p99, 1000 Hz / 250 Hz": 1.0,
            "high load alone, lazy: requests a CPU second, 1000 Hz / 250 Hz": 9000 / 9750,
            "high load alone, full: requests a CPU second, 1000 Hz / 250 Hz": 9000 / 9750,
        }
    )
    assert found.passed
    assert found.notes[0].startswith("Low load: the least p99 has")
    assert "throughput (40.00 ms)" in found.notes[0]
    alike = ", ".join(f"{name} 1.00 (1.00 to 1.00)" for name in (ALONE, *SCHEDULERS))
    assert found.notes[2] == f"1000 Hz / 250 Hz, full, p99 at low load: {alike}."
    assert found.notes[5].startswith("1000 Hz / 250 Hz, lazy, requests a CPU second at high load: alone 0.92 (0.92 to")
    assert found.notes[6:] == (
        "Not shown: preempt=none at 250 Hz, for Linux 7.3 runs lazy instead.",
        "Not shown: preempt=none at 1000 Hz, for Linux 7.3 runs lazy instead.",
    )
    assert "latencies_ms" not in registry.encode(found)
    page.write(tmp_path / "report.html", found, "cotenant node experiment kernels")
    assert "requests answered later than" in (tmp_path / "report.html").read_text()


def test_a_tick_that_was_not_built_is_told_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTENANT_CACHE", str(tmp_path))
    monkeypatch.setattr("cotenant.drivers.qemu.machine.missing", lambda: "")
    monkeypatch.setattr("shutil.which", lambda name: name)
    with pytest.raises(Unsupported, match="with 1000 ticks a second: `cotenant zone kernel --hz 1000` builds one"):
        registry.run_kernels(tmp_path / "runs", "", (), (1000,), 1, lambda line: None)
    assert not (tmp_path / "runs").exists()


def test_one_kernel_shows_no_claim_about_ticks() -> None:
    found = asyncio.run(measure(KERNELS[:1], guest, lambda line: None))
    assert [check.what for check in found.checks] == ["low load, 250 Hz: p99, full / lazy"]
    with pytest.raises(Permanent, match="no kernel ran: all"):
        judged([], ["all"], 1)
