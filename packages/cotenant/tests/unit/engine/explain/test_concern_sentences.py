"""What is said of a pod's quota, gang, reservations and holdings, and which of them hold it back; the plugins' accounts
are given.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cotenant.engine.explain.concerns import (
    concerns,
    gang_concern,
    quota_concern,
    quota_room,
    resized_beside_its_cpus,
)
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.plugins.gangs.gang_view import GangView, MemberView
from cotenant.engine.plugins.quotas.status import QuotaDescription, QuotaShare
from cotenant.engine.plugins.reservations.instructions import ReservationView
from cotenant.model.cluster.demands import NO_HOLDINGS, Holdings
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cpus.spec import ResourceStatus
from cotenant.model.decisions.answers import Concern
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import DeviceType
from cotenant.model.groups.gang import GangMode, GangPhase, GangSpec
from cotenant.model.groups.reservation import ReservationPhase
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.resources import Amounts
from cotenant.policy.quota.nodes import RuntimeTerms

NOW_S = 100.0
GIB = 1 << 30


def share(resource: str, used: int, runtime: int) -> QuotaShare:
    terms = RuntimeTerms(resource, 0, 0, 0, 0, used, 0, 0, 0, 0, None, 1, 0, 0, runtime)
    told = Reason("quota", f"runtime of {resource}", (DecisionTerm("weight", 1), DecisionTerm("used", used, "unit")))
    return QuotaShare(terms, told)


def quota(name: str = "q", **more: Any) -> QuotaDescription:
    return QuotaDescription(name, f"ns/{name}", True, **more)


class Plugins:
    """The accounts of plugins that a question reads."""

    def __init__(
        self, *quotas: QuotaDescription, because: str = "", kept_for: bool = False, returned: str = ""
    ) -> None:
        known = {one.name: one for one in quotas}
        self.quotas = SimpleNamespace(
            quota_of=lambda uid: (quotas[0].name if quotas else "", because),
            describe=known.get,
            is_kept_for=lambda uid: kept_for,
            returned_for=lambda uid, now_s: returned,
        )
        self.gang: GangView | None = None
        self.gangs = SimpleNamespace(
            key_of=lambda uid: self.gang.key if self.gang else "",
            describe=lambda key: self.gang if self.gang and self.gang.key == key else None,
        )
        self.held: dict[str, ReservationView] = {}
        self.reservations = SimpleNamespace(
            names=lambda: tuple(self.held), describe=self.held.get, about=lambda uid: ("because of it",)
        )
        self.neighbours = SimpleNamespace(describe=lambda entry: None)
        self.extended: tuple[str, bool] = ("", False)
        self.extenders = SimpleNamespace(standing=lambda uid: self.extended)
        self.load_aware = SimpleNamespace(is_on=False)


def entry(state: SchedulingState = SchedulingState.QUEUED, given: Holdings = NO_HOLDINGS, **seen: Any) -> PodInfo:
    pod = Pod("p", namespace="ns", requests=Amounts.of({"cpu": 2000, "memory": GIB}))
    return PodInfo(ObservedPod(pod, "u", "s", 0.0, **seen), state=state, holds=given, node="n")


def found(plugins: Plugins, info: PodInfo | None = None) -> tuple[Concern, ...]:
    info = info or entry()
    return concerns(cast(Any, plugins), info, info.seen.pod, NOW_S)


# ---- quotas


@pytest.mark.parametrize(
    ("used", "runtime", "holds", "words"),
    [
        (8000, 10000, False, "10 cpu at most; 3 of its pods run, 2 wait"),  # fits to the last
        (8001, 10000, True, "it would be over by 1m cpu; 3 of its pods run, 2 wait"),
        (0, 500, True, "it would be over by 1500m cpu; 3 of its pods run, 2 wait"),
    ],
)
@pytest.mark.parametrize("in_tree", [True, False])
def test_a_quota_holds_a_pod_that_would_be_over_it(
    used: int, runtime: int, holds: bool, words: str, in_tree: bool
) -> None:
    """In a tree by the runtime, outside by the maximum alone."""
    state = quota(seated=3, waiting=2, used=(("cpu", used),), maximum=(("cpu", runtime),))
    if in_tree:
        shares = (share("cpu", used, runtime), share("nvidia.com/gpu", 9, 1))  # the pod requests no GPU
        state = replace(state, maximum=(("cpu", 10000),), shares=shares)
    (one,) = found(Plugins(state))
    assert (one.kind, one.name, one.holds, one.words) == ("quota", "q", holds, words)
    (placed,) = found(Plugins(state), entry(SchedulingState.BOUND))
    assert not placed.holds
    assert "over" not in placed.words


def test_what_becomes_free_may_be_kept_for_another() -> None:
    state = quota(kept_for="gang big", maximum=(("cpu", 9000),))
    (one,) = found(Plugins(state))
    words = "what becomes free is kept for gang big, which is more important; 0 of its pods run, 0 wait"
    assert (one.holds, one.words) == (True, words)
    assert one.lines == ("what becomes free is kept for gang big",)
    assert not found(Plugins(state, kept_for=True))[0].holds  # it is this pod that it is kept for
    assert not found(Plugins(state), entry(SchedulingState.WAITING))[0].holds


def test_what_counts_for_other_shards_is_said() -> None:
    state = quota(maximum=(("cpu", 9000),), lent=(("cpu", 2000),))
    words = "9 cpu at most; 0 of its pods run, 0 wait; 2 cpu count for other shards, which may use them"
    assert found(Plugins(state))[0].words == words


def test_a_quota_says_why_the_pod_is_in_it_what_came_back_and_its_terms() -> None:
    state = quota(parent="root", children=("a", "b"), problems=("odd",), shares=(share("cpu", 1000, 9000),))
    plugins = Plugins(state, because="of its label", returned="2 cpu came back")
    lines = (
        "2 cpu came back",
        "the pod belongs to it because of its label",
        "odd",
        "parent root, children a, b",
        "runtime of cpu",
        "    weight 1, used 1",
    )
    assert found(plugins)[0].lines == lines
    assert found(plugins, entry(SchedulingState.BOUND))[0].lines == lines[1:]
    plain = quota_concern(cast(Any, plugins), "q")
    assert plain is not None
    assert (plain.holds, plain.lines, plain.words) == (
        False,
        lines[2:],
        "it has no maximum; 0 of its pods run, 0 wait",
    )
    assert quota_concern(cast(Any, plugins), "other") is None
    childless = quota_concern(cast(Any, Plugins(replace(state, children=()))), "q")
    assert childless is not None
    assert "parent root" in childless.lines


def test_a_quota_that_is_not_used_says_why_and_holds_nobody() -> None:
    (one,) = found(
        Plugins(replace(quota(problems=("its parent is gone",), shares=(share("cpu", 9, 1),)), is_used=False))
    )
    assert (one.holds, one.words) == (False, "it is not used: its parent is gone")
    assert found(Plugins()) == ()


def test_room_is_the_least_that_the_quota_and_its_parents_leave_for_each() -> None:
    own = quota("own", parent="mid", shares=(share("cpu", 1000, 10000), share("memory", 0, 9)))
    mid = quota("mid", parent="top", used=(("cpu", 5000),), maximum=(("cpu", 12000), ("gpu", 3)))
    top = quota("top", parent="own", shares=(share("memory", 20, 8),))  # a circle ends
    assert dict(quota_room(cast(Any, Plugins(own, mid, top)), entry(), 2)) == {"cpu": 3500, "memory": 0, "gpu": 1}
    assert dict(quota_room(cast(Any, Plugins(own)), entry(), 1)) == {"cpu": 9000, "memory": 9}  # a parent is not known
    assert dict(quota_room(cast(Any, Plugins()), entry(), 1)) == {}


# ---- gangs


def member(name: str, state: str = "queued", node: str = "") -> MemberView:
    return MemberView(name, name, state, node)


def gang(**more: Any) -> GangView:
    given: dict[str, Any] = {
        "key": "ns/g",
        "spec": GangSpec("ns/g", 4, 5),
        "problems": (),
        "phase": GangPhase.SCHEDULING,
        "members": (),
        "judged_with": ("ns/g",),
        "needs": ("ns/g",),
        "satisfied": False,
        "placed": 1,
        "holding": 2,
        "waiting": 3,
        "why": "gang ns/g: two nodes are missing",
        "holds_until_s": inf,
        **more,
    }
    return GangView(**given)


COUNTED = "1 placed, 2 hold a node and wait, 3 have none; at least 4, Strict"


def of_gang(view: GangView, state: SchedulingState = SchedulingState.QUEUED) -> Concern:
    plugins = Plugins()
    plugins.gang = view
    (one,) = found(plugins, entry(state))
    assert (one.kind, one.name) == ("gang", "ns/g")
    return one


@pytest.mark.parametrize(
    ("state", "why", "holds"),
    [
        (SchedulingState.QUEUED, "gang ns/g: two nodes are missing", True),
        (SchedulingState.WAITING, "gang ns/g: two nodes are missing", True),
        (SchedulingState.BOUND, "gang ns/g: two nodes are missing", False),
        (SchedulingState.QUEUED, "", False),
        (SchedulingState.WAITING, "", False),
    ],
)
def test_a_gang_holds_members_that_are_not_bound_while_it_waits(state: SchedulingState, why: str, holds: bool) -> None:
    one = of_gang(gang(why=why), state)
    assert one.holds is holds
    assert one.words == ("two nodes are missing" if why else "1 of at least 4 members are placed")
    assert one.lines == (COUNTED,)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"problems": ("minMember is 0",)}, "minMember is 0"),
        ({"needs": ("ns/g", "ns/a", "ns/b")}, "it needs ns/a, ns/b too"),
        ({"holds_until_s": 130.0}, "members that hold a node release it in 30 s"),
        ({"holds_until_s": 90.0}, "members that hold a node release it in 0 s"),
        ({"stands_back_for": "ns/a"}, "it waits until gang ns/a has been tried"),
        (
            {"backs_off_until_s": 107.0},
            "it released its nodes incomplete, and takes nodes only all together for 7 s",
        ),
        (
            {"members": tuple(member(f"m{n}") for n in range(10))},
            "without a node: m0, m1, m2, m3, m4, m5, m6, m7 and 2 more",
        ),
        ({"members": tuple(member(f"m{n}") for n in range(8))}, "without a node: m0, m1, m2, m3, m4, m5, m6, m7"),
        (
            {"members": (member("a", node="n"), member("b", "succeeded"), member("c", "failed"), member("d"))},
            "without a node: d",
        ),
    ],
)
def test_what_else_is_to_be_known_of_a_gang(more: dict[str, Any], line: str) -> None:
    lines = of_gang(gang(**more)).lines
    assert set(lines) == {COUNTED, line}


@pytest.mark.parametrize(
    "more",
    [
        {"holding": 0, "holds_until_s": 130.0},
        {"backs_off_until_s": 100.0},
        {"members": (member("a", node="n"),)},
    ],
)
def test_what_is_over_or_concerns_nobody_is_not_said(more: dict[str, Any]) -> None:
    assert len(of_gang(gang(**more)).lines) == 1


def test_a_gang_that_no_object_describes_and_one_by_its_name() -> None:
    one = of_gang(gang(spec=None, why=""))
    assert (one.words, one.lines) == ("1 of at least 0 members are placed", ())
    plugins = Plugins()
    plugins.gang = gang(spec=GangSpec("ns/g", 4, 5, GangMode.NON_STRICT))
    named = gang_concern(cast(Any, plugins), "ns/g", NOW_S)
    assert named is not None
    assert (named.holds, named.lines) == (True, (COUNTED.replace("Strict", "NonStrict"),))
    plugins.gang = gang(why="")
    idle = gang_concern(cast(Any, plugins), "ns/g", NOW_S)
    assert idle is not None
    assert not idle.holds
    assert gang_concern(cast(Any, plugins), "ns/other", NOW_S) is None


# ---- reservations, holdings and the rest


def reservation(**more: Any) -> ReservationView:
    given: dict[str, Any] = {
        "name": "r",
        "uid": "ur",
        "phase": ReservationPhase.AVAILABLE,
        "node": "n",
        "allocate_once": False,
        "policy": "",
        "reserved": Amounts.of({"cpu": 4000}),
        "left": Amounts.of({"cpu": 1000}),
        "holds": NO_HOLDINGS,
        "owners": (),
        "waiting": (),
        "ends_s": inf,
        "why": "",
        **more,
    }
    return ReservationView(**given)


GPU = DeviceAllocation(DeviceType.GPU, 1, Amounts.of({"koordinator.sh/gpu-core": 50}))


@pytest.mark.parametrize(
    ("more", "words", "lines"),
    [
        ({"owners": ("ns/p",)}, "the pod uses it on n: cpu 1 of cpu 4 is left; Available", ()),
        ({"waiting": ("ns/p",)}, "the pod may use it on n: cpu 1 of cpu 4 is left; Available", ("because of it",)),
        (
            {"owners": ("ns/p",), "node": "", "ends_s": 160.0, "why": "no room", "phase": ReservationPhase.PENDING},
            "the pod uses it: cpu 1 of cpu 4 is left; Pending, ends in 60 s",
            ("no room",),
        ),
        (
            {"owners": ("ns/p",), "ends_s": 40.0, "holds": Holdings(ResourceStatus((2, 3, 5)), (GPU,))},
            "the pod uses it on n: cpu 1 of cpu 4 is left; Available, ends in 0 s",
            (f"kept: CPUs 2-3,5; gpu 1: {GPU.amounts}",),
        ),
    ],
)
def test_a_reservation_that_the_pod_uses_or_may_use(more: dict[str, Any], words: str, lines: tuple[str, ...]) -> None:
    plugins = Plugins()
    plugins.held |= {"other": reservation(name="other", owners=("ns/q",)), "r": reservation(**more)}
    (one,) = found(plugins)
    assert (one.kind, one.name, one.holds, one.words, one.lines) == ("reservation", "r", False, words, lines)


def test_what_a_pod_holds_is_told_as_it_was_seen_and_else_as_it_was_given() -> None:
    given, seen = Holdings(ResourceStatus((0, 1))), Holdings(ResourceStatus((4,)), (GPU,))
    assert [(one.kind, one.words) for one in found(Plugins(), entry(given=given))] == [("cpus", "exclusive CPUs 0-1")]
    assert [(one.kind, one.name, one.words) for one in found(Plugins(), entry(given=given, holds=seen))] == [
        ("cpus", "n", "exclusive CPUs 4"),
        ("devices", "n", f"gpu 1: {GPU.amounts}"),
    ]
    assert found(Plugins(), entry(given=Holdings(ResourceStatus(())))) == ()


def test_a_label_that_was_changed_after_the_bind_says_what_counts() -> None:
    info = entry(relabelled=("class", "quota"), settled=(("class", "LS"),))
    assert [(one.kind, one.name, one.words) for one in found(Plugins(), info)] == [
        ("changed", "class", "without effect since the pod was bound: LS counts"),
        ("changed", "quota", "without effect since the pod was bound: it has none counts"),
    ]


def test_what_holds_the_pod_comes_first() -> None:
    plugins = Plugins(quota(maximum=(("cpu", 9000),)))
    plugins.gang = gang()
    plugins.extended = ("scheduler x has not answered", True)
    assert [one.kind for one in found(plugins)] == ["gang", "extender", "quota"]


@pytest.mark.parametrize(
    ("asked_m", "cpus", "said"),
    [
        (2000, (2, 3), ""),
        (3000, (2, 3), "it asks for 3 CPUs and keeps the 2 of its own (2-3)"),
        (2500, (2, 3), "it asks for 2500m CPUs and keeps the 2 of its own (2-3)"),
        (3000, (), ""),  # it shares CPUs
    ],
)
def test_a_pod_that_asks_for_another_number_of_cpus_than_it_holds_is_told_so(
    asked_m: int, cpus: tuple[int, ...], said: str
) -> None:
    pod = Pod("p", requests=Amounts.of({"cpu": asked_m}))
    found = resized_beside_its_cpus(pod, Holdings(ResourceStatus(cpus)))
    assert found.partition(": ")[0] == said
    assert resized_beside_its_cpus(pod, NO_HOLDINGS) == ""
