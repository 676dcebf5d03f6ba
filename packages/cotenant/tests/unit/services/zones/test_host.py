"""The zones of a host: created, switched, destroyed and restored through the socket, against back ends in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.waiting import patience, soon
from tests.unit.services.zones.test_runner import MemoryBackend, MemoryKeeper

from cotenant.drivers.cgroup.layout import CgroupLayout, LayoutKind
from cotenant.engine.node.interfaces import Keeper
from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.zones.setting import Backend, ZoneMode, ZoneSetting
from cotenant.model.zones.state import ZoneChange
from cotenant.services.sockets.peers import Peers
from cotenant.services.zones.backends import WeightsBackend
from cotenant.services.zones.client import ZoneClient
from cotenant.services.zones.definition import ZoneDefinition, setting_of
from cotenant.services.zones.executing import execute_in, group_for, join
from cotenant.services.zones.host import ZoneHost
from cotenant.services.zones.log_file import MAX_BYTES, ZoneLog, read_log
from cotenant.services.zones.main import follow
from cotenant.services.zones.opening import ZoneSupport
from cotenant.services.zones.quota import ZoneQuota
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.server import ZoneServer
from cotenant.services.zones.state_file import read_state, read_states, write_state

SHOP = """
zone: shop
groups:
  - {group: kubepods/web, kind: service, late_ms: 5}
  - {group: kubepods/batch, kind: batch}
