"""Pods run on the CPUs that they were given, services on the others, and nobody beyond what the groups above allow."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.policy.nodeqos.nodes import container, in_use, node

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_state import NodeState, PodUse
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.cpu.own_cpus import OwnCpusConfig, OwnCpusMemory, decide, reads


def lists(**texts: str) -> dict[KnobTarget, str]:
    return {KnobTarget(group.replace("__", "/"), Knob.CPUSET_CPUS): text for group, text in texts.items()}


def state(*pods: PodUse, cpus: int = 8, knobs: dict[KnobTarget, str] | None = None, **fields: Any) -> NodeState:
    known = dict.fromkeys(reads(node(pods, cpus)), "")
    return node(pods, cpus, knobs=known | (knobs or {}), **fields)


def values(verdict: PolicyVerdict) -> dict[str, str]:
    assert all(wish.target.knob is Knob.CPUSET_CPUS for wish in verdict.knobs)
    return {wish.target.group: wish.value for wish in verdict.knobs}


def first(seen: NodeState, config: OwnCpusConfig | None = None) -> PolicyVerdict:
    return decide(seen, config or OwnCpusConfig(), OwnCpusMemory())[0]


def owner(name: str = "own", *cpus: int, **more: Any) -> PodUse:
    return in_use(name, 100, more.pop("qos", QoSClass.LSR), own_cpus=cpus, **more)


WEB = in_use("web", 100)
BATCH = in_use("batch", 100, QoSClass.BE)


def test_the_owner_runs_on_its_cpus_and_services_on_the_others() -> None:
    own = owner("own", 2, 3, containers=(container("main", group="pods/own/main"),))
    verdict = first(state(own, WEB, BATCH))
    assert values(verdict) == {"pods/own": "2-3", "pods/own/main": "2-3", "pods/web": "0-1,4-7"}
    assert verdict.reasons[0].text == "ns/own has own CPUs 2-3"


def test_a_pod_on_its_own_cpus_has_no_quota() -> None:
    limited = container("main", 2000, "pods/own/main")
    own = owner("own", 2, 3, containers=(limited, container("log", 0, "pods/own/log")))

    def quotas(seen: NodeState, config: OwnCpusConfig | None = None) -> dict[str, str]:
        return {k.target.group: k.value for k in first(seen, config).knobs if k.target.knob is Knob.CPU_MAX}

    assert quotas(state(own)) == {"pods/own": "max 100000", "pods/own/main": "max 100000"}
    assert quotas(state(own), OwnCpusConfig(lift_quota=False)) == {}
    assert quotas(state(owner("own", 1, 2, 3, containers=(limited,)))) == {}  # the limit is below the list
    assert quotas(state(own, supported=frozenset(Knob) - {Knob.CPU_MAX})) == {}


def test_who_was_resized_to_more_than_its_cpus_runs_on_the_shared_ones_too_below_its_quota() -> None:
    limited = container("main", 3000, "pods/own/main")
    own = owner("own", 2, 3, containers=(limited,), has_outgrown_own_cpus=True)
    verdict = first(state(own, owner("other", 4), WEB, reserved_cpus=(0,)))
    assert values(verdict) == {
        "pods/own": "1-3,5-7",
        "pods/own/main": "1-3,5-7",
        "pods/other": "4",
        "pods/web": "1,5-7",
    }
    assert "runs on the shared 1,5-7 too" in verdict.reasons[0].text
    alone = first(state(owner("own", *range(8), has_outgrown_own_cpus=True), WEB))
    assert values(alone) == {"pods/own": "0-7"}


def test_without_own_cpus_nothing_is_set_or_read() -> None:
    seen = state(WEB, BATCH)
    assert (first(seen).knobs, reads(seen)) == ((), ())


def test_reserved_cpus_are_not_shared_and_the_pool_can_be_switched_off() -> None:
    seen = state(owner("own", 2), WEB, reserved_cpus=(0,))
    assert values(first(seen))["pods/web"] == "1,3-7"
    assert values(first(seen, OwnCpusConfig(shared_pool=False))) == {"pods/own": "2"}


def test_never_more_than_the_groups_above_allow_nor_what_is_offline() -> None:
    seen = state(owner("own", 2, 3, 9), WEB, knobs=lists(pods="0-2"))
    verdict = first(seen)
    assert values(verdict) == {"pods/own": "2", "pods/web": "0-1"}
    assert "2 more of its CPUs are not allowed on this node" in verdict.reasons[0].text
    nowhere = first(state(owner("own", 5), knobs=lists(pods="0-2")))
    assert nowhere.knobs == ()
    assert "none of which is allowed on this node" in nowhere.reasons[0].text


def test_of_two_that_claim_the_same_cpu_neither_is_bound() -> None:
    verdict = first(state(owner("x", 1, 2), owner("y", 2, 3), owner("z", 4)))
    assert values(verdict) == {"pods/z": "4"}
    assert "another pod also claims 2" in verdict.reasons[0].text


def test_without_a_cpu_left_everybody_runs_everywhere() -> None:
    verdict = first(state(owner("own", *range(8)), WEB))
    assert values(verdict) == {"pods/own": "0-7"}
    assert "no CPU is left to share" in verdict.reasons[-1].text


def test_lists_narrowed_by_other_writers_are_kept_and_ours_are_recognised() -> None:
    theirs = state(owner("own", 2), WEB, knobs=lists(pods__web="6-7"))
    verdict, memory = decide(theirs, OwnCpusConfig(), OwnCpusMemory())
    assert values(verdict) == {"pods/own": "2"}
    back = state(owner("own", 2), WEB)
    verdict, memory = decide(back, OwnCpusConfig(), memory)
    assert values(verdict)["pods/web"] == "0-1,3-7"
    ours = state(owner("own", 4), WEB, knobs=lists(pods__web="0-1,3-7", pods__own="2"))
    assert values(decide(ours, OwnCpusConfig(), memory)[0]) == {"pods/own": "4", "pods/web": "0-3,5-7"}
    made = in_use("web", 100, containers=(container("c", group="pods/web/c"),))  # v1 copies the list of the group above
    copied = state(owner("own", 4), made, knobs=lists(pods__web="0-1,3-7", pods__web__c="0-1,3-7"))
    assert values(decide(copied, OwnCpusConfig(), memory)[0])["pods/web/c"] == "0-3,5-7"


@pytest.mark.parametrize("more", [{"qos": QoSClass.SYSTEM}, {"host_application": True}])
def test_system_pods_and_programs_beside_kubernetes_are_left_alone(more: dict[str, Any]) -> None:
    beside = in_use("beside", 100, more.pop("qos", QoSClass.LS), **more)
    assert values(first(state(owner("own", 2), beside))) == {"pods/own": "2"}


def test_a_group_whose_list_cannot_be_read_is_not_shared_out_to() -> None:
    seen = node([owner("own", 2), WEB], 8)
    assert values(first(seen)) == {"pods/own": "2"}


def test_without_a_cpuset_controller_it_is_said() -> None:
    seen = state(owner("own", 2), supported=frozenset({Knob.CPU_MAX}))
    verdict = first(seen)
    assert verdict.knobs == ()
    assert "no cpuset controller" in verdict.reasons[0].text
