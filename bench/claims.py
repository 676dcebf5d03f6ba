"""Pods with device claims: how many a second the engine places, each with a claim of its own.

    python -m bench.claims
    python -m bench.claims --json

Nodes with 8 GPUs each, in one pool a node, and a class with a selector; every pod has a claim with a selector of its
own. `claims_per_s`: claims that are decided, and counted as written and observed, by the engine alone; `plain_per_s`:
pods without claims on the same nodes, in the same run. `first_ms` is the first decision for a kind of claim, for which
every device is looked at; `longest_ms` the longest single decision of it. The goal is 900 claims/s on 5,000 nodes.
`cel_us`: one evaluation of the selector that is not known yet.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from time import process_time
from typing import Any

import numpy as np

from bench.machine import peak_memory_mib, show
from cotenant.drivers.cel.selectors import CelSelectors
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.claims.rules import ClaimRules
from cotenant.model.claims.claim import ResourceClaim
from cotenant.model.claims.devices import DeviceCapacity, OfferedDevice, Reach, ResourceSlice
from cotenant.model.claims.needs import ClaimNeeds, NamedClaim
from cotenant.model.claims.requests import ClaimRequest, ClaimSpec, DeviceClass, ExactRequest
from cotenant.model.cluster.demands import NO_DEMANDS, Demands
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.quantities import parse_quantity
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

DRIVER = "gpu.example.com"
MODEL = f'device.attributes["{DRIVER}"].model == "A100"'
MEMORY = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'


def gpu(node: int, at: int) -> OfferedDevice:
    return OfferedDevice(
        f"gpu-{at}",
        (("index", at), ("model", "A100"), ("uuid", f"gpu-{node}-{at}")),
        (("memory", DeviceCapacity(parse_quantity("80Gi"))),),
    )


def world(nodes: int) -> Cluster:
    rules = ClaimRules(CelSelectors())
    made = Cluster(profile("cotenant-requests"), np.random.default_rng(1), plugins=PluginRegistry(claims=rules))
    rules.facts.class_seen(DeviceClass("gpu", (f'device.driver == "{DRIVER}"',)))
    for number in range(nodes):
        made.node_seen(Node(f"n{number}", Amounts.of({"cpu": 96_000, "memory": 2**39, "pods": 110})))
        devices = tuple(gpu(number, at) for at in range(8))
        rules.facts.slice_seen(ResourceSlice(f"s{number}", DRIVER, f"n{number}", 1, 1, Reach(f"n{number}"), devices))
    return made


def see(c: Cluster, number: int, wanted: ClaimSpec | None) -> None:
    uid, demands = f"u{number}", NO_DEMANDS
    if wanted is not None:
        key = f"bench/c{number}"
        c.plugins.claims.facts.claim_seen(
            ResourceClaim("bench", f"c{number}", f"claim-{number}", wanted, owner_uid=uid)
        )
        demands = Demands(claims=ClaimNeeds(uid=uid, claims=(NamedClaim(key, True),)))
    pod = Pod(f"p{number}", "bench", Amounts.of({"cpu": 500, "memory": 2**30}))
    c.pod_seen(ObservedPod(pod, uid, "cotenant", 1.0, demands=demands), 0.0)


def place(c: Cluster, pods: int, now_s: float) -> tuple[float, float, int]:
    """Seconds for all, the longest decision, and how many were placed."""
    begun_s, longest_s, placed = process_time(), 0.0, 0
    facts = c.plugins.claims.facts
    for _ in range(1_000 + 10 * pods):  # a first claim may need many decisions
        before_s = process_time()
        given = c.decide(now_s)
        longest_s = max(longest_s, process_time() - before_s)
        for bind in given:
            if not isinstance(bind, Bind):
                continue
            placed += 1
            c.sending(bind.uid, now_s)
            for held in bind.holds.claims:
                claim = facts.ledger.by_key[held.key]
                facts.claim_seen(replace(claim, allocation=held.allocation, reserved_for=(bind.uid,)))
            c.bound(bind.uid, now_s)
        if placed >= pods or c.next_s() > now_s + 1.0:
            break
        now_s += 0.01
    return process_time() - begun_s, longest_s, placed


def row(nodes: int, pods: int, repeats: int) -> dict[str, Any]:
    claims, plain, first, longest = [], [], [], []
    for _ in range(repeats):
        c = world(nodes)
        for number, wanted in enumerate((None, None)):  # compiles, and fills the caches of plain pods
            see(c, number, wanted)
        place(c, 2, 1.0)
        wanted = ClaimSpec((ClaimRequest("gpu", (ExactRequest("gpu", "gpu", (MODEL, MEMORY)),)),))
        see(c, 10, wanted)
        seconds, most, _ = place(c, 1, 2.0)
        first.append(1e3 * seconds)
        longest.append(1e3 * most)
        for number in range(pods):
            see(c, 100 + number, wanted)
        seconds, _, placed = place(c, pods, 10.0)
        assert placed == pods, f"{placed} of {pods} pods were placed"
        claims.append(placed / seconds)
        for number in range(pods):
            see(c, 1_000_000 + number, None)
        seconds, _, placed = place(c, pods, 20.0)
        plain.append(placed / seconds)
    return {
        "nodes": nodes,
        "claims_per_s": round(statistics.median(claims)),
        "plain_per_s": round(statistics.median(plain)),
        "first_ms": round(statistics.median(first), 1),
        "longest_ms": round(statistics.median(longest), 1),
        "cel_us": round(cel_us(), 1),
    }


def cel_us() -> float:
    """One evaluation, of devices that differ in what the expression reads."""
    selectors = CelSelectors()
    devices = [OfferedDevice("gpu", (("model", f"A{number}"),)) for number in range(400)]
    selectors.matches(MODEL, DRIVER, devices[0])
    begun_s = process_time()
    for device in devices[1:]:
        selectors.matches(MODEL, DRIVER, device)
    return 1e6 * (process_time() - begun_s) / (len(devices) - 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.claims", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[500, 5000, 12_500], help="sizes of the clusters")
    parser.add_argument("--pods", type=int, default=2000, help="pods of each kind")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = [row(nodes, given.pods, given.repeats) for nodes in given.nodes]
    show(rows, given.json, (f"CPU time of one core. Peak memory {peak_memory_mib():.0f} MiB.",))


if __name__ == "__main__":
    main()
