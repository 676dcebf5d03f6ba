"""A lost shard's binds: which pending pods are changed, with what, and that nothing else is."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from cotenant.drivers.kube.client.client import MERGE_PATCH
from cotenant.drivers.kube.client.errors import Conflict, Forbidden, NotFound
from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS, ReservationObject
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.drivers.kube.kinds.shard_table import EVICTS, FENCED, STIRRED
from cotenant.engine.sharding.member import FenceLost
from cotenant.engine.sharding.territory import Territory
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import Transient
from cotenant.model.shards.table import SlotMember
from cotenant.services.scheduler.shards.fence import ShardFence

LOST = SlotMember(1, "replica-1", "token-1", 4)
NAMES = [f"p{i}" for i in range(60)]


class Server:
    """Pods, and what is written to them. `errors`: by the pod's name."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.pods = pods
        self.asked: list[str] = []
        self.victims: list[dict[str, Any]] = []
        self.looked_for: list[str] = []
        self.written: dict[str, dict[str, Any]] = {}
        self.errors: dict[str, Exception] = {}
        self.reservations: list[dict[str, Any]] | Exception = NotFound("the kind is not installed")

    async def all_of(self, kind: Any, *, labels: str = "", fields: str = "") -> list[Any]:
        if kind is RESERVATIONS:
            if isinstance(self.reservations, Exception):
                raise self.reservations
            return [msgspec.json.decode(msgspec.json.encode(one), type=ReservationObject) for one in self.reservations]
        if labels:
            self.looked_for.append(labels)
            return [msgspec.convert(pod, PodObject) for pod in self.victims]
        self.asked.append(f"{kind.plural} {fields}")
        return [msgspec.convert(pod, PodObject) for pod in self.pods]

    async def patch_status(self, kind: Any, namespace: str, name: str, patch: Any, content_type: str = "") -> None:
        assert (kind.plural, namespace) == ("pods", "shop")
        assert content_type == MERGE_PATCH or "labels" in patch["metadata"]
        if name in self.errors:
            raise self.errors[name]
        self.written[name] = patch["metadata"]

    async def patch(self, kind: Any, namespace: str, name: str, patch: Any) -> None:
        assert (kind.plural, namespace) == ("reservations", "")
        if name in self.errors:
            raise self.errors[name]
        self.written[name] = patch["metadata"]


def pod(name: str, **more: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    spec = {"schedulerName": "cotenant", "containers": [{"name": "c"}], **more.pop("spec", {})}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}, **more}


def fence(server: Server) -> ShardFence:
    return ShardFence(cast(Any, server), PodReader(), ("cotenant", "other"), lambda seen: (f"pod:{seen.uid}",))


def test_pods_that_it_may_have_decided_for_are_changed_with_its_token() -> None:
    server = Server(*(pod(name) for name in NAMES))
    fenced = fence(server)
    asyncio.run(fenced.carry_out(FenceLost(LOST, (0, 1))))
    lost = Territory(1, ((0, 1),))
    theirs = {name for name in NAMES if lost.owns_group(f"pod:uid-{name}")}
    assert 0 < len(theirs) < len(NAMES)
    assert server.written == {name: {"uid": f"uid-{name}", "annotations": {FENCED: "token-1"}} for name in theirs}
    assert fenced.changed == len(theirs)
    assert server.asked == ["pods spec.nodeName="]


def test_where_its_ring_is_not_known_every_pending_pod_is_changed() -> None:
    server = Server(*(pod(name) for name in NAMES))
    fenced = fence(server)
    asyncio.run(fenced.carry_out(FenceLost(LOST, ())))
    assert set(server.written) == set(NAMES)
    asyncio.run(fenced.carry_out(FenceLost(LOST, ())))
    assert fenced.changed == 2 * len(NAMES)


