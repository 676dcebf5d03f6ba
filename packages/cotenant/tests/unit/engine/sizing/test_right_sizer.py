"""A small cluster: kubelets that take resizes, reports by the minute, and a store that the engine is read from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cotenant.engine.sizing.right_sizer import RightSizer
from cotenant.engine.sizing.scene import ResizePod, WriteSizing
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, PodSignals, Use
from cotenant.model.sizes.container import ContainerSize, SizedContainer, SizedPod
from cotenant.model.sizes.right_sizing import Mode, Outcome, Phase, RightSizing, SizingStatus
from cotenant.model.traces.objective import Indicator, ObjectiveState, ObjectiveStatus
from cotenant.policy.assess.container_sizes import Held

MIB = 1 << 20
NOW_S = 1_800_000_000.0
BIG = ContainerSize(3000, None, 2048 * MIB, 4096 * MIB)
KEY = "ns/web"


class World:
    """Three replicas of a Deployment that each use 1000m and 900 MiB."""

    def __init__(self, replicas: int = 3, **spec: object) -> None:
        self.now_s = NOW_S
        self.engine = RightSizer(lambda at_s: f"t{at_s - NOW_S:.0f}")
        self.kubelet: Callable[[SizedPod, ContainerSize], SizedPod] = in_place
        self.use = Use(1000, 900 * MIB)
        self.signals: dict[str, PodSignals] = {}
        self.is_reporting = True
        self.refuses = ""
        self.pods: dict[str, SizedPod] = {}
        self.resized: list[tuple[str, ContainerSize]] = []
        self.sizing = RightSizing(
            KEY,
            "s",
            1,
            "Deployment",
            "web",
            min_history_s=60.0,
            proof_s=120.0,
            patience_s=300.0,
            **spec,  # type: ignore[arg-type]
        )
        self.engine.owner_seen("ns", "web-1", ("Deployment", "web"))
        for name in "abcdefgh"[:replicas]:
            self.put(pod(name))
        self.engine.sizing_seen(self.sizing)

    def put(self, of: SizedPod) -> None:
        self.pods[of.name] = of
        self.engine.pod_seen(of)

    def spec(self, **changed: object) -> None:
        self.sizing = replace(self.sizing, generation=self.sizing.generation + 1, **changed)  # type: ignore[arg-type]
        self.engine.sizing_seen(self.sizing)

    def restart(self) -> None:
        """Another replica of the manager leads: it knows what is stored and what is watched."""
        self.engine = RightSizer(lambda at_s: f"t{at_s - NOW_S:.0f}")
        self.engine.owner_seen("ns", "web-1", ("Deployment", "web"))
        for of in self.pods.values():
            self.engine.pod_seen(of)
        self.engine.sizing_seen(self.sizing)
        self.engine.leads_now()

    def run(self, seconds: int, until: Callable[[], bool] = lambda: False) -> bool:
        for _ in range(seconds):
            self.now_s += 1.0
            if self.is_reporting and self.now_s % 30 == 0:
                measured = {
                    f"ns/{name}": MeasuredPod(self.use, signals=self.signals.get(name, PodSignals()))
                    for name in self.pods
                }
                self.engine.metric_seen(NodeMetric("n1", 0.0, pods=measured, updated_s=self.now_s))
            for write in self.engine.decide(self.now_s):
                if isinstance(write, WriteSizing):
                    self.sizing = replace(self.sizing, status=write.status)
                    self.engine.sizing_seen(self.sizing)
                else:
                    self.resize(write)
            if until():
                return True
        return False

    def resize(self, write: ResizePod) -> None:
        self.resized.append((write.pod, write.size))
        if self.refuses:
            self.engine.resize_refused(write, self.refuses)
            return
        of = self.pods[write.pod]
        self.put(self.kubelet(replace(of, containers=(replace(of.containers[0], size=write.size),)), write.size))

    @property
    def status(self) -> SizingStatus:
        return self.sizing.status

    def phase(self) -> Phase | None:
        return self.status.change.phase if self.status.change else None

    def reach(self, phase: Phase) -> None:
        assert self.run(3600, lambda: self.phase() is phase), self.status

    def sizes(self) -> set[ContainerSize]:
        return {of.containers[0].size for of in self.pods.values()}

    def approve(self) -> None:
        assert self.run(300, lambda: self.status.state == "awaitsApproval"), self.status
        assert self.status.suggestion is not None
        self.spec(approved=self.status.suggestion.id, approved_by="ada")


def pod(name: str, size: ContainerSize = BIG) -> SizedPod:
    container = SizedContainer("app", size, allocated=size)
    return SizedPod("ns", name, f"uid-{name}", "n1", "ReplicaSet", "web-1", True, True, (container,))


def in_place(of: SizedPod, size: ContainerSize) -> SizedPod:
    return replace(of, pending="", in_progress=False, containers=(replace(of.containers[0], allocated=size),))


def pending(reason: str) -> Callable[[SizedPod, ContainerSize], SizedPod]:
    def take(of: SizedPod, size: ContainerSize) -> SizedPod:
        allocated = of.containers[0].allocated
        if allocated == size:
            return in_place(of, size)
        return replace(of, pending=reason, pending_why="no room")

    return take


def burning(state: ObjectiveState) -> ObjectiveStatus:
    return ObjectiveStatus("ns/fast", "ns", "web", Indicator.LATENCY, state=state)


def test_nothing_is_said_before_there_is_history() -> None:
    world = World(mode=Mode.ACT)
    world.is_reporting = False
    world.run(120)
    assert (world.status.state, world.status.message) == (
        "learning",
        "0.0 h of its use are known, a size needs 0.0167 h",
    )
    assert world.resized == []


def test_a_suggestion_is_only_said() -> None:
    world = World(mode=Mode.SUGGEST)
    world.run(600)
    found = world.status.suggestion
    assert world.status.state == "suggested"
    assert found is not None
    assert found.after == ContainerSize(1150, None, 1035 * MIB, 1080 * MIB)  # 15 % more, limit 20 % more
    assert world.resized == []


def test_off_says_nothing() -> None:
    world = World(mode=Mode.OFF)
    world.run(600)
    assert (world.status.state, world.status.suggestion) == ("off", None)


def test_an_approved_suggestion_goes_one_replica_proof_rest_proof_in_two_steps() -> None:
    world = World(mode=Mode.APPROVE)
    world.approve()
    world.reach(Phase.PROOF)
    assert [name for name, _ in world.resized] == ["a"]
    assert world.pods["a"].containers[0].size == replace(BIG, cpu_request_m=1150)  # memory is lowered last
    assert world.pods["b"].containers[0].size == BIG
    proof_began_s = world.now_s
    world.reach(Phase.REST)
    assert world.now_s - proof_began_s >= 120
    world.reach(Phase.WHOLE)
    assert world.sizes() == {replace(BIG, cpu_request_m=1150)}
    assert world.run(3600, lambda: world.phase() is None)
    receipt = world.status.receipts[0]
    assert (receipt.outcome, receipt.before, receipt.pods) == (Outcome.DONE, BIG, 3)
    assert receipt.after == ContainerSize(1150, None, 1035 * MIB, 1080 * MIB)
    assert receipt.allowed_by == "spec.approved, ada"
    assert world.sizes() == {receipt.after}
    assert [name for name, _ in world.resized] == ["a", "b", "c"] * 2 or len(world.resized) == 6
    world.run(7200)
    assert world.status.state == "fits"
    assert len(world.resized) == 6


def test_another_id_is_no_approval() -> None:
    world = World(mode=Mode.APPROVE, approved="12345678")
    world.run(1200)
    assert world.status.state == "awaitsApproval"
    assert world.resized == []


@pytest.mark.parametrize("moment", [Phase.PROOF, Phase.REST, Phase.WHOLE])
def test_a_burning_objective_takes_everything_back(moment: Phase) -> None:
    world = World(mode=Mode.ACT, objective="fast")
    world.engine.objective_seen(burning(ObjectiveState.OK))
    world.reach(moment)
    world.engine.objective_seen(burning(ObjectiveState.BURNING))
    assert world.run(60, lambda: world.phase() is None)
    assert world.sizes() == {BIG}
    receipt = world.status.receipts[0]
    assert (receipt.outcome, receipt.why) == (Outcome.UNDONE, "objective fast burns")
    world.engine.objective_seen(burning(ObjectiveState.OK))
    resized = len(world.resized)
    world.run(12 * 3600)
    assert len(world.resized) == resized  # not again: it was refused, and a day is quiet


def test_nothing_is_begun_while_the_objective_burns() -> None:
    world = World(mode=Mode.ACT, objective="fast")
    world.engine.objective_seen(burning(ObjectiveState.BURNING))
    world.run(1200)
    assert world.status.message == "objective fast burns: nothing is changed meanwhile"
    assert world.resized == []


def test_a_restart_of_the_resized_replica_undoes_it() -> None:
    world = World(mode=Mode.ACT)
    world.reach(Phase.PROOF)
    of = world.pods["a"]
    world.put(replace(of, containers=(replace(of.containers[0], restarts=1, was_oom_killed=True),)))
    assert world.run(60, lambda: world.phase() is None)
    assert world.status.receipts[0].why == "a ran out of memory with the new size"
    assert world.sizes() == {BIG}


def test_waiting_for_a_cpu_must_be_seen_twice() -> None:
    world = World(mode=Mode.ACT)
    world.signals = dict.fromkeys("abc", PodSignals(wait_per_cpu=0.1))
    world.reach(Phase.PROOF)
    world.signals["a"] = PodSignals(wait_per_cpu=1.0)
    world.run(31)
    assert world.phase() is Phase.PROOF
    world.signals["a"] = PodSignals(wait_per_cpu=0.1)
    world.reach(Phase.REST)
    world.reach(Phase.WHOLE)
    world.signals["b"] = PodSignals(wait_per_cpu=1.0)
    assert world.run(120, lambda: world.phase() is None)
    assert world.status.receipts[0].outcome is Outcome.UNDONE
    assert "b waits 1.00 s" in world.status.receipts[0].why


def test_what_is_not_measured_is_not_proven() -> None:
    world = World(mode=Mode.ACT)
    world.reach(Phase.PROOF)
    world.is_reporting = False
    assert world.run(400, lambda: world.phase() is None)
    assert "nothing was measured of it" in world.status.receipts[0].why
    assert world.sizes() == {BIG}


@pytest.mark.parametrize(("reason", "after_s"), [("Infeasible", 5), ("Deferred", 305)])
def test_a_kubelet_that_does_not_take_it_is_given_up_and_said(reason: str, after_s: int) -> None:
    world = World(mode=Mode.ACT)
    world.kubelet = pending(reason)
    world.reach(Phase.FIRST)
    begun_s = world.now_s
    assert world.run(1000, lambda: world.phase() is None)
    assert world.now_s - begun_s == pytest.approx(after_s, abs=5)
    receipt = world.status.receipts[0]
    assert receipt.outcome is Outcome.GIVEN_UP
    assert f"a: {reason} for" in receipt.why
    assert "no room" in receipt.why
    assert world.sizes() == {BIG}


def test_a_kubelet_that_is_silent_is_given_up() -> None:
    world = World(mode=Mode.ACT)
    world.kubelet = lambda of, size: of
    assert world.run(3000, lambda: bool(world.status.receipts))
    assert "its kubelet did nothing for 301 s" in world.status.receipts[0].why


def test_a_deferred_resize_that_is_taken_later_goes_on() -> None:
    world = World(mode=Mode.ACT)
    world.kubelet = pending("Deferred")
    world.reach(Phase.FIRST)
    world.run(100)
    assert world.status.message == "a: Deferred: no room"
    world.kubelet = in_place
    world.put(in_place(world.pods["a"], world.pods["a"].containers[0].size))
    world.reach(Phase.PROOF)


def test_what_the_api_server_refuses_is_given_up_with_its_words() -> None:
    world = World(mode=Mode.ACT)
    world.refuses = "forbidden: minimum cpu usage per Container is 2"
    assert world.run(600, lambda: bool(world.status.receipts))
    assert world.status.receipts[0].why == "the API server refuses: forbidden: minimum cpu usage per Container is 2"
    assert world.status.receipts[0].outcome is Outcome.GIVEN_UP


def test_it_yields_to_another_controller() -> None:
    world = World(mode=Mode.ACT)
    world.reach(Phase.PROOF)
    theirs = ContainerSize(2000, None, 2048 * MIB, 4096 * MIB)
    world.put(pod("a", theirs))
    assert world.run(10, lambda: world.phase() is None)
    assert world.status.receipts[0].outcome is Outcome.YIELDED
    assert world.pods["a"].containers[0].size == theirs
    resized = len(world.resized)
    world.run(3600)
    assert len(world.resized) == resized


def test_one_that_resizes_already_is_waited_for() -> None:
    world = World(mode=Mode.ACT)
    world.put(replace(world.pods["b"], in_progress=True))
    world.run(600)
    assert world.status.message == "b is being resized by somebody else"
    assert world.resized == []


def test_the_next_leader_goes_on_where_the_last_one_stopped() -> None:
    world = World(mode=Mode.ACT)
    for _ in range(200):
        if world.run(17, lambda: bool(world.status.receipts)):
            break
        world.restart()
    assert world.status.receipts[0].outcome is Outcome.DONE
    assert world.sizes() == {world.status.receipts[0].after}


def test_the_next_leader_takes_back_what_the_last_one_began_to() -> None:
    world = World(mode=Mode.ACT, objective="fast")
    world.reach(Phase.WHOLE)
    world.engine.objective_seen(burning(ObjectiveState.BURNING))
    assert world.run(10, lambda: world.phase() is Phase.UNDOING)
    world.restart()
    assert world.run(60, lambda: world.phase() is None)
    assert world.sizes() == {BIG}


def test_a_pod_made_anew_gets_the_proven_size() -> None:
    world = World(mode=Mode.ACT)
    assert world.run(7200, lambda: bool(world.status.receipts))
    world.put(pod("d"))
    world.run(60)
    assert world.sizes() == {world.status.receipts[0].after}


def test_the_first_replica_goes_away_and_another_takes_its_place() -> None:
    world = World(mode=Mode.ACT)
    world.kubelet = pending("Deferred")
    world.reach(Phase.FIRST)
    world.run(5)
    del world.pods["a"]
    world.engine.pod_gone("ns/a")
    world.kubelet = in_place
    world.reach(Phase.PROOF)
    assert world.pods["b"].containers[0].size != BIG


def test_an_undo_takes_a_proven_change_back() -> None:
    world = World(mode=Mode.ACT)
    assert world.run(7200, lambda: bool(world.status.receipts))
    world.spec(undo=world.status.receipts[0].id)
    assert world.run(60, lambda: len(world.status.receipts) == 2)
    assert world.status.receipts[0].outcome is Outcome.UNDONE
    assert (world.status.receipts[0].allowed_by, world.sizes()) == ("spec.undo", {BIG})
    world.run(7200)
    assert world.sizes() == {BIG}


def test_a_permission_that_is_taken_back_stops_it() -> None:
    world = World(mode=Mode.ACT)
    world.reach(Phase.PROOF)
    resized = len(world.resized)
    world.spec(mode=Mode.OFF)
    world.run(600)
    assert world.status.receipts[0].outcome is Outcome.STOPPED
    assert len(world.resized) == resized
    world.spec(undo=world.status.receipts[0].id)
    world.run(60)
    assert world.sizes() == {BIG}


def test_one_replica_is_proven_once() -> None:
    world = World(replicas=1, mode=Mode.ACT)
    assert world.run(7200, lambda: bool(world.status.receipts))
    assert world.status.receipts[0].outcome is Outcome.DONE


def test_an_autoscaler_on_the_same_metric_is_respected() -> None:
    world = World(mode=Mode.SUGGEST)
    world.engine.autoscaler_seen("ns/h", ("ns", "Deployment", "web"), Held(cpu="CPU stays: scaled by it"))
    world.run(600)
    assert world.status.suggestion is not None
    assert world.status.suggestion.after.cpu_request_m == 3000
    assert "CPU stays: scaled by it" in world.status.suggestion.why


def test_pods_of_several_containers_are_left() -> None:
    world = World(mode=Mode.ACT)
    of = world.pods["a"]
    world.put(replace(of, containers=(*of.containers, SizedContainer("proxy", BIG))))
    world.run(600)
    assert "several containers" in world.status.message
    assert world.resized == []


def test_a_spec_that_cannot_be_read_does_nothing() -> None:
    world = World(mode=Mode.ACT, wrong=("spec.mode: no such",))
    world.run(600)
    assert (world.status.state, world.status.message) == ("invalid", "spec.mode: no such")
    assert world.resized == []


def test_a_write_that_no_watch_shows_is_decided_anew() -> None:
    world = World(mode=Mode.SUGGEST)
    world.engine.metric_seen(NodeMetric("n1", 0.0, pods={"ns/a": MeasuredPod(Use(1, MIB))}, updated_s=NOW_S))
    assert world.engine.decide(NOW_S + 1)
    assert world.engine.decide(NOW_S + 2) == ()
    assert world.engine.decide(NOW_S + 32)
