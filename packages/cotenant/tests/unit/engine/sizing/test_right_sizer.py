from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.sizing_world import BIG, MIB, NOW_S, World, in_place, pending, pod

from cotenant.engine.sizing.scene import WriteSizing
from cotenant.engine.sizing.suggesting import QUIET_S
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, PodSignals, Use
from cotenant.model.sizes.container import ContainerSize, SizedContainer
from cotenant.model.sizes.right_sizing import SizingMode, SizingOutcome, SizingPhase
from cotenant.model.traces.objective import Indicator, ObjectiveState, ObjectiveStatus
from cotenant.policy.assess.container_sizes import HeldResources


def burning(state: ObjectiveState) -> ObjectiveStatus:
    return ObjectiveStatus("ns/fast", "ns", "web", Indicator.LATENCY, state=state)


def test_nothing_is_said_before_there_is_history() -> None:
    world = World(mode=SizingMode.ACT)
    world.is_reporting = False
    world.run(120)
    assert (world.status.state, world.status.message) == (
        "learning",
        "0.0 h of its use are known, a size needs 0.0167 h",
    )
    assert world.resized == []


def test_a_suggestion_is_only_said() -> None:
    world = World(mode=SizingMode.SUGGEST)
    world.run(600)
    found = world.status.suggestion
    assert world.status.state == "suggested"
    assert found is not None
    assert found.after == ContainerSize(1150, None, 1035 * MIB, 1080 * MIB)  # 15 % more, limit 20 % more
    assert world.resized == []


def test_off_says_nothing() -> None:
    world = World(mode=SizingMode.OFF)
    world.run(600)
    assert (world.status.state, world.status.suggestion) == ("off", None)


def test_an_approved_suggestion_goes_one_replica_proof_rest_proof_in_two_steps() -> None:
    world = World(mode=SizingMode.APPROVE)
    world.approve()
    world.reach(SizingPhase.PROOF)
    assert [name for name, _ in world.resized] == ["a"]
    assert world.pods["a"].containers[0].size == replace(BIG, cpu_request_m=1150)  # memory is lowered last
    assert world.pods["b"].containers[0].size == BIG
    proof_began_s = world.now_s
    world.reach(SizingPhase.REST)
    assert world.now_s - proof_began_s >= 120
    world.reach(SizingPhase.WHOLE)
    assert world.sizes() == {replace(BIG, cpu_request_m=1150)}
    assert world.run(3600, lambda: world.phase() is None)
    receipt = world.status.receipts[0]
    assert (receipt.outcome, receipt.before, receipt.pods) == (SizingOutcome.DONE, BIG, 3)
    assert receipt.after == ContainerSize(1150, None, 1035 * MIB, 1080 * MIB)
    assert receipt.allowed_by == "spec.approved, ada"
    assert world.sizes() == {receipt.after}
    assert [name for name, _ in world.resized] == ["a", "b", "c"] * 2 or len(world.resized) == 6
    world.run(7200)
    assert world.status.state == "fits"
    assert len(world.resized) == 6


def test_another_id_is_no_approval() -> None:
    world = World(mode=SizingMode.APPROVE, approved="12345678")
    world.run(1200)
    assert world.status.state == "awaitsApproval"
    assert world.resized == []


@pytest.mark.parametrize("moment", [SizingPhase.PROOF, SizingPhase.REST, SizingPhase.WHOLE])
def test_a_burning_objective_takes_everything_back(moment: SizingPhase) -> None:
    world = World(mode=SizingMode.ACT, objective="fast")
    world.engine.objective_seen(burning(ObjectiveState.OK))
    world.reach(moment)
    world.engine.objective_seen(burning(ObjectiveState.BURNING))
    assert world.run(60, lambda: world.phase() is None)
    assert world.sizes() == {BIG}
    receipt = world.status.receipts[0]
    assert (receipt.outcome, receipt.why) == (SizingOutcome.UNDONE, "objective fast burns")
    world.engine.objective_seen(burning(ObjectiveState.OK))
    resized = len(world.resized)
    world.run(2 * 3600)
    assert len(world.resized) == resized  # not again: it was refused, and a day is quiet


def test_nothing_is_begun_while_the_objective_burns() -> None:
    world = World(mode=SizingMode.ACT, objective="fast")
    world.engine.objective_seen(burning(ObjectiveState.BURNING))
    world.run(1200)
    assert world.status.message == "objective fast burns: nothing is changed meanwhile"
    assert world.resized == []


