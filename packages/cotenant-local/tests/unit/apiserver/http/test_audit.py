"""The audit log: verbs and objects as Kubernetes' authorizer sees them, and requests that are refused."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.servers.api_roles import Call, calls, forbidden

from cotenant.model.errors import InvalidInput
from cotenant_local.apiserver.http.audit import AuditLog
from cotenant_local.apiserver.http.exchange import Exchange


def requested(log: AuditLog, method: str, target: str, agent: str = "cotenant-manager", code: int = 200) -> None:
    async def never(*_: Any) -> Any:
        raise AssertionError

    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "client": ("127.0.0.1", 9),
        "headers": [(b"user-agent", agent.encode()), (b"authorization", b"Bearer secret")],
    }
    exchange = Exchange(scope, never, never)
    identity = log.received(exchange)
    exchange.code = code
    log.completed(exchange, identity)


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("method", "target", "verb", "of"),
    [
        ("GET", "/api/v1/pods", "list", {"resource": "pods", "apiVersion": "v1"}),
        ("GET", "/api/v1/namespaces/a/pods/x", "get",
         {"resource": "pods", "namespace": "a", "name": "x", "apiVersion": "v1"}),
        ("GET", "/api/v1/pods?watch=true", "watch", {"resource": "pods", "apiVersion": "v1"}),
        ("GET", "/api/v1/pods?watch=false", "list", {"resource": "pods", "apiVersion": "v1"}),
        ("GET", "/api/v1/namespaces/a/configmaps?fieldSelector=metadata.name%3Dx&watch=1", "watch",
         {"resource": "configmaps", "namespace": "a", "name": "x", "apiVersion": "v1"}),
        ("POST", "/api/v1/namespaces/a/pods/x/binding", "create",
         {"resource": "pods", "namespace": "a", "name": "x", "subresource": "binding", "apiVersion": "v1"}),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/x", "update",
         {"resource": "leases", "namespace": "a", "name": "x", "apiGroup": "coordination.k8s.io", "apiVersion": "v1"}),
        ("PATCH", "/api/v1/nodes/n/status", "patch",
         {"resource": "nodes", "name": "n", "subresource": "status", "apiVersion": "v1"}),
        ("DELETE", "/api/v1/nodes/n", "delete", {"resource": "nodes", "name": "n", "apiVersion": "v1"}),
        ("DELETE", "/api/v1/nodes", "deletecollection", {"resource": "nodes", "apiVersion": "v1"}),
        ("GET", "/version", "get", None),
    ],
)  # fmt: skip
def test_a_request_is_one_event_with_what_rbac_decides_on(
    tmp_path: Path, method: str, target: str, verb: str, of: dict[str, str] | None
) -> None:
    path = tmp_path / "audit"
    requested(AuditLog(path), method, target)
    *received, event = events(path)
    assert [(entry["stage"], entry["auditID"]) for entry in received] == (
        [("RequestReceived", event["auditID"])] if verb == "watch" else []
    )
    assert (event["kind"], event["apiVersion"], event["level"]) == ("Event", "audit.k8s.io/v1", "Metadata")
    assert (event["verb"], event.get("objectRef"), event["requestURI"]) == (verb, of, target)
    assert (event["stage"], event["responseStatus"]["code"]) == ("ResponseComplete", 200)
    assert "secret" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_refused_request_is_logged_without_a_user_and_a_full_disk_ends_nothing(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit")
    requested(log, "GET", "/api/v1/pods", code=401)
    (event,) = events(tmp_path / "audit")
    assert (event["user"], event["responseStatus"]["code"]) == ({}, 401)
    log.close()
    requested(log, "GET", "/api/v1/pods")
    with pytest.raises(InvalidInput, match="--audit-log"):
        AuditLog(tmp_path / "none" / "audit")


def test_requests_are_judged_by_the_roles_of_deploy(tmp_path: Path) -> None:
    """By verb, group, resource with subresource, and name; another client has no role here."""
    log = AuditLog(tmp_path / "audit")
    config = "/api/v1/namespaces/koordinator-system/configmaps"
    granted = [
        ("GET", "/api/v1/nodes?watch=true"),
        ("PATCH", "/api/v1/nodes/n/status"),
        ("GET", f"{config}?fieldSelector=metadata.name%3Dslo-controller-config"),
        ("PATCH", "/api/v1/namespaces/cotenant-system/secrets/cotenant-scheduler-tls"),
        ("GET", "/apis"),
        ("GET", "/version"),
    ]
    for method, target in granted:
        requested(log, method, target)
    requested(log, "DELETE", "/api/v1/nodes/n", "kubectl/v1.33")
    assert forbidden(events(tmp_path / "audit")) == []
    refused = [
        ("DELETE", "/api/v1/nodes/n"),
        ("PATCH", "/apis/batch/v1/nodes/n"),
        ("GET", config),
        ("GET", "/metrics"),
        ("GET", "/api/v1/namespaces/cotenant-system/secrets/other"),
        ("PATCH", "/api/v1/nodes/n/scale"),
    ]
    for method, target in refused:
        requested(log, method, target, "cotenant-manager/leader-election")
    found = forbidden(events(tmp_path / "audit"))
    assert len(found) == len(refused)
    assert all(name.startswith("cotenant-manager: ") for name in found)
    assert ("cotenant-manager", Call("get", "", "/apis")) in list(calls(events(tmp_path / "audit")))


def test_requests_over_a_socket_are_logged(tmp_path: Path) -> None:
    from tests.unit.apiserver.http.test_server import request

    from cotenant_local.apiserver.assembly import assemble
    from cotenant_local.apiserver.http.app import ApiServerApp
    from cotenant_local.apiserver.http.auth import Credentials
    from cotenant_local.apiserver.http.server import ApiServer
    from cotenant_local.apiserver.storage.store import Store

    async def main() -> None:
        api = assemble(Store())
        await api.bootstrap()
        server = ApiServer(ApiServerApp(api, Credentials("t"), audit=AuditLog(tmp_path / "audit")))
        await server.start()
        for line, token in (("GET /api/v1/nodes", "t"), ("GET /api/v1/none", "t"), ("GET /api/v1/nodes", "wrong")):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port)
            writer.write(request(line).replace(b"Bearer t", f"Bearer {token}".encode()))
            await reader.read()
            writer.close()
        await server.stop()
        await api.close()

    asyncio.run(main())
    assert [event["responseStatus"]["code"] for event in events(tmp_path / "audit")] == [200, 404, 401]
