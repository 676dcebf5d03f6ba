"""The judgement: founding to the letter, other profiles by their own kernels."""

import numpy as np
import pytest
from tests.fakes.servers.extender_forms import GIB, NOW, report

from cotenant.engine.encoding.shape_params import PRIORITY_BASE
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.services.extender.founding_judge import FEW, FoundingJudge
from cotenant.services.extender.judge import NodeRoom, PodDemand, cores, demand_of, size
from cotenant.services.extender.mirror import UNKNOWN, Mirror
from cotenant.services.extender.profile_judge import ProfileJudge


def ask(
    cpu_milli: int = 1000, memory: int = GIB, priority_class: PriorityClass = PriorityClass.NONE, **more: float
) -> PodDemand:
    requests = Amounts.of({"cpu": cpu_milli, "memory": memory, **{key: int(value) for key, value in more.items()}})
    return demand_of(Pod("p", requests=requests, priority_class=priority_class))


def node(name: str, cpu_milli: int = 8000) -> Node:
    return Node(name, Amounts.of({"cpu": cpu_milli, "memory": 32 * GIB}))


def rows(mirror: Mirror, *names: str) -> np.ndarray:
    return np.array([mirror.rows.get(name, UNKNOWN) for name in names])


def by_hand(base: float, cpu: float, memory: float, fairness: float, p99: float, dominant: float, missed: float) -> int:
    """The founding document's formula, as it is written there."""
    score = base + ((1 - cpu) + (1 - memory)) / 2 * 40 + fairness * 15
    score += (1 - min(1.0, p99 / 120)) * 20 - dominant * 15 - missed * 20
    return int(min(100.0, max(0.0, score)))


@pytest.mark.parametrize("priority_class", list(PriorityClass))
@pytest.mark.parametrize(
    ("cpu", "memory", "fairness", "p99", "dominant", "missed"),
    [
        (0.0, 0.0, 1.0, 0.0, 0.0, 0.0),
        (0.25, 0.5, 0.8, 60.0, 0.5, 0.1),
        (1.0, 1.0, 0.1, 500.0, 1.0, 1.0),
        (0.3, 0.1, 0.97, 41.5, 0.3, 0.02),
    ],
)
def test_founding_score_to_the_letter(
    priority_class: PriorityClass,
    cpu: float,
    memory: float,
    fairness: float,
    p99: float,
    dominant: float,
    missed: float,
) -> None:
    mirror = Mirror()
    mirror.report_received(
        report(
            "a",
            8 * cpu,
            32 * GIB * memory,
            latency_p99_ms=p99,
            violation=missed,
            dominant_share=dominant,
            fairness=fairness,
        )
    )
    scores = FoundingJudge(mirror).scores(ask(priority_class=priority_class), rows(mirror, "a"), NOW)
    assert scores.tolist() == [by_hand(PRIORITY_BASE[priority_class], cpu, memory, fairness, p99, dominant, missed)]


def test_silence_counts_as_half_full_and_residents_as_they_are() -> None:
    mirror = Mirror()
    mirror.node_seen(node("empty"))
    mirror.node_seen(node("half"))
    mirror.pod_seen("u", "half", ask(4000, 16 * GIB).shape)
    judge = FoundingJudge(mirror)
    here = rows(mirror, "empty", "half", "nobody-knows")
    neutral = by_hand(0, 0.5, 0.5, 1.0, 0.0, 0.5, 0.0)
    assert judge.scores(ask(), here, NOW).tolist() == [neutral] * 3
    mirror.sync()
    here = rows(mirror, "empty", "half", "nobody-knows")
    assert judge.scores(ask(), here, NOW).tolist() == [by_hand(0, 0, 0, 1, 0, 0, 0), neutral, neutral]


def test_a_report_goes_stale_without_a_new_one() -> None:
    mirror = Mirror()
    mirror.report_received(report("a", cpu_used=8.0, memory_used=32 * GIB, at_s=NOW))
    judge, here = FoundingJudge(mirror), rows(mirror, "a")
    fresh, stale = judge.scores(ask(), here, NOW + 120)[0], judge.scores(ask(), here, NOW + 121)[0]
    assert fresh < stale == by_hand(0, 0.5, 0.5, 1.0, 0.0, 0.5, 0.0)
    assert not judge.passing(ask(), here, NOW + 120)[0]
    assert judge.passing(ask(), here, NOW + 121)[0]


def test_the_fallback_is_allocatable_minus_requested_where_residents_are_known() -> None:
    mirror = Mirror()
    mirror.node_seen(node("a"))
    mirror.pod_seen("u", "a", ask(7000).shape)
    mirror.sync()
    judge, here = FoundingJudge(mirror), rows(mirror, "a")
    assert judge.passing(ask(1000), here, NOW).all()
    assert not judge.passing(ask(1001), here, NOW).any()
    assert judge.reasons(ask(1001), here, NOW) == [
        "cpu: pod asks 1.001, node has 1 of 8 cores not requested (no fresh report)"
    ]
    assert not judge.unresolvable(ask(8000), here, NOW).any()
    assert judge.unresolvable(ask(8001), here, NOW).all()


def test_founding_ledger_takes_capacity_from_requests() -> None:
    mirror = Mirror()
    mirror.node_seen(node("a"))
    mirror.report_received(report("a", cpu_used=8.0, memory_used=32 * GIB, dominant_share=1.0, latency_p99_ms=60.0))
    mirror.sync()
    here = rows(mirror, "a")
    assert FoundingJudge(mirror).scores(ask(), here, NOW)[0] == by_hand(0, 1, 1, 1, 60, 1, 0)
    mirror.changed.add(int(here[0]))
    assert FoundingJudge(mirror, from_ledger=True).scores(ask(), here, NOW)[0] == by_hand(0, 0, 0, 1, 60, 0, 0)