def test_a_restart_of_the_resized_replica_undoes_it() -> None:
    world = World(mode=SizingMode.ACT)
    world.reach(SizingPhase.PROOF)
    of = world.pods["a"]
    world.put(replace(of, containers=(replace(of.containers[0], restarts=1, was_oom_killed=True),)))
    assert world.run(60, lambda: world.phase() is None)
    assert world.status.receipts[0].why == "a ran out of memory with the new size"
    assert world.sizes() == {BIG}


def test_waiting_for_a_cpu_must_be_seen_twice() -> None:
    world = World(mode=SizingMode.ACT)
    world.signals = dict.fromkeys("abc", PodSignals(wait_per_cpu=0.1))
    world.reach(SizingPhase.PROOF)
    world.signals["a"] = PodSignals(wait_per_cpu=1.0)
    world.run(31)
    assert world.phase() is SizingPhase.PROOF
    world.signals["a"] = PodSignals(wait_per_cpu=0.1)
    world.reach(SizingPhase.REST)
    world.reach(SizingPhase.WHOLE)
    world.signals["b"] = PodSignals(wait_per_cpu=1.0)
    assert world.run(120, lambda: world.phase() is None)
    assert world.status.receipts[0].outcome is SizingOutcome.UNDONE
    assert "b waits 1.00 s" in world.status.receipts[0].why


def test_what_is_not_measured_is_not_proven() -> None:
    world = World(mode=SizingMode.ACT)
    world.reach(SizingPhase.PROOF)
    world.is_reporting = False
    assert world.run(400, lambda: world.phase() is None)
    assert "nothing was measured of it" in world.status.receipts[0].why
    assert world.sizes() == {BIG}


@pytest.mark.parametrize(("reason", "after_s"), [("Infeasible", 5), ("Deferred", 305)])
def test_a_kubelet_that_does_not_take_it_is_given_up_and_said(reason: str, after_s: int) -> None:
    world = World(mode=SizingMode.ACT)
    world.kubelet = pending(reason)
    world.reach(SizingPhase.FIRST)
    begun_s = world.now_s
    assert world.run(1000, lambda: world.phase() is None)
    assert world.now_s - begun_s == pytest.approx(after_s, abs=15)
    receipt = world.status.receipts[0]
    assert receipt.outcome is SizingOutcome.GIVEN_UP
    assert f"a: {reason} for" in receipt.why
    assert "no room" in receipt.why
    assert world.sizes() == {BIG}


def test_a_kubelet_that_is_silent_is_given_up() -> None:
    world = World(mode=SizingMode.ACT)
    world.kubelet = lambda of, size: of
    assert world.run(3000, lambda: bool(world.status.receipts))
    assert "its kubelet did nothing for 305 s" in world.status.receipts[0].why


def test_a_deferred_resize_that_is_taken_later_goes_on() -> None:
    world = World(mode=SizingMode.ACT)
    world.kubelet = pending("Deferred")
    world.reach(SizingPhase.FIRST)
    world.run(100)
    assert world.status.message == "a: Deferred: no room"
    world.kubelet = in_place
    world.put(in_place(world.pods["a"], world.pods["a"].containers[0].size))
    world.reach(SizingPhase.PROOF)


def test_what_the_api_server_refuses_is_given_up_with_its_words() -> None:
    world = World(mode=SizingMode.ACT)
    world.refuses = "forbidden: minimum cpu usage per Container is 2"
    assert world.run(600, lambda: bool(world.status.receipts))
    assert world.status.receipts[0].why == "the API server refuses: forbidden: minimum cpu usage per Container is 2"
    assert world.status.receipts[0].outcome is SizingOutcome.GIVEN_UP


def test_it_yields_to_another_controller() -> None:
    world = World(mode=SizingMode.ACT)
    world.reach(SizingPhase.PROOF)
    theirs = ContainerSize(2000, None, 2048 * MIB, 4096 * MIB)
    world.put(pod("a", theirs))
    assert world.run(10, lambda: world.phase() is None)
    assert world.status.receipts[0].outcome is SizingOutcome.YIELDED
    assert world.pods["a"].containers[0].size == theirs
    resized = len(world.resized)
    world.run(3600)
    assert len(world.resized) == resized


def test_one_that_resizes_already_is_waited_for() -> None:
    world = World(mode=SizingMode.ACT)
    world.put(replace(world.pods["b"], in_progress=True))
    world.run(600)
    assert world.status.message == "b is being resized by somebody else"
    assert world.resized == []


def test_the_next_leader_goes_on_where_the_last_one_stopped() -> None:
    world = World(mode=SizingMode.ACT)
    for _ in range(200):
        if world.run(17, lambda: bool(world.status.receipts)):
            break
        world.restart()
    assert world.status.receipts[0].outcome is SizingOutcome.DONE
    assert world.sizes() == {world.status.receipts[0].after}


