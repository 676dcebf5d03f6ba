"""Who ran while services waited: the keeper's reading reaches an agent whole, and a keeper without a probe says what it
needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.node.kept_knobs import KeptKnobs
from tests.fakes.waiting import patience, soon

from cotenant.drivers.ebpf.delays import ProbeDelays
from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.machine.knob import KnobScope
from cotenant.model.machine.run_queue import Blame, GroupWaits, NoCulprit, RunQueueReading, WaitHistogram
from cotenant.services.keeper.keeper_arguments import KeeperArguments
from cotenant.services.keeper.privileges import KernelCapability, needed
from cotenant.services.keeper.server import KeeperServer, NoWaits, WaitsReader
from cotenant.services.keeper.waits import MAX_WATCHED, ProbedWaits, waits_reader
from cotenant.services.knobs import wire
from cotenant.services.knobs.client import KeeperClient
from cotenant.services.knobs.dry_run import NoStateFile
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.local_keeper import LocalKeeper
from cotenant.services.knobs.rules import KnobRules
from cotenant.services.sockets.peers import Peers

READING = RunQueueReading(
    7,
    (GroupWaits("web", WaitHistogram(3, 90, (1, 2)), 5, 1),),
    (Blame("web", "be/hog", 70), Blame("web", NoCulprit.IDLE, 20), Blame("web", NoCulprit.UNKNOWN, 1)),
    2,
    4,
)


class NoAudit:
    def write(self, changes: object) -> None:
        pass


class OneReading:
    needs = ""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.gone: list[int] = []

    def read(self, asker: int, groups: Sequence[str]) -> RunQueueReading:
        self.asked.append(tuple(groups))
        return READING

    def left(self, asker: int) -> None:
        self.gone.append(asker)


class CountingProbe:
    """What `ProbedWaits` uses of a loaded probe: each watched group has waited once more with each reading."""

    def __init__(self) -> None:
        self.watched: tuple[str, ...] = ()
        self.counted: dict[str, int] = {}

    def watch(self, groups: Mapping[str, int | None]) -> None:
        self.watched = tuple(groups)
        self.counted = {group: self.counted.get(group, 0) for group in groups}

    def read(self) -> RunQueueReading:
        self.counted = {group: count + 1 for group, count in self.counted.items()}
        groups = tuple(GroupWaits(group, WaitHistogram(count)) for group, count in self.counted.items())
        blame = tuple(Blame(group, "be/hog", count) for group, count in self.counted.items())
        return RunQueueReading(0, groups, blame, 5)


def serve(folder: Path, waits: WaitsReader | None, use: Callable[[KeeperClient], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        path = folder / "keeper.sock"
        clock = Clock(lambda: 0, lambda: 1.0)
        executor = LeaseExecutor({KnobScope.CGROUP: KeptKnobs([])}, NoStateFile(), NoAudit(), clock, KnobRules(("be",)))
        server = KeeperServer(path, LocalKeeper(executor), Peers(), waits=waits)
        client = KeeperClient(path)
        await server.start()
        try:
            async with asyncio.timeout(patience(30)):
                await use(client)
        finally:
            await client.close()
            await server.stop()

    asyncio.run(whole())


def test_a_reading_reaches_the_agent_whole(tmp_path: Path) -> None:
    probe = OneReading()

    async def use(client: KeeperClient) -> None:
        assert await client.waits(("web", "db")) == READING
        assert (await client.describe()).waits == ""

    serve(tmp_path, probe, use)
    assert probe.asked == [("web", "db")]


@pytest.mark.parametrize("waits", [None, NoWaits("a kernel with BTF")], ids=["not wanted", "not possible"])
def test_a_keeper_without_a_probe_says_what_it_needs_and_goes_on(tmp_path: Path, waits: WaitsReader | None) -> None:
    async def use(client: KeeperClient) -> None:
        with pytest.raises(Unsupported) as refused:
            await client.waits(("web",))
        assert refused.value.needs == ("a kernel with BTF" if waits else NoWaits.WANTED)
        assert (await client.describe()).waits == refused.value.needs
        assert await client.leases() == ()

    serve(tmp_path, waits, use)


def counts(reading: RunQueueReading) -> dict[str, int]:
    assert [(found.victim, found.ran_us) for found in reading.blame] == [
        (found.group, found.waits.count) for found in reading.groups
    ]
    return {found.group: found.waits.count for found in reading.groups}


def test_two_askers_keep_their_counters_and_are_told_of_their_own_groups() -> None:
    probe = CountingProbe()
    waits = ProbedWaits(ProbeDelays(probe))  # type: ignore[arg-type]
    assert counts(waits.read(1, ("web", "db"))) == {"web": 1, "db": 1}
    assert counts(waits.read(2, ("db", "other"))) == {"db": 2, "other": 1}
    assert counts(waits.read(1, ("web", "db"))) == {"web": 3, "db": 3}
    assert set(probe.watched) == {"web", "db", "other"}
    waits.left(1)
    waits.left(1)
    assert counts(waits.read(2, ("db", "other"))) == {"db": 4, "other": 3}
    assert set(probe.watched) == {"db", "other"}


def test_who_would_exceed_what_is_watched_in_all_is_refused_and_the_others_go_on() -> None:
    waits = ProbedWaits(ProbeDelays(CountingProbe()))  # type: ignore[arg-type]
    first = tuple(f"a{at}" for at in range(MAX_WATCHED - 1))
    waits.read(1, first)
    with pytest.raises(InvalidInput, match="1 other client asks this keeper too"):
        waits.read(2, ("b", "c"))
    assert len(counts(waits.read(1, first))) == MAX_WATCHED - 1
    assert counts(waits.read(2, ("b",))) == {"b": 1}


def test_the_end_of_a_connection_is_the_end_of_what_it_asked_for(tmp_path: Path) -> None:
    probe = OneReading()

    async def use(client: KeeperClient) -> None:
        await client.waits(("web",))
        await client.close()
        await soon("the connection has ended", lambda: probe.gone == [1])
        await client.waits(("web",))
        assert probe.gone == [1]

    serve(tmp_path, probe, use)
    assert probe.gone == [1, 2]


def test_too_many_groups_or_too_long_names_are_refused() -> None:
    for wrong in (("web",) * (wire.MAX_IN_ONE + 1), ("w" * (wire.MAX_GROUP + 1),)):
        with pytest.raises(InvalidInput):
            wire.request(wire.frame(wire.ReadWaits(wrong))[wire.LENGTH.size :])


def test_without_being_asked_no_program_is_loaded_and_no_capability_kept(tmp_path: Path) -> None:
    with waits_reader(tmp_path / "nothing", False) as reader:
        assert isinstance(reader, NoWaits)
    with waits_reader(tmp_path / "nothing", True) as reader:
        assert isinstance(reader, NoWaits)  # said, and no reason not to start
    tracing = {KernelCapability.BPF, KernelCapability.PERFMON}
    assert not tracing & needed(KeeperArguments())
    assert tracing <= needed(KeeperArguments(waits=True))
