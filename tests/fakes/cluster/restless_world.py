"""A mixed world in which everything changes that may make a pod evictable or a nomination vain, and the question
what a waiting pod was not woken for.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.fakes.cluster.cpu_cluster import tells
from tests.fakes.cluster.mixed_world import NODES, MixedWorld

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Instruction, Preempt
from cotenant.engine.framework.queueing import PlacementVerdict
from cotenant.engine.plugins.reservations.instructions import ReserveNode
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cluster.taints import Taint
from cotenant.model.groups.gang import GangMode, GangNotes, PodGroup, PodGroupStatus
from cotenant.model.groups.quota import NAME, PREEMPTIBLE, ROOT_QUOTA, Quota, QuotaObject
from cotenant.model.resources import Amounts

_BY_ORDER = frozenset({"LoadAwareScheduling", "InterPodAffinity"})
PATIENCE_S = 12.0  # longer than the longest back-off
_RESULTS = (Bind, Preempt, Evict, ReserveNode)


class RestlessWorld(MixedWorld):
    """See `MixedWorld`; some victims take their time to end. Each step is one event, followed by rest."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.cluster.queue._flush_s = 1e12  # a pod that no event woke must not be found by the flush
        self.last = ""
        self._gone: set[int] = set()  # nodes
        self._groups: dict[str, PodGroup] = {}

    def step(self) -> None:
        """One random event, then rest."""
        events = {
            self._create_pods: 7,
            self._create_gang: 2,
            self._create_reservation: 1,
            self._delete: 2,
            self._end_victim: 3,
            self._relabel: 5,
            self._budget: 1,
            self._pod_group: 2,
            self._quota: 2,
            self._node_changes: 4,
            self._devices: 1,
            self._measured: 1,
        }
        chances = np.array(list(events.values())) / sum(events.values())
        event = list(events)[int(self.rng.choice(len(events), p=chances))]
        self.last = event.__name__
        event()
        self.rest()

    def rest(self) -> None:
        """Until nothing is due, back-offs included."""
        end_s = self.now_s + PATIENCE_S
        for _ in range(400):
            told = self.cluster.decide(self.now_s)
            for instruction in told:
                self.carry_out(instruction)
            next_s = self.cluster.next_s()
            if not told and next_s > end_s:
                break
            self.now_s = max(self.now_s, min(next_s, end_s))
            if next_s > end_s and not told:
                break
        self.now_s = max(self.now_s, end_s)
        self.cluster.validate()

    def carry_out(self, instruction: Instruction, answer: bool = True) -> None:
        """See `World`."""
        if isinstance(instruction, (Preempt, Evict)):
            if isinstance(instruction, Preempt) and instruction.uid in self.pods:
                self.pods[instruction.uid] = replace(self.pods[instruction.uid], nominated_node=instruction.node)
            for victim in instruction.victims if isinstance(instruction, Preempt) else (instruction.victim,):
                if victim.uid not in self.pods:
                    continue
                if self.rng.random() < 0.5:
                    self.delete(victim.uid.removeprefix("uid-"))
                else:
                    self.see(replace(self.pods[victim.uid], ends_s=self.now_s + 1e6))
        else:
            super().carry_out(instruction, answer)

    # ---- events

    def _end_victim(self) -> None:
        uid = self._some([uid for uid, seen in self.pods.items() if seen.terminating])
        if uid:
            self.delete(uid.removeprefix("uid-"))

    def _change(self, seen: ObservedPod, **labels: str | None) -> None:
        kept = {key: value for key, value in seen.pod.labels.items if key not in labels}
        kept |= {key: value for key, value in labels.items() if value is not None}
        self.see(replace(seen, pod=replace(seen.pod, labels=Labels.of(kept))))

    def _relabel(self) -> None:
        placed = [uid for uid, seen in self.pods.items() if seen.node]
        uid = self._some(placed)
        if not uid:
            return
        seen, dice = self.pods[uid], self.rng.random()
        if dice < 0.45:
            now = seen.pod.labels.get(PREEMPTIBLE) == "false"
            self._change(seen, **{PREEMPTIBLE: None if now else "false"})
        elif dice < 0.6:
            self._change(seen, app=None if seen.pod.labels.get("app") else "web")
        elif dice < 0.8:
            qos = QoSClass.NONE if seen.pod.qos is QoSClass.BE else QoSClass.BE
            if seen.pod.qos in (QoSClass.NONE, QoSClass.BE):
                self.see(replace(seen, pod=replace(seen.pod, qos=qos)))
        else:
            self._change(seen, **{NAME: str(self.rng.choice(["red", "blue"]))})

    def _budget(self) -> None:
        if self.rng.random() < 0.3:
            self.cluster.budget_gone("default", "web")
        else:
            selector = LabelSelector.of({"app": "web"})
            self.cluster.budget_seen(DisruptionBudget("default", "web", selector, int(self.rng.integers(0, 5))))

    def _pod_group(self) -> None:
        names = sorted(
            {seen.demands.gang.name for seen in self.pods.values() if seen.demands.gang and seen.demands.gang.name}
        )
        name = self._some(names)
        if not name:
            return
        key = f"default/{name}"
        if key in self._groups and self.rng.random() < 0.25:
            del self._groups[key]
            self.cluster.plugins.gangs.pod_group_gone(key, self.now_s)
            return
        least, mode = int(self.rng.integers(1, 5)), GangMode.STRICT if self.rng.random() < 0.7 else GangMode.NON_STRICT
        notes = GangNotes(name, least, least, 20.0, mode)
        group = PodGroup(key, f"uid-{name}", 0.0, least, 20.0, notes, PodGroupStatus(key, f"uid-{name}"))
        self._groups[key] = group
        self.cluster.plugins.gangs.pod_group_seen(group, self.now_s)

    def _quota(self) -> None:
        name = str(self.rng.choice(["red", "blue"]))
        if self.rng.random() < 0.2:
            self.cluster.plugins.quotas.quota_gone(f"default/{name}", self.now_s)
            return
        most, least = int(self.rng.choice([4000, 8000, 14_000, 30_000])), int(self.rng.choice([0, 2000, 4000]))
        made = Quota(name, Amounts.of({"cpu": most}), Amounts.of({"cpu": least}), ROOT_QUOTA)
        self.cluster.plugins.quotas.quota_seen(QuotaObject(f"default/{name}", f"uid-{name}", made), self.now_s)

    def _node_changes(self) -> None:
        rng = self.rng
        i, dice = int(rng.integers(NODES)), rng.random()
        if dice < 0.15 and i not in self._gone:
            self._gone.add(i)
            self.cluster.node_gone(f"n{i}", self.now_s)
            return
        self._gone.discard(i)
        node = self._node(i, unschedulable=bool(rng.random() < 0.2), ready=bool(rng.random() < 0.9))
        if rng.random() < 0.25:
            node = replace(node, taints=(Taint("team", "red"),))
        if rng.random() < 0.25:
            cpu = int(rng.choice([4000, 6000, 12_000]))
            node = replace(node, allocatable=node.allocatable.replaced(Amounts.of({"cpu": cpu})))
        if rng.random() < 0.15:
            node = replace(node, labels=Labels.of({key: v for key, v in node.labels.items if "half" not in key}))
        self.cluster.node_seen(node)

    def _devices(self) -> None:
        if self.rng.random() < 0.5:
            self.cpus(tells(f"n{self.rng.integers(2)}"))
        else:
            self.cluster.plugins.cpus.topology_gone(f"n{self.rng.integers(2)}", self.now_s)