def test_the_next_leader_takes_back_what_the_last_one_began_to() -> None:
    world = World(mode=SizingMode.ACT, objective="fast")
    world.engine.objective_seen(burning(ObjectiveState.OK))
    world.reach(SizingPhase.WHOLE)
    world.engine.objective_seen(burning(ObjectiveState.BURNING))
    assert world.run(10, lambda: world.phase() is SizingPhase.UNDOING)
    world.restart()
    assert world.run(60, lambda: world.phase() is None)
    assert world.sizes() == {BIG}


def test_a_pod_made_anew_gets_the_proven_size() -> None:
    world = World(mode=SizingMode.ACT)
    assert world.run(7200, lambda: bool(world.status.receipts))
    world.put(pod("d"))
    world.run(60)
    assert world.sizes() == {world.status.receipts[0].after}


def test_the_first_replica_goes_away_and_another_takes_its_place() -> None:
    world = World(mode=SizingMode.ACT)
    world.kubelet = pending("Deferred")
    world.reach(SizingPhase.FIRST)
    world.run(5)
    del world.pods["a"]
    world.engine.pod_gone("ns/a")
    world.kubelet = in_place
    world.reach(SizingPhase.PROOF)
    assert world.pods["b"].containers[0].size != BIG


def test_an_undo_takes_a_proven_change_back() -> None:
    world = World(mode=SizingMode.ACT)
    assert world.run(7200, lambda: bool(world.status.receipts))
    world.spec(undo=world.status.receipts[0].id)
    assert world.run(60, lambda: len(world.status.receipts) == 2)
    assert world.status.receipts[0].outcome is SizingOutcome.UNDONE
    assert (world.status.receipts[0].allowed_by, world.sizes()) == ("spec.undo", {BIG})
    world.run(7200)
    assert world.sizes() == {BIG}


def test_a_permission_that_is_taken_back_stops_it() -> None:
    world = World(mode=SizingMode.ACT)
    world.reach(SizingPhase.PROOF)
    resized = len(world.resized)
    world.spec(mode=SizingMode.OFF)
    world.run(600)
    assert world.status.receipts[0].outcome is SizingOutcome.STOPPED
    assert len(world.resized) == resized
    world.spec(undo=world.status.receipts[0].id)
    world.run(60)
    assert world.sizes() == {BIG}


def test_one_replica_is_proven_once() -> None:
    world = World(replicas=1, mode=SizingMode.ACT)
    assert world.run(7200, lambda: bool(world.status.receipts))
    assert world.status.receipts[0].outcome is SizingOutcome.DONE


def test_an_autoscaler_on_the_same_metric_is_respected() -> None:
    world = World(mode=SizingMode.SUGGEST)
    world.engine.autoscaler_seen("ns/h", ("ns", "Deployment", "web"), HeldResources(cpu="CPU stays: scaled by it"))
    world.run(600)
    assert world.status.suggestion is not None
    assert world.status.suggestion.after.cpu_request_m == 3000
    assert "CPU stays: scaled by it" in world.status.suggestion.why


def test_an_autoscaler_that_comes_during_a_change_ends_it() -> None:
    world = World(mode=SizingMode.ACT)
    world.reach(SizingPhase.PROOF)
    world.engine.autoscaler_seen("ns/h", ("ns", "Deployment", "web"), HeldResources(cpu="CPU stays: scaled by it"))
    assert world.run(600, lambda: bool(world.status.receipts))
    receipt = world.status.receipts[0]
    assert (receipt.outcome, receipt.why) == (SizingOutcome.GIVEN_UP, "CPU stays: scaled by it")
    assert world.sizes() == {BIG}


def test_a_suggestion_does_not_stand_against_an_autoscaler_that_came_later() -> None:
    world = World(mode=SizingMode.APPROVE)
    assert world.run(600, lambda: world.status.state == "awaitsApproval")
    suggestion = world.status.suggestion
    assert suggestion is not None
    world.engine.autoscaler_seen("ns/h", ("ns", "Deployment", "web"), HeldResources(cpu="CPU stays: scaled by it"))
    world.spec(approved=suggestion.id)
    world.run(300)
    assert world.resized == []
    assert not world.status.receipts


