"""Whose a difference between kube-scheduler and `cotenant scheduler` is, pod by pod.

The pod is decided again here, from the objects that the server had: by our engine with its own search, which must give
what `cotenant scheduler` gave, and by the same engine with upstream's (upstream_search.py), which must give what
kube-scheduler gave. Only then the difference is one of those that docs/adr/0048 names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.fakes.servers.told_watches import ToldWatches, nobody
from tests.kube.claims.upstream_search import UpstreamSearch
from tests.kube.claims.worlds import Manifest

from cotenant.drivers.cel.selectors import CelSelectors
from cotenant.drivers.kube.kinds.claims import schema
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.namespace import NAMESPACES
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.claims.rules import ClaimRules
from cotenant.engine.state.reports import NodeReports
from cotenant.policy.claims.allocator import DeviceSearch
from cotenant.policy.placement.profiles import profile
from cotenant.services.scheduling.claims import ClaimBinder
from cotenant.services.scheduling.watches import EngineWatches

Given = dict[str, tuple[tuple[str, str, str, str], ...]]  # claim -> request, driver, pool and device of each
EXTENDED = ""  # the claim for extended resources, which has no name before it is made
_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class Case:
    """One pod and what the server had: `claims` before it was decided, and after. `pod`: after."""

    namespace: Manifest
    nodes: Sequence[Manifest]
    classes: Sequence[Manifest]
    slices: Sequence[Manifest]
    rules: Sequence[Manifest]
    pods: Sequence[Manifest]  # the others, bound
    before: Sequence[Manifest]
    pod: Manifest
    after: Sequence[Manifest] = field(default=())


def explained(upstream: Case, ours: Case) -> bool:
    """Whether both decided as the two searches do."""
    return decided(upstream, UpstreamSearch) == given(upstream) and decided(ours, DeviceSearch) == given(ours)


def given(case: Case) -> Given | None:
    """What the pod's claims were given on the server; None = it was not bound."""
    if not case.pod["spec"].get("nodeName"):
        return None
    known = {one["metadata"]["uid"] for one in case.before if one.get("status", {}).get("allocation")}
    found: Given = {}
    for claim in case.after:
        allocation = claim.get("status", {}).get("allocation")
        if allocation is None or claim["metadata"]["uid"] in known:
            continue
        name = EXTENDED if _is_extended(claim) else claim["metadata"]["name"]
        found[name] = tuple(
            (one["request"], one["driver"], one["pool"], one["device"])
            for one in allocation.get("devices", {}).get("results", ())
        )
    return found


def decided(case: Case, search: type[DeviceSearch]) -> Given | None:
    """What the engine gives the pod's claims; None = it binds it nowhere."""
    plugins = PluginRegistry(claims=ClaimRules(CelSelectors(), search))
    pod = _waiting(case.pod)
    settings = EngineSettings(schedulers=(pod["spec"]["schedulerName"],))
    cluster = Cluster(profile("kube-default"), np.random.default_rng(0), settings, plugins)
    watches, reader, now_s = ToldWatches(), PodReader(), 0.0
    EngineWatches(watches, cluster, reader, ClaimBinder(nobody(), reader.volumes), NodeReports(), lambda: now_s)
    kinds: Sequence[tuple[Kind[Any], Sequence[Manifest]]] = (
        (NAMESPACES, (case.namespace,)),
        (NODES, case.nodes),
        (schema.device_classes("v1"), case.classes),
        (schema.slices("v1"), case.slices),
        (schema.taint_rules("v1beta2"), case.rules),
        (PODS, case.pods),
        (schema.claims("v1"), _unallocated(case)),
        (PODS, (pod,)),
    )
    for kind, objects in kinds:
        for obj in objects:
            watches.seen(kind, obj)
    for _ in range(_ROUNDS):  # claims that cost more than one decision may are judged in several
        now_s += 10.0
        for told in cluster.decide(now_s):
            if isinstance(told, Bind):
                return {
                    holding.key.partition("/")[2]: tuple(
                        (one.request, one.id.driver, one.id.pool, one.id.device) for one in holding.allocation.devices
                    )
                    for holding in told.holds.claims
                    if holding.allocation is not None
                }
    return None


def _is_extended(claim: Manifest) -> bool:
    return schema.EXTENDED_CLAIM in claim["metadata"].get("annotations", {})


def _waiting(pod: Manifest) -> Manifest:
    """The pod before it was decided."""
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    statuses = pod.get("status", {}).get("resourceClaimStatuses")
    return {**pod, "spec": spec, "status": {"resourceClaimStatuses": statuses} if statuses else {}}


def _unallocated(case: Case) -> list[Manifest]:
    """The claims before the pod was decided, with those that were made for it meanwhile."""
    before = {claim["metadata"]["uid"]: claim for claim in case.before}
    found = []
    for claim in case.after:
        known = before.pop(claim["metadata"]["uid"], None)
        if known is not None:
            found.append(known)
        elif not _is_extended(claim):
            found.append({key: value for key, value in claim.items() if key != "status"})
    return [*found, *before.values()]
