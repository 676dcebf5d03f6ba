"""Pods with lent requests fit by predicted use beside their requests, event by event."""

from __future__ import annotations

from dataclasses import replace
from math import nan

import numpy as np
import pytest
from tests.fakes.cluster.reservation_world import OWNERS, WEB
from tests.fakes.cluster.reservation_world import World as ReservationWorld

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction, Preempt, Unschedulable
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.use.rules import PredictedUse
from cotenant.model.cluster.annotations import LENT_TERMS, RAW_ALLOCATABLE
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.gang import GangNotes
from cotenant.model.groups.reservation import Reservation
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, ReportedHistory, Use, UseSpread
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, MID_CPU, Amounts
from cotenant.policy.overcommit.predicted_use import PredictedUseSettings
from cotenant.policy.placement.profiles import profile

GI = 1 << 30


def cluster(*nodes: Node, on: bool = True) -> Cluster:
    rule = PredictedUse(PredictedUseSettings() if on else None)
    made = Cluster(profile("cotenant-requests"), np.random.default_rng(1), plugins=PluginRegistry(predicted_use=rule))
    for node in nodes:
        made.node_seen(node)
    return made


def node(name: str, cpu: int = 10_000, batch: int = 9000, **annotations: str) -> Node:
    size = {"cpu": cpu, "memory": 100 * GI, BATCH_CPU: batch, MID_CPU: batch, BATCH_MEMORY: 10 * GI * bool(batch)}
    notes = {{"raw": RAW_ALLOCATABLE, "terms": LENT_TERMS}[key]: text for key, text in annotations.items()}
    return Node(name, Amounts.of({key: value for key, value in size.items() if value}), annotations=Labels.of(notes))


def pod(name: str, on: str = "", uid: str = "", priority: int = 0, gang: str = "", **requests: int) -> ObservedPod:
    names = {"cpu": "cpu", "batch": BATCH_CPU, "mid": MID_CPU, "memory": "memory"}
    amounts = Amounts.of({names[key]: amount for key, amount in requests.items()})
    its = PriorityClass.PROD if "cpu" in requests else PriorityClass.BATCH
    value = Pod(name, requests=amounts, priority_class=its, priority=priority)
    demands = Demands(gang=GangNotes(name=gang, min_available=2)) if gang else Demands()
    started_s = -1000.0 if on else nan
    return ObservedPod(value, uid or f"uid-{name}", "cotenant", 0.0, node=on, started_s=started_s, demands=demands)


def metric(name: str, age_s: float = 0.0, system: int = 0, **pods: int) -> NodeMetric:
    measured = {f"default/{key}": MeasuredPod(Use(use, GI)) for key, use in pods.items()}
    return NodeMetric(name, age_s, 60, Use(sum(pods.values()), GI), pods=measured, system=Use(system, 0))


def see(c: Cluster, *pods: ObservedPod, now_s: float = 0.0) -> tuple[Instruction, ...]:
    for pod in pods:
        c.pod_seen(pod, now_s)
    return carried_out(c, now_s)


def carried_out(c: Cluster, now_s: float) -> tuple[Instruction, ...]:
    found = c.decide(now_s)
    for instruction in found:
        if isinstance(instruction, Bind) and c.sending(instruction.uid, now_s):
            c.bound(instruction.uid, now_s)
    c.validate()
    return found


def binds(found: tuple[Instruction, ...]) -> dict[str, str]:
    return {
        instruction.key.partition("/")[2]: instruction.node for instruction in found if isinstance(instruction, Bind)
    }


def reasons(found: tuple[Instruction, ...]) -> dict[str, str]:
    return {
        instruction.key.partition("/")[2]: instruction.message
        for instruction in found
        if isinstance(instruction, Unschedulable)
    }


def measure(c: Cluster, node_metric: NodeMetric, now_s: float) -> tuple[Instruction, ...]:
    c.plugins.predicted_use.metric_seen(node_metric, now_s)
    return carried_out(c, now_s)


def predicted(c: Cluster, name: str) -> int:
    view = c.plugins.predicted_use.describe(name)
    assert view is not None
    return view.predicted.cpu_m


def test_without_history_pods_count_by_their_requests() -> None:
    c = cluster(node("a"))
    found = see(c, pod("web", on="a", cpu=6000), pod("b0", batch=3000), pod("b1", batch=2000))
    assert binds(found) == {"b0": "a"}
    (message,) = reasons(found).values()
    assert "1 node(s) had insufficient cpu by predicted use" in message
    assert (
        "node a: 9 of 10 cpu predicted for 2 pods, by requests, since the node was never measured; this pod adds 2"
        in message
    )


