"""ControlZones of a cluster on one node: created, replaced and destroyed in the keeper, with a status a node."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.control_zone import ControlZoneObject
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.errors import Permanent, Transient
from cotenant.services.agent.main import _from_this_host
from cotenant.services.zones.client import ZoneClient
from cotenant.services.zones.cluster_objects import LiveZones
from cotenant.services.zones.state_file import read_state, read_states, write_state
from cotenant.services.zones.vm_backend import NOT_STARTED
from cotenant.services.zones.zone_files import definition_of

SPEC = {"applications": [{"namespace": "shop"}], "rules": [{"kind": "batch"}]}


@dataclass
class Cluster:
    """ControlZones, and the patches of their statuses."""

    zones: dict[str, ControlZoneObject] = field(default_factory=dict)
    patches: list[tuple[str, Any]] = field(default_factory=list)
    error: Exception | None = None

    def put(self, name: str, spec: Any, generation: int = 1, status: Any = None) -> None:
        meta = ObjectMeta(name=name, uid=f"u-{name}", generation=generation)
        self.zones[name] = ControlZoneObject(meta, spec, status)

    async def all_of(self, kind: object) -> tuple[ControlZoneObject, ...]:
        if self.error is not None:
            raise self.error
        return tuple(self.zones.values())

    async def patch_status(self, kind: object, namespace: str, name: str, patch: Any, *, content_type: str) -> None:
        assert content_type == "application/merge-patch+json"
        (entry,) = patch["status"]["nodes"].values()
        self.patches.append((name, entry))
        obj = self.zones[name]
        kept = None if entry is None else {key: value for key, value in entry.items() if value is not None}
        self.zones[name] = ControlZoneObject(obj.metadata, obj.spec, {"nodes": {"n": kept} if kept else {}})


@dataclass
class Keeper:
    """The keeper's zones; their states are files, as a keeper writes them."""

    folder: Path
    running: dict[str, str] = field(default_factory=dict)
    refuses: str = ""
    agents: list[str | None] = field(default_factory=list)
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)
    told: list[int | None] = field(default_factory=list)

    def failures(self) -> dict[str, tuple[str, str]]:
        return dict(self.failed)

    def create(self, text: str, name: str, agent: str | None = None, wait: bool = True) -> dict[str, Any]:
        if self.refuses:
            raise Permanent(self.refuses)
        definition = definition_of(text.encode(), name)
        assert json.loads(text)["kind"] == "ControlZone"
        self.running[definition.zone] = name
        self.agents.append(agent)
        self.failed.pop(definition.zone, None)
        if not wait:
            return {"zone": definition.zone}
        history = [{"what": "setting weights", "reason": "started"}]
        state = {
            "zone": definition.zone,
            "pid": os.getpid(),
            "state": "active",
            "setting": "weights",
            "rows": {"a": {}},
        }
        write_state(self.folder, {**state, "history": history})
        return state

    def destroy(self, zone: str) -> str:
        del self.running[zone]
        (self.folder / f"{zone}.json").unlink(missing_ok=True)
        return "destroyed"

    def boots(self, zone: str, **pods: dict[str, Any]) -> None:
        """The machine of a zone runs, with these pods."""
        machine = {"kernel": "7.3", "preempt": "lazy", "hz": 250, "accelerator": "tcg", "memoryMib": 512, "cpus": 1}
        told = {"kind": "service", "image": "web.tar", "ports": [{"container": 80, "host": 8080, "address": "::1"}]}
        state = {"zone": zone, "pid": os.getpid(), "state": "active", "setting": "weights", "rows": dict(pods)}
        started = {name: {**told, **NOT_STARTED, **pod} for name, pod in pods.items()}
        write_state(self.folder, {**state, "history": [], "vm": {**machine, "pid": 5}, "pods": started})

    def fails(self, zone: str, why: str) -> None:
        """A zone that ran or started ends."""
        self.failed[zone] = (self.running.pop(zone), why)
        (self.folder / f"{zone}.json").unlink(missing_ok=True)

    def sources(self) -> dict[str, str]:
        return dict(self.running)

    def keeps_back(self, kept_back_bytes: int | None) -> None:
        """As a keeper: it is in the state of each machine from now on."""
        self.told.append(kept_back_bytes)
        for state in read_states(self.folder):
            if "machines" in state:
                machines = {key: value for key, value in state["machines"].items() if key != "keptBackMib"}
                kept = {} if kept_back_bytes is None else {"keptBackMib": kept_back_bytes >> 20}
                write_state(self.folder, {**state, "machines": machines | kept})


