"""What pods have that holds a recommendation back: sidecars, amounts of the whole pod, ends by lack of memory, another
program in some replicas, a LimitRange of whole pods.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotenant.drivers.kube.kinds import namespace_limits as limits
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.assess.history import AssessedHistory, PodHistory
from cotenant.model.assess.prices import PricedNode
from cotenant.model.sizes.container import ContainerProgram, ContainerSize, SizedContainer, SizedPod
from cotenant.model.sizes.recommendation import Recommendation
from cotenant.services.sizes.recommending import SizeQuery, advise
from cotenant.services.sizes.size_facts import SizedCluster

MIB = 1 << 20
START_S = 1_767_571_200.0  # a Monday
BIG = ContainerSize(3000, 4000, 4096 * MIB, 8192 * MIB)
APP = SizedContainer("app", BIG)
POD = SizedPod("ns", "a", "a", "n1", "StatefulSet", "web", True, True, (APP,))


def history(names: tuple[str, ...], hours: int = 192) -> PodHistory:
    cpu = np.full((len(names), hours), 900.0, np.float32)
    memory = np.full((len(names), hours), 1000.0, np.float32)
    unknown = np.full(len(names), np.nan, np.float32)
    series = AssessedHistory(START_S, 3600.0, names, cpu, memory, "From a test.")
    return PodHistory(series, ("",) * len(names), ("",) * len(names), unknown, unknown)


def asked(*pods: SizedPod, use: PodHistory | None = None, ranges: tuple[limits.LimitRangeObject, ...] = ()) -> (
    list[Recommendation]
):  # fmt: skip
    of = SizedCluster(pods, {}, {"n1": PricedNode("n1", 16_000, 65_536)}, ranges)
    return list(advise(of, use or history(("ns/a",)), (), SizeQuery()).recommendations)


def memory_mib(one: Recommendation) -> tuple[int, int]:
    assert one.after is not None
    return (one.after.memory_request_bytes or 0) // MIB, (one.after.memory_limit_bytes or 0) // MIB


def test_a_history_of_whole_pods_is_not_of_a_container_beside_a_sidecar() -> None:
    beside = replace(POD, has_sidecars=True)
    (one,) = asked(beside)
    assert one.after is None
    assert "does not say which of its containers" in one.why[0]
    (by_container,) = asked(beside, use=history(("ns/a/app",)))
    assert by_container.after is not None


def test_amounts_of_the_whole_pod_leave_none_to_recommend() -> None:
    (one,) = asked(replace(POD, has_pod_resources=True))
    assert one.after is None
    assert "spec.resources" in one.why[0]


def test_memory_of_a_replica_that_ran_out_of_it_is_not_lowered() -> None:
    (free,) = asked(POD)
    assert memory_mib(free)[1] == 1200
    killed = replace(POD, name="b", uid="b", containers=(replace(APP, was_oom_killed=True),))
    (one,) = asked(POD, killed)
    assert memory_mib(one) == (4096, 8192)
    assert "memory is not lowered: a replica was ended for lack of it" in one.why


def test_the_highest_heap_of_any_replica_is_the_floor() -> None:
    told = [
        replace(
            POD, name=name, uid=name, containers=(replace(APP, program=ContainerProgram(("java", f"-Xmx{heap}g"))),)
        )
        for name, heap in (("a", 1), ("b", 4), ("c", 2))
    ]
    (one,) = asked(*told)
    assert memory_mib(one) == (5120, 5120)


def test_a_limit_range_of_whole_pods_is_named_for_one_of_several_containers() -> None:
    item = limits.LimitRangeItem(type="Pod", max={"cpu": "1"})
    of_ns = limits.LimitRangeObject(
        metadata=ObjectMeta(name="l", namespace="ns"), spec=limits._LimitRangeSpec(limits=(item,))
    )
    two = replace(POD, containers=(APP, replace(APP, name="proxy")))
    for one in asked(two, use=history(("ns/a/app", "ns/a/proxy")), ranges=(of_ns,)):
        assert one.why[-1] == "LimitRange l bounds whole pods: not considered for one of its containers"
    (alone,) = asked(POD, ranges=(of_ns,))
    assert "LimitRange l does not allow" in alone.why[0]
