"""What may be added to a random world: taint rules, binding conditions, lists as attributes, and the combinations in
which kube-scheduler's search loses track.

Taint rules: kube-scheduler 1.36.2 panics on the first that it sees, so its copy has the same taints in the slices, and
only the other copy has the rules. Binding conditions are reported by `Copy`, in place of a driver.

Those combinations are counters of devices that it rejects or takes back, and several devices of one request under
distinctAttribute; docs/adr/0048 says what we do instead, explained.py whether a difference is due to them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.kube.claims.worlds import Manifest, Submit, World, copied, world

READY, FAILED = "driver.example.com/ready", "driver.example.com/failed"


def wide_world(seed: int, *, has_lists: bool) -> World:
    """The world of a seed with more features. `has_lists`: the server permits lists as attributes."""
    rng = random.Random(f"features {seed}")
    found = copied(world(seed))
    has_counters = any("sharedCounters" in one["spec"] for one in found.slices)
    rules: tuple[Manifest, ...] = ()
    if not has_counters or rng.random() < 0.4:
        rules = tuple(_rules(rng, found))
    if rng.random() < 0.5:
        _conditions(rng, found)
    if has_lists:
        _lists(rng, found)
    if has_counters and rng.random() < 0.4:
        _with_counters(rng, found)
    if rng.random() < 0.25:
        _distinct(rng, found)
    return replace(found, rules=rules)


def tainted(found: World) -> World:
    """The world with the taints of its rules in its slices, and without rules."""
    found = copied(found)
    for rule in found.rules:
        selector = rule["spec"]["deviceSelector"]
        for offered in found.slices:
            spec = offered["spec"]
            if selector.get("driver", spec["driver"]) != spec["driver"] or selector["pool"] != spec["pool"]["name"]:
                continue
            for device in spec.get("devices", ()):
                if selector.get("device", device["name"]) == device["name"]:
                    device["taints"] = [*device.get("taints", ()), dict(rule["spec"]["taint"])]
    return replace(found, rules=())


def _devices(found: World) -> Iterator[Manifest]:
    for offered in found.slices:
        yield from offered["spec"].get("devices", ())


def _specs(found: World) -> Iterator[Manifest]:
    """The claims' specs."""
    for step in found.steps:
        if isinstance(step, Submit):
            yield from (claim["spec"]["devices"] for claim in step.claims)
            yield from (template["spec"]["spec"]["devices"] for template in step.templates)


def _rules(rng: random.Random, found: World) -> Iterator[Manifest]:
    pools = sorted({(one["spec"]["driver"], one["spec"]["pool"]["name"]) for one in found.slices})
    for number in range(rng.randint(0, 2)):
        driver, pool = rng.choice(pools)
        selector: Manifest = {"pool": pool}  # always a pool: the copies must not meet each other's rules
        if rng.random() < 0.5:
            selector["driver"] = driver
        names = [
            device["name"]
            for one in found.slices
            if one["spec"]["pool"]["name"] == pool
            for device in one["spec"].get("devices", ())
        ]
        if names and rng.random() < 0.7:
            selector["device"] = rng.choice(names)
        taint = {
            "key": rng.choice(("broken", "slow")),
            "value": rng.choice(("yes", "")),
            "effect": rng.choice(("NoSchedule", "NoExecute", "None")),
            "timeAdded": "2026-01-01T00:00:00Z",
        }
        yield {
            "apiVersion": "resource.k8s.io/v1beta2",
            "kind": "DeviceTaintRule",
            "metadata": {"name": f"@@-rule-{number}"},
            "spec": {"deviceSelector": selector, "taint": taint},
        }


def _conditions(rng: random.Random, found: World) -> None:
    for device in _devices(found):
        if rng.random() < 0.3:
            device |= {"bindingConditions": [READY], "bindingFailureConditions": [FAILED]}
            if rng.random() < 0.5:
                device["bindsToNode"] = True


def _lists(rng: random.Random, found: World) -> None:
    """Roots and versions are lists of some devices, and one value of others."""
    for device in _devices(found):
        roots = sorted(rng.sample(("r0", "r1", "r2"), rng.randint(1, 2)))
        device["attributes"]["rack.example.com/root"] = (
            {"strings": roots} if rng.random() < 0.7 else {"string": roots[0]}
        )
        zones = sorted(rng.sample(range(4), rng.randint(1, 3)))
        device["attributes"]["rack.example.com/zone"] = {"ints": zones} if rng.random() < 0.7 else {"int": zones[0]}
    for devices in _specs(found):
        if rng.random() < 0.4 and "constraints" not in devices and not _has_counters(found):
            kind = "distinctAttribute" if _is_one_each(devices) and rng.random() < 0.5 else "matchAttribute"
            devices["constraints"] = [{kind: rng.choice(("rack.example.com/root", "rack.example.com/zone"))}]
        for exact in _exacts(devices):
            if rng.random() < 0.25 and "selectors" not in exact:
                attributes = 'device.attributes["rack.example.com"]'
                text = rng.choice((f'{attributes}.root.includes("r1")', f"{attributes}.zone.includes(2)"))
                exact["selectors"] = [{"cel": {"expression": text}}]


def _has_counters(found: World) -> bool:
    return any("sharedCounters" in one["spec"] for one in found.slices)


def _exacts(devices: Manifest) -> Iterator[Manifest]:
    for request in devices["requests"]:
        yield from ([request["exactly"]] if "exactly" in request else request["firstAvailable"])


def _is_one_each(devices: Manifest) -> bool:
    return all("exactly" in one for one in devices["requests"]) and not any(
        "count" in exact or "allocationMode" in exact for exact in _exacts(devices)
    )


def _with_counters(rng: random.Random, found: World) -> None:
    """Devices that take counters are tainted or shared; claims are constrained."""
    for device in _devices(found):
        if "consumesCounters" not in device:
            continue
        if rng.random() < 0.15:
            taint = {"key": "slow", "value": "yes", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
            device["taints"] = [taint]
        if rng.random() < 0.3:
            device["allowMultipleAllocations"] = True
    for devices in _specs(found):
        if rng.random() < 0.3:
            devices["constraints"] = [{"matchAttribute": "rack.example.com/switch"}]


def _distinct(rng: random.Random, found: World) -> None:
    """Claims have several devices of one request that have to differ."""
    for devices in _specs(found):
        several: list[Any] = [exact for exact in _exacts(devices) if "count" in exact]
        if several and rng.random() < 0.6:
            devices["constraints"] = [{"distinctAttribute": "rack.example.com/switch"}]
