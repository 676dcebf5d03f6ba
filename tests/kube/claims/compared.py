"""One world on a real API server, placed by two schedulers, each on a copy of its own, and what they decided.

A pod is submitted when the one before it is bound or refused, so that both schedulers see the same state; a pod that
was refused is deleted. `python -m tests.kube.claims.compare` runs many.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.fakes.waiting import eventually
from tests.kube.claims.explained import Case
from tests.kube.claims.worlds import Manifest, Release, Submit, World, for_copy
from tests.kube.conftest import Kube

RESOURCE = "/apis/resource.k8s.io/v1"
RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
DECIDED_S = 20.0
_ADMIN = {"resource.kubernetes.io/admin-access": "true"}
_VOLATILE = ("allocationTimestamp",)
_REFUSED = ("Unschedulable", "SchedulerError", "AwaitsAdmission")  # the last is ours of what no node can help
_PASSING = (  # said of a pod that is tried again at once
    "nodes are being judged",
    "has no ResourceClaim yet",
    "got allocated elsewhere in the meantime",
    "ResourceClaim not created yet",
    "does not exist yet",
    "the object has been modified",
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a scheduler did with one pod. `allocations`: by the pod's name of the claim, comparable between copies."""

    pod: str
    is_bound: bool
    allocations: str = ""
    message: str = ""


