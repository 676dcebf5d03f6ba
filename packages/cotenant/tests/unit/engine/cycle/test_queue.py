"""The scheduling queue against plain lists of what waits where."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import numpy as np
import pytest

from cotenant.engine.cycle.queue import FLUSH_S, SchedulingQueue
from cotenant.engine.framework.backoff import Backoff
from cotenant.engine.framework.budget import ASIDE
from cotenant.engine.framework.queueing import PlacementVerdict, QueuedGroup, QueueStanding, WholeGroup
from cotenant.model.decisions.record import DecisionRecord
from cotenant.model.errors import Permanent

WHY = PlacementVerdict(DecisionRecord("a", 0.0, 0, None), "no node", frozenset({"Fit"}))


def queue(**fields: float) -> SchedulingQueue:
    return SchedulingQueue(Backoff(1.0, 8.0), **fields)


def add(
    waiting: SchedulingQueue, uid: str, key: object, rank: float = 0.0, priority: int = 0, **fields: bool
) -> QueuedGroup:
    return waiting.add(uid, key, priority, 0, (rank,), "Add", **fields)  # type: ignore[arg-type]


def take(waiting: SchedulingQueue, most: int = 99) -> list[str]:
    found = waiting.take(most)
    waiting.requeue(found)
    waiting.validate()
    return [uid for uid, _ in found]


@dataclass(slots=True)
class Known:
    """A group, by hand."""

    priority: int
    is_whole: bool
    pods: dict[str, float] = field(default_factory=dict)  # in order of arrival, with their ranks
    standing: QueueStanding = QueueStanding.ACTIVE
    refusals: int = 0
    until_s: float = 0.0
    since_s: float = 0.0
    is_large: bool = False

    def heads(self) -> list[tuple[float, float, list[str]]]:
        """What would be taken one after the other, with what each goes by."""
        if self.is_whole:
            return [(-self.priority, next(iter(self.pods.values())), list(self.pods))]
        return [(-self.priority, rank, [uid]) for uid, rank in self.pods.items()]


class Model:
    """Groups by key."""

    def __init__(self) -> None:
        self.groups: dict[object, Known] = {}

    def expected(self, most: int) -> list[str]:
        """Always the group whose next pod goes first."""
        left = {
            key: group.heads()
            for key, group in self.groups.items()
            if group.standing is QueueStanding.ACTIVE and not group.is_large
        }
        taken: list[str] = []
        while left and len(taken) < most:
            key = min(left, key=lambda key: left[key][0][:2])
            taken += left[key].pop(0)[2]
            if not left[key]:
                del left[key]
        return taken

    def next_s(self, large_from_s: float) -> float:
        standings = {group.standing for group in self.groups.values() if not group.is_large}
        if QueueStanding.ACTIVE in standings:
            return -inf
        times = [inf]
        for group in self.groups.values():
            match group.standing:
                case QueueStanding.BACKOFF:
                    times.append(group.until_s)
                case QueueStanding.UNSCHEDULABLE:
                    times.append(group.since_s + FLUSH_S)
                case QueueStanding.ACTIVE:
                    times.append(large_from_s)
        return min(times)


@pytest.mark.parametrize("seed", range(8))
def test_any_events_leave_each_group_where_it_belongs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    waiting, model = queue(), Model()
    now_s, number = 0.0, 0
    for _ in range(300):
        now_s += float(rng.choice([0.0, 0.4, 3.0, 200.0], p=[0.5, 0.3, 0.18, 0.02]))
        waiting.release(now_s)
        for group in model.groups.values():
            if group.standing is QueueStanding.BACKOFF and group.until_s <= now_s:
                group.standing = QueueStanding.ACTIVE
        for group in model.groups.values():
            if group.standing is QueueStanding.UNSCHEDULABLE and group.since_s + FLUSH_S <= now_s:
                group.standing = QueueStanding.ACTIVE if group.until_s <= now_s else QueueStanding.BACKOFF
        live = list(model.groups)
        match int(rng.integers(8)):
            case 0 | 1 | 2:
                number += 1
                at = int(rng.integers(6))
                key: object = WholeGroup(at, "gangs") if at < 2 else at
                # pods of one plain group are alike, so of one priority; those of a whole group need not be
                priority = int(rng.integers(3)) if at < 2 else at % 3
                add(waiting, f"p{number}", key, float(number), priority)
                known = model.groups.setdefault(key, Known(priority, at < 2))
                known.priority = min(known.priority, priority)
                known.pods[f"p{number}"] = float(number)
            case 3 if live:
                key = live[rng.integers(len(live))]
                uid = str(rng.choice(list(model.groups[key].pods)))
                assert waiting.remove(uid)
                assert not waiting.remove(uid)
                del model.groups[key].pods[uid]
                if not model.groups[key].pods:
                    del model.groups[key]
            case 4 | 5:
                most = int(rng.integers(1, 9))
                taken = waiting.take(most)
                assert [uid for uid, _ in taken] == model.expected(most)
                for group in {id(group): group for _, group in taken}.values():
                    if rng.random() < 0.5:
                        waiting.refuse(group, WHY, now_s)
                        refused = model.groups[group.key]
                        refused.refusals += 1
                        refused.until_s = now_s + min(8.0, 2.0 ** (refused.refusals - 1))
                        refused.since_s, refused.standing = now_s, QueueStanding.UNSCHEDULABLE
                        model.groups[group.key] = refused
                waiting.requeue(taken)
            case _ if live:
                key = live[rng.integers(len(live))]
                known, at_once = model.groups[key], bool(rng.random() < 0.2)
                group = waiting.group_of(next(iter(known.pods)))
                assert group is not None
                woken = waiting.wake(group, now_s, "Event", at_once)
                assert woken is (known.standing is QueueStanding.UNSCHEDULABLE)
                if woken:
                    is_over = at_once or known.until_s <= now_s
                    known.standing = QueueStanding.ACTIVE if is_over else QueueStanding.BACKOFF
        waiting.validate()
        assert waiting.next_s() == model.next_s(-inf)
        assert len(waiting) == sum(len(group.pods) for group in model.groups.values())
        sizes = {
            standing: sum(len(group.pods) for group in model.groups.values() if group.standing is standing)
            for standing in QueueStanding
        }
        assert waiting.sizes() == sizes
        assert {group.key for group in waiting.groups()} == set(model.groups)
        unschedulable = [group.key for group in waiting.unschedulable()]
        assert len(unschedulable) == waiting.unschedulable_groups()
        assert set(unschedulable) == {
            key for key, group in model.groups.items() if group.standing is QueueStanding.UNSCHEDULABLE
        }
        for key, known in model.groups.items():
            for uid in known.pods:
                group = waiting.group_of(uid)
                assert group is not None
                assert (group.key, group.priority, uid in waiting) == (key, known.priority, True)


def test_a_pod_is_queued_once() -> None:
    waiting = queue()
    add(waiting, "a", "k")
    with pytest.raises(Permanent, match="pod a is queued already"):
        add(waiting, "a", "other")
    assert waiting.group_of("b") is None
    assert "b" not in waiting


def test_a_pod_that_joins_a_refused_group_waits_with_it_and_shares_its_verdict() -> None:
    waiting = queue()
    group = add(waiting, "a", "k")
    waiting.take(1)
    waiting.refuse(group, WHY, 5.0)
    waiting.requeue([("a", group)])
    assert add(waiting, "b", "k") is group
    assert (take(waiting), group.verdict, group.until_s, group.since_s) == ([], WHY, 6.0, 5.0)
    waiting.placed(group)
    assert (group.verdict, group.refusals, group.overruns) == (None, 0, 0)


def test_the_longest_waiting_group_is_flushed_first_and_not_before_its_time() -> None:
    waiting = queue(flush_s=10.0)
    for name, at_s in (("a", 0.0), ("b", 4.0)):
        waiting.refuse(add(waiting, name, name), WHY, at_s)
    assert waiting.next_s() == 10.0
    waiting.release(9.99)
    assert take(waiting) == []
    waiting.release(10.0)
    assert take(waiting) == ["a"]
    waiting.refuse(waiting.group_of("a"), WHY, 11.0)  # type: ignore[arg-type]
    assert waiting.next_s() == 14.0
    assert [group.key for group in waiting.unschedulable()] == ["b", "a"]


def test_a_group_that_is_hurried_does_not_wait_for_its_back_off() -> None:
    waiting = queue()
    resting, idle = add(waiting, "a", "a"), add(waiting, "b", "b")
    for group in (resting, idle):
        waiting.refuse(group, WHY, 0.0)
    waiting.wake(resting, 0.0, "Event")
    assert resting.standing is QueueStanding.BACKOFF
    waiting.hurry(resting, 0.0, "Event")
    waiting.hurry(idle, 0.0, "Event")
    assert sorted(take(waiting)) == ["a", "b"]
    waiting.hurry(idle, 0.0, "Event")  # it is tried already
    waiting.release(2.0)
    assert sorted(take(waiting)) == ["a", "b"]


def test_pods_are_counted_by_event_and_queue() -> None:
    waiting = queue()
    group = add(waiting, "a", "k")
    add(waiting, "b", "k")
    waiting.refuse(group, WHY, 0.0)
    waiting.wake(group, 0.5, "NodeAdd")
    waiting.release(1.0)
    waiting.refuse(group, WHY, 2.0)
    waiting.wake(group, 9.0, "NodeAdd")
    add(waiting, "c", "k")
    assert waiting.incoming == {
        ("Add", "active"): 3,
        ("ScheduleAttemptFailure", "unschedulable"): 4,
        ("NodeAdd", "backoff"): 2,
        ("NodeAdd", "active"): 2,
        ("BackoffComplete", "active"): 2,
    }


def test_a_whole_group_has_the_lowest_priority_of_its_pods_and_is_never_split() -> None:
    waiting = queue()
    whole = WholeGroup("gang", "gangs")
    add(waiting, "high", whole, 1.0, priority=9)
    add(waiting, "single", "k", 2.0, priority=5)
    assert take(waiting) == ["high", "single"]
    add(waiting, "low", whole, 3.0, priority=1)
    assert take(waiting) == ["single", "high", "low"]
    assert take(waiting, 2) == ["single", "high", "low"]
    assert take(waiting, 1) == ["single"]


# ---- large pods


def large(waiting: SchedulingQueue, now_s: float = 0.0) -> list[str]:
    found = waiting.take_large(now_s)
    waiting.requeue(found)
    waiting.validate()
    return [uid for uid, _ in found]


def test_large_pods_are_taken_one_at_a_time_and_not_before_their_rest_is_over() -> None:
    waiting = queue()
    for name, rank in (("b", 2.0), ("a", 1.0)):
        add(waiting, name, name, rank, is_large=True)
    assert take(waiting) == []
    assert waiting.next_s() == -inf
    assert large(waiting) == ["a"]
    waiting.rest(7.0)
    assert (waiting.next_s(), large(waiting, 6.9), large(waiting, 7.0)) == (7.0, [], ["a"])
    waiting.remove("a")
    assert large(waiting, 7.0) == ["b"]
    waiting.remove("b")
    assert (large(waiting, 7.0), waiting.next_s()) == ([], inf)


def test_a_group_with_a_large_pod_is_large() -> None:
    waiting = queue()
    whole = WholeGroup("gang", "gangs")
    add(waiting, "small", whole)
    assert take(waiting) == ["small"]
    add(waiting, "big", whole, is_large=True)
    assert take(waiting) == []
    assert large(waiting) == ["small", "big"]
    add(waiting, "third", whole)
    assert large(waiting) == ["small", "big", "third"]
    assert waiting.take_only("nobody") == ([], [])
    ordinary, apart = waiting.take_only("small")
    assert (ordinary, [uid for uid, _ in apart]) == ([], ["small", "big", "third"])
    waiting.requeue(apart)
    add(waiting, "x", "plain")
    add(waiting, "y", "plain")
    ordinary, apart = waiting.take_only("y")
    assert ([uid for uid, _ in ordinary], apart) == (["y"], [])
    waiting.requeue(ordinary)


def test_one_that_costs_too_much_is_tried_again_after_ever_longer_times() -> None:
    waiting = queue()
    group = add(waiting, "a", "k", is_large=True)
    now_s = 0.0
    for overruns in (1, 2, 3):
        waiting.set_aside(group, WHY, now_s)
        assert (group.overruns, group.standing) == (overruns, QueueStanding.BACKOFF)
        assert waiting.next_s() == now_s + ASIDE.rest_s(overruns)
        now_s = waiting.next_s()
        waiting.release(now_s)
        assert large(waiting, now_s) == ["a"]
    waiting.remove("a")
    waiting.set_aside(group, WHY, now_s)
    assert group.overruns == 3


def test_outdated_entries_do_not_pile_up() -> None:
    for is_large in (False, True):
        waiting = queue()
        group = add(waiting, "first", "k", is_large=is_large)
        for i in range(4000):
            add(waiting, f"p{i}", "k", float(i))
            waiting.remove(next(iter(group.pods)))
        assert max(len(waiting._active), len(waiting._large)) <= 2 * 1 + 1024 + 1
        for _ in range(4000):
            waiting.refuse(group, WHY, 0.0)
            waiting.wake(group, 0.0, "Event")
            group.refusals = 0
        assert len(waiting._backing_off) <= 2 * 1 + 1024 + 1
        waiting.validate()


def test_validation_finds_a_group_in_the_wrong_queue() -> None:
    waiting = queue()
    group = add(waiting, "a", "k")
    group.standing = QueueStanding.BACKOFF
    with pytest.raises(Permanent, match="a group of 1 pods is backoff"):
        waiting.validate()
    group.standing = QueueStanding.ACTIVE
    waiting.validate()
    group.pods["b"] = (0.0,)
    with pytest.raises(Permanent, match="disagree"):
        waiting.validate()


def test_a_less_important_pod_moves_its_whole_group_back_before_anything_was_taken() -> None:
    waiting, whole = queue(), WholeGroup("gang", "gangs")
    add(waiting, "high", whole, 1.0, priority=9)
    add(waiting, "single", "k", 2.0, priority=5)
    add(waiting, "low", whole, 3.0, priority=1)
    assert take(waiting) == ["single", "high", "low"]