@pytest.mark.parametrize("name", ["best-fit", "least-allocated", "cotenant", "kube-default"])
def test_other_profiles_rank_by_residents(name: str) -> None:
    mirror = Mirror()
    for entry, milli in (("full", 8000), ("half", 4000), ("empty", 0)):
        mirror.node_seen(node(entry))
        if milli:
            mirror.pod_seen(f"on-{entry}", entry, ask(milli, milli * 4 * GIB // 1000).shape)
    mirror.sync()
    judge = ProfileJudge(mirror, profile(name))
    here = rows(mirror, "full", "half", "empty", "nobody-knows")
    assert judge.passing(ask(), here, NOW).tolist() == [False, True, True, True]
    (reason,) = judge.reasons(ask(), here[:1], NOW)
    assert f"(profile {name})" in reason
    assert judge.unresolvable(ask(9000), here, NOW).tolist() == [True, True, True, False]
    scores = judge.scores(ask(), here, NOW)
    assert scores.min() >= 0
    assert scores.max() <= 100
    assert {0, 100} <= set(scores[:3].tolist())  # stretched over the nodes that are known
    assert scores[3] == 50
    if name == "best-fit":
        assert scores[1] > scores[2]
    if name in ("least-allocated", "kube-default"):
        assert scores[2] > scores[1]


def test_other_profiles_refuse_what_their_fit_refuses() -> None:
    mirror = Mirror()
    mirror.node_seen(node("a"))
    mirror.pod_seen("u", "a", ask(7000).shape)
    mirror.sync()
    judge, here = ProfileJudge(mirror, profile("best-fit")), rows(mirror, "a")
    assert judge.reasons(ask(2000), here, NOW) == ["cpu: pod asks 2, at most 1 cores not requested (profile best-fit)"]
    assert judge.reasons(ask(1000, 40 * GIB), here, NOW) == [
        "memory: pod asks 40Gi, at most 31Gi not requested (profile best-fit)"
    ]
    assert judge.unresolvable(ask(1000, 33 * GIB), here, NOW).all()
    assert not judge.unresolvable(ask(8000, 32 * GIB), here, NOW).any()


def test_nodes_that_are_alike_are_all_in_the_middle_and_room_is_what_nobody_requests() -> None:
    mirror = Mirror()
    for name in ("a", "b"):
        mirror.node_seen(node(name))
        mirror.pod_seen(f"on-{name}", name, ask(3000, 8 * GIB).shape)
    mirror.sync()
    judge, here = ProfileJudge(mirror, profile("least-allocated")), rows(mirror, "a", "b", "nobody-knows")
    assert judge.scores(ask(), here, NOW).tolist() == [50, 50, 50]
    room = judge.room(int(here[0]), NOW)
    assert (room.cpu_free, room.memory_free) == (5000, 24 * GIB)
    assert (room.cpu_whole, room.memory_whole) == (8000, 32 * GIB)
    assert judge.room(int(here[2]), NOW) == NodeRoom()


def test_of_many_nodes_those_that_lack_the_same_have_one_text_with_the_least_and_the_most() -> None:
    """Of each nine there are the same: cores are short, memory is, or both, with and without a fresh report."""
    mirror, names = Mirror(), []
    for at in range(18):
        name, lacks = f"n{at:04}", at % 3
        names.append(name)
        mirror.node_seen(node(name))
        used = (6000 + at % 2 * 500) if lacks != 1 else 0
        mirror.pod_seen(f"on-{name}", name, ask(used, 31 * GIB if lacks else GIB).shape)
        if at % 9 >= 6:
            mirror.report_received(report(name, used / 1000, 31 * GIB if lacks else GIB, at_s=NOW))
    mirror.sync()
    judge, wanted = FoundingJudge(mirror), ask(4000, 4 * GIB)
    assert not judge.passing(wanted, rows(mirror, *names), NOW).any()
    said = judge.reasons(wanted, rows(mirror, *names), NOW)
    one_by_one = judge.reasons(wanted, rows(mirror, *names[:FEW]), NOW)
    assert one_by_one[0] == "cpu: pod asks 4, node has 2 of 8 cores not requested (no fresh report)"
    assert [("cpu" in text, "memory" in text) for text in one_by_one] == [
        (at % 3 != 1, at % 3 > 0) for at in range(FEW)
    ]
    cpu = "cpu: pod asks 4, nodes have {} cores {}"
    memory = "memory: pod asks 4Gi, nodes have 1Gi {}"
    silent = "not requested"
    assert [text.partition(" (")[0] for text in said[:3]] == [
        cpu.format("1.5 to 2", silent),
        memory.format(silent),
        f"{cpu.format('1.5 to 2', silent)}; {memory.format(silent)}",
    ]
    assert len(set(said)) == 6
    assert {text.endswith("(no fresh report)") for text in said[:6]} == {True}
    assert not any("no fresh report" in text for text in said[6:9])
    assert said[6:9] == said[15:18]


def test_figures_for_people_are_never_rounded_up() -> None:
    assert [cores(milli) for milli in (0, -5, 400, 1999.9999, 2000, 12345)] == ["0", "0", "0.4", "1.999", "2", "12.345"]
    assert [size(count) for count in (0, 1023, 1024, 1536, 4 * GIB - 1, 4 * GIB)] == [
        "0",
        "1023",
        "1Ki",
        "1.5Ki",
        "3.9Gi",
        "4Gi",
    ]