def test_what_a_scheduler_allocated_by_cpu_or_numa_node_stays() -> None:
    world = World(mode=SizingMode.SUGGEST)
    world.put(replace(world.pods["b"], allocated_by=("cpu",)))
    world.run(600)
    assert world.status.suggestion is not None
    assert world.status.suggestion.after.cpu_request_m == BIG.cpu_request_m
    assert world.status.suggestion.after.memory_request_bytes != BIG.memory_request_bytes
    assert any("allocated it by CPU or NUMA node" in why for why in world.status.suggestion.why)


def test_nothing_is_begun_for_a_day_after_somebody_else_resized_a_pod() -> None:
    world = World(mode=SizingMode.ACT)
    world.run(10)
    of = world.pods["b"]
    world.put(replace(of, containers=(replace(of.containers[0], size=replace(BIG, cpu_request_m=2345)),)))
    world.run(3600)
    assert (world.status.state, world.resized) == ("quiet", [])
    world.restart()
    world.run(3600)
    assert world.resized == []
    world.run(86_400, lambda: bool(world.resized))
    assert world.resized


def test_what_another_leader_resized_is_not_taken_for_somebody_else_s() -> None:
    world = World(mode=SizingMode.ACT)
    world.run(10)
    of = world.pods["b"]
    world.put(replace(of, containers=(replace(of.containers[0], size=replace(BIG, cpu_request_m=2345)),)))
    world.engine.leads_now()
    assert world.run(600, lambda: bool(world.resized))


def test_what_somebody_else_resized_while_no_manager_ran_is_noticed_by_what_the_server_notes() -> None:
    world = World(mode=SizingMode.ACT)
    at_s = world.now_s - 3600
    world.put(replace(world.pods["b"], resized_by_others_s=at_s))
    world.restart()
    world.run(3600)
    assert (world.status.state, world.resized) == ("quiet", [])
    assert world.status.quiet_until_s == at_s + QUIET_S  # a day from then, not from when it was noticed
    world.run(86_400, lambda: bool(world.resized))
    assert world.resized


def test_what_somebody_else_resized_long_ago_holds_nothing() -> None:
    world = World(mode=SizingMode.ACT)
    world.put(replace(world.pods["b"], resized_by_others_s=world.now_s - QUIET_S - 1))
    assert world.run(600, lambda: bool(world.resized))


def test_a_change_ends_where_somebody_else_resized_a_pod_that_it_has_not_come_to_while_no_manager_ran() -> None:
    world = World(mode=SizingMode.ACT)
    world.reach(SizingPhase.PROOF)
    assert world.status.change is not None
    other = next(name for name in "cba" if name != world.status.change.touched[0].pod)
    world.put(replace(world.pods[other], resized_by_others_s=world.now_s + 1))
    world.restart()
    assert world.run(60, lambda: world.status.change is None)
    assert world.status.receipts[0].outcome is SizingOutcome.YIELDED
    assert other in world.status.receipts[0].why


def test_pods_of_several_containers_are_left() -> None:
    world = World(mode=SizingMode.ACT)
    of = world.pods["a"]
    world.put(replace(of, containers=(*of.containers, SizedContainer("proxy", BIG))))
    world.run(600)
    assert "several containers" in world.status.message
    assert world.resized == []


def test_a_spec_that_cannot_be_read_does_nothing() -> None:
    world = World(mode=SizingMode.ACT, wrong=("spec.mode: no such",))
    world.run(600)
    assert (world.status.state, world.status.message) == ("invalid", "spec.mode: no such")
    assert world.resized == []


def test_a_write_that_no_watch_shows_is_decided_anew() -> None:
    world = World(mode=SizingMode.SUGGEST)
    world.engine.metric_seen(NodeMetric("n1", 0.0, pods={"ns/a": MeasuredPod(Use(1, MIB))}, updated_s=NOW_S), NOW_S)
    assert world.engine.decide(NOW_S + 1)
    assert world.engine.decide(NOW_S + 2) == ()
    assert world.engine.decide(NOW_S + 32)


def test_harm_at_the_next_peak_takes_a_proven_change_back() -> None:
    world = World(mode=SizingMode.ACT, objective="fast")
    world.engine.objective_seen(burning(ObjectiveState.OK))
    assert world.run(7200, lambda: bool(world.status.receipts))
    world.run(3600)
    world.engine.objective_seen(burning(ObjectiveState.BURNING))
    assert world.run(60, lambda: len(world.status.receipts) == 2)
    assert world.status.receipts[0].why == "objective fast burns, within a day of the change"
    assert world.sizes() == {BIG}