def test_services_fit_by_requests_alone() -> None:
    c = cluster(node("a"))
    see(c, pod("b", on="a", batch=9000))
    for i in range(30):
        measure(c, metric("a", b=9500), 60.0 * i)
    assert binds(see(c, pod("web", cpu=9000), now_s=1800.0)) == {"web": "a"}


def test_measured_services_make_room() -> None:
    c = cluster(node("a"))
    see(c, pod("web", on="a", cpu=9000), pod("b", batch=4000))
    placed = {}
    for i in range(20):
        placed |= binds(measure(c, metric("a", web=1000), 60.0 * i))
    assert placed == {"b": "a"}


def test_lent_pods_that_use_more_than_they_request_close_the_node() -> None:
    c = cluster(node("a"), node("b"))
    see(c, pod("hungry", on="a", batch=1000))
    measure(c, metric("a", hungry=9500), 1.0)
    assert predicted(c, "a") == 9500
    assert binds(see(c, pod("x", batch=1000), now_s=2.0)) == {"x": "b"}


def test_requests_of_lent_resources_are_a_hard_limit() -> None:
    c = cluster(node("a", batch=2000))
    found = see(c, pod("x", batch=3000))
    assert "Insufficient kubernetes.io/batch-cpu" in reasons(found)["x"]


def test_a_stale_measurement_counts_by_requests_and_says_so() -> None:
    c = cluster(node("a"))
    see(c, pod("web", on="a", cpu=9000))
    for i in range(20):
        measure(c, metric("a", web=1000), 60.0 * i)
    assert predicted(c, "a") < 3000
    found = see(c, pod("x", batch=4000), now_s=1140.0 + 181.0)
    assert predicted(c, "a") == 9000
    assert "by requests, since the node's measurement is 181 s old" in reasons(found)["x"]
    assert binds(measure(c, metric("a", web=1000), 1400.0)) == {"x": "a"}


def test_a_metric_that_was_deleted_counts_by_requests() -> None:
    c = cluster(node("a"))
    see(c, pod("web", on="a", cpu=9000))
    for i in range(20):
        measure(c, metric("a", web=1000), 60.0 * i)
    c.plugins.predicted_use.metric_gone("a", 1150.0)
    assert predicted(c, "a") == 9000
    c.validate()


def test_system_use_is_not_for_pods() -> None:
    c = cluster(node("a"))
    measure(c, metric("a", system=2000), 0.0)
    found = see(c, pod("x", batch=9000), now_s=1.0)
    assert "0 of 10 cpu predicted for 0 pods and 2 for the system" in reasons(found)["x"]


def test_a_namesakes_measurement_is_ignored() -> None:
    c = cluster(node("a"), node("b"))
    see(c, pod("x", on="a", batch=1000))
    measure(c, metric("b", x=5000), 1.0)  # a pod of this name was there
    assert predicted(c, "a") == 1000
    assert predicted(c, "b") == 0


def test_a_predecessors_measurement_is_ignored() -> None:
    c = cluster(node("a"))
    assert binds(see(c, pod("x", uid="new", batch=1000), now_s=100.0)) == {"x": "a"}
    measure(c, metric("a", age_s=10.0, x=5000), 105.0)  # measured at 95
    assert predicted(c, "a") == 1000
    measure(c, metric("a", x=5000), 155.0)
    assert predicted(c, "a") == 5000


def test_a_pod_that_is_created_again_has_no_history() -> None:
    c = cluster(node("a"))
    see(c, pod("x", on="a", batch=1000))
    measure(c, metric("a", x=5000), 1.0)
    c.pod_gone("uid-x", 2.0)
    assert binds(see(c, pod("x", uid="second", batch=1000), now_s=2.0)) == {"x": "a"}
    assert predicted(c, "a") == 1000


def test_a_pod_whose_labels_change_keeps_its_history() -> None:
    c = cluster(node("a"))
    x = pod("x", on="a", batch=1000)
    see(c, x)
    measure(c, metric("a", x=5000), 1.0)
    see(c, replace(x, pod=replace(x.pod, labels=Labels.of({"new": "label"}))), now_s=2.0)
    assert predicted(c, "a") == 5000


