"""Right-sizing among others that go by the same sizes: autoscalers that come and go, controllers that resize the same
pods, limits that refuse, kubelets that defer for ever, pods with CPUs of their own, windows and freezes.

What nobody may do to them is never done, and every change ends.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from tests.fakes.cluster.sizing_world import BIG, MIB, World, in_place, pending, pod
from tests.property.few import examples

from cotenant.engine.sizing.scene import ResizePod
from cotenant.model.autonomy.autonomy import Autonomy, Blackout
from cotenant.model.machine.node_metric import Use
from cotenant.model.sizes.container import ContainerSize
from cotenant.model.sizes.right_sizing import SizeChange, SizingMode
from cotenant.policy.assess.container_sizes import HeldResources

STEPS = 40
TARGET = ("ns", "Deployment", "web")
QUIET_S = 86_400.0  # in which an amount is the other controller's
LONGEST_S = 4 * 3600  # of a change: patience and proofs of two steps, and an undoing


class Among(World):
    """A world that checks each resize when it is asked for."""

    def __init__(self, seed: int) -> None:
        super().__init__(mode=SizingMode.ACT)
        self.random = Random(seed)
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self.scaler = HeldResources()
        self.others: dict[str, tuple[ContainerSize, float]] = {}  # by pod: what another gave it last, and when
        self.is_closed = False
        self.began_s: float | None = None
        self.before: SizeChange | None = None
        self.put(replace(self.pods["c"], allocated_by=("memory",)))

    def resize(self, write: ResizePod) -> None:
        change, now = self.status.change, self.pods[write.pod].containers[0].size
        self.counts["resizes"] += 1
        cpu_differs = (write.size.cpu_request_m, write.size.cpu_limit_m) != (now.cpu_request_m, now.cpu_limit_m)
        if not write.undoes and change is not None and self.scaler.cpu and cpu_differs:
            self.wrong.append(f"{write.pod}: CPU is changed beside an autoscaler")
        memory = (now.memory_request_bytes, now.memory_limit_bytes)
        if (write.size.memory_request_bytes, write.size.memory_limit_bytes) != memory and "c" in self.pods:
            self.wrong.append(f"{write.pod}: memory that was allocated by NUMA node is changed")
        size, given_s = self.others.get(write.pod, (BIG, 0.0))
        if size == now and self.now_s < given_s + QUIET_S:
            self.wrong.append(f"{write.pod}: another controller's amount is overwritten")
        super().resize(write)

    def watch(self) -> bool:
        """At each look: what began may have begun, and ends in time; False, as a condition that ends nothing."""
        change = self.status.change
        if change is not None and self.before is None:
            self.began_s = self.now_s
            self.counts["changes"] += 1
            if self.is_closed and not change.why:
                self.wrong.append("a change begins outside of its window")
        if change is not None and self.frozen is None and self.is_reporting:
            assert self.began_s is not None
            if self.now_s - self.began_s > LONGEST_S:
                self.wrong.append(f"a change does not end: {change}")
        self.before = change
        return False

    def happen(self) -> None:
        """Something of a day in a cluster."""
        random = self.random
        what = random.randrange(9)
        if what == 0:
            self.kubelet = random.choice([in_place, in_place, pending("Deferred"), pending("Infeasible")])
        elif what == 1:
            self.scaler = random.choice([HeldResources(), HeldResources(cpu="CPU stays: scaled by it")])
            if self.scaler.cpu:
                self.engine.autoscaler_seen("ns/h", TARGET, self.scaler)
            else:
                self.engine.autoscaler_gone("ns/h")
        elif what == 2:
            self.refuses = random.choice(["", "", "maximum cpu usage per Container is 1 (LimitRange)"])
        elif what == 3:
            self.resize_by_another()
        elif what == 4:
            self.close(random.random() < 0.5)
        elif what == 5:
            self.kubelet = in_place
            for of in [*self.pods.values()]:
                self.put(in_place(of, of.containers[0].size))
        elif what == 7 and self.run(3600, lambda: self.watch() or self.status.change is not None):
            self.resize_by_another()  # in the middle of a change
        elif what == 6 and len(self.pods) < 5:
            self.put(pod(f"n{random.randrange(10_000)}"))
        else:  # another month, with another use
            self.now_s += 40 * 86_400
            self.began_s = self.now_s if self.status.change is not None else None
            self.use = Use(random.randrange(300, 2000), 900 * MIB)
        self.run(random.choice([60, 300, 900]), self.watch)

    def resize_by_another(self) -> None:
        name = self.random.choice(sorted(self.pods))
        size = ContainerSize(2345 + self.random.randrange(9), None, BIG.memory_request_bytes, BIG.memory_limit_bytes)
        of = self.pods[name]
        self.others[name] = size, self.now_s
        self.put(in_place(replace(of, containers=(replace(of.containers[0], size=size),)), size))

    def close(self, is_closed: bool) -> None:
        """A blackout over everything, or none."""
        self.is_closed = is_closed
        if is_closed:
            always = Blackout(0.0, 1e12, "holidays")
            self.engine.permissions.seen(Autonomy("closed", blackouts=(always,)))
        else:
            self.engine.permissions.gone("closed")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(24)))
def test_nothing_is_done_that_others_go_by_and_every_change_ends(seed: int) -> None:
    world = Among(seed)
    for _ in range(STEPS):
        world.happen()
        assert not world.wrong


@pytest.mark.slow
def test_the_days_reach_what_they_are_about() -> None:
    counts: Counter[str] = Counter()
    for seed in range(8):
        world = Among(seed)
        for _ in range(STEPS):
            world.happen()
        counts.update(world.counts)
        counts.update(receipt.outcome.value for receipt in world.status.receipts)
    assert min(counts["changes"], counts["givenUp"], counts["yielded"], counts["done"]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["Deferred", "Infeasible"])
def test_a_step_that_the_kubelet_never_takes_is_given_back(reason: str) -> None:
    """Also where it does not take the undoing either: a size that was never given is the one that the pod has."""
    world = World(mode=SizingMode.ACT)
    world.kubelet = pending(reason)
    assert world.run(LONGEST_S, lambda: bool(world.status.receipts))
    assert world.status.receipts[0].outcome.value == "givenUp"
    assert world.sizes() == {BIG}
    resized = len(world.resized)
    world.run(3 * 3600)
    assert len(world.resized) == resized
