"""Changes of sizes among kubelets that defer, pods that come and go, leaders that fall and objectives that burn: no
replica is left with a size that is neither the old nor the proven one, and no second one is touched before the first is
proven.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.fakes.cluster.sizing_world import BIG, MIB, World, in_place, pending, pod

from cotenant.model.machine.node_metric import Use
from cotenant.model.sizes.right_sizing import SizingMode, SizingOutcome, SizingPhase
from cotenant.model.traces.objective import Indicator, ObjectiveState, ObjectiveStatus
from cotenant.policy.sizing.steps import next_step

SEEDS = range(8)
STEPS = 40


def objective(state: ObjectiveState) -> ObjectiveStatus:
    return ObjectiveStatus("ns/fast", "ns", "web", Indicator.LATENCY, state=state)


def happen(world: World, random: Random) -> None:
    """Something of a day in a cluster."""
    what = random.randrange(9)
    if what == 0:
        world.kubelet = random.choice([in_place, pending("Deferred"), pending("Infeasible")])
    elif what == 1:
        world.kubelet = in_place
        for name, of in [*world.pods.items()]:
            world.put(in_place(of, of.containers[0].size))
            assert world.pods[name].pending == ""
    elif what == 2:
        world.restart()
        world.engine.objective_seen(objective(ObjectiveState.OK))
    elif what == 3 and len(world.pods) > 1:
        name = random.choice(sorted(world.pods))
        del world.pods[name]
        world.engine.pod_gone(f"ns/{name}")
    elif what == 4 and len(world.pods) < 6:
        name = f"n{random.randrange(10_000)}"
        world.put(pod(name))
    elif what == 5:
        world.engine.objective_seen(objective(random.choice([ObjectiveState.OK, ObjectiveState.BURNING])))
    elif what == 6 and random.random() < 0.3:
        of = world.pods[random.choice(sorted(world.pods))]
        container = of.containers[0]
        world.put(replace(of, containers=(replace(container, restarts=container.restarts + 1),)))
    elif what == 7:
        world.freeze(None if world.frozen else "by hand")
    else:  # another month, with another use
        world.now_s += 40 * 86_400
        world.use = Use(random.randrange(300, 2000), 900 * MIB)
    world.run(random.choice([10, 60, 150]), lambda: check(world))


def check(world: World) -> bool:
    """What holds at every moment; False, as a condition that ends nothing."""
    sizes = {name: of.containers[0].size for name, of in world.pods.items()}
    change = world.status.change
    known = {BIG}
    for goal in [receipt.after for receipt in world.status.receipts] + ([change.goal] if change else []):
        step = next_step(BIG, goal)
        known |= {goal} if step is None else {goal, step}
    assert set(sizes.values()) <= known
    if change is not None and change.phase in (SizingPhase.FIRST, SizingPhase.PROOF) and world.status.applied is None:
        ours = {one.pod for one in change.touched}
        step = next_step(BIG, change.goal)
        earlier = {receipt.after for receipt in world.status.receipts}
        if change.after == step:  # the first step: nobody else has it yet
            assert [
                name for name, size in sizes.items() if size == step and size not in earlier and name not in ours
            ] == []
            assert len(change.touched) == 1
    return False


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_no_replica_is_left_between_two_sizes(seed: int) -> None:
    random = Random(seed)
    world = World(mode=SizingMode.ACT, objective="fast")
    world.engine.objective_seen(objective(ObjectiveState.OK))
    for _ in range(STEPS):
        happen(world, random)
    world.kubelet = in_place
    world.freeze(None)
    for of in [*world.pods.values()]:
        world.put(in_place(of, of.containers[0].size))
    world.engine.objective_seen(objective(ObjectiveState.OK))
    assert world.run(4000, lambda: world.status.change is None)
    world.run(120)
    if world.status.change is not None or not world.status.receipts:
        return
    last = world.status.receipts[0]
    if last.outcome is SizingOutcome.DONE:
        sizes = {name: of.containers[0].size for name, of in world.pods.items()}
        assert {size for name, size in sizes.items() if name not in world.given_back} <= {
            last.after
        }  # those have what they had
    elif last.outcome in (SizingOutcome.UNDONE, SizingOutcome.GIVEN_UP) and "not yet back" not in last.why:
        assert world.sizes() <= {last.before, BIG}  # those made anew have the template's


@pytest.mark.parametrize("seed", [0, 1, 510062])  # the last: every replica of a change is made anew meanwhile
def test_first_sequences(seed: int) -> None:
    test_no_replica_is_left_between_two_sizes(seed)
