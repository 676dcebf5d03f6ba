from __future__ import annotations

from dataclasses import replace
from typing import Any

from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.knob import Knob, SetKnob
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import PPM, Alarm, GroupUse, HostUse, NodeState, PodUse
from cotenant.model.machine.run_queue import Blame
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.interference.antagonist import CauseHistory, decide, suspects
from cotenant.policy.interference.settings import InterferenceSettings, SuspectSignal, VictimSignal

SECOND = 1_000_000
HOST = HostUse(cpus=2, cpu_m=1000, memory_total_bytes=1, memory_used_bytes=1)
# a sample each second, three outliers make an anomaly, threshold 2
QUICK = InterferenceSettings(
    victim_signal=VictimSignal.CPI,
    suspect_signal=SuspectSignal.CPU,
    every_us=SECOND,
    sample_us=SECOND,
    window_us=20 * SECOND,
    outlier_window_us=5 * SECOND,
    threshold_ppm=2 * PPM,
    cap_us=10 * SECOND,
    spare_us=60 * SECOND,
)
DIRECT = replace(QUICK, suspect_signal=SuspectSignal.BLAME)


def pod(name: str, qos: QoSClass, **fields: Any) -> NodePod:
    return NodePod(name, "ns", name, f"pods/{name}", qos, **fields)


class Node:
    """A service, a busy guest and an idle one; each `second` gives a state and takes the verdict."""

    def __init__(self, settings: InterferenceSettings = QUICK, **fields: Any) -> None:
        self.settings = settings
        self.memory = CauseHistory()
        self.at = 0
        self.verdict = PolicyVerdict(())
        self.busy = pod("busy", QoSClass.BE, **fields)

    def second(self, cpi: int, guest_m: int = 900, blame: tuple[Blame, ...] | None = None, **use: Any) -> PolicyVerdict:
        self.at += SECOND
        pods = (
            PodUse(pod("web", QoSClass.LS), GroupUse("pods/web", **{"cpu_m": 500, "cpi_milli": cpi} | use)),
            PodUse(self.busy, GroupUse("pods/busy", cpu_m=guest_m, working_set_bytes=77)),
            PodUse(pod("idle", QoSClass.BE), GroupUse("pods/idle", cpu_m=10)),
        )
        state = NodeState(self.at, SECOND, HOST, pods, blame=blame)
        self.verdict, self.memory = decide(state, self.settings, self.memory)
        return self.verdict

    def seconds(self, count: int, *given: Any, **use: Any) -> PolicyVerdict:
        for _ in range(count):
            self.second(*given, **use)
        return self.verdict

    def caught(self) -> Node:
        """Quiet for a while, then the guest runs and the service suffers: capped by now."""
        self.seconds(5, 1000, 0)
        self.seconds(4, 6000, 900)
        assert self.verdict.knobs
        return self

    def told(self) -> str:
        return " / ".join(reason.text for reason in self.verdict.reasons)


def wishes(verdict: PolicyVerdict) -> dict[str, str]:
    assert all(isinstance(wish, SetKnob) and wish.target.knob is Knob.CPU_MAX for wish in verdict.knobs)
    return {wish.target.group: wish.value for wish in verdict.knobs}


def test_the_pod_that_runs_while_the_service_suffers_is_capped_to_a_tenth_of_a_cpu() -> None:
    node = Node().caught()
    assert wishes(node.verdict) == {"pods/busy": "10000 100000"}
    assert "first among 2 is ns/busy with a correlation of CPU use of 0.67" in node.told()
    terms = {term.name: term.value for term in node.verdict.knobs[0].reason.terms}
    assert terms["score"] == 666_667
    assert terms["cap"] == 100


def test_one_of_the_lowest_class_is_capped_to_a_hundredth() -> None:
    assert wishes(Node(priority_class=PriorityClass.FREE).caught().verdict) == {"pods/busy": "1000 100000"}


def test_two_outliers_are_not_enough() -> None:
    node = Node()
    node.seconds(5, 1000, 0)
    node.seconds(2, 6000, 900)
    node.second(1000)
    assert not node.verdict.knobs
    assert "outlier 2 of 3" in node.told()


def test_outliers_far_apart_are_not_an_anomaly() -> None:
    node = Node()
    for _ in range(6):
        node.second(6000)
        node.seconds(4, 1000)
        assert not node.verdict.knobs


def test_a_suspect_that_always_runs_is_below_the_minimum_score() -> None:
    node = Node()
    node.seconds(15, 1000)
    node.seconds(4, 6000)
    assert not node.verdict.knobs
    assert "no pod is capped" in node.told()


def test_a_service_throttled_by_its_own_quota_blames_no_pod() -> None:
    node = Node()
    node.seconds(5, 1000, 0)
    node.seconds(10, 9000, 900, throttled_ppm=500_000)
    assert not node.verdict.knobs
    assert "its own quota in 50% of its periods" in node.told()