def test_a_negative_amount_is_refused_and_counted() -> None:
    c = cluster(node("a"))
    see(c, pod("x", on="a", batch=1000))
    measure(c, metric("a", x=-5), 1.0)
    assert predicted(c, "a") == 1000
    assert c.plugins.predicted_use.counts == {"a pod's measured use is negative": 1}


def test_an_amplified_node_has_its_raw_size() -> None:
    c = cluster(node("a", cpu=20_000, batch=15_000, raw='{"cpu": "10", "memory": "100Gi"}'))
    assert "insufficient cpu by predicted use" in reasons(see(c, pod("x", batch=12_000)))["x"]


def test_the_rule_sleeps_until_a_node_offers_lent_resources() -> None:
    c = cluster(node("a", batch=0))
    see(c, pod("web", cpu=6000), pod("b", on="a", batch=3000))
    assert not c.plugins.predicted_use.is_awake
    c.node_seen(node("a"))
    assert reasons(see(c, pod("x", batch=2000), now_s=1.0)).keys() == {"x"}
    assert predicted(c, "a") == 9000
    c.node_seen(node("a", batch=0))  # the manager was switched off: the pods there still count
    carried_out(c, 2.0)
    assert predicted(c, "a") == 9000


def test_a_mid_pod_preempts_batch_by_what_it_is_predicted_to_use() -> None:
    c = cluster(node("a"))
    see(c, pod("web", on="a", cpu=2000), pod("little", on="a", batch=4000), pod("much", on="a", batch=1000))
    for i in range(40):
        measure(c, metric("a", web=2000, little=500, much=6000), 60.0 * i)
    found = see(c, pod("m", mid=4000, priority=10), now_s=2400.0)
    (preempt,) = [instruction for instruction in found if isinstance(instruction, Preempt)]
    assert [victim.key for victim in preempt.victims] == ["default/much"]
    c.pod_gone("uid-much", 2401.0)
    assert binds(carried_out(c, 2402.0)) == {"m": "a"}


def test_a_service_that_preempts_batch_makes_room_for_other_batch_by_predicted_use() -> None:
    c = cluster(node("a"))
    see(c, pod("plain", on="a", cpu=6000), pod("b", on="a", batch=4000))
    assert reasons(see(c, pod("x", batch=3000), now_s=1.0)).keys() == {"x"}
    (preempt,) = [
        instruction
        for instruction in see(c, pod("web", cpu=5000, priority=10), now_s=2.0)
        if isinstance(instruction, Preempt)
    ]
    assert [victim.key for victim in preempt.victims] == ["default/plain"]
    c.pod_gone("uid-plain", 3.0)
    assert binds(carried_out(c, 30.0)) == {"web": "a"}
    c.pod_gone("uid-b", 31.0)
    assert binds(carried_out(c, 60.0)) == {"x": "a"}


def test_a_gang_that_does_not_fit_by_predicted_use_waits_whole() -> None:
    c = cluster(node("a"), node("b", cpu=1000))
    see(c, pod("web", on="a", cpu=5000))
    found = see(c, *(pod(f"g{i}", gang="g", batch=3000) for i in range(2)), now_s=1.0)
    assert binds(found) == {}
    placed: dict[str, str] = {}
    for i in range(20):
        placed |= binds(measure(c, metric("a", web=1000), 60.0 * (i + 1)))
    assert placed == {"g0": "a", "g1": "a"}


def test_the_answer_says_what_is_lent_by_whom_and_who_holds_it() -> None:
    terms = '{"strategy":"cluster","amounts":{"batch-cpu":{"policy":"usage","value":9000,"terms":[["capacity",9000]]}}}'
    c = cluster(node("a", terms=terms))
    see(c, pod("x", on="a", batch=1000), pod("y", on="a", batch=3000))
    measure(c, metric("a", x=500), 1.0)
    answer = c.why.pod("default/x", 2.0)
    assert answer is not None
    lent, use = [concern for concern in answer.concerns if concern.kind in ("lent", "predicted use")]
    assert lent.words == "it holds 1000: a offers 9000 kubernetes.io/batch-cpu, 2 pods hold 4000"
    assert lent.lines == (
        "lent by cotenant manager, by usage, strategy: cluster; `cotenant explain node a` has the terms",
        "3000 default/y",
        "1000 default/x",
    )
    assert (
        use.words
        == "it counts as 875m cpu (requested 1) and 1Gi memory (requested 0), by 1 measurement and its request"
    )
    assert "2 pods on a are predicted to use 3875m of 10 cpu" in use.lines[0]
    assert "1 of them by request, not measured yet" in use.lines[0]