def not_woken(cluster: Cluster, now_s: float) -> dict[str, str]:
    """What judging every waiting pod again would do now, by pod; the engine is as before afterwards. It must be at
    rest.
    """
    found: dict[str, str] = {}
    queue = cluster.queue
    why = {uid: group.verdict for group in queue.groups() for uid in group.pods}
    whole = {uid for group in queue.groups() if group.whole for uid in group.pods}
    with cluster.tentative(now_s):
        for _ in range(3):
            for group in queue.unschedulable():
                queue.wake(group, now_s, "Test", at_once=True)
            for instruction in cluster.decide(now_s):
                # for its quota; one that was refused by nodes may evict again, in vain
                if isinstance(instruction, Evict):
                    key = instruction.message.partition(" ")[0]
                    uid = f"uid-{key.partition('/')[2]}"
                    if uid not in why or "ElasticQuota" not in _filters(why[uid]):
                        continue
                elif isinstance(instruction, _RESULTS):
                    uid = instruction.uid
                else:
                    continue
                told = why.get(uid)
                if told is not None and "keeps what comes free for" in told.message:
                    continue  # until the promise ends by itself
                if uid in whole and _BY_ORDER & _filters(told):
                    continue  # members in another order, each of which raises the load or keeps others away
                found.setdefault(
                    uid, f"{type(instruction).__name__} {sorted(_filters(told))}: {told.message if told else ''}"
                )
            if found:
                break
    return found


def _filters(verdict: PlacementVerdict | None) -> frozenset[str]:
    return verdict.filters if verdict is not None else frozenset()
