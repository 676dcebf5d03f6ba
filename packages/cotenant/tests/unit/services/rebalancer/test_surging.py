"""Rollouts in place of evictions: what is written to a Deployment, and which Deployments will not do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.model.errors import Unsupported
from cotenant.model.groups.migration import SURGED, MigrationJob, PodRef
from cotenant.services.rebalancer.surging import BEFORE, Deployment, start_surge, undo_surge, unsuited

GOES_FIRST = "has a maxUnavailable that lets the only pod go first"
JOB = MigrationJob("job", "job-uid", PodRef("shop", "web-1", "u1"))


class Server:
    """One pod, its ReplicaSet and its Deployment."""

    def __init__(self, **spec: Any) -> None:
        reference = {"apiVersion": "apps/v1", "controller": True}
        self.pod: dict[str, Any] | None = {
            "metadata": {
                "uid": "u1",
                "ownerReferences": [{**reference, "kind": "ReplicaSet", "name": "web-abc", "uid": "rs"}],
            }
        }
        self.replica_set = {
            "metadata": {"ownerReferences": [{**reference, "kind": "Deployment", "name": "web", "uid": "d"}]}
        }
        template = {"metadata": {"labels": {"app": "web"}}}
        self.deployment: dict[str, Any] = {
            "metadata": {"name": "web", "namespace": "shop", "uid": "d", "resourceVersion": "7"},
            "spec": {"replicas": 1, "template": template, **spec},
        }
        self.writes = 0

    async def request(self, method: str, path: str) -> bytes:
        if path.endswith("/deployments"):
            return json.dumps({"items": [self.deployment]}).encode()
        if self.pod is None:
            raise NotFound("gone")
        return json.dumps(self.pod).encode()

    async def get(self, kind: Any, namespace: str, name: str) -> Any:
        found = {"replicasets": self.replica_set, "deployments": self.deployment}[kind.plural]
        return msgspec.convert(found, kind.form)

    async def patch(self, kind: Any, namespace: str, name: str, patch: bytes, content_type: str) -> None:
        self.writes += 1
        for one in json.loads(patch):
            if one["op"] == "test":
                assert self.deployment["metadata"][one["path"].rpartition("/")[2]] == one["value"]
            elif one["path"] == "/spec/template/metadata/labels":
                self.deployment["spec"]["template"]["metadata"]["labels"] = one["value"]
            else:
                assert one["path"] == "/metadata/annotations"
                self.deployment["metadata"]["annotations"] = one["value"]

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.deployment["spec"]["template"]["metadata"]["labels"])


def start(server: Any) -> None:
    asyncio.run(start_surge(server, JOB))


def undo(server: Any) -> None:
    asyncio.run(undo_surge(server, JOB))


def test_a_rollout_is_begun_once_and_undone_once() -> None:
    server = Server()
    for _ in range(3):
        start(server)
    assert (server.labels, server.writes) == ({"app": "web", SURGED: "job-uid"}, 1)
    for _ in range(3):
        undo(server)
    assert (server.labels, server.writes) == ({"app": "web"}, 2)
    assert server.deployment["metadata"]["annotations"] == {}


def test_undoing_gives_the_label_of_an_earlier_move_back_and_keeps_other_notes() -> None:
    server = Server()
    server.deployment["spec"]["template"]["metadata"]["labels"][SURGED] = "earlier"
    server.deployment["metadata"]["annotations"] = {"team": "shop"}
    start(server)
    assert server.deployment["metadata"]["annotations"] == {"team": "shop", BEFORE: "earlier"}
    server.pod = None  # it ended meanwhile: the Deployment is found by the label
    undo(server)
    assert server.labels == {"app": "web", SURGED: "earlier"}
    assert server.deployment["metadata"]["annotations"] == {"team": "shop"}


def test_what_another_job_rolled_out_since_is_left_alone() -> None:
    server = Server()
    start(server)
    server.deployment["spec"]["template"]["metadata"]["labels"][SURGED] = "later"
    undo(server)
    assert (server.labels[SURGED], server.writes) == ("later", 1)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, ""),
        ({"replicas": 2}, "has 2 replicas"),
        ({"replicas": 0}, "has 0 replicas"),
        ({"paused": True}, "is paused"),
        ({"strategy": {"type": "Recreate"}}, "has the strategy Recreate"),
        ({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}, "has a maxSurge of 0"),
        ({"strategy": {"rollingUpdate": {"maxUnavailable": 1}}}, GOES_FIRST),
        ({"strategy": {"rollingUpdate": {"maxUnavailable": "100%"}}}, GOES_FIRST),
        ({"strategy": {"rollingUpdate": {"maxUnavailable": "99%", "maxSurge": "1%"}}}, ""),
        ({"strategy": {"rollingUpdate": {"maxSurge": "0%"}}}, "has a maxSurge of 0"),
        ({"strategy": {"rollingUpdate": {"maxSurge": "x"}}}, "has a maxSurge of 0"),
    ],
)
def test_a_rollout_must_start_the_replacement_first(spec: dict[str, Any], why: str) -> None:
    server = Server(**spec)
    assert unsuited(msgspec.convert(server.deployment, Deployment)) == why
    if why:
        with pytest.raises(Unsupported):
            start(server)
        assert server.writes == 0


def test_a_pod_without_a_deployment_is_refused_for_good() -> None:
    for change in ("no deployment", "replaced", "gone"):
        server = Server()
        if change == "no deployment":
            server.replica_set["metadata"]["ownerReferences"] = []
        elif change == "replaced":
            assert server.pod is not None
            server.pod["metadata"]["uid"] = "u2"
        else:
            server.pod = None
        with pytest.raises(Unsupported, match="belongs to no Deployment"):
            start(server)


@pytest.mark.parametrize("level", ["pod", "ReplicaSet"])
@pytest.mark.parametrize(
    ("references", "is_found"),
    [
        ([("ReplicaSet/Deployment", True)], True),
        ([("Other", True), ("ReplicaSet/Deployment", True)], True),
        ([("ReplicaSet/Deployment", False)], False),
        ([("Other", True)], False),
        ([("Other", True), ("ReplicaSet/Deployment", False)], False),
        ([], False),
    ],
)
def test_only_a_controller_of_the_right_kind_leads_to_the_deployment(
    level: str, references: list[tuple[str, bool]], is_found: bool
) -> None:
    server = Server()
    assert server.pod is not None
    changed, kind, name = (
        (server.pod, "ReplicaSet", "web-abc") if level == "pod" else (server.replica_set, "Deployment", "web")
    )
    changed["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "apps/v1",
            "kind": kind if of == "ReplicaSet/Deployment" else of,
            "name": name,
            "uid": f"uid-{at}",
            "controller": controls,
        }
        for at, (of, controls) in enumerate(references)
    ]
    if is_found:
        start(server)
    else:
        with pytest.raises(Unsupported):
            start(server)
    assert server.writes == int(is_found)