def test_a_service_that_hardly_runs_gives_no_sample() -> None:
    node = Node()
    node.seconds(5, 1000, 0)
    node.seconds(10, 9000, 900, cpu_m=200)
    assert not node.verdict.knobs
    assert "too little for a sample" in node.told()


def test_without_a_threshold_nothing_is_judged_before_the_usual_is_known() -> None:
    node = Node(replace(QUICK, threshold_ppm=None))
    node.seconds(50, 6000)
    assert "usual values of ns/web are not known yet" in node.told()
    node.seconds(60, 6000)
    assert "as usual" in node.told()


def test_a_cap_ends_in_time_and_its_effect_is_reported() -> None:
    node = Node().caught()
    node.seconds(9, 1000, 90)
    assert node.verdict.knobs
    node.second(1000, 90)
    assert not node.verdict.knobs
    assert "ns/busy is released after 10 s: ns/web went to 1.00 from 6.00, the cap helped" in node.told()


def test_one_whose_cap_did_not_help_is_spared_for_a_while() -> None:
    node = Node().caught()
    node.seconds(10, 6000, 90)
    assert "did not help" in node.told()
    for _ in range(40):
        assert "pods/busy" not in wishes(node.second(6000, 900))


def test_a_pod_capped_three_times_is_evicted() -> None:
    node = Node()
    for _ in range(3):
        assert not node.verdict.evictions
        node.caught()
        node.seconds(12, 1000, 0)
    assert [wish.uid for wish in node.verdict.evictions] == ["busy"]
    assert node.verdict.evictions[0].frees_memory_bytes == 77
    assert "capped 3 times" in node.verdict.evictions[0].reason.text


def test_a_capped_pod_that_left_is_forgotten() -> None:
    node = Node().caught()
    node.at += SECOND
    gone = NodeState(node.at, SECOND, HOST, ())
    verdict, memory = decide(gone, node.settings, node.memory)
    assert not verdict.knobs
    assert "left the node" in verdict.reasons[0].text
    assert memory.caps.active == ()


def test_places_can_be_asked_for_without_an_anomaly() -> None:
    node = Node()
    web = PodUse(pod("web", QoSClass.LS), GroupUse("pods/web"))
    assert suspects(web, node.settings, node.memory) == ()
    node.seconds(5, 1000, 0)
    node.second(6000, 900)
    node.second(1000, 0)
    assert not node.verdict.knobs
    assert [place.uid for place in suspects(web, node.settings, node.memory)] == ["busy", "idle"]
    assert suspects(web, replace(QUICK, threshold_ppm=None), node.memory) == ()


def test_the_pod_that_ran_during_the_wait_is_capped_by_direct_blame() -> None:
    node = Node(DIRECT)
    node.seconds(4, 6000, 10, blame=(Blame("pods/web/c", "pods/busy/c", 600), Blame("pods/web", "system", 400)))
    assert wishes(node.verdict) == {"pods/busy": "10000 100000"}
    assert "share of the waiting of 0.60" in node.told()


def test_waiting_for_its_own_tasks_blames_no_pod() -> None:
    node = Node(DIRECT)
    node.seconds(9, 6000, 900, blame=(Blame("pods/web", "pods/web", 100_000),))
    assert not node.verdict.knobs
    assert "there are no suspects" in node.told()


def test_where_the_system_is_to_blame_no_pod_pays_for_it() -> None:
    node = Node(DIRECT)
    node.seconds(9, 6000, 900, blame=(Blame("pods/web", "system", 900), Blame("pods/web", "pods/busy", 100)))
    assert not node.verdict.knobs
    assert "0.10, below 0.35" in node.told()


def test_where_another_service_is_to_blame_no_pod_is_capped() -> None:
    node = Node(DIRECT)
    node.busy = pod("busy", QoSClass.LS)
    node.seconds(9, 6000, 900, blame=(Blame("pods/web", "pods/busy", 900),))
    assert not node.verdict.knobs
    assert "itself a service" in node.told()


def test_a_state_shown_again_for_an_alarm_is_not_counted_twice() -> None:
    node = Node()
    node.seconds(5, 1000, 0)
    node.seconds(2, 6000, 900)
    state = NodeState(node.at + 1, SECOND, HOST, (), alarms=(Alarm(node.at + 1, "pods/web", "cpu"),))
    for _ in range(5):
        _, node.memory = decide(state, node.settings, node.memory)
    node.second(1000)
    assert "outlier 2 of 3" in node.told()


def test_the_first_state_has_no_rates_and_is_passed_over() -> None:
    verdict, memory = decide(NodeState(1, 0, HOST), QUICK, CauseHistory())
    assert memory == CauseHistory()
    assert verdict.reasons[0].text == "no sample is complete yet"