@dataclass
class Clock:
    """Seconds of both clocks."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def make(
    folder: Path, clock: Clock | None = None, kept_back: Callable[[], int | None] = lambda: None
) -> tuple[LiveZones, Cluster, Keeper]:
    cluster, keeper, at = Cluster(), Keeper(folder), clock or Clock()
    live = LiveZones(cast(Client, cluster), "n", cast(ZoneClient, keeper), folder, "127.0.0.1:7", at, at, kept_back)
    return live, cluster, keeper


def conditions(entry: Any) -> dict[str, tuple[str, str, str]]:
    """By type: status, reason, and minute and second of the time."""
    found = entry["conditions"]
    return {one["type"]: (one["status"], one["reason"], one["lastTransitionTime"][14:19]) for one in found}


def test_a_control_zone_is_created_replaced_and_destroyed(tmp_path: Path) -> None:
    live, cluster, keeper = make(tmp_path)
    keeper.running["by-hand"] = "shop.yaml"
    cluster.put("shop", SPEC)
    cluster.put("elsewhere", {**SPEC, "nodes": ["m"]})
    asyncio.run(live.follow())
    assert list(keeper.running) == ["by-hand", "shop"]
    assert keeper.agents == ["127.0.0.1:7"]
    entry = {"observedGeneration": 1, "state": "active", "setting": "weights", "groups": 1}
    ready = {"type": "Ready", "status": "True", "reason": "Running", "message": "weights"}
    since = {"lastTransitionTime": "1970-01-01T00:00:00Z"}
    told = {**entry, "lastChange": "setting weights: started", "conditions": [{**ready, **since}]}
    assert cluster.patches == [("shop", told)]
    asyncio.run(live.follow())
    assert len(cluster.patches) == len(keeper.agents) == 1  # nothing changed
    cluster.put("shop", SPEC, generation=2)
    asyncio.run(live.follow())
    assert len(keeper.agents) == 2
    assert cluster.patches[-1][1]["observedGeneration"] == 2
    del cluster.zones["shop"]
    asyncio.run(live.follow())
    assert list(keeper.running) == ["by-hand"]


def test_what_is_refused_is_in_the_status_and_its_old_fields_are_removed(tmp_path: Path) -> None:
    live, cluster, keeper = make(tmp_path)
    cluster.put("shop", SPEC)
    asyncio.run(live.follow())
    status = cluster.zones["shop"].status
    cluster.put("shop", {**SPEC, "backend": "sub"}, generation=2)
    cluster.zones["shop"] = ControlZoneObject(cluster.zones["shop"].metadata, cluster.zones["shop"].spec, status)
    asyncio.run(live.follow())
    assert keeper.running == {}
    entry = cluster.patches[-1][1]
    assert entry["state"] == "refused"
    assert "none with backend sub" in entry["message"]
    assert entry["setting"] is None
    cluster.put("shop", {"groups": [{"group": "web", "kind": "batch"}], "vm": {"cpu": 2}}, generation=3)
    asyncio.run(live.follow())
    assert "spec.vm.cpu: expected fields that exist; cpus exists" in cluster.patches[-1][1]["message"]
    cluster.put("shop", SPEC, generation=4)
    keeper.refuses = "a root scheduler needs root"
    asyncio.run(live.follow())
    assert cluster.patches[-1][1]["message"] == "a root scheduler needs root"
    cluster.zones["shop"] = ControlZoneObject(
        cluster.zones["shop"].metadata, {**SPEC, "nodes": ["m"]}, cluster.zones["shop"].status
    )
    asyncio.run(live.follow())
    assert cluster.patches[-1] == ("shop", None)  # not a zone of this node any more


@pytest.mark.parametrize("error", [NotFound("no such kind"), Transient("away")])
def test_a_server_that_does_not_answer_changes_nothing(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    live, cluster, keeper = make(tmp_path)
    keeper.running["shop"] = "ControlZone/shop@1:u-shop"
    cluster.error = error
    asyncio.run(live.follow())
    asyncio.run(live.follow())
    assert list(keeper.running) == ["shop"]
    assert caplog.text.count("stay as they are") == 1


BOX = {"vm": {"memoryMib": 512}, "pods": [{"name": "web", "image": {"archive": "web.tar"}, "env": {"aB": "c"}}]}


def test_the_status_says_where_pods_may_take_the_memory_of_machines(tmp_path: Path) -> None:
    kept_back = [0]
    live, cluster, keeper = make(tmp_path, kept_back=lambda: kept_back[0])
    cluster.put("box", BOX)
    asyncio.run(live.follow())
    keeper.boots("box", web={"running": True, "ready": True})
    machines = {"memoryMib": [512, 4096], "vcpus": [1, 16], "diskMib": [0, 8192], "inPod": False}
    write_state(tmp_path, {**read_state(tmp_path, "box"), "machines": machines})
    for kept_back[0], status in ((256 << 20, "False"), (512 << 20, "True")):
        asyncio.run(live.follow())
        found = conditions((cluster.zones["box"].status or {})["nodes"]["n"])
        assert (found["MemoryKeptBack"][0], found["Ready"][0]) == (status, "True")


class Events:
    """What was recorded."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str, str]] = []

    def record(self, kind: object, key: str, uid: str, type_: str, reason: str, message: str) -> None:
        self.texts.append((key, reason, message))