backend: auto
period_ms: 100
limits: {canary_s: 0.001}
"""
HOST = ZoneSupport(CgroupLayout(LayoutKind.V2, (), {}, None), root=True, sub=False)


@asynccontextmanager
async def memory(
    definition: ZoneDefinition,
    host: ZoneSupport,
    keeper: Keeper,
    agent: str | None,
    changed: Callable[[ZoneChange], None],
    log: Callable[[str], None],
    warn: Callable[[str], None],
) -> AsyncIterator[ZoneRunner]:
    if definition.zone == "broken":
        raise Permanent("this one cannot be opened")
    backends = {Backend.ROOT: MemoryBackend(), Backend.WEIGHTS: WeightsBackend(keeper)}
    yield ZoneRunner(definition.machine(root=True), backends, dict, changed, log=log)


def make(folder: Path, quota: ZoneQuota | None = None) -> ZoneHost:
    return ZoneHost(MemoryKeeper(), HOST, folder, ("kubepods",), quota, memory)


async def until(condition: Callable[[], bool]) -> None:
    await soon("it holds", condition)


def test_a_zone_from_its_creation_to_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        zones = make(tmp_path)
        state = await zones.create(SHOP, "shop.yaml")
        assert (state["zone"], state["setting"]) == ("shop", "root/weighted")
        with pytest.raises(InvalidInput, match="does not run yet"):
            await zones.create(SHOP, "shop.yaml")
        await until(lambda: read_state(tmp_path, "shop")["state"] == "active")
        switched = await zones.switch("shop", "latency")
        assert switched["setting"] == "root/latency"
        assert switched["history"][-1]["event"] == "a user's request"
        with pytest.raises(InvalidInput, match="a back end of this host: root, weights"):
            await zones.switch("shop", "sub/latency")
        assert await zones.destroy("shop") == "destroyed"
        assert not read_state(tmp_path, "shop")["running"]
        texts = [entry["text"] for entry in read_log(tmp_path, "shop", 100)]
        assert texts[0] == "created from shop.yaml"
        assert "setting root/latency: requested: root/latency" in texts
        assert texts[-1] == "destroyed"
        assert await zones.destroy("shop") == "forgotten"
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(InvalidInput, match="there are none"):
            await zones.destroy("shop")

    asyncio.run(main())


def test_zones_are_there_again_after_a_restart_of_their_process(tmp_path: Path) -> None:
    async def main() -> None:
        first = make(tmp_path)
        await first.create(SHOP, "shop.yaml")
        await first.stop()
        # a keeper that was killed leaves a state with its number, which this process may have now
        write_state(tmp_path, {**read_state(tmp_path, "shop"), "state": "active"})
        (tmp_path / "bad.zone").write_text('# {"source": "x", "agent": null}\nzone: [')
        (tmp_path / "worse.zone").write_text("zone: shop")
        second = make(tmp_path)
        await second.restore()
        assert second.sources == {"shop": "shop.yaml"}
        assert read_state(tmp_path, "shop")["running"]
        await second.destroy("shop")
        third = make(tmp_path)
        await third.restore()
        assert third.sources == {}

    asyncio.run(main())


def test_a_zone_that_another_keeper_runs_is_left_to_it_and_others_are_not(tmp_path: Path) -> None:
    async def main() -> None:
        first, second = make(tmp_path), make(tmp_path)
        await first.create(SHOP, "shop.yaml")
        with pytest.raises(InvalidInput, match="another keeper runs it"):
            await second.create(SHOP, "shop.yaml")
        with pytest.raises(InvalidInput, match="cotenant zone list shows what runs"):
            await first.create(SHOP, "shop.yaml")
        with pytest.raises(InvalidInput, match="runs it: stop that one"):
            await second.destroy("shop")
        other = SHOP.replace("zone: shop", "zone: other")
        assert (await second.create(other, "other.yaml"))["zone"] == "other"
        assert (first.sources, second.sources) == ({"shop": "shop.yaml"}, {"other": "other.yaml"})
        await first.stop()
        await second.stop()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "agent", "expected"),
    [
        (SHOP.replace("shop", "other").replace("kubepods/web", "system.slice/x"), None, "at or below kubepods"),
        (SHOP.replace("shop", "other"), None, "zone shop has it"),
        (SHOP.replace("shop", "other").replace("kubepods/", "kubepods/other/"), None, "at most 2 groups in all zones"),
        (SHOP, "example.com:80", "an agent of this host"),
        ("zone: box\nvm: {}\ngroups: [{group: web, kind: service}]", "example.com:80", "an agent of this host"),
        ("zone: broken\ngroups: []", None, "1 to 256 groups"),
    ],
)
def test_a_zone_beyond_its_bounds_is_refused(tmp_path: Path, text: str, agent: str | None, expected: str) -> None:
    async def main() -> None:
        zones = make(tmp_path, ZoneQuota(zones=2, groups=2))
        if text != SHOP:
            await zones.create(SHOP, "shop.yaml")
        with pytest.raises(InvalidInput) as error:
            await zones.create(text, "it.yaml", agent)
        assert expected in str(error.value)
        await zones.stop()

    asyncio.run(main())


def test_the_number_of_zones_is_bounded_and_one_that_cannot_open_leaves_the_others(tmp_path: Path) -> None:
    async def main() -> None:
        zones = make(tmp_path, ZoneQuota(zones=1))
        with pytest.raises(Permanent, match="zone broken: this one cannot be opened"):
            await zones.create("zone: broken\ngroups: [{group: kubepods/b, kind: batch}]", "b.yaml")
        await zones.create(SHOP, "shop.yaml")
        with pytest.raises(InvalidInput, match="at most 1 zones"):
            await zones.create("zone: two\ngroups: [{group: kubepods/c, kind: batch}]", "c.yaml")
        assert list(zones.sources) == ["shop"]
        await zones.stop()

    asyncio.run(main())


def test_the_socket_serves_allowed_peers_and_refuses_malformed_requests(tmp_path: Path) -> None:
    path = tmp_path / "zones.sock"

    async def raw(line: bytes) -> dict[str, Any]:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(line + b"\n")
        answer: dict[str, Any] = json.loads(await reader.readline())
        writer.close()
        return answer

    async def main() -> None:
        server = ZoneServer(path, make(tmp_path / "zones"), Peers())
        await server.start()
        client = ZoneClient(path)
        state = await asyncio.to_thread(client.create, SHOP, "shop.yaml")
        assert state["zone"] == "shop"
        assert await asyncio.to_thread(client.sources) == {"shop": "shop.yaml"}
        with pytest.raises(InvalidInput, match=r"^zone: none: expected a zone that runs; zones are shop$"):
            await asyncio.to_thread(client.switch, "none", "latency")
        for line in (b"", b"[]", b"{", b'{"do": 7}', b'{"do": "create", "text": 1}', b"[" * 5000):
            assert (await raw(line))["invalid"], line
        assert await asyncio.to_thread(client.destroy, "shop") == "destroyed"
        await server.stop()
        with pytest.raises(Transient, match="cotenant keeper --zones"):
            await asyncio.to_thread(client.sources)
        stranger = ZoneServer(path, make(tmp_path / "zones"), Peers(own=False))
        await stranger.start()
        with pytest.raises(Transient):
            await asyncio.to_thread(client.sources)
        await stranger.stop()

    asyncio.run(main())


def test_a_zone_for_as_long_as_a_command_runs_is_the_keepers(tmp_path: Path) -> None:
    path, folder = tmp_path / "zones.sock", tmp_path / "zones"
    shown: list[dict[str, Any]] = []

    async def main() -> None:
        server = ZoneServer(path, make(folder), Peers())
        await server.start()
        client, stop = ZoneClient(path), asyncio.Event()

        def show(change: Mapping[str, Any]) -> None:
            shown.append(dict(change))
            if len(shown) == 1:
                stop.set()

        async def run(text: str = SHOP, states: Path = folder, seconds: float | None = None) -> None:
            async with asyncio.timeout(patience(60)):
                await follow(stop, client, "shop", text, "shop.yaml", None, states, seconds, show)

        await run()
        assert (shown[0]["what"], shown[0]["kept"]) == ("setting root/weighted", True)
        assert await asyncio.to_thread(client.sources) == {}
        assert read_state(folder, "shop")["state"] == "gone"
        stop.clear()
        await run(seconds=0.01)
        with pytest.raises(Permanent, match="give the keeper's --zone-state-dir"):
            await run(states=tmp_path / "elsewhere")
        assert await asyncio.to_thread(client.sources) == {}
        stop.clear()
        ended = asyncio.create_task(run())
        await until(lambda: (folder / "shop.zone").exists())
        await asyncio.to_thread(client.destroy, "shop")
        with pytest.raises(Permanent, match="cotenant zone logs shop"):
            await ended
        await server.stop()
        with pytest.raises(Transient, match="cotenant keeper --zones"):
            await run()

    asyncio.run(main())


def test_settings_as_users_write_them() -> None:
    root = ZoneSetting(Backend.ROOT, ZoneMode.WEIGHTED)
    assert setting_of("latency", root) == ZoneSetting(Backend.ROOT, ZoneMode.LATENCY)
    assert setting_of("sub/latency", root) == ZoneSetting(Backend.SUB, ZoneMode.LATENCY)
    assert setting_of("weights", root) == ZoneSetting(Backend.WEIGHTS)
    for wrong in ("", "fast", "root/", "/latency", "weights/latency", "root"):
        with pytest.raises(InvalidInput):
            setting_of(wrong, root)
    with pytest.raises(InvalidInput, match="root/latency or sub/latency"):
        setting_of("latency", ZoneSetting(Backend.WEIGHTS))


def test_a_log_is_bounded_and_has_the_last_lines(tmp_path: Path) -> None:
    log = ZoneLog(tmp_path, "shop", wall=lambda: 5.0)
    for number in range(2 * MAX_BYTES // 4000 + 300):
        log(f"{number} " + "x" * 5000)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2 * MAX_BYTES
    (tmp_path / "shop.log").open("a").write("not json\n")
    last = read_log(tmp_path, "shop", 2)
    assert [entry["at"] for entry in last] == [5.0, 5.0]
    assert last[-1]["text"].startswith(f"{number} ")
    with pytest.raises(InvalidInput, match="zones are shop"):
        read_log(tmp_path, "other", 2)
    with pytest.raises(InvalidInput):
        read_log(tmp_path, "../shop", 2)


def test_a_command_joins_a_group_of_the_zone_and_no_other(tmp_path: Path) -> None:
    state = {"rows": {"a/web": {}, "a/batch": {}}}
    assert group_for(state, "a/web/pod") == "a/web/pod"
    assert group_for({"rows": {"a/web": {}}}, "") == "a/web"
    for wrong in ("", "a", "a/we", "b", "a/web/../../b"):
        with pytest.raises(InvalidInput):
            group_for(state, wrong)
    (tmp_path / "a/web").mkdir(parents=True)
    join("a/web", [tmp_path])
    assert (tmp_path / "a/web/cgroup.procs").read_text().isdecimal()
    with pytest.raises(Permanent, match="does not exist"):
        join("a/web", [])
    with pytest.raises(Permanent, match=r"cgroup\.procs"):
        join("a/none", [tmp_path])
    with pytest.raises(InvalidInput, match="a command after --"):
        execute_in(tmp_path, "shop", "", (), captured=False)
    assert read_states(tmp_path) == []


@pytest.mark.parametrize("backend", ["root", "sub"])
def test_a_zone_that_this_host_cannot_run_is_refused_when_it_is_created(tmp_path: Path, backend: str) -> None:
    async def main() -> None:
        without = ZoneSupport(HOST.layout, root=False, sub=False)
        zones = ZoneHost(MemoryKeeper(), without, tmp_path, ("kubepods",), None, memory)
        with pytest.raises((Permanent, Unsupported)):
            await zones.create(SHOP.replace("backend: auto", f"backend: {backend}"), "shop.yaml")
        assert zones.sources == {}
        assert list(read_states(tmp_path)) == []

    asyncio.run(main())


def test_a_cpuset_without_cpus_is_said_with_what_to_do(tmp_path: Path) -> None:
    group = tmp_path / "a/web"
    (group / "cgroup.procs").mkdir(parents=True)  # refuses a write, as the kernel does
    (group / "cpuset.cpus").write_text("\n")
    (tmp_path / "a/cpuset.cpus").write_text("0-3\n")
    with pytest.raises(Permanent, match=r"a/web/cpuset\.cpus is empty, .* write into it .* the group above are 0-3"):
        join("a/web", [tmp_path])
    (group / "cpuset.cpus").write_text("0-1\n")
    (group / "cpuset.mems").write_text("\n")
    (tmp_path / "a/cpuset.mems").write_text("\n")
    with pytest.raises(Permanent, match=r"cpuset\.mems is empty, .*a/cpuset\.mems is empty too\)"):
        join("a/web", [tmp_path])
    (group / "cpuset.mems").write_text("0\n")
    with pytest.raises(Permanent, match=r"cgroup\.procs: Is a directory"):
        join("a/web", [tmp_path])