def test_what_would_help_is_tried_with_the_same_predictions() -> None:
    c = cluster(node("a"))
    see(c, pod("web", on="a", cpu=9000))
    for i in range(20):
        measure(c, metric("a", web=6000), 60.0 * i)
    see(c, pod("x", batch=4000), now_s=1150.0)
    answer = c.why.pod("default/x", 1151.0)
    assert answer is not None
    assert answer.waiting is not None
    room = 10_000 - predicted(c, "a")
    assert [entry.words for entry in answer.waiting.helps][:1] == [
        f"ask for {room} kubernetes.io/batch-cpu instead of 4000: a fits then"
    ]
    assert c.why.pod("default/x", 1151.0) == answer
    assert binds(see(c, pod("y", batch=room), now_s=1152.0)) == {"y": "a"}


def test_nodes_are_counted_by_what_their_pods_count_by() -> None:
    c = cluster(node("a"), node("b"))
    rule = c.plugins.predicted_use
    measure(c, metric("a"), 0.0)
    assert rule.sources() == {"measurements": 1, "requests": 1}
    rule.at(200.0)
    assert rule.sources() == {"measurements": 0, "requests": 2}
    assert cluster(node("a", batch=0)).plugins.predicted_use.sources() == {}


def test_owners_of_a_reservation_take_its_room_instead_of_their_own() -> None:
    world = ReservationWorld()
    world.cluster = cluster(node("a"))
    world.reservations = world.cluster.plugins.reservations
    template = Pod("r", requests=Amounts.of({BATCH_CPU: 6000}), labels=WEB)
    world.see(Reservation("r", "uid-r", template, OWNERS))
    world.go()
    assert predicted(world.cluster, "a") == 6000  # by request: an owner may start at any time
    owner, stranger = pod("owner", batch=6000), pod("stranger", batch=6000)
    world.see(replace(owner, pod=replace(owner.pod, labels=WEB)), stranger)
    assert binds(world.go(1.0)) == {"owner": "a"}
    assert predicted(world.cluster, "a") == 6000


@pytest.mark.parametrize("risk", [0.0, 0.5, 1.0, nan])
def test_a_risk_that_cannot_be_meant_is_refused(risk: float) -> None:
    with pytest.raises(InvalidInput, match="risk"):
        PredictedUseSettings(risk=risk)


def _with_history(name: str, use: int, samples: int, mean: float, deviation: float) -> NodeMetric:
    known = ReportedHistory(
        samples, float(samples), UseSpread(mean, deviation, mean + 3 * deviation), UseSpread(GI, 0.0, GI)
    )
    return NodeMetric(
        name, 0.0, 60, Use(use, GI), pods={"default/s": MeasuredPod(Use(use, GI), history=known)}, system=Use()
    )


def test_a_scheduler_that_starts_continues_the_history_that_the_agent_reports() -> None:
    """Without it the service counts by three parts of its request and one of its use, and the batch pod waits."""
    for reported, fits in ((True, True), (False, False)):
        c = cluster(node("n"))
        see(c, pod("s", on="n", cpu=8000))
        seen = _with_history("n", 1000, 500, 1000.0, 50.0) if reported else metric("n", s=1000)
        c.plugins.predicted_use.metric_seen(seen, 1.0)
        found = see(c, pod("b", batch=7000), now_s=2.0)
        assert binds(found) == ({"b": "n"} if fits else {})


def test_a_reported_history_does_not_replace_the_own_one() -> None:
    c = cluster(node("n"))
    see(c, pod("s", on="n", cpu=8000))
    rule = c.plugins.predicted_use
    rule.metric_seen(metric("n", s=7000), 1.0)
    rule.metric_seen(_with_history("n", 1000, 500, 1000.0, 50.0), 61.0)
    c.decide(62.0)
    assert not binds(see(c, pod("b", batch=7000), now_s=62.0))


def test_a_reported_history_of_a_predecessor_is_ignored() -> None:
    """The measurement is older than the pod."""
    c = cluster(node("n"))
    see(c, replace(pod("s", on="n", cpu=8000), started_s=100.0), now_s=100.0)
    c.plugins.predicted_use.metric_seen(replace(_with_history("n", 1000, 500, 1000.0, 50.0), age_s=60.0), 101.0)
    assert not binds(see(c, pod("b", batch=7000), now_s=102.0))
