"""Agent and keeper over a real socket: requests are served, and malformed or hostile messages do no harm."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.node.kept_knobs import KeptKnobs
from tests.fakes.waiting import patience

from cotenant.drivers.proc.capabilities import lacking
from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.knob import GiveBack, Knob, KnobChange, KnobScope, KnobTarget, LeaseState, SetKnob, Vanished
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.services.keeper import server as serving
from cotenant.services.keeper.server import KeeperServer, NoWaits
from cotenant.services.knobs import wire
from cotenant.services.knobs.client import KeeperClient
from cotenant.services.knobs.dry_run import NoStateFile
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.local_keeper import LocalKeeper
from cotenant.services.knobs.rules import KnobRules
from cotenant.services.sockets.peers import Peers, RefusalLog, peers_of

REASON = Reason("guard", "slack is −3 %", (DecisionTerm("slack", -30, "‰"),))
QUOTA = KnobTarget("be/a", Knob.CPU_MAX)
HALF = "50000 100000"
FACTS = KubeletFacts(1, (1, 36), "static", reserved_cpus=(0,), systemd=252, given_cpus=(("uid", (2, 3)),))
RULES = KnobRules(("be",), knobs=frozenset({Knob.CPU_MAX, Knob.CPUSET_CPUS}), facts=lambda: FACTS)


class RecordedAudit:
    def __init__(self) -> None:
        self.changes: list[KnobChange] = []

    def write(self, changes: list[KnobChange]) -> None:
        self.changes += changes


class Pipe:
    """Stands in for a pressure trigger: the reading end of a pipe with data."""

    def open(self, asked: wire.OpenTrigger) -> tuple[int, int]:
        if asked.resource != "cpu":
            raise Unsupported("pressure", "another machine")
        ours, theirs = os.pipe()
        os.write(theirs, b"stalled")
        os.close(theirs)
        return ours, asked.window_us


class Keeper:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "keeper.sock"
        self.knobs = KeptKnobs(["be/a"])
        self.trail = RecordedAudit()
        clock = Clock(lambda: 0, lambda: 1.0)
        self.kept = LocalKeeper(LeaseExecutor({KnobScope.CGROUP: self.knobs}, NoStateFile(), self.trail, clock, RULES))
        self.server = KeeperServer(self.path, self.kept, Peers(), Pipe())
        self.client = KeeperClient(self.path)

    async def raw(self, data: bytes, *, end: bool = True) -> bytes:
        """The reply to these bytes, until the keeper closes the connection."""
        reader, writer = await asyncio.open_unix_connection(str(self.path))
        writer.write(data)
        if end:
            writer.write_eof()
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


@asynccontextmanager
async def serving_keeper(folder: Path) -> AsyncIterator[Keeper]:
    keeper = Keeper(folder)
    await keeper.server.start()
    try:
        yield keeper
    finally:
        await keeper.client.close()
        await keeper.server.stop()
        await keeper.kept.stop()


def run(folder: Path, use: Callable[[Keeper], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(patience(30)), serving_keeper(folder) as keeper:
            await use(keeper)

    asyncio.run(whole())


async def still_serves(keeper: Keeper) -> None:
    (answer,) = await keeper.client.hold([SetKnob(QUOTA, HALF, REASON)])
    assert answer.state is LeaseState.HELD


def test_an_agent_holds_lists_reads_and_gives_back(tmp_path: Path) -> None:
    async def use(keeper: Keeper) -> None:
        requests = [SetKnob(QUOTA, HALF, REASON), SetKnob(KnobTarget("", Knob.CPU_MAX), HALF, REASON)]
        held, refused = await keeper.client.hold(requests)
        assert (held.state, refused.state) == (LeaseState.HELD, LeaseState.REFUSED)
        (lease,) = await keeper.client.leases()
        assert (lease.target, lease.reason, lease.stands) == (QUOTA, REASON, HALF)
        assert await keeper.client.read([QUOTA, KnobTarget("x", Knob.CPU_MAX)]) == (HALF, None)
        (answer,) = await keeper.client.give_back([GiveBack(QUOTA, REASON)])
        assert answer.state is LeaseState.RESTORED
        assert {change.who for change in keeper.trail.changes} == {f"uid {os.geteuid()}, pid {os.getpid()}"}

    run(tmp_path, use)


def test_a_keeper_says_what_it_grants_and_what_it_knows_of_other_writers(tmp_path: Path) -> None:
    async def use(keeper: Keeper) -> None:
        assert await keeper.client.describe() == wire.Described(
            ("be",), frozenset({Knob.CPU_MAX, Knob.CPUSET_CPUS}), False, 600_000_000, FACTS, lacking(), NoWaits.WANTED
        )

    run(tmp_path, use)


@pytest.mark.slow
def test_a_large_batch_is_sent_in_several_messages(tmp_path: Path) -> None:
    async def use(keeper: Keeper) -> None:
        groups = [f"be/{number}" for number in range(1100)]
        for group in groups:
            keeper.knobs.add(group)
        answers = await keeper.client.hold([SetKnob(KnobTarget(group, Knob.CPU_MAX), HALF, REASON) for group in groups])
        assert [answer.target.group for answer in answers] == groups
        assert len(await keeper.client.leases()) == 1100
        assert keeper.server.counts.requests == 4

    run(tmp_path, use)


def test_a_group_name_that_is_not_text_does_not_affect_other_leases(tmp_path: Path) -> None:
    odd = KnobTarget("be/\udcff", Knob.CPU_MAX)
    quoting = Reason("guard", "be/\udcff is slow", (DecisionTerm("\udcff", 1),))

    async def use(keeper: Keeper) -> None:
        keeper.knobs.add("be/\udcff")
        for call in (keeper.client.hold, keeper.kept.hold):
            refused, held = await call([SetKnob(odd, HALF, quoting), SetKnob(QUOTA, HALF, quoting)])
            assert (refused.state, held.state) == (LeaseState.REFUSED, LeaseState.HELD)
        (lease,) = await keeper.client.leases()
        assert lease.reason == Reason("guard", "be/? is slow", (DecisionTerm("?", 1),))
        back = await keeper.client.give_back([GiveBack(odd, quoting), GiveBack(QUOTA, quoting)])
        assert [answer.state for answer in back] == [LeaseState.RESTORED] * 2
        assert keeper.knobs.snapshot() == {}

    run(tmp_path, use)


def test_a_group_name_cannot_forge_a_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def use(keeper: Keeper) -> None:
        for group in ("be/\udcff", "be/x\n2026 restored"):
            keeper.knobs.add(group)
            await keeper.kept.hold([SetKnob(KnobTarget(group, Knob.CPU_MAX), HALF, REASON)])

    with caplog.at_level("INFO"):
        run(tmp_path, use)
    lines = [record.getMessage() for record in caplog.records if "cpu.max" in record.getMessage()]
    assert len(lines) >= 2
    assert all(line.isprintable() for line in lines)


def test_the_descriptor_of_a_trigger_is_passed_on(tmp_path: Path) -> None:
    async def use(keeper: Keeper) -> None:
        descriptor, window_us = await keeper.client.trigger(wire.OpenTrigger("be/a", "cpu", 1000, 2_000_000))
        try:
            assert window_us == 2_000_000
            assert os.read(descriptor, 100) == b"stalled"
        finally:
            os.close(descriptor)
        with pytest.raises(Unsupported, match="another machine"):
            await keeper.client.trigger(wire.OpenTrigger("be/a", "gpu", 1000, 2_000_000))

    run(tmp_path, use)


def test_so_many_triggers_and_no_more_are_opened(tmp_path: Path) -> None:
    async def use(keeper: Keeper) -> None:
        now_s = [100.0]
        keeper.server._grants = serving.TriggerAllowance(3, 10.0, lambda: now_s[0])

        async def opened(resource: str = "cpu") -> None:
            os.close((await keeper.client.trigger(wire.OpenTrigger("be/a", resource, 1000, 2_000_000)))[0])

        for _ in range(3):
            for _ in range(3):
                with pytest.raises(Unsupported):  # opens nothing, and counts for none
                    await opened("gpu")
            await opened()
        with pytest.raises(InvalidInput, match=f"at most {serving.MAX_TRIGGERS} at once"):
            await opened()
        await still_serves(keeper)
        now_s[0] += 10.0
        await opened()

    run(tmp_path, use)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00",
        b"\x00\x00\x00\x10half of it",
        b"\xff\xff\xff\xff",
        wire.LENGTH.pack(wire.MAX_REQUEST_BYTES + 1) + b"x" * 100,
        wire.LENGTH.pack(9) + b"not JSON!",
        wire.LENGTH.pack(2) + b"{}",
        wire.LENGTH.pack(0),
        b"GET / HTTP/1.1\r\n\r\n",
        wire.LENGTH.pack(100_000) + b"[" * 100_000,
        wire.frame(wire.Hold(())).replace(
            b"[]", b'[{"target":{"group":"../..","knob":"cpu.max"},"value":"1","reason":{"rule":"","text":""}}]'
        ),
    ],
    ids=["cut length", "cut", "huge", "too long", "words", "nothing", "empty", "http", "deep", "path"],
)
def test_a_malformed_message_ends_its_connection_and_nothing_else(tmp_path: Path, data: bytes) -> None:
    async def use(keeper: Keeper) -> None:
        await keeper.raw(data)
        assert keeper.server.counts.malformed == 1
        assert keeper.knobs.journal == []
        await still_serves(keeper)

    run(tmp_path, use)


def test_too_many_requests_in_one_message_are_refused(tmp_path: Path) -> None:
    async def use(keeper: Keeper) -> None:
        requests = (SetKnob(QUOTA, HALF, REASON),) * (wire.MAX_IN_ONE + 1)
        reply = wire.reply((await keeper.raw(wire.frame(wire.Hold(requests))))[4:])
        assert isinstance(reply, wire.RequestRefused)
        assert "at most" in reply.detail
        assert keeper.knobs.journal == []

    run(tmp_path, use)


def test_an_incomplete_message_times_out(tmp_path: Path) -> None:
    async def use(keeper: Keeper) -> None:
        await keeper.server.stop()
        keeper.server = KeeperServer(keeper.path, keeper.kept, Peers(), rest_of_message_s=0.01)
        await keeper.server.start()
        assert await keeper.raw(b"\x00\x00", end=False) == b""
        assert keeper.server.counts.malformed == 1
        await still_serves(keeper)

    run(tmp_path, use)


def test_an_unauthorized_peer_is_disconnected_before_anything_is_read(tmp_path: Path) -> None:
    async def use(keeper: Keeper) -> None:
        await keeper.server.stop()
        keeper.server = KeeperServer(keeper.path, keeper.kept, Peers(own=False))
        await keeper.server.start()
        assert await keeper.raw(wire.frame(wire.ListLeases())) == b""
        assert (keeper.server.counts.unauthorized, keeper.server.counts.requests) == (1, 0)
        with pytest.raises(Transient):
            await keeper.client.leases()

    run(tmp_path, use)


def test_strangers_take_no_connection_and_one_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    strangers = serving.MAX_CONNECTIONS * 3

    class Alternating(Peers):
        """Allows only the first peer."""

        asked = 0

        def allows(self, user: int, group: int) -> bool:
            type(self).asked += 1
            return type(self).asked == 1

    async def use(keeper: Keeper) -> None:
        await keeper.server.stop()
        keeper.server = KeeperServer(keeper.path, keeper.kept, Alternating())
        await keeper.server.start()
        await still_serves(keeper)
        for _ in range(strangers):
            assert await keeper.raw(b"") == b""
            assert keeper.server.counts.open == 1
        counts = keeper.server.counts
        assert (counts.unauthorized, counts.over_limit) == (strangers, 0)
        await still_serves(keeper)

    with caplog.at_level("WARNING"):
        run(tmp_path, use)
    assert len([line for line in caplog.messages if "may not use the keeper" in line]) == 1


def test_refusals_are_logged_once_per_interval_with_their_number(caplog: pytest.LogCaptureFixture) -> None:
    log = RefusalLog(interval_s=60.0)
    for now_s in (0.0, 1.0, 59.0, 60.0, 61.0):
        log.refused("stranger", "user 7", now_s)
        log.refused("limit", "too many", now_s)
    assert caplog.messages == [
        "user 7",
        "too many",
        "user 7 (2 more were refused before)",
        "too many (2 more were refused before)",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file to a group")
def test_the_socket_is_open_to_its_owner_and_one_group_only(tmp_path: Path) -> None:
    async def use(keeper: Keeper) -> None:
        for peers, mode, group in (
            (Peers(), 0o600, os.getegid()),
            (peers_of(["65532"], ()), 0o660, 65532),
            (peers_of(["65532"], [65532]), 0o660, 65532),
            (peers_of(["0", "65532"], (), 4711), 0o660, 4711),
        ):
            await keeper.server.stop()
            keeper.server = KeeperServer(keeper.path, keeper.kept, peers)
            await keeper.server.start()
            found = keeper.path.stat()
            assert (found.st_mode & 0o777, found.st_gid) == (mode, group)

    run(tmp_path, use)


def test_users_of_different_groups_need_a_group_that_they_share() -> None:
    with pytest.raises(InvalidInput, match=r"--socket-group.*their own are 0, 65532"):
        peers_of(["root", "65532"], ())
    with pytest.raises(InvalidInput, match="on this machine"):
        peers_of(["nobody-at-all"], ())
    assert peers_of(["root", "65532"], (), 4711).socket_group == 4711
    assert peers_of((), ()).socket_group is None
    assert peers_of((), [4711]).socket_group == 4711


def test_a_name_that_no_file_can_have_is_refused_with_its_message(tmp_path: Path) -> None:
    async def use(keeper: Keeper) -> None:
        request = wire.Hold((SetKnob(KnobTarget("be/" + "x" * 100_000, Knob.CPU_MAX), HALF, REASON),))
        reply = wire.reply((await keeper.raw(wire.frame(request)))[4:])
        assert isinstance(reply, wire.RequestRefused)
        assert "characters" in reply.detail
        assert keeper.trail.changes == []

    run(tmp_path, use)


def test_named_users_and_groups_may_connect() -> None:
    peers = Peers(frozenset({1000}), frozenset({50}))
    assert peers.allows(1000, 1)
    assert peers.allows(7, 50)
    assert peers.allows(0, 0)
    assert not peers.allows(7, 7)


def test_connections_over_the_limit_are_closed_and_the_others_continue(tmp_path: Path) -> None:
    async def use(keeper: Keeper) -> None:
        await still_serves(keeper)
        extra = [await asyncio.open_unix_connection(str(keeper.path)) for _ in range(serving.MAX_CONNECTIONS + 10)]
        while keeper.server.counts.over_limit < 11:
            await asyncio.sleep(0)
        await still_serves(keeper)
        for _, writer in extra:
            writer.close()
        while keeper.server.counts.open > 1:
            await asyncio.sleep(0)
        async with asyncio.timeout(patience(30)):
            await still_serves(keeper)

    run(tmp_path, use)


def test_a_flooding_peer_does_not_starve_another(tmp_path: Path) -> None:
    async def use(keeper: Keeper) -> None:
        _, flood = await asyncio.open_unix_connection(str(keeper.path))
        flood.write(wire.frame(wire.ListLeases()) * 20_000)
        for _ in range(5):
            await still_serves(keeper)
        flood.transport.abort()

    run(tmp_path, use)


def test_a_stopped_keeper_is_a_transient_error_and_the_client_reconnects(tmp_path: Path) -> None:
    async def use(keeper: Keeper) -> None:
        await still_serves(keeper)
        await keeper.server.stop()
        for _ in range(2):
            with pytest.raises(Transient, match="does not answer"):
                await keeper.client.hold([SetKnob(QUOTA, HALF, REASON)])
        keeper.server = KeeperServer(keeper.path, keeper.kept, Peers())
        await keeper.server.start()
        await still_serves(keeper)

    run(tmp_path, use)


def test_a_keeper_that_does_not_answer_times_out(tmp_path: Path) -> None:
    async def use() -> None:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(tmp_path / "s"))
            silent.listen()
            client = KeeperClient(tmp_path / "s", timeout_s=0.01)
            with pytest.raises(Transient, match="timeout"):
                await client.leases()

    asyncio.run(use())


def test_only_a_dead_socket_is_removed_from_the_path(tmp_path: Path) -> None:
    async def use() -> None:
        keeper = Keeper(tmp_path)
        keeper.path.write_text("precious")
        with pytest.raises(Permanent, match="not a socket"):
            await keeper.server.start()
        assert keeper.path.read_text() == "precious"
        keeper.path.unlink()
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(keeper.path))
        await keeper.server.start()
        await still_serves(keeper)
        with pytest.raises(Permanent, match="listens"):
            await KeeperServer(keeper.path, keeper.kept, Peers()).start()
        await still_serves(keeper)
        await keeper.client.close()
        await keeper.server.stop()
        assert not keeper.path.exists()
        await keeper.kept.stop()

    asyncio.run(use())


@pytest.mark.parametrize(
    "error",
    [InvalidInput("f", "v", "e", "h"), Unsupported("f", "n"), Vanished("gone"), Transient("later"), Permanent("no")],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_the_round_trip(error: CotenantError) -> None:
    reply = wire.reply(wire.frame(wire.refusal(error))[4:])
    assert isinstance(reply, wire.RequestRefused)
    again = wire.error_of(reply)
    assert (type(again), str(again)) == (type(error), str(error))
