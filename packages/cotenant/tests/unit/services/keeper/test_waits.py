"""Who ran while services waited: the keeper's reading reaches an agent whole, and a keeper without a probe says what it
needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.node.kept_knobs import KeptKnobs
from tests.fakes.waiting import patience

from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.machine.knob import KnobScope
from cotenant.model.machine.run_queue import Blame, GroupWaits, NoCulprit, RunQueueReading, WaitHistogram
from cotenant.services.keeper.keeper_arguments import KeeperArguments
from cotenant.services.keeper.privileges import KernelCapability, needed
from cotenant.services.keeper.server import KeeperServer, NoWaits, WaitsReader
from cotenant.services.keeper.waits import waits_reader
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

    def read(self, groups: Sequence[str]) -> RunQueueReading:
        self.asked.append(tuple(groups))
        return READING


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
