"""Lending by leave among people who approve and take back, freezes, other rules, lost writes, restarts and objectives:
no amount stands on a node that was not allowed when it was written, and what falls is followed within a step.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.fakes.processes.managed_world import World, config

from cotenant.engine.manager.instructions import Instruction, WriteAmounts
from cotenant.model.autonomy.autonomy import Autonomy, AutonomyRung, Freeze
from cotenant.model.autonomy.pool_lending import LendingOutcome, LendMode
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.traces.objective import FiringAlert, Indicator, ObjectiveState, ObjectiveStatus

SEEDS = range(12)
STEPS = 120
TICK_S = 3600


class Pools(World):
    """Two nodes of one pool, one with a service beside a batch pod."""

    def __init__(self, random: Random) -> None:
        self.mode, self.percent = LendMode.EARNED, 60
        super().__init__(**self._rules())
        self.now_s = 20_000 * 86_400.0
        self.random, self.objective, self.frozen, self.ceiling = random, 0, False, AutonomyRung.ACT
        for name in ("n", "m"):
            self.node(name)
        self.pod("web")
        self.pods["web"] = replace(self.pods["web"], pod=replace(self.pods["web"].pod, labels={"app": "web"}))
        self.manager.pod_seen(self.pods["web"], self.now_s)
        self.pod("job", cores=0, priority_class=PriorityClass.BATCH, qos=QoSClass.BE)

    def _rules(self) -> dict[str, object]:
        return {
            "metricReportIntervalSeconds": TICK_S // 2,
            "degradeTimeMinutes": 120,
            "lendMode": self.mode.value,
            "cpuReclaimThresholdPercent": self.percent,
        }

    def live(self, hours: int) -> list[Instruction]:
        """Two measurements an hour of each node."""
        done: list[Instruction] = []
        use = self.random.choice([10_000, 20_000, 80_000])
        for _ in range(2 * hours):
            self.measure(web=use)
            self.measure(name="m")
            done += self.step(TICK_S / 2)
        return done

    def rules(self) -> None:
        self.configure(config(**self._rules()))

    def people(self) -> None:
        pool = self.pools.get("cluster")
        if pool is None:
            return
        stands = pool.status.suggestion
        ids = [receipt.id for receipt in pool.status.receipts]
        spec = self.random.choice(
            [
                {"approved": stands.id if stands is not None else "", "approved_by": "ada"},
                {"approved": "00000000-0"},
                {"undo": self.random.choice([*ids, "2030-01-01"])},
            ]
        )
        self.pools["cluster"] = replace(pool, **spec)
        self.manager.pools.pool_seen(self.pools["cluster"], self.now_s)

    def burn(self) -> None:
        self.objective += 1
        firing = (FiringAlert("1h", "5m", 14.4),) if self.random.random() < 0.3 else ()
        self.manager.pools.objective_seen(
            ObjectiveStatus(
                "default/web", "default", "web", Indicator.LATENCY, ObjectiveState.OK, {}, firing,
                requests=self.objective,
            ),
            self.now_s,
        )  # fmt: skip

    def people_limit(self) -> None:
        self.frozen, self.ceiling = self.random.random() < 0.3, self.random.choice(list(AutonomyRung))
        self.limits()

    def limits(self) -> None:
        freeze = Freeze("by hand") if self.frozen else None
        self.manager.autonomy_seen(Autonomy("all", ceiling=self.ceiling, freeze=freeze))

    def again(self) -> None:
        self.restart()
        self.limits()


def happen(world: Pools) -> None:
    what = world.random.randrange(10)
    if what < 3:
        world.people()
    elif what == 3:
        world.people_limit()
    elif what == 4:
        world.again()
    elif what == 5:
        world.burn()
    elif what == 6:
        world.loses = world.random.randrange(4)
    elif what == 7:
        world.mode, world.percent = world.random.choice(list(LendMode)), world.random.choice([60, 60, 80])
        world.rules()


def check(world: Pools, before: dict[str, dict[str, int]], done: list[Instruction]) -> None:
    leave = world.manager.pools.leave("cluster", world.now_s)
    assert leave is not None
    assert leave.rung <= world.ceiling
    if world.mode is not LendMode.EARNED:
        assert leave.rung <= AutonomyRung[world.mode.name]
    for write in done:
        if isinstance(write, WriteAmounts) and world.manager.may_write(write, world.now_s):
            raised = [n for n, value in write.amounts.items() if (value or 0) > before[write.node].get(n, 0)]
            assert not raised or (leave.lends and not world.frozen), (leave, write)
    if not leave.lends and world.loses == 0:
        world.live(1)  # what was lost before is written again
        leave = world.manager.pools.leave("cluster", world.now_s)
        if leave is not None and not leave.lends:
            assert world.lent("n") == world.lent("m") == {}, leave
    pool = world.pools.get("cluster")
    if pool is not None:
        receipts = pool.status.receipts
        assert len({one.id for one in receipts}) == len(receipts), "one receipt a day"
        assert not {one.day.day for one in receipts} & {one.day for one in pool.status.open}
        assert all(one.day.lent <= one.day.hours and one.day.exceeded <= one.day.hours for one in receipts)
        undone = sum(one.outcome is LendingOutcome.UNDONE for one in receipts)
        assert pool.status.term >= undone


@pytest.mark.parametrize("seed", SEEDS)
def test_no_amount_stands_without_leave(seed: int) -> None:
    world = Pools(Random(seed))
    world.live(2)
    for _ in range(STEPS):
        happen(world)
        before = {name: world.lent(name) for name in ("n", "m")}
        done = world.step()
        check(world, before, done)
        world.live(world.random.choice([1, 4, 13]))
    assert world.pools