class Copy:
    """One copy of a world on the server. `scheduler`: spec.schedulerName of its pods."""

    def __init__(self, kube: Kube, world: World, letter: str, scheduler: str) -> None:
        self._kube, self._world, self._scheduler = kube, world, scheduler
        self.name = f"w{world.seed}{letter}"
        self._pods = f"/api/v1/namespaces/{self.name}/pods"
        self._claims = f"{RESOURCE}/namespaces/{self.name}/resourceclaims"
        self._bound: set[str] = set()
        self.last: Case | None = None  # the pod that was decided last
        self._has_conditions = any(
            "bindingConditions" in device for one in world.slices for device in one["spec"].get("devices", ())
        )

    def build(self) -> None:
        """Make the nodes, the slices and the namespace."""
        self._kube.create("/api/v1/namespaces", {"metadata": {"name": self.name, "labels": _ADMIN}})
        for obj in self._world.rules:
            self._kube.create(RULES, self._own(obj))
        for obj in self._world.slices:
            self._kube.create(f"{RESOURCE}/resourceslices", self._own(obj))
        for obj in self._world.nodes:
            self._kube.create("/api/v1/nodes", self._own(obj))

    def clear(self) -> None:
        """Delete what schedulers would go on looking at."""
        for kind, objects in (
            ("/api/v1/nodes", self._world.nodes),
            (f"{RESOURCE}/resourceslices", self._world.slices),
            (RULES, self._world.rules),
        ):
            for obj in objects:
                self._kube.request("DELETE", f"{kind}/{self._own(obj)['metadata']['name']}")
        self._kube.request("DELETE", self._pods, gracePeriodSeconds="0")

    def run(self) -> Iterator[Decision]:
        """Take the steps."""
        for step in self._world.steps:
            if isinstance(step, Submit):
                yield self._submit(step)
            else:
                self._release(step)

    def _own(self, obj: Manifest) -> Manifest:
        return for_copy(obj, self.name)

    def _submit(self, step: Submit) -> Decision:
        for claim in step.claims:
            self._kube.create(self._claims, self._own(claim))
        for template in step.templates:
            self._kube.create(f"{RESOURCE}/namespaces/{self.name}/resourceclaimtemplates", self._own(template))
        pod = self._own(step.pod)
        pod["spec"]["schedulerName"] = self._scheduler
        name = pod["metadata"]["name"]
        before = self._kube.get(self._claims)["items"]
        self._kube.create(self._pods, pod)

        def decided() -> Any:
            if self._has_conditions:
                self._report()
            found = self._kube.get(f"{self._pods}/{name}")
            refusal = _refusal(found)
            # of another world, in the making: a pool with counters hinders pods that want all devices on every node
            is_of_another = "is currently being updated" in refusal and f"/{self.name}-" not in refusal
            return found if found["spec"].get("nodeName") or (refusal and not is_of_another) else None

        found = eventually(f"{self.name}/{name} is decided", decided, within_s=DECIDED_S, interval_s=0.1)
        self.last = self._case(found, before)
        if found["spec"].get("nodeName"):
            self._bound.add(name)
            return Decision(name, True, json.dumps(self._allocations(found), sort_keys=True))
        message = _refusal(found)
        self._kube.request("DELETE", f"{self._pods}/{name}", gracePeriodSeconds="0")
        return Decision(name, False, message=message)

    def _case(self, pod: Manifest, before: list[Manifest]) -> Case:
        world = self._world
        return Case(
            namespace={"metadata": {"name": self.name, "labels": _ADMIN}},
            nodes=[self._own(obj) for obj in world.nodes],
            classes=world.classes,
            slices=[self._own(obj) for obj in world.slices],
            rules=[self._own(obj) for obj in world.rules],
            pods=[one for one in self._kube.get(self._pods)["items"] if one["metadata"]["name"] in self._bound],
            before=before,
            pod=pod,
            after=self._kube.get(self._claims)["items"],
        )

    def _report(self) -> None:
        """What drivers do: say of allocated devices that they are ready."""
        for claim in self._kube.get(self._claims)["items"]:
            results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
            wanted = [result for result in results if result.get("bindingConditions")]
            if not wanted or claim["status"].get("devices"):
                continue
            claim["status"]["devices"] = [
                {
                    **{key: result[key] for key in ("driver", "pool", "device", "shareID") if key in result},
                    "conditions": [_true(name) for name in result["bindingConditions"]],
                }
                for result in wanted
            ]
            # one that was changed in the meantime is reported with the next look
            self._kube.request("PUT", f"{self._claims}/{claim['metadata']['name']}/status", claim)

    def _allocations(self, pod: Any) -> Manifest:
        made = {one["name"]: one.get("resourceClaimName") for one in pod["status"].get("resourceClaimStatuses", ())}
        found = {}
        for asked in pod["spec"].get("resourceClaims", ()):
            name = asked.get("resourceClaimName") or made[asked["name"]]
            found[asked["name"]] = self._of_claim(name, pod)
        extended = pod["status"].get("extendedResourceClaimStatus")
        if extended is not None:
            found["extended"] = {
                "mappings": sorted(json.dumps(one, sort_keys=True) for one in extended["requestMappings"]),
                **self._of_claim(extended["resourceClaimName"], pod, has_spec=True),
            }
        return found

    def _of_claim(self, name: str, pod: Any, *, has_spec: bool = False) -> Manifest:
        claim = self._kube.get(f"{self._claims}/{name}")
        status = claim["status"]
        allocation = {key: value for key, value in status["allocation"].items() if key not in _VOLATILE}
        for result in allocation.get("devices", {}).get("results", ()):
            if "shareID" in result:
                result["shareID"] = "some"
        is_held = any(one["uid"] == pod["metadata"]["uid"] for one in status.get("reservedFor", ()))
        found = {
            "allocation": allocation,
            "isHeld": is_held,
            "finalizers": claim["metadata"].get("finalizers", []),
            **({"spec": claim["spec"]} if has_spec else {}),
        }
        return json.loads(json.dumps(found).replace(self.name, "@@"))  # type: ignore[no-any-return]

    def _release(self, step: Release) -> None:
        """Delete a pod; what it alone held is free when the controller has seen it."""
        if step.pod not in self._bound:
            return
        pod = self._kube.get(f"{self._pods}/{step.pod}")
        uid = pod["metadata"]["uid"]
        self._kube.delete(f"{self._pods}/{step.pod}", gracePeriodSeconds="0")

        def is_free() -> bool:
            claims = self._kube.get(self._claims)["items"]
            return all(one["uid"] != uid for claim in claims for one in claim["status"].get("reservedFor", ()))

        eventually(f"what {self.name}/{step.pod} held is free", is_free, within_s=DECIDED_S, interval_s=0.1)
        time.sleep(0.2)  # until the schedulers have heard of it too: nothing tells from outside


def _true(name: str) -> Manifest:
    return {"type": name, "status": "True", "reason": "Ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def _refusal(pod: Any) -> str:
    """The scheduler's words on a pod that it cannot place now."""
    for condition in pod.get("status", {}).get("conditions", ()):
        is_refused = condition["type"] == "PodScheduled" and condition["status"] == "False"
        if is_refused and condition.get("reason") in _REFUSED:
            message = str(condition.get("message", "no message"))
            return "" if any(words in message for words in _PASSING) else message
    return ""


def make_common(kube: Kube, world: World) -> None:
    """Make what all copies of a world share."""
    for obj in world.classes:
        kube.create(f"{RESOURCE}/deviceclasses", obj)


def clear_common(kube: Kube, world: World) -> None:
    """Delete what all copies share."""
    for obj in world.classes:
        kube.request("DELETE", f"{RESOURCE}/deviceclasses/{obj['metadata']['name']}")
