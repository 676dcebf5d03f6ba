"""Pods that are resized in place, as the node's agent sees them: whatever a specification wishes for, the agent treats
the pod as one that asks for what its kubelet has put in place; and the bound of a whole pod with batch amounts is never
in the way of the kubelet that raises a container below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.seal_keys import keys
from tests.property.few import first_cases
from tests.unit.policy.nodeqos.nodes import in_use, node

from cotenant.drivers.kube.kinds.pod.on_node import NodePodObject, declared_pods
from cotenant.drivers.kubelet.declared import Belief, join
from cotenant.drivers.seals.seals import NO_SEALS, Seals
from cotenant.model.cluster.seal import SEAL
from cotenant.model.cpus.spec import RESOURCE_STATUS
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodeContainer, NodePod
from cotenant.policy.nodeqos import batch_resources
from cotenant.policy.nodeqos.burst import policy as burst
from cotenant.policy.nodeqos.burst.config import BurstConfig, BurstPolicy
from cotenant.policy.nodeqos.cpu import own_cpus
from cotenant.policy.nodeqos.memory import protection
from cotenant.policy.nodeqos.memory.protection import ClassMemory, MemoryQosConfig

NODE, UID = "a", "u-p"
SEALER, SEALING = keys()
OWN = '{"cpuset":"0-1"}'
SEALED = {RESOURCE_STATUS: OWN, SEAL: SEALER.seal(UID, NODE, {RESOURCE_STATUS: OWN})}
BATCH = "kubernetes.io/batch-"
KEPT = ClassMemory(min_percent=50, low_percent=60, throttling_percent=80)

Amounts = tuple[int, int, int, int]  # CPU request and limit in milli, memory request and limit in MiB; 0 = none
CPUS = st.sampled_from([(0, 0), (500, 0), (500, 2000), (1000, 1000), (2000, 2000), (1000, 4000)])
MEMORY = st.sampled_from([(0, 0), (128, 0), (128, 512), (256, 256), (512, 4096)])
SIZES = st.builds(lambda cpu, memory: (*cpu, *memory), CPUS, MEMORY)
PENDING = st.sampled_from(["", "Deferred", "Infeasible"])


def resources(size: Amounts, batch: bool) -> dict[str, dict[str, str]]:
    """Native amounts, and batch amounts beside them where a container has no native ones."""
    pairs = (("requests", size[0], size[2]), ("limits", size[1], size[3]))
    found = {
        part: ({"cpu": f"{cpu_m}m"} if cpu_m else {}) | ({"memory": f"{mib}Mi"} if mib else {})
        for part, cpu_m, mib in pairs
    }
    if batch:
        lent = {f"{BATCH}cpu": "1000", f"{BATCH}memory": "64Mi"}
        found = {part: amounts | lent for part, amounts in found.items()}
    return found


def resized(before: Amounts, wanted: Amounts) -> Amounts:
    """What is not set cannot be set, and what is set stays set: the class of a pod is for good."""
    return tuple(now if was and now else was for was, now in zip(before, wanted, strict=True))  # type: ignore[return-value]


def manifest(
    spec: Sequence[Amounts],
    there: Sequence[Amounts] | None,
    pending: str,
    qos: str,
    lent: Sequence[bool],
    notes: dict[str, str],
) -> NodePodObject:
    containers = [{"name": f"c{row}", "resources": resources(size, lent[row])} for row, size in enumerate(spec)]
    sidecar = {**containers[-1], "restartPolicy": "Always"}
    kinds = [("PodResizePending", pending)] if pending else []
    found: dict[str, Any] = {
        "metadata": {
            "name": "p",
            "namespace": "shop",
            "uid": UID,
            "labels": {"koordinator.sh/qosClass": qos},
            "annotations": notes,
            "creationTimestamp": "2026-01-02T00:00:00Z",
        },
        "spec": {"containers": containers[:-1], "initContainers": [sidecar], "nodeName": NODE},
        "status": {
            "phase": "Running",
            "qosClass": "Burstable",
            "conditions": [{"type": kind, "status": "True", "reason": why} for kind, why in kinds],
        },
    }
    if there is not None:
        said = [{"name": f"c{row}", "resources": resources(size, lent[row])} for row, size in enumerate(there)]
        found["status"] |= {"containerStatuses": said[:-1], "initContainerStatuses": said[-1:]}
    return msgspec.convert(found, NodePodObject, strict=False)


def seen(obj: NodePodObject, count: int, seals: Seals) -> NodePod:
    """As the agent discovers it."""
    containers = tuple(NodeContainer(f"c{row}", f"pods/p/c{row}") for row in range(count))
    (found,) = join([NodePod(UID, "", "", "pods/p", containers=containers)], declared_pods([obj]), Belief(seals, NODE))
    return found


def knobs(pod: NodePod) -> dict[KnobTarget, str]:
    """What the agent would write for it with every policy on that goes by a pod's amounts."""
    groups = [pod.group, *(container.group for container in pod.containers)]
    stands = {KnobTarget(group, Knob.CPU_MAX): "200000 100000" for group in groups}
    stands |= {KnobTarget(group, Knob.CPUSET_CPUS): "" for group in groups}
    state = node([replace(in_use("p", 900), pod=pod)], 8, knobs=stands)
    verdicts = (
        own_cpus.decide(state, own_cpus.OwnCpusConfig(), own_cpus.OwnCpusMemory())[0],
        burst.decide(state, BurstConfig(policy=BurstPolicy.AUTO), burst.BurstMemory())[0],
        protection.decide(state, MemoryQosConfig(KEPT, KEPT, KEPT), protection.MemoryQosMemory())[0],
        batch_resources.decide(state, batch_resources.BatchResourcesConfig(), batch_resources.BatchResourcesMemory())[
            0
        ],
    )
    return {knob.target: knob.value for verdict in verdicts for knob in verdict.knobs}


