"""What the manager writes to resize a pod, what it does with a refusal, and what it reads of owners and autoscalers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cotenant.drivers.kube.client.errors import Conflict, Forbidden, NotFound, Unavailable
from cotenant.drivers.kube.kinds.custom.right_sizing import RIGHT_SIZINGS
from cotenant.drivers.kube.kinds.namespace_limits import AUTOSCALERS
from cotenant.drivers.kube.kinds.pod.sized import SIZED_PODS
from cotenant.drivers.kube.kinds.workloads import REPLICA_SETS
from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.sizing.scene import ResizePod, WriteSizing
from cotenant.model.sizes.container import ContainerSize
from cotenant.model.sizes.right_sizing import SizingStatus
from cotenant.services.manager import right_sizing
from cotenant.services.manager.right_sizing import RightSizingService, held_by, resize_pod, write_sizing

SIZE = ContainerSize(cpu_request_m=500, memory_request_bytes=1 << 30)
WRITE = ResizePod("shop/web", "shop", "web-1", "u", "main", SIZE)


class Server:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[Any] = []

    async def patch(self, *where: Any, **options: Any) -> None:
        self.asked.append((where, options))
        if self.error is not None:
            raise self.error

    async def set_status(self, *where: Any) -> None:
        self.asked.append(where)


def resized(server: Server) -> list[tuple[ResizePod, str]]:
    refused: list[tuple[ResizePod, str]] = []
    asyncio.run(resize_pod(cast(Any, server), WRITE, lambda write, why: refused.append((write, why))))
    return refused


def test_one_container_is_resized_in_place_of_the_pod_that_was_meant() -> None:
    server = Server()
    assert resized(server) == []
    (((kind, namespace, name, body), options),) = server.asked
    assert (kind, namespace, name) == (SIZED_PODS, "shop", "web-1")
    assert options == {
        "content_type": "application/strategic-merge-patch+json",
        "subresource": "resize",
        "field_manager": "cotenant-right-sizing",  # by which it knows its own resizes again
    }
    assert body["metadata"] == {"uid": "u"}
    (container,) = body["spec"]["containers"]
    assert container["name"] == "main"
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


def test_a_refusal_is_told_and_what_may_pass_is_tried_again() -> None:
    assert resized(Server(Forbidden("a LimitRange"))) == [(WRITE, "a LimitRange")]
    for error in (NotFound("gone"), Conflict("changed"), Unavailable("away")):
        with pytest.raises(type(error)):
            resized(Server(error))


def test_a_status_is_written_over_the_object_that_was_meant() -> None:
    server = Server()
    status = SizingStatus()
    asyncio.run(write_sizing(cast(Any, server), WriteSizing("shop/web", "u", status)))
    ((kind, namespace, name, uid, fields),) = server.asked
    assert (kind, namespace, name, uid) == (RIGHT_SIZINGS, "shop", "web", "u")
    assert isinstance(fields, dict)


class Watching:
    """What was asked to be watched."""

    def __init__(self) -> None:
        self.handlers: dict[Any, Any] = {}
        self.optional: set[str] = set()

    def handle(self, kind: Any, handler: Any, *, optional: bool = False) -> None:
        self.handlers[kind.plural] = handler
        if optional:
            self.optional.add(kind.plural)


def service() -> tuple[RightSizingService, Watching]:
    watches = Watching()
    return RightSizingService(cast(Any, watches), lambda: 100.0, Permissions()), watches


def test_only_pods_must_be_there_to_be_watched() -> None:
    _, watches = service()
    assert set(watches.handlers) - watches.optional == {"pods"}
    assert {"rightsizings", "replicasets", "nodemetrics", "horizontalpodautoscalers"} <= watches.optional


def test_a_resize_that_was_stopped_meanwhile_is_not_made() -> None:
    found, _ = service()
    assert set(found.writers()) == {WriteSizing, ResizePod}
    server = Server()
    for may in (False, True):
        asked: list[Any] = []
        found.engine = cast(
            Any,
            SimpleNamespace(
                may_resize=lambda write, now_s, may=may, asked=asked: asked.append((write, now_s)) or may,
                resize_refused=None,
            ),
        )
        asyncio.run(cast(Any, found.writers()[ResizePod])(server, WRITE))
        assert asked == [(WRITE, 100.0)]
        assert len(server.asked) == int(may)


def test_an_owner_is_followed_to_the_one_above_and_forgotten_when_it_goes() -> None:
    found, _ = service()
    seen: list[Any] = []
    found.engine = cast(Any, SimpleNamespace(owner_seen=lambda *owner: seen.append(owner)))
    found._owner_gone("shop/web-1")
    assert seen == [("shop", "web-1", None)]
    references = [
        {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "1"},
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "2", "controller": True},
    ]
    for meta, owned in (
        ({"name": "a", "namespace": "shop", "ownerReferences": references}, ("shop", "a", ("Deployment", "web"))),
        ({"name": "a", "ownerReferences": references[:1]}, ("default", "a", None)),
        ({"name": "a", "namespace": "shop"}, ("shop", "a", None)),
    ):
        assert right_sizing._owned(msgspec.convert({"metadata": meta}, REPLICA_SETS.form)) == owned


def test_an_autoscaler_holds_what_it_goes_by() -> None:
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "metrics": [cpu]}
    scaler = msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, AUTOSCALERS.form)
    key, target, held = held_by(scaler)
    assert (key, target) == ("default/s", ("default", "Deployment", "web"))
    assert held.cpu.startswith("CPU stays: HorizontalPodAutoscaler s")
    assert held.memory == ""
    named = msgspec.convert({"metadata": {"name": "s", "namespace": "shop"}, "spec": spec}, AUTOSCALERS.form)
    assert held_by(named)[:2] == ("shop/s", ("shop", "Deployment", "web"))


def test_times_are_written_to_the_second_in_utc() -> None:
    assert right_sizing._stamp(1_767_225_600.9) == "2026-01-01T00:00:00Z"