def test_pods_of_other_schedulers_and_those_with_a_node_or_an_end_are_left_alone() -> None:
    server = Server(
        pod("bound", spec={"nodeName": "n1"}),
        pod("theirs", spec={"schedulerName": "default-scheduler"}),
        pod("ended", status={"phase": "Succeeded"}),
        pod("also-ours", spec={"schedulerName": "other"}),
        pod("ours"),
    )
    asyncio.run(fence(server).carry_out(FenceLost(LOST, ())))
    assert set(server.written) == {"ours", "also-ours"}


@pytest.mark.parametrize("error", [Conflict("another uid"), NotFound("gone")])
def test_a_pod_that_is_gone_needs_no_change(error: Exception) -> None:
    server = Server(pod("gone"), pod("ours"))
    server.errors["gone"] = error
    asyncio.run(fence(server).carry_out(FenceLost(LOST, ())))
    assert set(server.written) == {"ours"}


def test_a_server_that_is_away_is_told_to_who_asked() -> None:
    server = Server(pod("p"))
    server.errors["p"] = Transient("away")
    fenced = fence(server)
    with pytest.raises(ExceptionGroup):
        asyncio.run(fenced.carry_out(FenceLost(LOST, ())))
    assert fenced.changed == 0


def test_a_pod_is_stirred_each_time_with_another_value() -> None:
    server, seen = Server(), ObservedPod(Pod("p", namespace="shop"), "uid-p", "cotenant", 0.0)
    values = set()
    for _ in range(3):
        asyncio.run(fence(server).stir(seen))
        assert server.written["p"]["uid"] == "uid-p"
        values.add(server.written["p"]["annotations"][STIRRED])
    assert len(values) == 3
    server.errors["p"] = NotFound("gone")
    asyncio.run(fence(server).stir(seen))


def held(name: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {"template": {}}, "status": status}


def test_reservations_without_a_node_that_it_may_have_decided_for_are_changed_too() -> None:
    server = Server()
    lost = Territory(1, ((0, 1, 2),))
    names = [f"r{number}" for number in range(30)]
    server.reservations = [
        *(held(name) for name in names),
        held("placed", nodeName="n", phase="Available"),
        held("over", phase="Failed"),
    ]
    server.errors = {names[0]: NotFound("gone"), names[1]: Conflict("another")}
    asyncio.run(fence(server).carry_out(FenceLost(LOST, (0, 1, 2))))
    own = [name for name in names if lost.owns_group(f"reservation:{name}")]
    assert 0 < len(own) < len(names)
    assert server.written == {
        name: {"uid": f"uid-{name}", "annotations": {FENCED: "token-1"}} for name in own if name not in server.errors
    }


def test_reservations_that_may_not_be_read_are_no_hindrance() -> None:
    server = Server()
    server.reservations = Forbidden("no right")
    asyncio.run(fence(server).carry_out(FenceLost(LOST, ())))
    assert server.written == {}


def test_victims_that_it_marked_are_changed_and_have_no_mark_any_more() -> None:
    server = Server()
    server.victims = [pod("v", spec={"nodeName": "n"}), pod("w", spec={"nodeName": "n"})]
    server.errors = {"w": NotFound("gone")}
    fenced = fence(server)
    asyncio.run(fenced.carry_out(FenceLost(LOST, (0, 1))))
    assert server.looked_for == [f"{EVICTS}=token-1"]
    assert server.written == {"v": {"uid": "uid-v", "labels": {EVICTS: None}}}
    assert fenced.changed == 2


def test_pods_for_which_it_decided_by_room_of_their_quota_are_changed_too() -> None:
    lost = Territory(1, ((0, 1),))
    mine = next(f"workload:{n}" for n in range(99) if lost.owns_group(f"workload:{n}"))
    tree = next(f"quota:{n}" for n in range(99) if not lost.owns_group(f"quota:{n}"))
    server = Server(pod("by-room"), pod("other"))
    groups = {"uid-by-room": (tree, mine), "uid-other": (tree,)}
    fenced = ShardFence(cast(Any, server), PodReader(), ("cotenant",), lambda seen: groups[seen.uid])
    asyncio.run(fenced.carry_out(FenceLost(LOST, (0, 1))))
    assert set(server.written) == {"by-room"}