@given(st.data(), PENDING, st.sampled_from(["LSR", "LS", "BE", ""]), st.booleans(), st.booleans())
def test_the_agent_goes_by_what_is_in_place(
    data: st.DataObject, pending: str, qos: str, owns: bool, sealed: bool
) -> None:
    there = data.draw(st.lists(SIZES, min_size=2, max_size=3))
    asked = [resized(size, data.draw(SIZES)) for size in there]
    lent = data.draw(st.lists(st.booleans(), min_size=len(there), max_size=len(there)))
    notes = SEALED if owns else {}
    seals = SEALING if sealed else NO_SEALS
    wished = seen(manifest(asked, there, pending, qos, lent, notes), len(there), seals)
    plain = seen(manifest(there, None, "", qos, lent, notes), len(there), seals)
    assert wished == plain
    assert knobs(wished) == knobs(plain)


@given(st.data())
def test_nothing_that_the_agent_holds_on_a_whole_pod_is_in_the_way_of_a_container_that_is_resized(
    data: st.DataObject,
) -> None:
    """No kubelet resizes batch amounts: a bound of them alone is the same before, meanwhile and after."""
    there = data.draw(st.lists(SIZES, min_size=2, max_size=3))
    asked = [resized(size, data.draw(SIZES)) for size in there]
    lent = data.draw(st.lists(st.booleans(), min_size=len(there), max_size=len(there)))
    stages = [
        seen(manifest(spec, said, "", "BE", lent, {}), len(there), NO_SEALS)
        for spec, said in ((there, there), (asked, there), (asked, asked))
    ]
    assert len({(pod.extended.cpu_limit_m, pod.extended.memory_limit_bytes) for pod in stages}) == 1


test_first_cases = first_cases(
    test_the_agent_goes_by_what_is_in_place,
    test_nothing_that_the_agent_holds_on_a_whole_pod_is_in_the_way_of_a_container_that_is_resized,
)
