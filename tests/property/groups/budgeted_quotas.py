"""Small random worlds in which only quotas decide: a node with room for all, quotas that are full, gangs among those
that run and those that wait, and disruption budgets, most of them spent, over those who would have to go.

The trial carries out what the engine says as an API server does: an eviction that a budget does not allow is refused
and nobody is told. The reference tries every set of victims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from random import Random

from tests.fakes.cluster.quota_world import World, node, pod, quota

from cotenant.engine.framework.instructions import Bind, Evict, Instruction
from cotenant.engine.plugins.quotas.promise import REASON
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.cluster.observed import DisruptionBudget
from cotenant.model.groups.gang import GangMode, GangNotes
from cotenant.model.groups.quota import PREEMPTIBLE

_REST_S = 200.0  # longer than promises and back-offs
_ROUNDS = 400
_BUDGETS = ("x", "y")
Unit = frozenset[str]  # of pods that go together or not at all


@dataclass(slots=True)
class Member:
    """A pod, in plain words."""

    name: str
    cores: int
    priority: int
    quota: str
    gang: str = ""
    budget: str = ""
    preemptible: bool = True
    preempts: bool = True
    runs: bool = False


class BudgetedTrial:
    """One world, run until nothing more happens, then through some events; what is wrong is in `wrong`."""

    def __init__(self, seed: int, events: int = 3) -> None:
        self.seed, self.events, self.rng = seed, events, Random(seed)
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self.pods: dict[str, Member] = {}
        self.least: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.allowed: dict[str, int] = {}
        self.ending: list[str] = []
        self.world = World(node("n", 1000), revoke=False)
        self.engine = self.world.cluster
        self._late = 0  # jobs that arrived after the first
        self.new = Unit()  # placed in this step
        self.slow_ends = self.rng.random() < 0.3

    def run(self) -> None:
        """Everything."""
        self._begin()
        for job in self._jobs():
            self._arrive(job)
            if self.rng.random() < 0.5:
                self._step()
        self._rest("")
        for _ in range(self.events):
            self._happens()
        for name in _BUDGETS:
            self._set_allowed(name, 20)
        self._rest("all budgets have room")

    # ---- the world

    def _begin(self) -> None:
        rng = self.rng
        for name in _BUDGETS:
            self._set_allowed(name, rng.choice((0, 0, 1, 2)))
        for gang in ("g0", "g1", "g2"):
            quota_name, priority, budget = rng.choice(("q0", "q1")), rng.choice((0, 1, 2)), rng.choice(("", "x", "y"))
            size = rng.choice((0, 2, 2, 3))
            self.least[gang] = max(1, size - rng.choice((0, 0, 1)))
            for at in range(size):
                here = quota_name if rng.random() < 0.8 else rng.choice(("q0", "q1"))
                is_odd = rng.random() < 0.1
                self._runs(Member(f"{gang}-{at}", rng.choice((1, 1, 2)), 6 if is_odd else priority, here, gang, budget))
        for at in range(rng.randint(1, 5)):
            one = Member(f"r{at}", rng.choice((1, 2)), rng.choice((0, 1, 2, 6)), rng.choice(("q0", "q1")))
            one.budget, one.preemptible = rng.choice(("", "x", "y")), rng.random() < 0.9
            self._runs(one)
        for name in ("q0", "q1"):
            self.most[name] = self._used(name) + rng.choice((0, 0, 0, 1, 2))
            self.world.write(quota(name, 0, max(1, self.most[name])))
            self.most[name] = max(1, self.most[name])

    def _runs(self, one: Member) -> None:
        one.runs = True
        self.pods[one.name] = one
        self._store(one)

    def _store(self, one: Member) -> None:
        labels = {"app": one.budget} if one.budget else {}
        labels |= {} if one.preemptible else {PREEMPTIBLE: "false"}
        made = pod(
            one.name, one.cores, one.quota, on="n" if one.runs else "", labels=labels, priority=one.priority,
            preempts=one.preempts,
        )  # fmt: skip
        if one.gang:
            made = replace(made, demands=Demands(gang=GangNotes(one.gang, self.least[one.gang], mode=GangMode.STRICT)))
        self.world.create(made)

    def _set_allowed(self, name: str, allowed: int) -> None:
        self.allowed[name] = allowed
        self.engine.budget_seen(DisruptionBudget("work", name, LabelSelector.of({"app": name}), allowed))

    def _jobs(self, prefix: str = "p") -> list[list[Member]]:
        rng, found = self.rng, list[list[Member]]()
        for at in range(rng.randint(1, 3)):
            size = rng.choice((1, 1, 2, 3))
            gang = f"{prefix}{at}" if size > 1 or rng.random() < 0.2 else ""
            if gang:
                self.least[gang] = size
            name, priority, cores = rng.choice(("q0", "q1")), rng.choice((1, 3, 3, 4)), rng.choice((1, 1, 2))
            preempts = rng.random() < 0.95
            quotas = [name if rng.random() < 0.9 else rng.choice(("q0", "q1")) for _ in range(size)]
            found.append(
                [Member(f"{prefix}{at}-{i}", cores, priority, quotas[i], gang, preempts=preempts) for i in range(size)]
            )
        return found

    def _arrive(self, job: Sequence[Member]) -> None:
        for one in job:
            self.pods[one.name] = one
            self._store(one)

    def _gone(self, name: str) -> None:
        del self.pods[name]
        if name in self.ending:
            self.ending.remove(name)
        self.world.delete(name)

    def _happens(self) -> None:
        rng, event = self.rng, ""
        match rng.randint(0, 4):
            case 0 | 1:
                event = "a budget gets room"
                self._set_allowed(rng.choice(_BUDGETS), rng.randint(1, 3))
            case 2:
                event = "a pod ends"
                running = sorted(name for name, one in self.pods.items() if one.runs)
                if running:
                    self._gone(rng.choice(running))
            case 3:
                event = "a quota grows"
                name = rng.choice(("q0", "q1"))
                self.most[name] += 1
                self.world.write(quota(name, 0, self.most[name]))
            case _:
                event = "a job arrives"
                self._late += 1
                self._arrive(self._jobs(f"late{self._late}-")[0])
        self.counts[event] += 1
        self._rest(event)

    # ---- time

    def _rest(self, event: str) -> None:
        world, quiet_s = self.world, self.world.now_s
        for _ in range(_ROUNDS):
            if self.wrong:
                return
            told = self._step()
            next_s = self.engine.next_s()
            busy = bool(self.ending) or any(isinstance(given, Bind | Evict) for given in told)
            quiet_s = world.now_s if busy else quiet_s
            if not busy and max(next_s, world.now_s) > quiet_s + _REST_S:
                break
            world.now_s = max(world.now_s + 0.05, min(next_s, world.now_s + (5.0 if busy else 60.0)))
        else:
            self._fail(f"after {event or 'the first decisions'} it does not come to rest")
            return
        self._at_rest(event)

    def _step(self) -> tuple[Instruction, ...]:
        world = self.world
        told = self.engine.decide(world.now_s)
        self.new = frozenset(given.key.partition("/")[2] for given in told if isinstance(given, Bind))
        for given in told:
            if isinstance(given, Bind):
                one = self.pods[given.key.partition("/")[2]]
                one.runs = True
                assert self.engine.sending(given.uid, world.now_s, given.number)
                self.engine.bound(given.uid, world.now_s, given.number)
                self._store(one)
        self._check_placed()
        self._check_evictions([given for given in told if isinstance(given, Evict)])
        for given in told:
            if isinstance(given, Evict):
                self._evict(given.victim.key.partition("/")[2])
        gang = self._broken(frozenset(self.ending))
        if gang:
            self._fail(f"{gang} is left below its minimum by {self.ending}")
        self.engine.validate()
        for name in list(self.ending):
            if not self.slow_ends or self.rng.random() < 0.4:
                self._gone(name)
        return told

    def _evict(self, name: str) -> None:
        """As the eviction API: refused where the budget is spent, and nobody hears of it."""
        budget = self.pods[name].budget
        if budget and not self.allowed[budget]:
            self.counts["refused by a budget"] += 1
            return
        if name in self.ending:
            return
        if budget:
            self._set_allowed(budget, self.allowed[budget] - 1)
        self.ending.append(name)
        self.world.terminate(name)

    # ---- what must hold

    def _fail(self, what: str) -> None:
        self.wrong.append(f"seed {self.seed}: {what}")

    def _used(self, name: str, without: Unit = frozenset()) -> int:
        return sum(
            one.cores for one in self.pods.values() if one.runs and one.quota == name and one.name not in without
        )

    def _check_placed(self) -> None:
        for name, most in self.most.items():
            if self._used(name) > most:
                self._fail(f"{name} uses {self._used(name)} of {most}")
        for gang, least in self.least.items():
            here = [one for one in self.pods.values() if one.gang == gang and one.name.startswith(("p", "late"))]
            placed = sum(one.runs for one in here)
            if 0 < placed < least and len(here) >= least:
                self._fail(f"{placed} members of {gang} are placed, {least} belong together")

    def _check_evictions(self, given: Sequence[Evict]) -> None:
        by_quota: dict[str, set[str]] = {}
        for evict in given:
            victim = self.pods[evict.victim.key.partition("/")[2]]
            self.counts[evict.reason] += 1
            if evict.reason != REASON or not victim.preemptible:
                self._fail(f"{victim.name} is evicted: {evict.message}")
            by_quota.setdefault(victim.quota, set()).add(victim.name)
        gang = self._broken(frozenset(self.ending) | {name for found in by_quota.values() for name in found})
        if gang:
            self._fail(f"evictions of {sorted(map(sorted, by_quota.values()))} would break {gang}")
        for name, victims in by_quota.items():
            promise = self.world.quotas._preempting.promise_of(name)
            pods = [self.pods[uid.removeprefix("uid-")] for uid in (promise.uids if promise else ())]
            asked = sum(one.cores for one in pods if one.quota == name)
            if not pods or any(self.pods[victim].priority >= min(one.priority for one in pods) for victim in victims):
                self._fail(f"{sorted(victims)} of {name} are evicted for nobody who is more important")
                continue
            going = frozenset(self.ending)
            # who is as important, and was judged after them, may have taken room
            if self._used(name, going | victims | self.new) + asked > self.most[name] and not self._is_staged(victims):
                self._fail(f"{sorted(victims)} of {name} are evicted, and that does not suffice for {asked}")
            for unit in self._units(victims):
                if self._used(name, going | (victims - unit)) + asked <= self.most[name] and not self._broken(
                    going | (victims - unit)
                ):
                    self._fail(f"{sorted(unit)} of {name} need not go for {[one.name for one in pods]}")

    def _is_staged(self, victims: set[str]) -> bool:
        """Whether a gang is among them: then what the budgets do not let go at once waits."""
        return any(self.pods[name].gang for name in victims)

    def _units(self, victims: Iterable[str]) -> list[Unit]:
        """What could have been left out of these: single pods, gangs, and of a gang all but its least important."""
        found: dict[str, list[Member]] = {}
        for name in victims:
            found.setdefault(self.pods[name].gang or name, []).append(self.pods[name])
        units: list[Unit] = []
        for those in found.values():
            ranked = [one.name for one in sorted(those, key=_importance)]
            units += [frozenset(ranked[first:]) for first in range(len(ranked))]
        return units

    def _broken(self, going: frozenset[str]) -> str:
        for gang, least in self.least.items():
            here = [one.name for one in self.pods.values() if one.gang == gang and one.runs]
            stay = [name for name in here if name not in going]
            if len(stay) < len(here) and 0 < len(stay) < least:
                return gang
        return ""

    def _at_rest(self, event: str) -> None:
        waiting: dict[str, list[Member]] = {}
        for one in self.pods.values():
            if not one.runs:
                waiting.setdefault(one.gang or one.name, []).append(one)
        for name, job in waiting.items():
            if job[0].gang and len(job) < self.least[job[0].gang]:
                continue  # members were evicted
            self.counts["waits at rest"] += 1
            quotas = {one.quota for one in job}
            priority = min(one.priority for one in job)
            others = [one for key, found in waiting.items() if key != name for one in found if one.quota in quotas]
            if any(one.priority >= priority for one in others):
                continue  # what comes free may be kept for them
            victims = self._that_help(job, quotas, priority)
            if victims is not None:
                self._fail(f"after {event or 'the first decisions'} {name} waits, {sorted(victims)} could go for it")

    def _that_help(self, job: Sequence[Member], quotas: set[str], priority: int) -> Unit | None:
        """Any set of pods that may be evicted now and whose quotas suffice; None if there is none."""
        asked = {name: sum(one.cores for one in job if one.quota == name) for name in quotas}
        units = [
            frozenset({one.name})
            for one in self.pods.values()
            if one.runs and not one.gang and self._may_go(one, quotas, priority)
        ]
        for gang in self.least if job[0].preempts else ():
            units += self._units_of(gang, quotas, priority)
        for chosen in _sets(units if job[0].preempts else ()):
            victims = frozenset(name for unit in chosen for name in unit)
            spent = Counter(self.pods[name].budget for name in victims)
            if any(budget and count > self.allowed[budget] for budget, count in spent.items()):
                continue
            if all(self._used(name, victims) + cores <= self.most[name] for name, cores in asked.items()):
                return victims
        return None

    def _may_go(self, one: Member, quotas: set[str], priority: int) -> bool:
        return one.quota in quotas and one.priority < priority and one.preemptible

    def _units_of(self, gang: str, quotas: set[str], priority: int) -> Iterator[Unit]:
        """The members that it can spare, the least important, and all of them if all may go and are of one quota."""
        here = sorted((one for one in self.pods.values() if one.gang == gang and one.runs), key=_importance)
        spare = max(0, len(here) - self.least[gang])
        yield from (frozenset({one.name}) for one in here[:spare] if self._may_go(one, quotas, priority))
        if here and all(self._may_go(one, quotas, priority) for one in here) and len({one.quota for one in here}) == 1:
            yield frozenset(one.name for one in here)


def _importance(one: Member) -> tuple[int, str]:
    return one.priority, one.name


def _sets(units: Sequence[Unit]) -> Iterator[tuple[Unit, ...]]:
    return chain.from_iterable(combinations(units, size) for size in range(len(units) + 1))
