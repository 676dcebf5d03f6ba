"""Limits of containers: what a request asks for stands in the container's cgroup until it is lifted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.fakes.node.cgroup_trees import CgroupTrees
from tests.fakes.processes.listed_containers import ListedContainers, container

from cotenant.drivers.nats.contract import BusMessage
from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.model.fleet.requests import Limit, Limited
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.functions.limits import LimitFunction

MESSAGE = BusMessage("guid.host-1.rpc.limit", b"")
DEVICE = "254:0"


class Host:
    """A host with a container `web` in its cgroups, and one, `odd`, that no cgroup is seen of."""

    def __init__(self, folder: Path) -> None:
        self.trees = CgroupTrees(folder / "cgroup", "v2")
        self.containers = ListedContainers(folder)
        for guid in ("web", "odd"):
            self.containers.known[guid] = container(guid)
        self.containers.known["ended"] = container("ended", pid=0)
        self.group = f"docker/{self.containers.known['web'].id}"
        self.trees.add(self.group)
        self.limits = LimitFunction(self.containers, folder, folder / "cgroup")
        self.limits.configure(AgentConfiguration(keeper=str(folder / "keeper.sock")))

    async def ask(self, guid: str = "web", lasts_s: float = 100.0, lift: bool = False, **limits: str) -> Limited:
        named = {name.replace("_", "-"): value for name, value in limits.items()}
        answer = await self.limits.verbs["limit"].handle(Limit(guid, named, lasts_s, lift), MESSAGE)
        assert isinstance(answer, Limited)
        return answer

    async def on(self, device: str, name: str, value: str) -> Limited:
        answer = await self.limits.verbs["limit"].handle(Limit("web", {f"{name}@{device}": value}, 100.0), MESSAGE)
        assert isinstance(answer, Limited)
        return answer

    def said(self, file: str) -> str:
        return self.trees.path(self.group, file).read_text().strip()


def on_host(folder: Path, work: Callable[[Host], Awaitable[None]]) -> Host:
    async def run() -> Host:
        host = Host(folder)
        await host.limits.start()
        try:
            await work(host)
        finally:
            await host.limits.stop()
        return host

    return asyncio.run(run())


def test_a_limit_stands_until_it_is_lifted_and_is_shown_with_its_time(tmp_path: Path) -> None:
    async def work(host: Host) -> None:
        answer = await host.ask(cpu="2", memory="64Mi")
        assert [line.rpartition(" for ")[0] for line in answer.lines] == ["cpu=2", "memory=64Mi"]
        assert answer.lines[0].rpartition(" for ")[2] in ("1m40s", "1m39s")
        assert (host.said("cpu.max"), host.said("memory.max")) == ("200000 100000", str(64 << 20))
        assert [line.partition(" ")[0] for line in (await host.ask(cpu="1")).lines] == ["cpu=1", "memory=64Mi"]
        assert host.said("cpu.max") == "100000 100000"
        assert [line.partition(" ")[0] for line in (await host.ask(cpu="")).lines] == ["memory=64Mi"]
        assert host.said("cpu.max") == "max 100000"
        assert (await host.ask(lift=True)).lines == ()
        assert host.said("memory.max") == "max"

    on_host(tmp_path, work)


def test_lifting_and_limiting_at_once_leaves_only_what_is_named(tmp_path: Path) -> None:
    async def work(host: Host) -> None:
        await host.ask(cpu="2", memory="64Mi")
        answer = await host.ask(lift=True, cpu="3")
        assert [line.partition(" ")[0] for line in answer.lines] == ["cpu=3"]
        assert (host.said("cpu.max"), host.said("memory.max")) == ("300000 100000", "max")

    on_host(tmp_path, work)


def test_limits_of_disks_are_joined_until_the_last_is_given_back(tmp_path: Path) -> None:
    async def work(host: Host) -> None:
        await host.on(DEVICE, "io-read", "1Mi")
        answer = await host.on(DEVICE, "io-write", "2Mi")
        assert [line.rpartition(" for ")[0] for line in answer.lines] == [f"io-read@{DEVICE}=1Mi io-write@{DEVICE}=2Mi"]
        answer = await host.on(DEVICE, "io-read", "")
        assert [line.rpartition(" for ")[0] for line in answer.lines] == [f"io-write@{DEVICE}=2Mi"]
        assert (await host.on(DEVICE, "io-write", "")).lines == ()

    on_host(tmp_path, work)


@pytest.mark.parametrize("device", ["nosuchdisk", "../vda", ".vda"])
def test_a_disk_that_is_not_there_is_named(tmp_path: Path, device: str) -> None:
    async def work(host: Host) -> None:
        with pytest.raises(InvalidInput, match=f"@{device}"):
            await host.on(device, "io-read", "1Mi")

    on_host(tmp_path, work)


def test_a_limit_lasts_a_second_to_a_day(tmp_path: Path) -> None:
    async def work(host: Host) -> None:
        for lasts_s in (0.0, 0.9, 86_401.0):
            with pytest.raises(InvalidInput, match="1 second to 24 hours"):
                await host.ask(lasts_s=lasts_s, cpu="1")
        for lasts_s in (1.0, 86_400.0):
            assert (await host.ask(lasts_s=lasts_s, cpu="1")).lines

    on_host(tmp_path, work)


def test_delay_and_loss_are_experiments_and_others_are_not(tmp_path: Path) -> None:
    async def work(host: Host) -> None:
        with pytest.raises(InvalidInput, match="delay"):
            await host.ask(delay="10ms")
        with pytest.raises(InvalidInput, match="cpu"):
            await host.limits.experiment(Limit("web", {"cpu": "1"}, 100.0), MESSAGE)

    on_host(tmp_path, work)


def test_what_cannot_be_limited_is_said(tmp_path: Path) -> None:
    async def work(host: Host) -> None:
        for guid, kind in (("nobody", NoSuchGuid), ("ended", Permanent), ("odd", Permanent)):
            with pytest.raises(kind):
                await host.ask(guid, cpu="1")
        with pytest.raises(CotenantError, match=r"cpus"):
            await host.ask(cpus="many")

    on_host(tmp_path, work)


def test_a_heartbeat_has_what_is_held(tmp_path: Path) -> None:
    async def work(host: Host) -> None:
        await asyncio.sleep(0)  # the groups are read once at the start
        await host.ask(cpu="2")
        beat = Beat()
        await host.containers.add_to(beat)
        await host.limits.add_to(beat)
        assert [line.partition(" ")[0] for line in beat.containers["web"].limits] == ["cpu=2"]
        assert beat.containers["odd"].limits == ()
        await host.limits.add_to(Beat())  # a container that is gone from the list is no error

    on_host(tmp_path, work)


def test_knobs_are_given_back_when_the_agent_ends(tmp_path: Path) -> None:
    async def work(host: Host) -> None:
        await host.ask(cpu="2")

    assert on_host(tmp_path, work).said("cpu.max") == "max 100000"


def test_without_cgroups_the_function_says_so_and_answers_that_it_is_not_ready(tmp_path: Path) -> None:
    async def run() -> None:
        limits = LimitFunction(ListedContainers(tmp_path), tmp_path, tmp_path / "nothing")
        limits.configure(AgentConfiguration(keeper=str(tmp_path / "keeper.sock")))
        with pytest.raises(Transient, match="the keeper is not ready yet"):
            await limits.verbs["limit"].handle(Limit("web", {"cpu": "1"}, 100.0), MESSAGE)
        with pytest.raises(Unsupported):
            await limits.start()
        assert limits.fault
        with pytest.raises(Transient) as error:
            await limits.verbs["limit"].handle(Limit("web", {"cpu": "1"}, 100.0), MESSAGE)
        assert str(error.value) == limits.fault
        await limits.stop()

    asyncio.run(run())
