"""One case of the crossing: what the engine does for the pods that wait, checked at each step and at rest against plain
rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.fakes.cluster.crossing_events import happens
from tests.fakes.cluster.crossing_facts import Member
from tests.fakes.cluster.crossing_world import CrossingWorld
from tests.fakes.cluster.plain_evictions import PlainEvictions, names
from tests.fakes.cluster.restless_world import not_woken

from cotenant.engine.framework.instructions import Bind, Evict, Instruction, Preempt
from cotenant.engine.plugins.quotas.promise import REASON as BY_QUOTA

_REST_S = 400.0  # longer than promises, patience with victims and back-offs
_ROUNDS = 600


class CrossingTrial:
    """One world, run until nothing more happens."""

    def __init__(self, seed: int, events: int = 3, tight: bool = False) -> None:
        """`events`: so many things happen once it has come to rest. `tight`: quotas bind, see `CrossingWorld`."""
        self.seed, self.events = seed, events
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self.world = CrossingWorld(seed, tight)
        self.world.engine.queue._flush_s = 1e12  # a pod that no event woke must not be found by the flush
        self.plain = PlainEvictions(self.world.facts)
        self.waiting = self.world.preemptors()

    def run(self) -> None:
        """Until nothing more happens; what is wrong is in `wrong`."""
        world = self.world
        for pods in self.waiting:
            world.arrive(*pods)
            if world.rng.random() < 0.5:
                self._step()
        self._rest("")
        for _ in range(self.events):
            if not self.wrong:
                self._rest(happens(world))

    def _rest(self, event: str) -> None:
        """Until nothing more happens; then nobody waits for what has happened."""
        world = self.world
        quiet_s = world.now_s
        for _ in range(_ROUNDS):
            told = self._step()
            next_s = world.engine.next_s()
            busy = bool(world.ending or world.to_free)
            if busy or any(not self._is_in_vain(instruction) for instruction in told):
                quiet_s = world.now_s
            if not busy and max(next_s, world.now_s) > quiet_s + _REST_S:
                break
            world.now_s = max(world.now_s + 0.05, min(next_s, world.now_s + (5.0 if busy else 60.0)))
        else:
            self._fail("it does not come to rest")
            return
        self._at_rest()
        found = not_woken(world.engine, world.now_s)
        if found:
            self._fail(f"after {event or 'the first decisions'} nobody woke {found}")
        self.counts[event] += bool(event)

    def _fail(self, what: str) -> None:
        self.wrong.append(f"seed {self.seed}: {what}")

    def _is_in_vain(self, told: Instruction) -> bool:
        """Whether a spent budget keeps a pod: it is named again every minute."""
        pods = self.world.facts.pods
        name = told.victim.key.partition("/")[2] if isinstance(told, Evict) else ""
        return name in pods and pods[name].covered and self.world.facts.allowed == 0

    # ---- one decision

    def _step(self) -> tuple[Instruction, ...]:
        world, rng = self.world, self.world.rng
        told = world.engine.decide(world.now_s)
        for instruction in told:
            if isinstance(instruction, Bind):
                world.carry_out(instruction)
        of_quotas = [i for i in told if isinstance(i, Evict)]
        self._check_evictions([i for i in told if isinstance(i, Preempt)], victims_of(of_quotas))
        self._check_of_quotas(of_quotas)
        for instruction in told:
            if not isinstance(instruction, Bind):
                world.carry_out(instruction)
        world.engine.validate()
        if any(isinstance(instruction, Bind) for instruction in told):
            self._check_placed()
        for name in list(world.ending):
            if rng.random() < 0.4:
                world.end(name)
        if rng.random() < 0.4:
            world.free_claims()
        return told

    def _check_evictions(self, given: Sequence[Preempt], by_quotas: frozenset[str]) -> None:
        """Whom preemptions evict: allowed, and needed. `by_quotas`: who goes in the same round, as they know."""
        facts, plain = self.world.facts, self.plain
        going = frozenset(self.world.ending) | by_quotas
        by_job: dict[str, list[Preempt]] = {}
        for preempt in given:
            pod = facts.pods[preempt.key.partition("/")[2]]
            by_job.setdefault(pod.gang or pod.name, []).append(preempt)
        for job, those in by_job.items():
            pods = [facts.pods[preempt.key.partition("/")[2]] for preempt in those]
            victims = frozenset(v.key.partition("/")[2] for preempt in those for v in preempt.victims)
            before, going = going, going | victims
            kept = [other for other in facts.pods.values() if other.nominated and other not in pods]
            for preempt in those:  # room is kept for them from now on
                facts.pods[preempt.key.partition("/")[2]].nominated = preempt.node
            if not victims:
                continue
            self.counts["preemptions"] += 1
            self.counts["preemptions of gangs"] += bool(pods[0].gang)
            self.counts["preemptions for claims"] += any(pod.claims for pod in pods)
            self.counts["victims with claims"] += sum(bool(facts.pods[name].claims) for name in victims)
            if not all(pod.preempts for pod in pods):
                self._fail(f"{job} must not preempt, and evicts {sorted(victims)}")
            priority = min(pod.priority for pod in pods)
            higher = [name for name in victims if facts.pods[name].priority >= priority]
            if higher:
                self._fail(f"{job} of {priority} evicts {higher}")
            barred = [name for name in victims if not facts.pods[name].preemptible]
            if barred:
                self._fail(f"{job} evicts {barred}, which are not preemptible")
            if victims & before:
                self._fail(f"{job} evicts again {sorted(victims & before)}")
            gang = plain.broken(going, before)
            if gang:
                self._fail(f"{job} evicts {sorted(victims)} and breaks {gang}")
            nodes = {preempt.key.partition("/")[2]: preempt.node for preempt in those}
            if not kept:
                self._check_needed(job, pods, victims, before, nodes)

    def _check_needed(
        self, job: str, pods: list[Member], victims: frozenset[str], going: frozenset[str], nodes: dict[str, str]
    ) -> None:
        facts, plain = self.world.facts, self.plain
        if not plain.fits(pods, len(pods), going | victims, nodes):
            self._fail(f"{job} evicts {sorted(victims)} and does not fit then")
        units = {frozenset(name for name in victims if facts.pods[name].gang == gang) for gang in facts.least}
        units |= {frozenset({name}) for name in victims if not facts.pods[name].gang}
        for unit in units - {frozenset()}:
            kept = victims - unit
            if plain.broken(going | kept, going):
                continue
            if plain.fits(pods, len(pods), going | kept, nodes):
                self._fail(f"{job} evicts {sorted(victims)} for {nodes}, of which {sorted(unit)} need not go")
            elif plain.fits(pods, len(pods), going | kept):
                self.counts["victims that another arrangement would spare"] += len(unit)

    def _check_of_quotas(self, given: Sequence[Evict]) -> None:
        facts, plain = self.world.facts, self.plain
        victims = victims_of(given)
        going = frozenset(self.world.ending)
        for evict in given:
            pod = facts.pods[evict.victim.key.partition("/")[2]]
            self.counts[evict.reason] += 1
            if not pod.preemptible:
                self._fail(f"{pod.name} is not preemptible, and evicted: {evict.message}")
            if evict.reason == BY_QUOTA:
                above = [
                    other
                    for other in facts.pods.values()
                    if not other.node and other.quota == pod.quota and other.priority > pod.priority and other.preempts
                ]
                if not above:
                    self._fail(f"{pod.name} is evicted for nobody of its quota: {evict.message}")
            elif facts.used(pod.quota) <= facts.quotas[pod.quota][0]:
                self._fail(f"{pod.name} of a quota within its minimum is evicted: {evict.message}")
        gang = plain.broken(going | victims, going) if victims else ""
        if gang:
            self._fail(f"quotas evict {sorted(victims)} and break {gang}")

    def _check_placed(self) -> None:
        facts = self.world.facts
        conflict = self.plain.conflict()
        if conflict:
            self._fail(conflict)
        if self.plain.over_maximum():
            self._fail(f"quota {self.plain.over_maximum()} is above its maximum")
        for pods in self.waiting:
            if pods[0].gang and all(pod.name in facts.pods for pod in pods):
                here = sum(bool(pod.node) for pod in facts.members(pods[0].gang))
                if 0 < here < facts.least[pods[0].gang]:
                    self._fail(f"{here} members of {pods[0].gang} are placed")

    # ---- at rest

    def _at_rest(self) -> None:
        facts, engine = self.world.facts, self.world.engine
        if len(engine._components.nominations):
            self._fail("a nomination stands at rest")
        for pods in self.waiting:
            here = [facts.pods[pod.name] for pod in pods if pod.name in facts.pods]
            if not here:
                self.counts["evicted meanwhile"] += 1
                continue
            left = [pod for pod in here if not pod.node]
            least = facts.least[pods[0].gang] - (len(here) - len(left)) if pods[0].gang else len(left)
            if len(here) < len(pods) and pods[0].gang:
                self.counts["evicted meanwhile"] += 1
                continue
            if least <= 0 or not left:
                self.counts["placed"] += 1
                continue
            self.counts["waits"] += 1
            self._check_waits(left, least)

    def _check_waits(self, left: list[Member], least: int) -> None:
        facts, plain = self.world.facts, self.plain
        entry = self.world.engine.find(f"default/{left[0].name}")
        message = entry.last_message if entry is not None else ""
        if not message:
            self._fail(f"{left[0].name} is told nothing")
        priority = min(pod.priority for pod in left)
        gone = plain.candidates(priority) if all(pod.preempts for pod in left) else frozenset()
        if not plain.quota_is_sure(left, least):
            self.counts["waits for quota"] += 1
            return
        if not plain.fits(left, least, gone):
            self.counts["waits rightly"] += 1
            return
        if "" in facts.devices or not self._is_plain(left):
            self.counts["waits though another arrangement fits"] += 1
            return
        self._fail(f"{sorted(names(left))} of {priority} wait, could have evicted {sorted(gone)}: {message}")

    def _is_plain(self, left: list[Member]) -> bool:
        """Whether the order of members and the choice of nodes cannot matter: they are alike and share nothing."""
        wanted = self.world.facts.claims
        claims = {(wanted[key].count, wanted[key].model) for pod in left for key in pod.claims}
        keys = [key for pod in left for key in pod.claims]
        return len({pod.cpu for pod in left}) == 1 and len(claims) <= 1 and len(set(keys)) == len(keys)


def victims_of(given: Sequence[Evict]) -> frozenset[str]:
    """Whom they evict."""
    return frozenset(evict.victim.key.partition("/")[2] for evict in given)