def test_memory_that_is_not_kept_back_is_told_to_the_keeper_once_and_has_an_event(tmp_path: Path) -> None:
    kept_back, clock, events = [256 << 20], Clock(), Events()
    live, cluster, keeper = make(tmp_path, clock, lambda: kept_back[0])
    live._events = events
    cluster.put("box", BOX)
    asyncio.run(live.follow())
    keeper.boots("box", web={"running": True, "ready": True})
    machines = {"memoryMib": [512, 4096], "vcpus": [1, 16], "diskMib": [0, 8192], "inPod": False}
    write_state(tmp_path, {**read_state(tmp_path, "box"), "machines": machines})
    for clock.now_s, kept_back[0] in ((10, 256 << 20), (20, 256 << 20), (30, 512 << 20), (40, 0), (4000, 512 << 20)):
        asyncio.run(live.follow())
    assert keeper.told == [256 << 20, 512 << 20, 0, 512 << 20]
    assert read_state(tmp_path, "box")["machines"]["keptBackMib"] == 512
    told = "MemoryKeptBack on node n: machines of this node have 512 MiB, and it keeps 256 MiB back from pods"
    assert events.texts == [
        ("box", "PodsMayTakeIt", f"{told}: raise systemReserved of its kubelet by 256 MiB")
    ]  # and none within an hour
    kept_back[0], clock.now_s = 0, 8000.0
    asyncio.run(live.follow())
    assert len(events.texts) == 2


def test_a_machine_starts_beside_all_else_and_its_pods_are_in_the_status(tmp_path: Path) -> None:
    clock = Clock()
    live, cluster, keeper = make(tmp_path, clock)

    def follow(at_s: float) -> Any:
        clock.now_s = at_s
        asyncio.run(live.follow())
        return (cluster.zones["box"].status or {"nodes": {}})["nodes"].get("n")

    cluster.put("box", BOX)
    entry = follow(60)
    assert entry["state"] == "starting"
    assert conditions(entry) == {
        "Ready": ("False", "Starting", "01:00"),
        "MachineRunning": ("False", "Starting", "01:00"),
    }
    keeper.boots("box", web={"running": True})
    entry = follow(70)
    assert entry["machine"]["kernel"] == "7.3"
    assert "pid" not in entry["machine"]
    (web,) = entry["pods"]
    assert (web["name"], web["ready"], web["ports"][0]["host"]) == ("web", False, 8080)
    assert conditions(entry) == {
        "Ready": ("False", "PodsNotReady", "01:00"),
        "MachineRunning": ("True", "Booted", "01:10"),
        "PodsReady": ("False", "PodsNotReady", "01:10"),
    }
    keeper.boots("box", web={"running": True, "ready": True}, once={"kind": "batch", "exit": 0})
    entry = follow(80)
    assert {name: found[0] for name, found in conditions(entry).items()} == dict.fromkeys(conditions(entry), "True")
    # the machine ends by itself: again after a pause, that doubles
    keeper.fails("box", "the virtual machine ended")
    entry = follow(90)
    assert (entry["state"], entry["message"]) == ("refused", "the virtual machine ended")
    assert "pods" not in entry
    assert conditions(entry)["MachineRunning"] == ("False", "NotStarted", "01:30")
    assert follow(99)["state"] == "refused"
    entry = follow(100)
    assert (entry["state"], entry["restarts"]) == ("starting", 1)
    keeper.fails("box", "no kernel")
    assert follow(110)["message"] == "no kernel"
    assert follow(129)["state"] == "refused"
    assert follow(130)["state"] == "starting"
    # gone while it starts
    del cluster.zones["box"]
    clock.now_s = 140
    asyncio.run(live.follow())
    assert keeper.running == {}


def test_a_machine_that_a_keeper_restored_is_the_agents_again(tmp_path: Path) -> None:
    live, cluster, keeper = make(tmp_path)
    cluster.put("box", BOX)
    keeper.running["box"] = "ControlZone/box@1:u-box"
    asyncio.run(live.follow())
    assert keeper.agents == []
    assert cluster.patches[-1][1]["state"] == "starting"
    keeper.boots("box", web={"running": True, "ready": True})
    asyncio.run(live.follow())
    assert cluster.patches[-1][1]["state"] == "active"
    assert "restarts" not in cluster.patches[-1][1]


def test_an_agent_that_listens_everywhere_is_reached_on_this_host() -> None:
    assert _from_this_host(Address("0.0.0.0", 5)) == "127.0.0.1:5"
    assert _from_this_host(Address("::", 5)) == "[::1]:5"
    assert _from_this_host(Address("", 0, "/run/agent.sock")) == "unix:/run/agent.sock"
