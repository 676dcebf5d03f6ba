"""Random worlds of devices and pods with claims, as manifests: of the features of DRA that kube-scheduler 1.36 has on.

Left out here and added by features.py: taint rules, binding conditions, lists as attributes; and where kube-scheduler's
search loses track, and ours does not: counters of devices that it takes back or rejects (shared or tainted ones,
constraints), several devices of one request under distinctAttribute.

Equal seeds give equal worlds. A world is written once for each scheduler that is compared: `@@` in its texts stands for
the copy, so names, pools and nodes of the copies sort alike.
"""

from __future__ import annotations

import json
import random
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

Manifest = dict[str, Any]
API = "resource.k8s.io/v1"
MODELS = ("a100", "h100")


@dataclass(frozen=True, slots=True)
class Submit:
    """A pod, pinned to one node, with the claims that it names and the templates that it needs."""

    pod: Manifest
    claims: tuple[Manifest, ...] = ()
    templates: tuple[Manifest, ...] = ()


@dataclass(frozen=True, slots=True)
class Release:
    """A pod is deleted, if it was bound."""

    pod: str


@dataclass(frozen=True, slots=True)
class World:
    """What there is before the first step, and the steps in order."""

    seed: int
    nodes: tuple[Manifest, ...]
    slices: tuple[Manifest, ...]
    classes: tuple[Manifest, ...]  # the same for all copies
    steps: tuple[Submit | Release, ...]
    rules: tuple[Manifest, ...] = ()  # DeviceTaintRules


def copied(found: World) -> World:
    """The world with objects of its own."""
    return deepcopy(found)


def for_copy(obj: Manifest, copy: str) -> Manifest:
    """An object of one copy."""
    found: Manifest = json.loads(json.dumps(obj).replace("@@", copy))
    return found


def world(seed: int) -> World:
    """The world of a seed."""
    return _Maker(seed).world()


