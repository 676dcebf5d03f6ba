"""A small Kubernetes API server that does as a test says: enough of lists, watches, binds, patches, deletes and leases
for a scheduler.

It behaves as reference/kubernetes.md has seen a real one behave where a scheduler meets it: a bind is a conflict where
the pod is bound, gated, ending or another one; an unknown node is no obstacle; annotations of a Binding are merged into
the pod. `Faults` makes it lose answers, refuse, cut watches, or be away.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from tests.fakes.waiting import patience

from cotenant.drivers.http.ports import hold_port

Obj = dict[str, Any]
PLURALS = {
    "pods": "Pod",
    "nodes": "Node",
    "namespaces": "Namespace",
    "events": "Event",
    "persistentvolumes": "PersistentVolume",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "storageclasses": "StorageClass",
    "poddisruptionbudgets": "PodDisruptionBudget",
    "leases": "Lease",
    "configmaps": "ConfigMap",
    "nodemetrics": "NodeMetric",
    "nodeslos": "NodeSLO",
    "podmigrationjobs": "PodMigrationJob",
    "workloadprofiles": "WorkloadProfile",
    "controlzones": "ControlZone",
    "serviceobjectives": "ServiceObjective",
    "noderesourcetopologies": "NodeResourceTopology",
    "autonomies": "Autonomy",
    "poollendings": "PoolLending",
    "rightsizings": "RightSizing",
    "priorityclasses": "PriorityClass",
    "mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
    "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
}


@dataclass
class Faults:
    """What goes wrong from now on."""

    lose_answers: Callable[[str, str], bool] = lambda method, path: False  # done, but nobody hears of it
    refuse: Callable[[str, str], int] = lambda method, path: 0  # an HTTP status instead of doing it


@dataclass
class FakeApi:
    """`async with FakeApi() as api: ... api.url`."""

    faults: Faults = field(default_factory=Faults)
    url: str = ""
    version: int = 100
    objects: dict[str, dict[str, Obj]] = field(default_factory=lambda: {plural: {} for plural in PLURALS})
    history: list[tuple[int, str, str, Obj]] = field(default_factory=list)  # version, plural, type, object
    requests: list[tuple[str, str]] = field(default_factory=list)
    binds: dict[str, list[str]] = field(default_factory=dict)  # uid -> nodes of accepted binds

    async def __aenter__(self) -> FakeApi:
        self._news = asyncio.Condition()
        self._streams: set[asyncio.Task[Any]] = set()
        self._held = hold_port()  # also while it is away
        self.url = f"http://127.0.0.1:{self._held.port}"
        await self.come()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.go()
        self._held.close()

    async def come(self) -> None:
        """Start to listen, on the same port as before."""
        app = web.Application(client_max_size=8 << 20)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._held.port, reuse_address=True).start()

    async def go(self) -> None:
        """Stop listening; what is stored stays."""
        self.cut()
        await self._runner.cleanup()

    def cut(self) -> None:
        """End every watch, wherever it is."""
        for stream in list(self._streams):
            stream.cancel()

    # ---- what tests do

    def put(self, plural: str, obj: Obj) -> Obj:
        """Create or replace an object."""
        meta = obj.setdefault("metadata", {})
        key = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]
        kind = "MODIFIED" if key in self.objects[plural] else "ADDED"
        meta.setdefault("uid", f"uid-{meta['name']}")
        meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        self._store(plural, key, obj, kind)
        return obj

    def drop(self, plural: str, key: str) -> None:
        """Delete an object at once."""
        obj = self.objects[plural].get(key)
        if obj is not None:
            self._store(plural, key, deepcopy(obj), "DELETED")
            del self.objects[plural][key]

    def node(self, name: str, cpu: str = "4", **more: Any) -> None:
        """A ready node."""
        status = {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        labels = {"kubernetes.io/hostname": name}
        self.put("nodes", {"metadata": {"name": name, "labels": labels}, "spec": more, "status": status})

    def pod(self, name: str, cpu: str = "1", *, on: str = "", uid: str = "", priority: int = 0, **spec: Any) -> Obj:
        """A pod of ours."""
        requests = {"cpu": cpu, "memory": "64Mi"}
        made = {
            "schedulerName": "cotenant",
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
            **({"nodeName": on} if on else {}),
            **spec,
        }
        meta = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"}
        return self.put("pods", {"metadata": meta, "spec": made, "status": {"phase": "Pending"}})

    def bound(self) -> dict[str, str]:
        """Names of bound pods and their nodes."""
        pods = self.objects["pods"].values()
        return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods if p["spec"].get("nodeName")}

    def condition(self, name: str, kind: str) -> Obj:
        """A pod's condition, empty if it has none of that type."""
        conditions = self.objects["pods"][f"default/{name}"]["status"].get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {})

    def events(self, reason: str) -> list[Obj]:
        """Events written with this reason."""
        return [e for e in self.objects["events"].values() if e["reason"] == reason]

    async def until(self, holds: Callable[[], bool], within_s: float = 30.0) -> None:
        """Wait until something holds; every change of the store looks again."""
        async with asyncio.timeout(patience(within_s)), self._news:
            await self._news.wait_for(holds)

    async def until_asked(self, method: str, path: str) -> None:
        """Wait until a request has come."""
        async with asyncio.timeout(patience(30.0)):
            while (method, path) not in self.requests:
                await asyncio.sleep(0)

    # ---- the server

    def _store(self, plural: str, key: str, obj: Obj, kind: str) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[plural][key] = obj
        self.history.append((self.version, plural, kind, deepcopy(obj)))

        async def tell() -> None:
            async with self._news:
                self._news.notify_all()

        task = asyncio.get_running_loop().create_task(tell())
        self._outbox = task

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.requests.append((request.method, path))
        if status := self.faults.refuse(request.method, path):
            return _status(status, "a fault of the test's")
        parts = path.strip("/").split("/")
        rest = parts[3:] if parts[0] == "apis" else parts[2:]
        namespace = ""
        if rest and rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name, sub = (*rest, "", "", "")[:3]
        if plural not in PLURALS:
            return _status(404, f"no {plural}")
        if request.method == "GET" and not name:
            return await (self._watch(request, plural) if request.query.get("watch") else self._list(plural))
        body = await request.read()
        answer = self._do(request.method, plural, namespace, name, sub, json.loads(body) if body else {})
        if self.faults.lose_answers(request.method, path):
            assert request.transport is not None
            request.transport.close()
        return answer

    async def _list(self, plural: str) -> web.Response:
        items = list(self.objects[plural].values())
        return web.json_response({"metadata": {"resourceVersion": str(self.version)}, "items": items})

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        seen = int(request.query.get("resourceVersion", "0"))
        try:
            while True:
                for version, kind, what, obj in self.history:
                    if version > seen and kind == plural:
                        await response.write(json.dumps({"type": what, "object": obj}).encode() + b"\n")
                seen = max(seen, self.version)
                async with self._news:
                    while self.version <= seen:
                        await self._news.wait()
        except (asyncio.CancelledError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()  # in the middle of whatever was said
            return response
        finally:
            self._streams.discard(task)

    def _do(self, method: str, plural: str, namespace: str, name: str, sub: str, body: Obj) -> web.Response:
        key = f"{namespace}/{name}" if namespace else name
        known = self.objects[plural].get(key)
        if method == "POST" and sub == "binding":
            return self._bind(known, body)
        if method == "POST":
            meta = body["metadata"]
            key = f"{namespace}/{meta['name']}" if namespace else meta["name"]
            if key in self.objects[plural]:
                return _status(409, f"{key} exists", "AlreadyExists")
            if namespace:
                meta["namespace"] = namespace
            return web.json_response(self.put(plural, body), status=201)
        if known is None:
            return _status(404, f"{plural} {key} not found", "NotFound")
        if isinstance(body, list):  # the JSON patch of a custom object's status: its uid, and all of the status
            uid, status = (one["value"] for one in body)
            if uid != known["metadata"]["uid"]:
                return _status(422, "another uid", "Invalid")
            changed = {**deepcopy(known), "status": status}
            self._store(plural, key, changed, "MODIFIED")
            return web.json_response(changed)
        uid = body.get("metadata", {}).get("uid") or (body.get("preconditions") or {}).get("uid")
        if method != "GET" and uid and uid != known["metadata"]["uid"]:
            return _status(409, "another uid", "Conflict")
        if method == "PUT":
            if body["metadata"].get("resourceVersion") not in (None, known["metadata"]["resourceVersion"]):
                return _status(409, "the object has been modified", "Conflict")
            return web.json_response(self.put(plural, {**body, "metadata": {**known["metadata"], **body["metadata"]}}))
        if method == "PATCH":
            changed = _merged(deepcopy(known), body)
            self._store(plural, key, changed, "MODIFIED")
            return web.json_response(changed)
        if method == "DELETE":
            self.drop(plural, key)
        return web.json_response(known)

    def _bind(self, pod: Obj | None, binding: Obj) -> web.Response:
        meta = binding["metadata"]
        if pod is None:
            return _status(404, "no such pod", "NotFound")
        if meta.get("uid") and meta["uid"] != pod["metadata"]["uid"]:
            return _status(409, "uid mismatch", "Conflict")
        if pod["spec"].get("nodeName"):
            return _status(409, "pod is already assigned to a node", "Conflict")
        if pod["spec"].get("schedulingGates") or pod["metadata"].get("deletionTimestamp"):
            return _status(409, "gated or ending", "Conflict")
        changed = deepcopy(pod)
        changed["spec"]["nodeName"] = binding["target"]["name"]
        changed["metadata"].setdefault("annotations", {}).update(meta.get("annotations") or {})
        changed["status"].setdefault("conditions", [])
        changed["status"]["conditions"] = [
            *(c for c in changed["status"]["conditions"] if c["type"] != "PodScheduled"),
            {"type": "PodScheduled", "status": "True"},
        ]
        self.binds.setdefault(pod["metadata"]["uid"], []).append(binding["target"]["name"])
        self._store("pods", f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", changed, "MODIFIED")
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)


def _merged(old: Obj, patch: Obj) -> Obj:
    """A merge patch in which conditions are merged by their type, as the strategic form has it."""
    for key, value in patch.items():
        if value is None:
            old.pop(key, None)
        elif key == "conditions":
            kinds = {condition["type"] for condition in value}
            old[key] = [*(c for c in old.get(key, []) if c["type"] not in kinds), *value]
        elif isinstance(value, dict):
            old[key] = _merged(old.get(key) or {}, value)
        else:
            old[key] = value
    return old


def _status(code: int, message: str, reason: str = "") -> web.Response:
    return web.json_response(
        {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}, status=code
    )