def test_a_lack_of_memory_within_a_day_takes_it_back_and_later_does_not() -> None:
    for wait_s, is_undone in ((3600, True), (25 * 3600, False)):
        world = World(mode=SizingMode.ACT)
        assert world.run(7200, lambda of=world: bool(of.status.receipts))
        world.now_s += wait_s
        of = world.pods["b"]
        world.put(replace(of, containers=(replace(of.containers[0], restarts=1, was_oom_killed=True),)))
        world.run(120)
        assert (world.sizes() == {BIG}) is is_undone


def test_without_its_objective_nothing_is_begun() -> None:
    world = World(mode=SizingMode.ACT, objective="fast")
    world.run(600)
    assert "is not counted yet" in world.status.message
    assert world.resized == []


def test_a_second_object_of_a_workload_does_nothing() -> None:
    world = World(mode=SizingMode.SUGGEST)
    other = replace(world.sizing, key="ns/z", uid="z", mode=SizingMode.ACT)
    world.engine.sizing_seen(other)
    writes = [write for write in world.engine.decide(NOW_S + 1) if isinstance(write, WriteSizing)]
    said = {write.sizing: write.status.message for write in writes}
    assert said["ns/z"] == "its workload is sized by ns/web"


def test_an_object_that_turns_to_another_workload_leaves_the_first_to_the_second() -> None:
    world = World(mode=SizingMode.SUGGEST)
    other = replace(world.sizing, key="ns/z", uid="z")
    world.engine.sizing_seen(other)
    world.engine.sizing_seen(replace(world.sizing, workload_name="elsewhere"))

    def said_of_the_second(now_s: float) -> str:
        writes = [write for write in world.engine.decide(now_s) if isinstance(write, WriteSizing)]
        return {write.sizing: write.status.message for write in writes}["ns/z"]

    assert "is sized by" not in said_of_the_second(NOW_S + 1)
    world.engine.sizing_seen(world.sizing)
    world.engine.sizing_seen(other)
    assert said_of_the_second(NOW_S + 60) == "its workload is sized by ns/web"
    world.engine.sizing_gone("ns/web")
    assert "is sized by" not in said_of_the_second(NOW_S + 120)


def test_a_nodes_clock_does_not_matter() -> None:
    world = World(mode=SizingMode.SUGGEST)
    for minute in range(5):
        for node, ahead_s in (("n1", 30 * 86_400.0), ("n2", -86_400.0)):
            pods = {f"ns/{'a' if node == 'n1' else 'b'}": MeasuredPod(Use(700 + minute, 10 * MIB))}
            at_s = NOW_S + 60.0 * minute
            world.engine.metric_seen(NodeMetric(node, 0.0, pods=pods, updated_s=at_s + ahead_s), at_s)
    world.engine.metric_seen(NodeMetric("n1", 3600.0, pods={"ns/a": MeasuredPod(Use(9000, 0))}, updated_s=5.0), NOW_S)
    world.is_reporting = False
    world.run(1)
    assert (world.status.history.cpu_m, world.status.history.since_s) == ((704,), NOW_S)


def test_a_pod_made_anew_that_a_kubelet_defers_is_said() -> None:
    world = World(mode=SizingMode.ACT)
    assert world.run(7200, lambda: bool(world.status.receipts))
    world.kubelet = pending("Deferred")
    world.put(pod("d"))
    world.run(30)
    assert world.status.message == "pods made anew keep the template's size: d: Deferred: no room"


def test_a_second_change_knows_what_pods_are_made_with() -> None:
    world = World(mode=SizingMode.ACT)
    assert world.run(7200, lambda: bool(world.status.receipts))
    first = world.status.receipts[0].after
    world.now_s += 4000
    world.use = Use(1600, 900 * MIB)
    assert world.run(3600, lambda: world.phase() is SizingPhase.PROOF)
    world.put(pod("d"))  # from the template, while the change goes on
    assert world.run(3600, lambda: len(world.status.receipts) == 2)
    second = world.status.receipts[0]
    assert (second.outcome, second.before) == (SizingOutcome.DONE, first)
    world.run(60)
    assert world.sizes() == {second.after}


def test_a_second_change_that_hurts_leaves_the_first() -> None:
    world = World(mode=SizingMode.ACT)
    assert world.run(7200, lambda: bool(world.status.receipts))
    first = world.status.receipts[0]
    world.now_s += 90_000
    world.use = Use(1600, 900 * MIB)
    world.reach(SizingPhase.PROOF)
    of = world.pods["a"]
    world.put(replace(of, containers=(replace(of.containers[0], restarts=1),)))
    assert world.run(60, lambda: len(world.status.receipts) == 2)
    assert world.sizes() == {first.after}
    world.spec(undo=first.id)
    assert world.run(60, lambda: len(world.status.receipts) == 3)
    assert world.sizes() == {BIG}
