"""What Kueue says of a pod, state by state."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.questions import pod

from cotenant.engine.explain.kueue import kueue_concern, why_gated, why_held
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.groups.kueue import (
    ADMISSION_GATE,
    TOPOLOGY_GATE,
    AdmissionCheck,
    InQueue,
    KueueCondition,
    KueueWorkload,
)

ADMISSION, TOPOLOGY = (ADMISSION_GATE,), (TOPOLOGY_GATE,)
RESERVED, ADMITTED = KueueCondition("QuotaReserved", True, "Reserved"), KueueCondition("Admitted", True, "Admitted")


def because(*conditions: KueueCondition, gates: tuple[str, ...] = ADMISSION, **more: object) -> str:
    workload = KueueWorkload("ns/w", "q", conditions=conditions, **more)  # type: ignore[arg-type]
    text = why_held(InQueue("q", workload=workload), gates)
    begin, end = "Kueue holds it because ", " (Workload ns/w, queue q)"
    assert text.startswith(begin)
    assert text.endswith(end)
    return text.removeprefix(begin).removesuffix(end)


def test_without_a_workload() -> None:
    end = "in this namespace?"
    for queue, words in (("q", "queue q"), ("", "its queue")):
        said = f"Kueue holds it, and no Workload of it is known: does Kueue run, and is {words} {end}"
        assert why_held(InQueue(queue), ADMISSION) == said


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ((), "its Workload has not been judged yet"),
        ((KueueCondition("QuotaReserved", False, "Pending", "no room"),), "no room (QuotaReserved=False, Pending)"),
        ((KueueCondition("QuotaReserved", False, "Pending"),), "of QuotaReserved=False, Pending"),
        ((RESERVED,), "it has quota and is not admitted yet"),
        ((RESERVED, KueueCondition("Admitted", False, "No", "soon")), "soon (Admitted=False, No)"),
        ((RESERVED, ADMITTED), "it is admitted, and the gate is not removed yet"),
        (
            (RESERVED, ADMITTED, KueueCondition("WaitingForReplacementPods", True, "W")),
            "of WaitingForReplacementPods=True, W",
        ),
        (
            (RESERVED, ADMITTED, KueueCondition("WaitingForReplacementPods", False, "W")),
            "it is admitted, and the gate is not removed yet",
        ),
        ((RESERVED, ADMITTED, KueueCondition("Finished", True, "Done")), "of Finished=True, Done"),
        ((KueueCondition("Finished", False, "Not"),), "its Workload has not been judged yet"),
        ((KueueCondition("BlockedOnPreemptionGates", True, "B"),), "of BlockedOnPreemptionGates=True, B"),
        (
            (KueueCondition("Evicted", True, "Preempted", "p"),),
            "it was evicted: p (Evicted=True, Preempted); its Workload has not been judged yet",
        ),
        ((KueueCondition("Evicted", False, "Preempted"),), "its Workload has not been judged yet"),
    ],
)
def test_the_first_state_that_explains_is_said(conditions: tuple[KueueCondition, ...], said: str) -> None:
    assert because(*conditions) == said


def test_a_place_in_the_topology_is_waited_for() -> None:
    waits = "it is admitted, and the pod's place in the topology is not assigned yet"
    assert because(RESERVED, ADMITTED, gates=TOPOLOGY) == waits


def test_a_deactivated_workload_says_why() -> None:
    assert because(is_active=False) == "its Workload is deactivated"
    evicted, target = KueueCondition("Evicted", True, "E"), KueueCondition("DeactivationTarget", True, "D")
    assert because(target, is_active=False) == "its Workload is deactivated: of DeactivationTarget=True, D"
    assert because(target, evicted, is_active=False) == "its Workload is deactivated: of Evicted=True, E"


def test_checks_that_are_not_ready_are_listed() -> None:
    checks = (AdmissionCheck("a", "Ready"), AdmissionCheck("b", "Pending"), AdmissionCheck("c", "Retry", "later"))
    said = "admission check b is Pending; admission check c is Retry: later"
    assert because(RESERVED, checks=checks) == said
    evicted = KueueCondition("Evicted", True, "E")
    assert because(evicted, RESERVED, checks=checks) == f"it was evicted: of Evicted=True, E; {said}"
    assert because(RESERVED, checks=checks[:1]) == "it has quota and is not admitted yet"


def concern(
    workload: KueueWorkload | None, gates: tuple[str, ...] = (), group: str = "", **more: str
) -> tuple[object, ...]:
    seen = replace(pod("x", on=more.get("on", "")), gates=gates, in_queue=InQueue("q", group, workload))
    found = kueue_concern(PodInfo(seen), more.get("our_quota", ""))
    assert found is not None
    assert (found.kind, found.name) == ("kueue", "q")
    return found.holds, found.words, found.lines


def test_a_pod_outside_kueue_has_no_part_of_it() -> None:
    assert kueue_concern(PodInfo(pod("x"))) is None
    assert why_gated(PodInfo(pod("x", gates=ADMISSION))) == ""
    assert why_gated(PodInfo(replace(pod("x"), in_queue=InQueue("q")))) == ""
    held = PodInfo(replace(pod("x", gates=ADMISSION), in_queue=InQueue("q")))
    assert why_gated(held) == why_held(InQueue("q"), ADMISSION)


def test_what_kueue_let_start() -> None:
    assert concern(None) == (False, "Kueue does not hold it, and no Workload of it is known", ())
    plain = KueueWorkload("ns/w", conditions=(RESERVED, ADMITTED))
    admitted = "(Workload ns/w); where it runs is decided here"
    assert concern(plain)[1] == f"Kueue admitted it {admitted}"
    flavors = (("cpu", "spot"), ("gpu", "a100"))
    full = replace(plain, cluster_queue="team", flavors=flavors)
    words = f"Kueue admitted it by team, flavors cpu: spot, gpu: a100 {admitted}"
    assert concern(full)[1] == words
    for ready, message, more in ((True, "m", ""), (False, "", ""), (False, "m", "; m (PodsReady=False, R)")):
        late = replace(full, conditions=(*full.conditions, KueueCondition("PodsReady", ready, "R", message)))
        assert concern(late)[1] == f"{words}{more}"
    odd = KueueWorkload("ns/w")
    said = "Kueue does not hold the pod, but: its Workload has not been judged yet (Workload ns/w)"
    assert concern(odd)[1] == said


def test_lines_name_checks_the_group_and_a_quota_of_ours() -> None:
    checks = (AdmissionCheck("a", "Ready"), AdmissionCheck("c", "Retry", "later"))
    workload = KueueWorkload("ns/w", checks=checks)
    holds, words, lines = concern(workload, ADMISSION, "g", our_quota="team")
    assert holds
    assert words == why_held(InQueue("q", "g", workload), ADMISSION)
    assert lines == (
        "admission check a: Ready",
        "admission check c: Retry, later",
        "the pod group g is Kueue's: its pods are admitted together, and placed singly",
        "quota team of this scheduler counts the pod too: it must fit both",
    )
    assert not concern(workload, ADMISSION, on="n")[0]
    assert not concern(workload, ("other.io/gate",))[0]
