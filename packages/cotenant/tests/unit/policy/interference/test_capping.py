"""Caps over time: what a victim's samples say of them, when they end, and what follows for the pod."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import PPM, GroupUse, HostUse, NodeState, PodUse
from cotenant.policy.interference.capping import (
    MOST_OFFENCES,
    Cap,
    Caps,
    Offence,
    cap_m,
    evictions,
    exempt,
    knobs,
    observe,
    release,
)
from cotenant.policy.interference.series import SampleSlice, VictimSample
from cotenant.policy.interference.settings import InterferenceSettings

SECOND = 1_000_000
SETTINGS = InterferenceSettings()
HOST = HostUse(cpus=2, cpu_m=1000, memory_total_bytes=1, memory_used_bytes=1)
WHY = Reason("antagonist", "it was active while web suffered")


def in_use(name: str, **fields: Any) -> PodUse:
    pod = NodePod(name, "ns", name, f"pods/{name}", QoSClass.BE)
    return PodUse(replace(pod, **fields), GroupUse(f"pods/{name}", cpu_m=700, working_set_bytes=55))


def cap(uid: str = "hog", victim: str = "web", **fields: Any) -> Cap:
    return replace(Cap(uid, victim, 100 * SECOND, 400 * SECOND, 4 * PPM, WHY), **fields)


def at(seconds: float, *names: str) -> NodeState:
    return NodeState(round(seconds * SECOND), SECOND, HOST, tuple(map(in_use, names)))


def seen(seconds: float, level_ppm: int, uid: str = "web") -> SampleSlice:
    return SampleSlice(round(seconds * SECOND), (VictimSample(uid, "job", level_ppm, 1000, 0),), ())  # type: ignore[arg-type]


def test_only_samples_that_lie_wholly_under_the_cap_count() -> None:
    caps = Caps((cap(), cap("other", "db")))
    caps = observe(caps, seen(109.9, 9 * PPM), SETTINGS)  # it began before the cap
    assert [one.level_since_ppm for one in caps.active] == [None, None]
    caps = observe(caps, seen(110, 3 * PPM), SETTINGS)
    caps = observe(caps, seen(170, 2 * PPM), SETTINGS)
    assert [(one.level_since_ppm, one.samples) for one in caps.active] == [(2_500_000, 2), (None, 0)]


@pytest.mark.parametrize(
    ("since", "helped", "said"),
    [
        (None, False, "there is no sample of its victim since from 4.00, the cap did not help"),
        (3_600_000, True, "ns/web went to 3.60 from 4.00, the cap helped"),
        (3_600_001, False, "ns/web went to 3.60 from 4.00, the cap did not help"),
        (5_000_000, False, "ns/web went to 5.00 from 4.00, the cap did not help"),
    ],
)
def test_at_its_end_a_cap_helped_if_the_victim_fell_by_a_tenth(since: int | None, helped: bool, said: str) -> None:
    one = cap() if since is None else cap(level_sum_ppm=since, samples=1)
    assert release(Caps((one,)), at(399.9, "web", "hog"), SETTINGS) == (Caps((one,)), ())
    after, (reason,) = release(Caps((one,)), at(400, "web", "hog"), SETTINGS)
    assert after == Caps((), (Offence("hog", "web", 400 * SECOND, helped),))
    assert reason.text == f"ns/hog is released after 300 s: {said}"
    assert reason.terms == (DecisionTerm("before", 4 * PPM, "ppm"), DecisionTerm("under the cap", since or 0, "ppm"))


def test_who_has_left_is_released_without_an_offence() -> None:
    caps = Caps((cap("gone"), cap("hog", "away"), cap("hog")))
    after, reasons = release(caps, at(200, "web", "hog"), SETTINGS)
    assert after == Caps((cap("hog"),))
    assert [reason.text for reason in reasons] == [
        "gone is released: it left the node",
        "ns/hog is released: its victim left the node",
    ]


def test_offences_are_kept_for_as_long_as_they_matter_and_not_more_than_so_many() -> None:
    settings = replace(SETTINGS, offence_window_us=100 * SECOND, spare_us=200 * SECOND)
    old, late = Offence("a", "web", 0, True), Offence("a", "web", 1, True)
    after, _ = release(Caps((), (old, late)), at(200.000001), settings)
    assert after.offences == (late,)
    shorter = replace(settings, spare_us=10 * SECOND)
    assert release(Caps((), (late,)), at(100.000001), shorter)[0].offences == (late,)
    assert release(Caps((), (late,)), at(100.000002), shorter)[0].offences == ()
    many = tuple(Offence("a", "web", i, True) for i in range(MOST_OFFENCES + 3))
    assert release(Caps((), many), at(1), SETTINGS)[0].offences == many[3:]


def test_a_pod_is_exempt_while_it_is_capped_and_for_a_victim_that_its_cap_did_not_help() -> None:
    failed = Offence("hog", "web", 0, False)
    spare = SETTINGS.spare_us

    def is_exempt(caps: Caps, uid: str = "hog", victim: str = "web", now_us: int = spare) -> bool:
        return exempt(caps, uid, victim, now_us, SETTINGS)

    assert not is_exempt(Caps())
    assert is_exempt(Caps((cap(victim="db"),)))
    assert not is_exempt(Caps((cap("other"),)))
    assert is_exempt(Caps((), (failed,)))
    assert not is_exempt(Caps((), (failed,)), now_us=spare + 1)
    assert not is_exempt(Caps((), (failed,)), victim="db")
    assert not is_exempt(Caps((), (failed,)), uid="other")
    assert not is_exempt(Caps((), (replace(failed, helped=True),)))


def test_a_cap_is_written_once_for_each_pod_and_is_lower_for_the_lowest_class() -> None:
    free = in_use("free", priority_class=PriorityClass.FREE)
    assert (cap_m(in_use("hog").pod, SETTINGS), cap_m(free.pod, SETTINGS)) == (100, 10)
    caps = Caps((cap(), cap(victim="db", reason=Reason("antagonist", "again")), cap("free"), cap("gone"), cap("bare")))
    written = knobs(caps, (in_use("web"), in_use("hog"), free, in_use("bare", group="")), SETTINGS)
    assert [(knob.target.group, knob.target.knob, knob.value, knob.reason) for knob in written] == [
        ("pods/hog", Knob.CPU_MAX, "10000 100000", WHY),
        ("pods/free", Knob.CPU_MAX, "1000 100000", WHY),
    ]


def test_a_repeat_offender_is_evicted() -> None:
    hour = SETTINGS.offence_window_us
    helped = tuple(Offence("hog", "web", i, True) for i in range(3))

    def victims(offences: tuple[Offence, ...], now_us: int = hour, **fields: Any) -> list[str]:
        pods = (in_use("web"), in_use("hog", **fields))
        return [eviction.uid for eviction in evictions(Caps((), offences), pods, now_us, SETTINGS)]

    assert victims(helped) == ["hog"]
    assert victims(helped, hour + 1) == []  # the first of them is too old
    assert victims(helped[:2]) == []
    assert victims((*helped[:2], replace(helped[2], helped=False))) == []
    assert victims((*helped[:2], replace(helped[2], uid="other"))) == []
    assert victims(helped, phase=NodePodPhase.TERMINATING) == []
    assert victims(helped, is_named=False) == []
    (eviction,) = evictions(Caps((), (*helped, helped[0])), (in_use("hog"),), hour, SETTINGS)
    assert eviction.reason.text == "ns/hog was capped 4 times in 60 min, and each cap helped its victim"
    assert eviction.reason.terms == (DecisionTerm("caps that helped", 4), DecisionTerm("limit", 3))
    assert (eviction.key, eviction.frees_cpu_m, eviction.frees_memory_bytes) == ("ns/hog", 700, 55)
