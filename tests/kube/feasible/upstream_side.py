"""The nodes that kube-scheduler's filters pass for a pod: those about which it asks an extender.

The extender answers that none of them will do, and preemption is off, so nothing is ever bound and a world stays as it
is. A pod about which nobody was asked, and that is said to be unschedulable, has no such node.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.fakes.waiting import eventually
from tests.kube.claims.upstream import Upstream
from tests.kube.conftest import Kube
from tests.kube.feasible.vocabulary import PER_SERVER, Manifest
from tests.kube.feasible.worlds import World

JUDGED_S = 60.0
SETTLING_S = 0.15  # until kube-scheduler has heard of a world: nothing tells from outside


@dataclass(frozen=True, slots=True)
class Judged:
    """A pod as the server has it, and its nodes; None = it was not judged."""

    pod: Manifest
    nodes: frozenset[str] | None
    message: str = ""


class Extender:
    """Remembers about which nodes it was asked, by the pod's UID."""

    def __init__(self) -> None:
        self.asked: dict[str, frozenset[str]] = {}
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                document = json.loads(self.rfile.read(int(self.headers["content-length"])))
                names = document["NodeNames"]
                asked[document["Pod"]["metadata"]["uid"]] = frozenset(names)
                body = json.dumps({"NodeNames": [], "FailedNodes": dict.fromkeys(names, "noted")}).encode()
                head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
                self.wfile.write(head.encode() + body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def serving(self) -> Iterator[None]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()

    def configuration(self, unfiltered: Sequence[str]) -> Mapping[str, Any]:
        """What a kube-scheduler that asks it, and leaves out these plugins, has in its configuration."""
        return {
            "percentageOfNodesToScore": 100,
            "extenders": [{"urlPrefix": self.url, "filterVerb": "filter", "nodeCacheCapable": True}],
            "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins(unfiltered)}],
        }


def plugins(unfiltered: Sequence[str]) -> Mapping[str, Any]:
    """A profile's sets without preemption, and without the filters of these plugins."""
    off = {"disabled": [{"name": name} for name in unfiltered]}
    return {"postFilter": {"disabled": [{"name": "*"}]}, "preFilter": off, "filter": off}


class Server:
    """An API server with one world at a time, judged by a kube-scheduler that asks `extender`."""

    def __init__(self, kube: Kube, extender: Extender) -> None:
        self._kube, self._extender = kube, extender

    def prepare(self) -> None:
        """Make what is the same for all worlds."""
        for path, obj in PER_SERVER:
            self._kube.create(path, obj)

    @contextmanager
    def world(self, found: World) -> Iterator[None]:
        """The world's objects."""
        kube = self._kube
        try:
            for obj in found.namespaces:
                kube.create("/api/v1/namespaces", obj)
            for obj in found.volumes:
                self._with_status(kube.create("/api/v1/persistentvolumes", obj))
            for obj in found.claims:
                self._with_status(kube.create(_path(obj, "persistentvolumeclaims"), obj))
            for obj in found.nodes:
                kube.create("/api/v1/nodes", obj)
            for obj in found.residents:
                kube.create(_path(obj, "pods"), obj)
                name = obj["metadata"]["name"]
                if name in found.ended:
                    kube.patch(f"{_path(obj, 'pods')}/{name}/status", {"status": {"phase": "Succeeded"}})
                elif name in found.leaving:
                    kube.delete(f"{_path(obj, 'pods')}/{name}", gracePeriodSeconds="600")
            time.sleep(SETTLING_S)
            yield
        finally:
            for namespace in found.namespace_names:
                for kind in ("pods", "persistentvolumeclaims"):
                    kube.request("DELETE", f"/api/v1/namespaces/{namespace}/{kind}", gracePeriodSeconds="0")
            for kind in ("nodes", "persistentvolumes"):
                kube.request("DELETE", f"/api/v1/{kind}")

    def _with_status(self, obj: Manifest) -> None:
        """Write the phase of a volume or a claim, as the controller of volumes would."""
        is_volume = obj["kind"] == "PersistentVolume"
        is_bound = "claimRef" in obj["spec"] or "volumeName" in obj["spec"]
        path = "/api/v1/persistentvolumes" if is_volume else _path(obj, "persistentvolumeclaims")
        phase = "Bound" if is_bound else "Available" if is_volume else "Pending"
        self._kube.patch(f"{path}/{obj['metadata']['name']}/status", {"status": {"phase": phase}})

    def objects(self, found: World) -> dict[str, list[Manifest]]:
        """What there is, by the plural of its kind."""
        cluster = {kind: self._list(f"/api/v1/{kind}") for kind in ("nodes", "namespaces", "persistentvolumes")}
        cluster["storageclasses"] = self._list("/apis/storage.k8s.io/v1/storageclasses")
        for kind in ("pods", "persistentvolumeclaims"):
            cluster[kind] = self._list(f"/api/v1/{kind}")
        return cluster

    def judged(self, wanted: Sequence[Manifest]) -> tuple[dict[str, Judged], dict[str, str]]:
        """Pods by name, each judged once, and why the server refused others. All are deleted again."""
        refused: dict[str, str] = {}
        for obj in wanted:
            answer = self._kube.request("POST", _path(obj, "pods"), obj)
            if answer.code >= 300:
                refused[obj["metadata"]["name"]] = answer.message
        names = {obj["metadata"]["name"] for obj in wanted} - set(refused)
        found: dict[str, Judged] = {}

        def all_judged() -> bool:
            for pod in self._list("/api/v1/pods"):
                name = pod["metadata"]["name"]
                if name in names and name not in found and (one := self._of(pod)) is not None:
                    found[name] = one
            return len(found) == len(names)

        eventually("all pods are judged", all_judged, within_s=JUDGED_S, interval_s=0.05)
        for obj in wanted:
            self._kube.request("DELETE", f"{_path(obj, 'pods')}/{obj['metadata']['name']}", gracePeriodSeconds="0")
        return found, refused

    def _of(self, pod: Manifest) -> Judged | None:
        for condition in pod["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                message = condition.get("message", "")
                if condition["reason"] == "SchedulingGated":
                    return Judged(pod, None)
                assert condition["reason"] == "Unschedulable", condition
                return Judged(pod, self._extender.asked.get(pod["metadata"]["uid"], frozenset()), message)
        return None

    def _list(self, path: str) -> list[Manifest]:
        found: list[Manifest] = self._kube.get(path)["items"]
        return found


@contextmanager
def judging(found: Upstream, unfiltered: Sequence[str] = ()) -> Iterator[Server]:
    """A kube-scheduler that asks, on a running API server; these plugins do not filter."""
    extender = Extender()
    with extender.serving(), found.scheduler(extender.configuration(unfiltered)):
        server = Server(found.client(), extender)
        server.prepare()
        yield server


def _path(obj: Manifest, kind: str) -> str:
    return f"/api/v1/namespaces/{obj['metadata']['namespace']}/{kind}"
