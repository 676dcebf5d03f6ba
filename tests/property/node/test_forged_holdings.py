"""Whatever a pod's owner writes about what the pod holds, nobody else is judged otherwise, by the node's agent or
by the scheduler.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.seal_keys import keys
from tests.unit.policy.nodeqos.nodes import in_use, node

from cotenant.drivers.kube.kinds.pod.on_node import CONFIG_HASH, NodePodObject, declared_pods
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.drivers.kubelet.declared import Belief, join
from cotenant.drivers.seals.seals import NO_SEALS, Seals
from cotenant.model.cluster.annotations import MIRROR
from cotenant.model.cluster.seal import SEAL, SEALED
from cotenant.model.cpus.spec import RESOURCE_SPEC, RESOURCE_STATUS
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.model.groups.reservation_notes import ALLOCATED
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodeContainer, NodePod
from cotenant.policy.nodeqos.cpu.own_cpus import OwnCpusConfig, OwnCpusMemory, decide
from cotenant.services.agent.discovery.claims import CpuClaims

NODE = "a"
SEALER, SEALING = keys()
STATUS = json.dumps({"cpuset": "0-1"})
HONEST_SEAL = SEALER.seal("u-owner", NODE, {RESOURCE_STATUS: STATUS})


def manifest(
    name: str, qos: str, cpu: str, notes: Mapping[str, str], *, owner: str = "", bound: bool = True
) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "shop",
        "uid": f"u-{name}",
        "labels": {"koordinator.sh/qosClass": qos},
        "creationTimestamp": "2026-01-02T00:00:00Z",
        "annotations": dict(notes),
    }
    if owner:
        meta["ownerReferences"] = [{"apiVersion": "v1", "kind": owner, "name": NODE, "uid": "n", "controller": True}]
    amounts = {"cpu": cpu, "memory": "1Gi"}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]}
    if bound:
        spec["nodeName"] = NODE
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running", "qosClass": "Guaranteed"}}


OTHERS = (
    manifest("owner", "LSR", "2", {RESOURCE_STATUS: STATUS, SEAL: HONEST_SEAL}),
    manifest("web", "LS", "1", {}),
)
CPUSETS = st.sampled_from(["0-1", "0-7", "2-7", "1,3", "4", "", "0-99999", "x", "7-0"])
STATUSES = st.one_of(
    st.builds(lambda cpus: json.dumps({"cpuset": cpus}), CPUSETS),
    st.builds(
        lambda cpus, cpu, memory: json.dumps(
            {"cpuset": cpus, "numaNodeResources": [{"node": 0, "resources": {"cpu": cpu, "memory": memory}}]}
        ),
        CPUSETS,
        st.sampled_from(["64", "-64", "1m"]),
        st.sampled_from(["1Ti", "-1Ti", "1"]),
    ),
    st.sampled_from(["{", "[]", "null", '{"cpuset": 3}']),
)
DEVICES = st.sampled_from(
    ['{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"}}]}', '{"rdma":[{"minor":1}]}', "{", "[]"]
)
FORGED = st.fixed_dictionaries(
    {},
    optional={
        RESOURCE_STATUS: STATUSES,
        DEVICE_ALLOCATED: DEVICES,
        ALLOCATED: st.sampled_from(['{"name":"r","uid":"r1"}', "{}"]),
        SEAL: st.sampled_from([HONEST_SEAL, "", "AAAA", SEALER.seal("u-evil", "b", {RESOURCE_STATUS: STATUS})]),
        RESOURCE_SPEC: st.sampled_from(['{"requiredCPUBindPolicy":"FullPCPUs"}', "{"]),
        CONFIG_HASH: st.sampled_from(["u-owner", "u-web", "u-static"]),
        MIRROR: st.just("x"),
    },
)
QOS = st.sampled_from(["LSE", "LSR", "LS", "BE", "SYSTEM", ""])


def on_node(pods: tuple[dict[str, Any], ...], seals: Seals, claims: CpuClaims) -> tuple[NodePod, ...]:
    """As the agent discovers them."""
    names = [pod["metadata"]["name"] for pod in pods]
    groups = [
        NodePod(f"u-{name}", "", "", f"top/{name}", containers=(NodeContainer("main", f"top/{name}/main"),))
        for name in names
    ]
    objects = [msgspec.convert(pod, NodePodObject, strict=False) for pod in pods]
    return claims.settled(join(groups, declared_pods(objects), Belief(seals, NODE)))


def knobs(pods: tuple[NodePod, ...], but: str) -> dict[KnobTarget, str]:
    """What the agent wants of everybody but one."""
    groups = [group for pod in pods for group in (pod.group, f"{pod.group}/main")]
    lists = dict.fromkeys((KnobTarget(group, Knob.CPUSET_CPUS) for group in groups), "")
    state = node([replace(in_use(pod.name, 0), pod=pod) for pod in pods], 8, knobs=lists)
    verdict, _ = decide(state, OwnCpusConfig(), OwnCpusMemory())
    return {knob.target: knob.value for knob in verdict.knobs if not knob.target.group.startswith(f"top/{but}")}


def without(notes: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: text for name, text in notes.items() if name not in names}


@given(FORGED, QOS, st.sampled_from(["1", "2", "4"]), st.sampled_from(["", "Node", "ReplicaSet"]), st.booleans())
def test_with_a_key_the_agent_treats_others_as_without_the_forged_pods_annotations(
    notes: dict[str, str], qos: str, cpu: str, owner: str, first: bool
) -> None:
    def wanted(written: Mapping[str, str]) -> dict[KnobTarget, str]:
        forged, claims = manifest("evil", qos, cpu, written, owner=owner), CpuClaims()
        pods = (forged, *OTHERS) if first else (*OTHERS, forged)
        on_node(OTHERS if not first else pods, SEALING, claims)
        return knobs(on_node(pods, SEALING, claims), "evil")

    assert wanted(notes) == wanted({})
    assert wanted({})[KnobTarget("top/owner", Knob.CPUSET_CPUS)] == "0-1"


@given(FORGED, QOS, st.sampled_from([None, 0, 1_000_000_000]))
def test_with_a_key_no_pod_runs_where_another_has_cpus_of_its_own(
    notes: dict[str, str], qos: str, priority: int | None
) -> None:
    """Of class BE it does as far as they are lent. Whom the node itself needs, its priority or its kubelet says."""
    forged = manifest("evil", qos, "2", without(notes, MIRROR))
    forged["spec"]["priority"] = priority
    pods = on_node((forged, *OTHERS), SEALING, CpuClaims())
    lists = knobs(pods, "nobody")
    assert lists[KnobTarget("top/owner", Knob.CPUSET_CPUS)] == "0-1"
    if not next(pod for pod in pods if pod.name == "evil").best_effort:
        assert lists[KnobTarget("top/evil", Knob.CPUSET_CPUS)] == lists[KnobTarget("top/web", Knob.CPUSET_CPUS)]


@given(FORGED, st.sampled_from(["LS", "BE", "SYSTEM", ""]))
def test_without_a_key_a_pod_that_gets_no_cpus_takes_none(notes: dict[str, str], qos: str) -> None:
    def wanted(written: Mapping[str, str]) -> dict[KnobTarget, str]:
        return knobs(on_node((manifest("evil", qos, "2", written), *OTHERS), NO_SEALS, CpuClaims()), "evil")

    plain = without(notes, RESOURCE_SPEC)  # by which it would be entitled to as many as it requests
    assert wanted(plain) == wanted({})


@given(FORGED, st.sampled_from(["1", "2", "4"]))
def test_without_a_key_an_entitled_pod_takes_no_more_than_it_requests_and_nobody_elses(
    notes: dict[str, str], cpu: str
) -> None:
    claims = CpuClaims()
    on_node(OTHERS, NO_SEALS, claims)
    pods = {pod.name: pod for pod in on_node((manifest("evil", "LSR", cpu, notes), *OTHERS), NO_SEALS, claims)}
    assert pods["owner"].own_cpus == (0, 1)
    assert len(pods["evil"].own_cpus) <= int(cpu)
    assert not {0, 1} & set(pods["evil"].own_cpus)


@given(FORGED, QOS, st.booleans())
def test_with_a_key_the_scheduler_reads_nothing_of_it(notes: dict[str, str], qos: str, bound: bool) -> None:
    def read(written: Mapping[str, str]) -> object:
        pod = msgspec.convert(manifest("evil", qos, "2", written, bound=bound), PodObject, strict=False)
        seen = PodReader(seals=SEALING).pod(pod)
        return replace(seen, written=(), unsupported=())

    assert read(notes) == read(without(notes, *SEALED, SEAL))


@given(FORGED, st.sampled_from(["LS", "BE", "SYSTEM", ""]))
def test_without_a_key_the_scheduler_counts_no_cpus_and_devices_of_pods_that_get_none(
    notes: dict[str, str], qos: str
) -> None:
    pod = manifest("evil", qos, "2", without(notes, RESOURCE_SPEC))
    holds = PodReader().pod(msgspec.convert(pod, PodObject, strict=False)).holds
    assert not holds.devices
    assert holds.cpus is None or not holds.cpus.cpus


@pytest.mark.parametrize("seals", [NO_SEALS, SEALING], ids=["no key", "key"])
def test_a_pod_without_a_node_holds_nothing(seals: Seals) -> None:
    """Copied with a manifest, or written before the bind, when it would be taken for the scheduler's own choice."""
    pod = manifest("evil", "LSR", "2", {RESOURCE_STATUS: STATUS, SEAL: HONEST_SEAL}, bound=False)
    seen = PodReader(seals=seals).pod(msgspec.convert(pod, PodObject, strict=False))
    assert (seen.holds.cpus, set(seen.written)) == (None, {RESOURCE_STATUS, SEAL})


def test_a_static_pods_uid_is_its_mirrors_alone() -> None:
    """An annotation with another pod's uid does not lay one's own labels over that pod's group."""
    static = manifest("static", "LSR", "1", {CONFIG_HASH: "u-hash", MIRROR: "u-hash"}, owner="Node")
    forged = [manifest("evil", "BE", "1", {CONFIG_HASH: uid, MIRROR: uid}, owner="Node") for uid in ("u-web", "u-hash")]
    for entry in forged:
        entry["metadata"]["creationTimestamp"] = "2026-02-02T00:00:00Z"
    pods = [msgspec.convert(entry, NodePodObject, strict=False) for entry in (*forged, static, *OTHERS)]
    names = {one.uid: one.name for one in declared_pods(pods)}
    assert (names["u-web"], names["u-hash"]) == ("web", "static")
