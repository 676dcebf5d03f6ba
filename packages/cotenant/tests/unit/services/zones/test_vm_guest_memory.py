"""Memory and disk of groups in a guest: noticed, protected, reclaimed on trial, and given back afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.fakes.waiting import soon
from tests.unit.services.zones.test_vm import linked

from cotenant.engine.zones.zone import Zone, ZoneLimits
from cotenant.model.zones.setting import Backend, ZoneSetting
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.policy.zone.deciding import ZoneConfig
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.vm_backend import GuestBackend, GuestState
from cotenant.services.zones.vm_guest_agent import Guest
from cotenant.services.zones.vm_guest_memory import GuestMemory

MIB = 1 << 20
KNOBS = {"memory.low": "0", "memory.reclaim": "", "io.weight": "default 100", "cpu.idle": "0", "cpu.weight": "100"}


def groups(tree: Path, **bytes_of: int) -> None:
    """Groups with the files of a kernel that has all controllers; nobody waits."""
    for group, charged in bytes_of.items():
        folder = tree / group
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in {**KNOBS, "cpu.stat": "usage_usec 70", "memory.current": str(charged)}.items():
            (folder / file).write_text(text)
        waits(folder, memory_us=0, io_us=0)


def waits(folder: Path, memory_us: int, io_us: int) -> None:
    for name, total in (("memory", memory_us), ("io", io_us)):
        text = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
        (folder / f"{name}.pressure").write_text(text)


def test_groups_above_have_the_sum_and_what_is_over_is_undone(tmp_path: Path) -> None:
    for place in ("a", "a/one", "a/two"):
        groups(tmp_path, **{place: MIB})
    memory = GuestMemory(tmp_path)
    memory.protect({"a/one": {"memoryLow": 3 * MIB}, "a/two": {"memoryLow": 5 * MIB, "ioWeight": 800}})
    assert [(tmp_path / place / "memory.low").read_text() for place in ("a", "a/one", "a/two")] == [
        str(amount * MIB) for amount in (8, 3, 5)
    ]
    assert (tmp_path / "a/two/io.weight").read_text().startswith("default 800")
    memory.protect({"a/one": {"memoryLow": 3 * MIB}, "a/two": {}})
    assert int((tmp_path / "a/memory.low").read_text()) == 3 * MIB
    assert int((tmp_path / "a/two/memory.low").read_text()[:1]) == 0
    assert (tmp_path / "a/two/io.weight").read_text().startswith("default 100")
    assert memory.refused == {}


def test_a_kernel_without_a_file_says_so_and_no_file_is_made(tmp_path: Path) -> None:
    groups(tmp_path, web=MIB)
    (tmp_path / "web/io.weight").unlink()
    (tmp_path / "web/memory.reclaim").unlink()
    memory = GuestMemory(tmp_path)
    memory.protect({"web": {"ioWeight": 800}})
    memory.reclaim([("web", 4096)])
    assert memory.counted(["web", "gone"])["refused"] == {
        "web io.weight": "No such file or directory",
        "web memory.reclaim": "No such file or directory",
    }
    assert memory.counted(["web", "gone"])["groups"] == {"web": [0, 0, MIB]}
    assert not (tmp_path / "web/io.weight").exists()


def test_a_service_of_a_guest_is_protected_on_trial_batch_reclaimed_and_all_given_back(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    groups(tree, web=80 * MIB, batch=200 * MIB)
    inside = Guest(tree)
    rows = {"web": ZoneRow(ZoneClass.SERVICE), "batch": ZoneRow(ZoneClass.BATCH)}
    lines: list[str] = []

    async def main() -> None:
        async with linked(tmp_path / "agent", inside.carry_out) as (link, _):
            state = GuestState(link, log=lines.append)
            zone = Zone(
                "box",
                rows,
                (ZoneSetting(Backend.WEIGHTS),),
                config=ZoneConfig(calm_s=1e-6),
                limits=ZoneLimits(1e-6, 1e-6, 300.0),
            )
            runner = ZoneRunner(
                zone, {Backend.WEIGHTS: GuestBackend(state, Backend.WEIGHTS, ())}, lambda: state.used_us
            )
            runner.resources, runner.reclaim = lambda: state.waits.latest, state.reclaim
            await runner.start()
            waited_us = 0

            async def step(*, pressed: bool) -> None:
                nonlocal waited_us
                waited_us += 10**12 if pressed else 0  # longer than any reading: all of it
                waits(tree / "web", memory_us=waited_us, io_us=waited_us)
                await runner.step()

            for _ in range(3):
                await step(pressed=False)
            while zone.history[-1].reason.rule != "zone-protect":
                await step(pressed=True)
            change = zone.history[-1]
            assert "web keeps 80 MiB" in change.reason.text
            await step(pressed=True)  # rows go with the next message
            assert (tree / "web/memory.low").read_text() == str(80 * MIB)
            assert (tree / "web/io.weight").read_text().startswith("default 800")
            while zone.history[-1].reason.rule != "zone-reclaim":
                await step(pressed=True)
            await step(pressed=True)
            await soon("reclaimed", lambda: (tree / "batch/memory.reclaim").read_text() != "")
            assert int((tree / "batch/memory.reclaim").read_text()) % 4096 == 0
            while zone.rows != rows:
                await step(pressed=False)
            await step(pressed=False)
            await step(pressed=False)
            assert int((tree / "web/memory.low").read_text()[:1]) == 0
            assert (tree / "web/io.weight").read_text().startswith("default 100")
            assert [entry.kept for entry in zone.history if entry.reason.rule == "zone-protect"] == [True]
            await runner.stop()

    asyncio.run(main())
    assert lines == []


def test_what_a_guest_refuses_is_a_line_once(tmp_path: Path) -> None:
    groups(tmp_path / "tree", web=MIB)
    (tmp_path / "tree/web/io.weight").unlink()
    inside, lines = Guest(tmp_path / "tree"), list[str]()

    async def main() -> None:
        async with linked(tmp_path / "agent", inside.carry_out) as (link, _):
            state = GuestState(link, log=lines.append)
            state.rows = {"web": ZoneRow(ZoneClass.SERVICE, io_weight=800)}
            for _ in range(3):
                await state.ask("read")

    asyncio.run(main())
    assert lines == ["in the guest: web io.weight is not set: No such file or directory"]
