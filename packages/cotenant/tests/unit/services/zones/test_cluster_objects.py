"""ControlZones of a cluster on one node: created, replaced and destroyed in the keeper, with a status a node."""

from __future__ import annotations

import asyncio
import json
import os
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
from cotenant.services.zones.state_file import write_state
from cotenant.services.zones.zone_files import definition_of

SPEC = {"applications": [{"namespace": "shop"}], "rules": [{"kind": "batch"}]}


@dataclass
class Cluster:
    """ControlZones, and the patches of their statuses."""

    zones: dict[str, ControlZoneObject] = field(default_factory=dict)
    patches: list[tuple[str, Any]] = field(default_factory=list)
    error: Exception | None = None

    def put(self, name: str, spec: Any, generation: int = 1) -> None:
        self.zones[name] = ControlZoneObject(ObjectMeta(name=name, uid=f"u-{name}", generation=generation), spec)

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

    def create(self, text: str, name: str, agent: str | None = None) -> dict[str, Any]:
        if self.refuses:
            raise Permanent(self.refuses)
        definition = definition_of(text.encode(), name)
        assert json.loads(text)["kind"] == "ControlZone"
        self.running[definition.zone] = name
        self.agents.append(agent)
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
        (self.folder / f"{zone}.json").unlink()
        return "destroyed"

    def sources(self) -> dict[str, str]:
        return dict(self.running)


def make(folder: Path) -> tuple[LiveZones, Cluster, Keeper]:
    cluster, keeper = Cluster(), Keeper(folder)
    live = LiveZones(cast(Client, cluster), "n", cast(ZoneClient, keeper), folder, "127.0.0.1:7")
    return live, cluster, keeper


def test_a_control_zone_is_created_replaced_and_destroyed(tmp_path: Path) -> None:
    live, cluster, keeper = make(tmp_path)
    keeper.running["by-hand"] = "shop.yaml"
    cluster.put("shop", SPEC)
    cluster.put("elsewhere", {**SPEC, "nodes": ["m"]})
    asyncio.run(live.follow())
    assert list(keeper.running) == ["by-hand", "shop"]
    assert keeper.agents == ["127.0.0.1:7"]
    entry = {"observedGeneration": 1, "state": "active", "setting": "weights", "groups": 1}
    assert cluster.patches == [("shop", {**entry, "lastChange": "setting weights: started"})]
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
    cluster.put("shop", {"groups": [{"group": "web", "kind": "batch"}], "vm": {"cpus": 2}}, generation=3)
    asyncio.run(live.follow())
    assert "a virtual machine: expected none in a ControlZone" in cluster.patches[-1][1]["message"]
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


def test_an_agent_that_listens_everywhere_is_reached_on_this_host() -> None:
    assert _from_this_host(Address("0.0.0.0", 5)) == "127.0.0.1:5"
    assert _from_this_host(Address("::", 5)) == "[::1]:5"
    assert _from_this_host(Address("", 0, "/run/agent.sock")) == "unix:/run/agent.sock"
