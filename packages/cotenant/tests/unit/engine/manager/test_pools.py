"""How far lending goes: what is suggested, approved, earned, taken back and stopped, over days of a small world."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from tests.fakes.processes.managed_world import World, config

from cotenant.engine.manager.instructions import WriteAmounts, WritePool
from cotenant.model.autonomy.autonomy import Action, Autonomy, AutonomyRung, Freeze
from cotenant.model.autonomy.pool_lending import LendingOutcome, LendingStatus, PoolLending
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.traces.objective import FiringAlert, Indicator, ObjectiveState, ObjectiveStatus

DAY_S, TICK_S = 86_400.0, 900
HELD, EXCEEDED = LendingOutcome.HELD, LendingOutcome.EXCEEDED


def _rules(mode: str | None, **strategy: Any) -> dict[str, Any]:
    own = {} if mode is None else {"lendMode": mode}
    return {"metricReportIntervalSeconds": TICK_S, "degradeTimeMinutes": 60, **own, **strategy}


class Days(World):
    """A node of 100 cores with a prod pod that requests 40; measured four times an hour."""

    def __init__(self, mode: str | None = "earned", **strategy: Any) -> None:
        super().__init__(**_rules(mode, **strategy))
        self.now_s = 20_000 * DAY_S
        self.node()
        self.pod("a", cores=40)

    def live(self, days: float, **used: int) -> None:
        """Let days pass with this use in milli-CPU."""
        for _ in range(round(days * DAY_S / TICK_S)):
            self.measure(**(used or {"a": 20_000}))
            self.step(TICK_S)

    @property
    def pool(self) -> PoolLending:
        return self.pools["cluster"]

    @property
    def status(self) -> LendingStatus:
        return self.pool.status

    @property
    def outcomes(self) -> str:
        """Of the receipts, oldest first, by their first letter."""
        return "".join(receipt.outcome.value[0] for receipt in reversed(self.status.receipts))

    def says(self, **spec: str) -> None:
        """A person writes into the spec."""
        self.pools["cluster"] = replace(self.pool, **spec)
        self.manager.pools.pool_seen(self.pool, self.now_s)
        self.step()

    def approve(self) -> None:
        assert self.status.suggestion is not None
        self.says(approved=self.status.suggestion.id, approved_by="ada")


def settled(mode: str | None = "earned", **strategy: Any) -> Days:
    world = Days(mode, **strategy)
    world.live(0.1)
    return world


def test_without_a_mode_lending_is_as_ever_and_no_object_is_made() -> None:
    world = settled(None)
    assert world.lent()["batch-cpu"] == 40_000
    assert world.pools == {}


@pytest.mark.parametrize("mode", ["shadow", "suggest", "approve", "earned"])
def test_what_may_not_act_leaves_no_amount_on_a_node(mode: str) -> None:
    world = settled(mode)
    assert world.lent() == {}
    assert world.status.state == ("shadow" if mode == "shadow" else "suggested")
    if mode == "shadow":
        assert world.status.suggestion is None
    else:
        assert world.status.suggestion is not None
        assert (world.status.suggestion.nodes, world.status.suggestion.cpu_m) == (1, 40_000)
        assert world.status.suggestion.rules == "cpu by usage up to 60 %; memory by usage up to 65 %"


def test_amounts_that_stood_are_removed_when_a_mode_begins() -> None:
    world = settled(None)
    world.configure(config(**_rules("suggest")))
    world.step()
    assert world.lent() == {}
    world.configure(config(**_rules("act")))
    world.step()
    assert world.lent()["batch-cpu"] == 40_000


def test_an_approval_lends_until_the_rules_change() -> None:
    world = settled("approve")
    world.approve()
    assert world.lent()["batch-cpu"] == 40_000
    assert (world.status.state, world.status.message) == ("lent", "lendMode approve; allowed by ada")
    world.configure(config(**_rules("approve", cpuReclaimThresholdPercent=90)))
    world.step()
    assert world.lent() == {}
    world.approve()
    assert world.lent()["batch-cpu"] == 70_000


def test_an_approval_of_something_else_does_not_count() -> None:
    world = settled("approve")
    world.says(approved="00000000-0", approved_by="ada")
    assert world.lent() == {}


def test_days_that_were_free_climb_from_a_suggestion_to_acting() -> None:
    world = Days()
    world.live(9.1)
    assert world.status.rung == "approve"
    world.live(3)
    assert world.outcomes == "h" * 9, "what waits for approval is not judged: nothing was lent"
    assert world.lent() == {}
    world.approve()
    assert world.lent()["batch-cpu"] == 40_000
    world.live(10)
    assert world.status.rung == "act"
    world.says(approved="", approved_by="")
    assert world.lent()["batch-cpu"] == 40_000, "nobody needs to allow it any more"


def test_a_suggestion_that_was_not_free_is_a_day_that_did_not_hold() -> None:
    world = Days()
    world.live(3)
    world.live(1 / 24, a=70_000)  # 70 of 100, and 40 were suggested before
    world.live(23 / 24)
    assert world.outcomes == "hhhh", "one node-hour of 24 may be chance"
    for _ in range(12):
        world.live(1 / 24, a=70_000)
        world.live(1 / 24, a=20_000)
    world.live(0.9)
    assert world.outcomes == "hhhhe"
    assert world.status.receipts[0].why == "12 of 24 node-hours exceeded at 1 % risk"


def _objective(burns: bool, n: int) -> ObjectiveStatus:
    return ObjectiveStatus(
        "default/web",
        "default",
        "web",
        Indicator.LATENCY,
        ObjectiveState.OK,
        firing=(FiringAlert("1h", "5m", 14.4),) if burns else (),
        requests=n,
    )


def _earned() -> Days:
    """A pool that acts, with a batch pod beside a replica of a service."""
    world = Days()
    world.live(9.1)
    world.approve()
    world.live(10)
    assert world.status.rung == "act"
    web = world.pods["a"]
    world.pods["a"] = replace(web, pod=replace(web.pod, labels={"app": "web"}))
    world.manager.pod_seen(world.pods["a"], world.now_s)
    world.pod("job", cores=0, priority_class=PriorityClass.BATCH, qos=QoSClass.BE)
    world.says(approved="", approved_by="")
    return world


def test_an_objective_that_begins_to_burn_beside_batch_pods_takes_a_rung_at_once() -> None:
    world = _earned()
    world.manager.pools.objective_seen(_objective(False, 1), world.now_s)
    world.manager.pools.objective_seen(_objective(True, 2), world.now_s)
    world.step()
    assert world.status.rung == "approve"
    assert world.lent() == {}
    assert world.status.receipts[0].outcome is LendingOutcome.OBJECTIVE
    assert "default/web" in world.status.receipts[0].why
    receipts = len(world.status.receipts)
    world.live(0.4)
    assert len(world.status.receipts) == receipts, "the rest of that day is not judged again"


def test_a_burn_that_was_there_or_touches_no_batch_pod_is_not_lendings() -> None:
    world = _earned()
    world.manager.pools.objective_seen(_objective(True, 1), world.now_s)
    world.manager.pools.objective_seen(_objective(True, 2), world.now_s)
    world.step()
    assert world.status.rung == "act", "it burned before this process looked"
    world.manager.pools.objective_seen(_objective(False, 3), world.now_s)
    world.manager.pod_gone("uid-job", world.now_s)
    world.manager.pools.objective_seen(_objective(True, 4), world.now_s)
    world.step()
    assert world.status.rung == "act"


def test_an_undo_stops_lending_until_it_is_approved_anew() -> None:
    world = _earned()
    newest = world.status.receipts[0].id
    world.says(undo=newest)
    assert world.lent() == {}
    assert (world.status.state, world.status.rung) == ("stopped", "act")
    assert world.status.receipts[0].outcome is LendingOutcome.UNDONE
    world.live(0.2)
    assert world.lent() == {}
    world.restart()
    world.live(0.1)
    assert world.lent() == {}, "what was taken back stays so over a restart"
    world.approve()
    assert world.lent()["batch-cpu"] == 40_000


def test_an_undo_of_today_ends_the_day() -> None:
    world = _earned()
    today = "2024-10-23"
    world.says(undo=today)
    assert world.status.receipts[0].id == today
    assert world.lent() == {}
    world.says(undo="1999-01-01")
    assert world.status.term == 1, "a day that nobody knows changes nothing"


def test_what_was_earned_survives_a_restart_in_the_middle_of_a_day() -> None:
    world = Days()
    world.live(8.5)
    world.restart()
    world.live(0.6)
    assert world.outcomes == "h" * 9
    assert world.status.receipts[0].day.hours >= 22
    assert world.status.rung == "approve"


def test_a_ceiling_counts_where_a_mode_is_set() -> None:
    world = settled("act")
    assert world.lent()["batch-cpu"] == 40_000
    world.manager.autonomy_seen(Autonomy("low", ceiling=AutonomyRung.SUGGEST))
    world.step()
    assert world.lent() == {}
    assert "Autonomy low allows suggest at most" in world.status.message
    world.manager.autonomy_gone("low")
    world.step()
    assert world.lent()["batch-cpu"] == 40_000
    free = settled(None)
    free.manager.autonomy_seen(Autonomy("low", ceiling=AutonomyRung.SUGGEST))
    free.step()
    assert free.lent()["batch-cpu"] == 40_000


def test_a_freeze_holds_what_was_approved_meanwhile() -> None:
    world = settled("approve")
    world.manager.autonomy_seen(Autonomy("stop", freeze=Freeze("sale"), actions=frozenset({Action.LENDING})))
    world.approve()
    assert world.lent().get("batch-cpu", 0) == 0
    world.manager.autonomy_gone("stop")
    world.step()
    assert world.lent()["batch-cpu"] == 40_000


def test_a_write_that_waits_is_not_sent_after_an_undo() -> None:
    world = settled("approve")
    assert world.status.suggestion is not None
    world.pools["cluster"] = replace(world.pool, approved=world.status.suggestion.id)
    world.manager.pools.pool_seen(world.pool, world.now_s)
    [write] = [one for one in world.manager.decide(world.now_s) if isinstance(one, WriteAmounts)]
    assert world.manager.may_write(write, world.now_s)
    world.pools["cluster"] = replace(world.pool, approved="")
    world.manager.pools.pool_seen(world.pool, world.now_s)
    assert not world.manager.may_write(write, world.now_s)


def test_each_pool_has_its_own_mode() -> None:
    nodes = [{"name": "Big ones", "nodeSelector": {"matchLabels": {"big": "yes"}}, "lendMode": "suggest"}]
    world = World(nodeConfigs=nodes)
    world.node()
    world.node("m", labels={"big": "yes"})
    for name in ("n", "m"):
        world.measure(name=name)
    world.step()
    assert world.lent("n")["batch-cpu"] == 60_000
    assert world.lent("m") == {}
    world.step()
    assert list(world.pools) == ["big-ones"]


def test_a_pool_without_a_mode_any_more_says_so() -> None:
    world = settled("approve")
    world.configure(config(**_rules(None)))
    world.step()
    assert world.status.state == "off"
    assert world.lent()["batch-cpu"] == 40_000


def test_a_lost_write_of_a_status_is_issued_again_later_and_later() -> None:
    world = Days("suggest")
    world.loses = 10**6
    world.measure(a=20_000)
    made = []
    for _ in range(300):
        made += [world.now_s for one in world.step(1.0) if isinstance(one, WritePool)]
    gaps = [round(later - before) for before, later in pairwise(made)]
    assert gaps == sorted(gaps)
    assert 3 <= len(made) <= 6
