"""The newest decisions, compared with a list of all of them."""

from __future__ import annotations

from random import Random

from cotenant.engine.cycle.history import DecisionHistory
from cotenant.engine.framework.instructions import Bind, ClearNomination, Evict, Instruction, Preempt, Victim
from cotenant.model.decisions.answers import PreemptedPods
from cotenant.model.decisions.record import DecisionRecord


def placed(uid: str, at_s: float) -> Bind:
    return Bind(uid, f"default/{uid}", "n", DecisionRecord(uid, at_s, 1, "n"))


def victims(*at: str) -> tuple[Victim, ...]:
    return tuple(Victim(f"u{i}", f"default/v{i}", node) for i, node in enumerate(at))


def test_the_newest_records_are_kept_and_a_pod_that_is_bound_again_counts_as_new() -> None:
    random = Random(1)
    history = DecisionHistory(max_records=5)
    newest: list[Bind] = []
    for second in range(200):
        bind = placed(f"p{random.randrange(9)}", float(second))
        history.note([ClearNomination("x", "default/x"), bind], float(second))
        newest = [*(old for old in newest if old.uid != bind.uid), bind][-5:]
        assert len(history) == len(newest)
        kept = {uid: history.record(uid) for uid in (f"p{i}" for i in range(9))}
        assert {uid: record for uid, record in kept.items() if record} == {one.uid: one.record for one in newest}


def test_a_preemption_is_told_once_for_each_node_that_loses_pods_the_preemptors_first() -> None:
    history = DecisionHistory(max_preemptions=4)
    instructions: list[Instruction] = [
        Preempt("u", "default/a", "n2", victims("n1", "n2", "n1"), breaks_budgets=2, rule="the rule"),
        Preempt("u", "default/b", "n3", ()),
        Evict(Victim("u", "default/v0", "n4"), "QuotaOverused", "too much"),
    ]
    history.note(instructions, 7.0)
    budgets = ", 2 in all beyond what their disruption budgets allow"
    told = [
        PreemptedPods(7.0, "the rule", ("default/v1",), "default/a", "n2", f"1 evicted for it{budgets}"),
        PreemptedPods(7.0, "the rule", ("default/v0", "default/v2"), "default/a", "n1", f"2 evicted for it{budgets}"),
        PreemptedPods(7.0, "lower priority", (), "default/b", "n3", "pods that were ending already made the room"),
        PreemptedPods(7.0, "QuotaOverused", ("default/v0",), "", "n4", "too much"),
    ]
    assert list(history.preemptions()) == told
    assert history.about("default/a") == tuple(told[:2])
    assert history.about("default/b") == (told[2],)
    assert history.about("default/v0") == (told[1], told[3])
    assert history.about("default/v9") == ()
    history.note(instructions[2:], 8.0)
    assert [preemption.at_s for preemption in history.preemptions()] == [7.0, 7.0, 7.0, 8.0]


def test_of_many_victims_all_are_counted_and_the_first_are_named() -> None:
    history = DecisionHistory()
    history.note([Preempt("u", "default/a", "n", victims(*["n"] * 300))], 0.0)
    (told,) = history.preemptions()
    assert told.words == "300 evicted for it"
    assert 0 < len(told.victims) < 300
    assert told.victims == tuple(f"default/v{i}" for i in range(len(told.victims)))
