"""A cluster as a dictionary: executes the plans of reconcile functions, without an API server, clock or event loop.

Writes merge as JSON merge patches; resourceVersions increase; a spec change increments the generation; a deletion
without finalizers and grace removes the object. `kubelet` sets the phase of pods as a test requires.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from cotenant_local.controllers.runtime.actions import Create, Delete, EmitEvent, Patch, Plan, ResourceName
from cotenant_local.controllers.runtime.informer import VIEWS
from cotenant_local.controllers.views.core import stamp

Manifest = dict[str, Any]


class PlainCluster:
    def __init__(self, now_s: float = 1_800_000_000.0) -> None:
        self.now_s = now_s
        self.objects: dict[tuple[ResourceName, str, str], Manifest] = {}
        self.events: list[EmitEvent] = []
        self._serial = itertools.count(1)

    def put(self, resource: ResourceName, obj: Manifest) -> Manifest:
        obj = copy.deepcopy(obj)
        meta = obj.setdefault("metadata", {})
        number = next(self._serial)
        if not meta.get("name"):
            meta["name"] = f"{meta['generateName']}{number:05d}"
        meta.setdefault("uid", f"uid-{number}")
        meta.setdefault("namespace", "default")
        meta.setdefault("creationTimestamp", stamp(self.now_s))
        meta.setdefault("generation", 1)
        meta["resourceVersion"] = str(number)
        key = (resource, meta["namespace"], meta["name"])
        assert key not in self.objects, f"{key} is there already"
        self.objects[key] = obj
        return obj

    def views(self, resource: ResourceName) -> list[Any]:
        return [msgspec.convert(o, VIEWS[resource]) for (r, _, _), o in self.objects.items() if r == resource]

    def view(self, resource: ResourceName, name: str, namespace: str = "default") -> Any:
        return msgspec.convert(self.objects[(resource, namespace, name)], VIEWS[resource])

    def edit(self, resource: ResourceName, name: str, body: Manifest, namespace: str = "default") -> None:
        self.execute([Patch(resource, namespace, name, body)])

    def execute(self, actions: Iterable[Any]) -> None:
        for action in actions:
            match action:
                case Create(resource, _, obj):
                    self.put(resource, obj)
                case Patch(resource, namespace, name, body, subresource, version):
                    self._patch(resource, namespace, name, body, subresource, version)
                case Delete(resource, namespace, name, uid):
                    found = self.objects.get((resource, namespace, name))
                    if found is not None and found["metadata"]["uid"] == uid:
                        self._delete(resource, namespace, name, action.grace_s)
                case EmitEvent():
                    self.events.append(action)

    def converge(self, step: Callable[[], Plan], limit: int = 100) -> int:
        """Execute plans until one is empty. Returns how many were not."""
        for count in range(limit):
            plan = step()
            if not plan.actions:
                return count
            self.execute(plan.actions)
        raise AssertionError(f"still something to do after {limit} steps: {plan.reason}")

    def kubelet(self, name: str, phase: str = "Running", ready: bool | None = None, namespace: str = "default") -> None:
        is_ready = phase == "Running" if ready is None else ready
        status = {
            "phase": phase,
            "conditions": [
                {"type": "Ready", "status": str(is_ready), "lastTransitionTime": stamp(self.now_s)},
            ],
        }
        self._patch(("", "pods"), namespace, name, {"status": status}, "status", "")

    def end_terminating(self) -> int:
        """Remove pods that are being deleted, as kubelets would."""
        gone = [k for k, o in self.objects.items() if k[0] == ("", "pods") and o["metadata"].get("deletionTimestamp")]
        for key in gone:
            del self.objects[key]
        return len(gone)

    def _patch(
        self, resource: ResourceName, namespace: str, name: str, body: Manifest, subresource: str, version: str
    ) -> None:
        obj = self.objects[(resource, namespace, name)]
        assert not version or version == obj["metadata"]["resourceVersion"], "conflict"
        body = copy.deepcopy(body)
        (body.get("metadata") or {}).pop("resourceVersion", None)
        spec = copy.deepcopy(obj.get("spec"))
        new = _merge(obj, {"status": body["status"]} if subresource == "status" else body)
        if new.get("spec") != spec:
            new["metadata"]["generation"] += 1
        new["metadata"]["resourceVersion"] = str(next(self._serial))
        self.objects[(resource, namespace, name)] = new

    def _delete(self, resource: ResourceName, namespace: str, name: str, grace_s: int | None) -> None:
        obj = self.objects[(resource, namespace, name)]
        if resource == ("", "pods") and grace_s != 0:
            obj["metadata"].setdefault("deletionTimestamp", stamp(self.now_s + 30))
            obj["metadata"]["resourceVersion"] = str(next(self._serial))
        else:
            del self.objects[(resource, namespace, name)]


def _merge(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    out = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = _merge(out.get(key), value)
    return out


def template(app: str = "web", image: str = "image:1", **spec: Any) -> Manifest:
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}], **spec}}
