"""What is written into a NodeResourceTopology that is not there, is there, or is made by another agent meanwhile."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import msgspec
import pytest
from tests.fakes.cluster.cpu_cluster import cpus
from tests.fakes.virtual_time import run_virtually

from cotenant.drivers.kube.client.errors import AlreadyExists, NotFound
from cotenant.drivers.kube.kinds.custom.node_resource_topology import NODE_TOPOLOGIES
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.services.agent.reports.topology import LOOK_S, PERIOD_S, NodeTopologyWriter


class Server:
    """One object; `races`: another agent makes it between a look and a write."""

    def __init__(self, found: dict[str, Any] | None = None, races: bool = False) -> None:
        self.found, self.races = found, races
        self.writes: list[tuple[str, dict[str, Any]]] = []

    async def get(self, kind: Any, namespace: str, name: str) -> Any:
        assert (kind, namespace, name) == (NODE_TOPOLOGIES, "", "n")
        if self.found is None:
            raise NotFound("noderesourcetopologies n")
        return msgspec.json.decode(json.dumps(self.found), type=kind.form)

    async def create(self, kind: Any, namespace: str, body: dict[str, Any]) -> None:
        if self.races:
            self.found = {"metadata": {"name": "n"}, "zones": []}
            raise AlreadyExists("noderesourcetopologies n")
        self.found = body
        self.writes.append(("create", body))

    async def patch(self, kind: Any, namespace: str, name: str, body: dict[str, Any], content_type: str) -> None:
        assert content_type == "application/merge-patch+json"
        assert self.found is not None
        self.writes.append(("patch", body))
        meta = self.found.setdefault("metadata", {})
        given = {**meta.get("annotations", {}), **body.get("metadata", {}).get("annotations", {})}
        meta["annotations"] = {key: text for key, text in given.items() if text is not None}
        self.found |= {key: value for key, value in body.items() if key != "metadata"}


KUBELET = KubeletFacts(cpu_manager="static", topology_manager="restricted")


def writer(server: Server, kubelet: KubeletFacts = KUBELET, **more: Any) -> NodeTopologyWriter:
    given: dict[str, Any] = {"cpus": cpus, "memory": lambda: ((0, 1 << 30),), "model": lambda cpus: None, **more}
    return NodeTopologyWriter(cast(Any, server), "n", tuple, kubelet=lambda: kubelet, **given)


def test_a_node_without_one_gets_one_and_what_stands_is_not_written_again() -> None:
    server = Server()
    asyncio.run(writer(server).write())
    ((verb, body),) = server.writes
    assert verb == "create"
    assert (body["metadata"]["name"], body["kind"]) == ("n", "NodeResourceTopology")
    assert all(body["metadata"]["annotations"].values())
    assert body["topologyPolicies"] == ["Restricted"]
    assert [zone["name"] for zone in body["zones"]] == ["node-0", "node-1"]
    asyncio.run(writer(server).write())
    assert len(server.writes) == 1
    unknown = Server()
    asyncio.run(writer(unknown, KubeletFacts()).write())
    assert unknown.writes[0][1]["topologyPolicies"] == ["None"]


def test_only_what_differs_is_written() -> None:
    server = Server()
    asyncio.run(writer(server).write())
    asyncio.run(writer(server, KubeletFacts(cpu_manager="none", topology_manager="restricted")).write())
    assert [set(body) for _, body in server.writes[1:]] == [{"metadata"}]
    asyncio.run(writer(server, KubeletFacts(cpu_manager="none", topology_manager="best-effort")).write())
    assert server.writes[2:] == [("patch", {"topologyPolicies": ["BestEffort"]})]
    asyncio.run(writer(server, KubeletFacts(cpu_manager="none")).write())  # not known: what stands stays
    assert len(server.writes) == 3


def test_another_writers_zones_stay_and_where_there_are_none_ours_are_written() -> None:
    theirs = {"name": "theirs", "type": "Node"}
    server = Server({"metadata": {"name": "n"}, "zones": [theirs]})
    asyncio.run(writer(server).write())
    assert server.found is not None
    assert server.found["zones"] == [theirs]
    racing = Server(races=True)
    asyncio.run(writer(racing).write())
    ((verb, body),) = racing.writes
    assert verb == "patch"
    assert set(body) == {"metadata", "topologyPolicies", "zones"}


def test_nothing_is_written_of_a_machine_whose_cpus_are_not_known() -> None:
    server = Server()
    asyncio.run(writer(server, cpus=tuple).write())
    assert server.writes == []


def test_it_is_looked_at_each_period(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []

    async def write(self: NodeTopologyWriter) -> None:
        times.append(asyncio.get_running_loop().time())

    monkeypatch.setattr(NodeTopologyWriter, "write", write)

    async def play() -> None:
        running = asyncio.create_task(writer(Server(), KubeletFacts()).run())
        await asyncio.sleep(2 * PERIOD_S + LOOK_S)
        running.cancel()

    run_virtually(play())
    assert [at - times[0] for at in times] == pytest.approx([0.0, PERIOD_S, 2 * PERIOD_S])
