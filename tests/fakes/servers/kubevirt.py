"""KubeVirt as its documents describe it, before an API server: its three kinds as definitions, its subresources, and
the phases that its controllers take objects through, one step each time an instance or a migration is read.

Source: KubeVirt user guide ("Run Strategies", "Lifecycle", "Live Migration"); API kubevirt.io/v1. Not modelled: disks,
networks, hot plug, eviction. A resize of a running machine is staged (`RestartRequired`), which is KubeVirt's default.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

GROUP = "kubevirt.io"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KINDS = {
    "VirtualMachine": "virtualmachines",
    "VirtualMachineInstance": "virtualmachineinstances",
    "VirtualMachineInstanceMigration": "virtualmachineinstancemigrations",
}
_SUBRESOURCES = "/apis/subresources.kubevirt.io/v1/"
_RESIZED = "a non-live-updatable field was changed in the template spec"


def _definition(kind: str, plural: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


class KubeVirt:
    """The stand-in. `nodes`: where launcher pods go, the first that is not the source's of a migration."""

    def __init__(self, kube: Any, nodes: Sequence[str]) -> None:
        self.nodes = tuple(nodes)
        self.fails_migrations = ""  # with this reason
        self._kube = kube
        self._lock = threading.RLock()

    # ---- what its API answers

    def subresource(self, words: Sequence[str]) -> tuple[int, str]:
        """PUT .../namespaces/NS/PLURAL/NAME/VERB."""
        _, namespace, plural, name, verb = words
        with self._lock:
            vm, vmi = self._get("VirtualMachine", namespace, name), self._get("VirtualMachineInstance", namespace, name)
            if plural == "virtualmachineinstances":
                return self._pause(namespace, name, vmi, verb == "pause")
            if vm is None:
                return 404, f'virtualmachine.kubevirt.io "{name}" not found'
            strategy = vm["spec"].get("runStrategy")
            if verb == "start":
                if vmi is not None:
                    return 409, "VM is already running"
                if strategy in ("Always", "Once"):
                    return 409, f"{strategy} does not support manual start requests"
                self._ask(vm, "Start")
            elif verb == "stop":
                self._ask(vm, "Stop")
            elif verb == "restart":
                if strategy in ("Halted", "Once"):
                    return 409, f"RunStrategy {strategy} does not support manual restart requests"
                if vmi is None:
                    return 409, "VM is not running: Halted"
                self._ask(vm, "Restart")
            return 202, ""

    def _pause(self, namespace: str, name: str, vmi: Any, pauses: bool) -> tuple[int, str]:
        if vmi is None or vmi["status"].get("phase") != "Running":
            return 409, "VMI is not running"
        conditions = [one for one in vmi["status"]["conditions"] if one["type"] != "Paused"]
        if pauses:
            conditions.append({"type": "Paused", "status": "True", "reason": "PausedByUser"})
        self._status("VirtualMachineInstance", vmi, conditions=conditions)
        return 202, ""

    def _ask(self, vm: Any, action: str) -> None:
        strategy = vm["spec"].get("runStrategy")
        if strategy == "Manual" or action == "Restart":
            requests = [{"action": "Stop"}, {"action": "Start"}] if action == "Restart" else [{"action": action}]
            self._status("VirtualMachine", vm, stateChangeRequests=requests)
        else:
            wanted = {"spec": {"runStrategy": "Always" if action == "Start" else "Halted"}}
            self._kube.patch(self._path("VirtualMachine", vm["metadata"]["namespace"], vm["metadata"]["name"]), wanted)

    # ---- what its controllers do

    def step(self, namespace: str) -> None:
        """Everything in a namespace goes one step on."""
        with self._lock:
            for vm in self._kube.get(self._path("VirtualMachine", namespace))["items"]:
                self._step_machine(vm)
            for vmi in self._kube.get(self._path("VirtualMachineInstance", namespace))["items"]:
                self._step_instance(vmi)
            for migration in self._kube.get(self._path("VirtualMachineInstanceMigration", namespace))["items"]:
                self._step_migration(migration)

    def _step_machine(self, vm: Any) -> None:
        meta, status = vm["metadata"], vm.get("status") or {}
        strategy = vm["spec"].get("runStrategy")
        vmi = self._get("VirtualMachineInstance", meta["namespace"], meta["name"])
        asked = [one["action"] for one in status.get("stateChangeRequests") or ()]
        if vmi is not None and (strategy == "Halted" or asked[:1] == ["Stop"]):
            self._remove(vmi)
            left = [{"action": action} for action in asked[1:]]
            self._status("VirtualMachine", vm, printableStatus="Stopped", stateChangeRequests=left)
        elif vmi is None and (strategy in ("Always", "Once") or asked[:1] == ["Start"]):
            instance = {
                "apiVersion": f"{GROUP}/v1",
                "kind": "VirtualMachineInstance",
                "metadata": {
                    "name": meta["name"],
                    "labels": vm["spec"]["template"].get("metadata", {}).get("labels", {}),
                    "ownerReferences": [_owner(vm)],
                },
                "spec": vm["spec"]["template"]["spec"],
                "status": {"phase": "Pending", "conditions": []},
            }
            self._kube.create(self._path("VirtualMachineInstance", meta["namespace"]), instance)
            self._status("VirtualMachine", vm, printableStatus="Starting", stateChangeRequests=[], conditions=[])
        elif vmi is not None and vmi["spec"]["domain"] != vm["spec"]["template"]["spec"]["domain"]:
            required = {"type": "RestartRequired", "status": "True", "message": _RESIZED}
            self._status("VirtualMachine", vm, conditions=[required])

    def _step_instance(self, vmi: Any) -> None:
        match vmi["status"].get("phase"):
            case "Pending":
                self._launch(vmi, self.nodes[0])
                self._status("VirtualMachineInstance", vmi, phase="Scheduling")
            case "Scheduling":
                self._status("VirtualMachineInstance", vmi, phase="Scheduled", nodeName=self.nodes[0])
            case "Scheduled":
                migratable = {"type": "LiveMigratable", "status": "True"}
                if vmi["spec"]["domain"].get("devices", {}).get("hostDevices"):
                    migratable = {
                        "type": "LiveMigratable",
                        "status": "False",
                        "reason": "HostDeviceNotLiveMigratable",
                        "message": "VMI uses a PCI host devices",
                    }
                self._status(
                    "VirtualMachineInstance", vmi, phase="Running",
                    conditions=[{"type": "Ready", "status": "True"}, migratable],
                )  # fmt: skip

    def _step_migration(self, migration: Any) -> None:
        namespace, phase = migration["metadata"]["namespace"], (migration.get("status") or {}).get("phase")
        vmi = self._get("VirtualMachineInstance", namespace, migration["spec"]["vmiName"])
        if phase in ("Succeeded", "Failed") or vmi is None:
            return
        source = vmi["status"].get("nodeName")
        target = next((node for node in self.nodes if node != source), "")
        if not phase:
            self._status("VirtualMachineInstanceMigration", migration, phase="Scheduling")
            self._launch(vmi, target)
            state = {"sourceNode": source, "targetNode": target, "startTimestamp": "2026-01-01T00:00:00Z"}
            self._status("VirtualMachineInstance", vmi, migrationState=state)
        elif self.fails_migrations:
            failed = {"failed": True, "completed": True, "failureReason": self.fails_migrations}
            self._status("VirtualMachineInstanceMigration", migration, phase="Failed", migrationState=failed)
            self._status("VirtualMachineInstance", vmi, migrationState={**vmi["status"]["migrationState"], **failed})
        else:
            self._status("VirtualMachineInstanceMigration", migration, phase="Succeeded")
            for pod in self._launchers(vmi):
                if pod["spec"].get("nodeName") == source:
                    self._kube.patch(f"{self._pod(pod)}/status", {"status": {"phase": "Succeeded"}})
            done = {**vmi["status"]["migrationState"], "completed": True}
            self._status("VirtualMachineInstance", vmi, nodeName=target, migrationState=done)

    def _launch(self, vmi: Any, node: str) -> None:
        meta = vmi["metadata"]
        pod = {
            "metadata": {
                "generateName": f"virt-launcher-{meta['name']}-",
                "labels": {
                    **meta.get("labels", {}),
                    "kubevirt.io": "virt-launcher",
                    "kubevirt.io/created-by": meta["uid"],
                    "vm.kubevirt.io/name": vmi["spec"].get("hostname") or meta["name"],
                },
                "ownerReferences": [_owner(vmi)],
            },
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "compute", "image": "registry.example/virt-launcher:1"}],
            },
        }
        made = self._kube.create(f"/api/v1/namespaces/{meta['namespace']}/pods", pod)
        active = {**vmi["status"].get("activePods", {}), made["metadata"]["uid"]: node}
        self._status("VirtualMachineInstance", vmi, activePods=active)

    def _launchers(self, vmi: Any) -> list[Any]:
        listed = self._kube.get(
            f"/api/v1/namespaces/{vmi['metadata']['namespace']}/pods",
            labelSelector=f"kubevirt.io/created-by={vmi['metadata']['uid']}",
        )
        return list(listed["items"])

    def _remove(self, vmi: Any) -> None:
        for pod in self._launchers(vmi):
            self._kube.request("DELETE", self._pod(pod), {"gracePeriodSeconds": 0})
        meta = vmi["metadata"]
        self._kube.delete(self._path("VirtualMachineInstance", meta["namespace"], meta["name"]))

    def _status(self, kind: str, obj: Any, **status: Any) -> None:
        meta = obj["metadata"]
        self._kube.patch(self._path(kind, meta["namespace"], meta["name"]), {"status": status})

    def _get(self, kind: str, namespace: str, name: str) -> Any:
        answer = self._kube.request("GET", self._path(kind, namespace, name))
        return answer.json if answer.code == 200 else None

    @staticmethod
    def _pod(pod: Any) -> str:
        return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"

    @staticmethod
    def _path(kind: str, namespace: str, name: str = "") -> str:
        path = f"/apis/{GROUP}/v1/namespaces/{namespace}/{_KINDS[kind]}"
        return f"{path}/{name}" if name else path

    def answer(self, method: str, target: str, body: bytes | None, content_type: str) -> tuple[int, bytes]:
        """One request of a client: its own subresources, all else the API server's."""
        parts = urlsplit(target)
        if parts.path.startswith(_SUBRESOURCES):
            code, message = self.subresource(parts.path.removeprefix(_SUBRESOURCES).split("/"))
            if code < 400:
                return code, b""
            reason = "NotFound" if code == 404 else "Conflict"
            status = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}
            return code, json.dumps(status).encode()
        words = parts.path.split("/")
        if method == "GET" and GROUP in words and "namespaces" in words:
            self.step(words[words.index("namespaces") + 1])
        with self._lock:
            answer = self._kube.request(method, target, body, content_type=content_type)
        return answer.code, answer.body


def _owner(obj: Any) -> dict[str, Any]:
    meta = obj["metadata"]
    named = {"kind": obj["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {"apiVersion": f"{GROUP}/v1", "controller": True, **named}


@contextmanager
def serving(kube: Any, nodes: Sequence[str], folder: Path) -> Iterator[tuple[KubeVirt, Path]]:
    """The stand-in before a server under test, and a kubeconfig of the two."""
    for kind, plural in _KINDS.items():
        kube.create(_CRDS, _definition(kind, plural))
    for plural in _KINDS.values():
        kube.eventually(f"/apis/{GROUP}/v1/{plural}", lambda page: "items" in page)
    stand_in = KubeVirt(kube, nodes)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length) if length else None
            kind = self.headers.get("content-type") or "application/json"
            code, content = stand_in.answer(self.command, self.path, body, kind)
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kubeconfig = folder / "kubevirt.kubeconfig"
    url = f"http://127.0.0.1:{server.server_address[1]}"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    try:
        yield stand_in, kubeconfig
    finally:
        server.shutdown()
        server.server_close()
        for plural in _KINDS.values():
            kube.delete(f"{_CRDS}/{plural}.{GROUP}")