class _Maker:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.driver = f"w{seed}.example.com"
        self.other = f"w{seed}.other.example.com"
        self.nodes = [f"@@-n{i}" for i in range(2)]
        self.extended = f"w{seed}.example.com/gpu"
        self.has_counters = self.chance(0.3)
        self.has_shared = not self.has_counters and self.chance(0.3)
        self.has_other = self.chance(0.4)
        self.has_network = self.chance(0.3)
        self.serial = 0

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def world(self) -> World:
        slices = [one for node in self.nodes for one in self._of_node(node)]
        if self.has_network:
            slices += self._network()
        steps: list[Submit | Release] = []
        self.shared: list[str] = []
        submitted: list[str] = []
        for _ in range(self.rng.randint(3, 6)):
            if submitted and self.chance(0.2):
                steps.append(Release(submitted.pop(self.rng.randrange(len(submitted)))))
            step = self._submit(len(steps))
            submitted.append(step.pod["metadata"]["name"])
            steps.append(step)
        return World(
            self.seed,
            tuple(_node(name) for name in self.nodes),
            tuple(slices),
            tuple(self._classes()),
            tuple(steps),
        )

    # --- devices

    def _of_node(self, node: str) -> list[Manifest]:
        found = self._pool(self.driver, node, {"nodeName": node}, "gpu", self.rng.randint(1, 5))
        if self.has_other:
            found += self._pool(self.other, node, {"nodeName": node}, "nic", self.rng.randint(1, 3))
        return found

    def _network(self) -> list[Manifest]:
        if self.chance(0.5):
            terms = [{"matchExpressions": [{"key": "copy", "operator": "In", "values": ["@@"]}]}]
            return self._pool(self.driver, "@@-net", {"nodeSelector": {"nodeSelectorTerms": terms}}, "far", 2)
        found = self._pool(self.driver, "@@-net", {"perDeviceNodeSelection": True}, "far", 3)
        for device in (device for one in found for device in one["spec"].get("devices", ())):
            device["nodeName"] = self.rng.choice(self.nodes)
        return found

    def _pool(self, driver: str, name: str, place: Manifest, prefix: str, count: int) -> list[Manifest]:
        is_counted = self.has_counters and prefix == "gpu"
        devices = [self._device(f"{prefix}-{i}", prefix) for i in range(count)]
        contents: list[Manifest] = []
        if is_counted:
            contents.append({"sharedCounters": [{"name": "slots", "counters": {"slots": {"value": "4"}}}]})
            for device in devices:
                if self.chance(0.8):
                    taken = str(self.rng.randint(1, 3))
                    device["consumesCounters"] = [{"counterSet": "slots", "counters": {"slots": {"value": taken}}}]
        if count > 2 and self.chance(0.3):
            half = self.rng.randint(1, count - 1)
            contents += [{"devices": devices[:half]}, {"devices": devices[half:]}]
        else:
            contents.append({"devices": devices})
        generation = self.rng.randint(1, 2)
        # Sometimes a slice is missing yet. Not of a pool with counters, which kube-scheduler sees from every node.
        total = len(contents) + int(not is_counted and self.chance(0.06))
        found = [
            _slice(f"{name}-{prefix}-{i}", driver, name, generation, total, {**place, **content})
            for i, content in enumerate(contents)
        ]
        if self.chance(0.1):  # an older one that the driver has not deleted yet
            stale = [self._device(f"{prefix}-{i}", prefix) for i in range(count + 1)]
            for device in stale if "perDeviceNodeSelection" in place else ():
                device["nodeName"] = self.nodes[0]
            found.append(_slice(f"{name}-{prefix}-old", driver, name, 0, 1, {**place, "devices": stale}))
        return found

    def _device(self, name: str, prefix: str) -> Manifest:
        attributes: Manifest = {
            "model": {"string": self.rng.choice(MODELS)},
            "numa": {"int": self.rng.randint(0, 1)},
            "driverVersion": {"version": self.rng.choice(("1.2.0", "2.0.1"))},
            "rack.example.com/switch": {"string": self.rng.choice(("s0", "s1"))},
        }
        if self.chance(0.5):
            attributes["ecc"] = {"bool": self.chance(0.5)}
        memory = self.rng.choice(("16Gi", "40Gi", "80Gi"))
        device: Manifest = {"name": name, "attributes": attributes, "capacity": {"memory": {"value": memory}}}
        if self.has_shared and self.chance(0.6):
            device["allowMultipleAllocations"] = True
            device["capacity"]["memory"] = {"value": memory, **self._policy()}
        if not (self.has_counters and prefix == "gpu") and self.chance(0.12):
            device["taints"] = [
                {
                    "key": self.rng.choice(("broken", "slow")),
                    "value": self.rng.choice(("yes", "")),
                    "effect": self.rng.choice(("NoSchedule", "NoExecute", "None")),
                    "timeAdded": "2026-01-01T00:00:00Z",
                }
            ]
        return device

    def _policy(self) -> Manifest:
        kind = self.rng.randrange(4)
        if kind == 0:
            return {}
        if kind == 1:
            return {"requestPolicy": {"default": "4Gi", "validValues": ["4Gi", "8Gi", "16Gi"]}}
        if kind == 2:
            return {"requestPolicy": {"default": "4Gi", "validRange": {"min": "2Gi", "max": "16Gi", "step": "2Gi"}}}
        return {"requestPolicy": {"default": "8Gi", "validRange": {"min": "1Gi"}}}

    def _classes(self) -> list[Manifest]:
        base = f"w{self.seed}"
        of_driver = f'device.driver == "{self.driver}"'
        parameters = {"opaque": {"driver": self.driver, "parameters": {"from": "class"}}}
        specs: dict[str, Manifest] = {
            "gpu": {"selectors": [_cel(of_driver)], "extendedResourceName": self.extended},
            "any": {"selectors": [_cel(f'device.driver.startsWith("{base}.")')]},
            "h100": {
                "selectors": [_cel(of_driver), _cel(f'device.attributes["{self.driver}"].model == "h100"')],
                "config": [parameters],
            },
            "nic": {"selectors": [_cel(f'device.driver == "{self.other}"')]},
        }
        return [
            {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": f"{base}-{name}"}, "spec": spec}
            for name, spec in specs.items()
        ]

    # --- pods

    def _submit(self, index: int) -> Submit:
        name = f"p{index}"
        claims: list[Manifest] = []
        templates: list[Manifest] = []
        asked: list[Manifest] = []
        container: Manifest = {"name": "c", "image": "i", "resources": {}}
        if self.chance(0.15):
            amount = str(self.rng.randint(1, 2))
            container["resources"] = {"limits": {self.extended: amount}, "requests": {self.extended: amount}}
        else:
            asked += [self._claim(name, i, claims, templates) for i in range(1 + int(self.chance(0.3)))]
            container["resources"] = {"claims": [{"name": claim["name"]} for claim in asked]}
        spec: Manifest = {
            "containers": [container],
            "nodeSelector": {"kubernetes.io/hostname": self.rng.choice(self.nodes)},
            "terminationGracePeriodSeconds": 0,
        }
        if asked:
            spec["resourceClaims"] = asked
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        return Submit(pod, tuple(claims), tuple(templates))

    def _claim(self, pod: str, index: int, claims: list[Manifest], templates: list[Manifest]) -> Manifest:
        name = f"r{index}"
        if index == 0 and self.shared and self.chance(0.2):  # twice in a pod, kube-scheduler reserves it twice
            return {"name": name, "resourceClaimName": self.rng.choice(self.shared)}
        spec = {"devices": self._asked()}
        if self.chance(0.3):
            template = f"{pod}-{name}"
            templates.append(
                {
                    "apiVersion": API,
                    "kind": "ResourceClaimTemplate",
                    "metadata": {"name": template},
                    "spec": {"spec": spec},
                }
            )
            return {"name": name, "resourceClaimTemplateName": template}
        claim = f"{pod}-{name}"
        claims.append({"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": claim}, "spec": spec})
        self.shared.append(claim)
        return {"name": name, "resourceClaimName": claim}

    def _asked(self) -> Manifest:
        requests: list[Manifest] = []
        for i in range(1 + int(self.chance(0.35))):
            name = f"q{i}"
            if self.chance(0.2):
                alternatives = [{"name": f"s{k}", **self._exact(is_part=True)} for k in range(self.rng.randint(1, 3))]
                requests.append({"name": name, "firstAvailable": alternatives})
            else:
                requests.append({"name": name, "exactly": self._exact(is_part=False)})
        devices: Manifest = {"requests": requests}
        if not self.has_counters and self.chance(0.3):
            devices["constraints"] = [self._constraint(requests)]
        if self.chance(0.2):
            opaque = {"driver": self.driver, "parameters": {"from": "claim"}}
            of = [requests[0]["name"]] if self.chance(0.5) else []
            devices["config"] = [{"opaque": opaque, **({"requests": of} if of else {})}]
        return devices

    def _exact(self, *, is_part: bool) -> Manifest:
        names = ["gpu", "gpu", "any", "h100"] + (["nic"] if self.has_other else [])
        asked: Manifest = {"deviceClassName": f"w{self.seed}-{self.rng.choice(names)}"}
        if self.chance(0.05):
            asked["deviceClassName"] = f"w{self.seed}-missing"
        if self.chance(0.2):
            asked["allocationMode"] = "All"
        elif self.chance(0.3):
            asked["count"] = self.rng.randint(2, 3)
        if self.chance(0.35):
            asked["selectors"] = [_cel(self._expression())]
        if self.chance(0.15):
            asked["tolerations"] = [self._toleration()]
        if self.has_shared and self.chance(0.5):
            asked["capacity"] = {"requests": {"memory": self.rng.choice(("3Gi", "8Gi", "20Gi"))}}
        if not is_part and self.chance(0.08):
            asked["adminAccess"] = True
        return asked

    def _expression(self) -> str:
        attributes = f'device.attributes["{self.driver}"]'
        return self.rng.choice(
            (
                f'{attributes}.model == "{self.rng.choice(MODELS)}"',
                f"{attributes}.numa == {self.rng.randint(0, 1)}",
                f'"ecc" in {attributes} && {attributes}.ecc',
                f'{attributes}.driverVersion.isGreaterThan(semver("1.9.0"))',
                f'device.capacity["{self.driver}"].memory.compareTo(quantity("40Gi")) >= 0',
                'device.attributes["rack.example.com"].switch in ["s0", "s2"]',
                f"has({attributes}.ecc)",
                f'{attributes}.model.lowerAscii().matches("^h.*")',
                "device.allowMultipleAllocations",
                f'cel.bind(d, {attributes}, d.model == "h100" || d.numa == 1)',
                f"{attributes}.numa + 1 > 1",
                f"!({attributes}.numa == 0)",
            )
        )

    def _toleration(self) -> Manifest:
        return self.rng.choice(
            (
                {"operator": "Exists"},
                {"key": "broken", "operator": "Exists"},
                {"key": "slow", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
                {"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600},
            )
        )

    def _constraint(self, requests: list[Manifest]) -> Manifest:
        attribute = self.rng.choice(
            (f"{self.driver}/numa", f"{self.driver}/model", "rack.example.com/switch", f"{self.driver}/ecc")
        )
        is_one_each = all(
            "exactly" in one and "allocationMode" not in one["exactly"] and "count" not in one["exactly"]
            for one in requests
        )
        kind = "distinctAttribute" if is_one_each and self.chance(0.4) else "matchAttribute"
        of = [] if self.chance(0.5) else [requests[0]["name"]]
        return {kind: attribute, **({"requests": of} if of else {})}


def _node(name: str) -> Manifest:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "copy": "@@"}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def _slice(name: str, driver: str, pool: str, generation: int, total: int, contents: Manifest) -> Manifest:
    spec = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": total},
        **contents,
    }
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def _cel(expression: str) -> Manifest:
    return {"cel": {"expression": expression}}
