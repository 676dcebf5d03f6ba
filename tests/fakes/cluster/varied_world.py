"""A restless world in which pods have host ports, volumes, gates, namespaces and rules between them, and in which
running pods are resized, end, and are about to end, waiting pods change, and nodes attach more volumes or fewer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.fakes.cluster.mixed_world import NODES
from tests.fakes.cluster.restless_world import RestlessWorld

from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.demands import NO_DEMANDS, Demands
from cotenant.model.cluster.labels import HOSTNAME, NO_LABELS, Labels, LabelSelector
from cotenant.model.cluster.observed import (
    Attachment,
    ClaimBinding,
    InlineDisk,
    NamespaceFacts,
    NodeStorage,
    ObservedPod,
    PodPhase,
    VolumeNeed,
    VolumeOption,
)
from cotenant.model.cluster.pod import HostPort, Pod
from cotenant.model.cluster.taints import Toleration
from cotenant.model.resources import Amounts

_HALF, _DRIVER = "example.com/half", "disk.example.com"
_NAMESPACES = ("default", "other")
_TOLERATES_RED = (Toleration("team", "red"),)
_FOR_LONG_S = 1e6


class VariedWorld(RestlessWorld):
    """See `RestlessWorld`."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for i in range(NODES):
            if self.rng.random() < 0.5:
                self.cluster.node_storage_seen(NodeStorage(f"n{i}", ((_DRIVER, 1),)))

    def step(self) -> None:
        """One random event, then rest."""
        events: list[tuple[Callable[[], None], int]] = [
            (super().step, 10),
            (self._resized, 3),
            (self._waiting_changes, 4),
            (self._namespace, 2),
            (self._storage, 2),
            (self._ends, 2),
            (self._is_ending, 2),
            (self._node_is_unusable, 1),
        ]
        weights = [weight / sum(weight for _, weight in events) for _, weight in events]
        event = events[int(self.rng.choice(len(events), p=weights))][0]
        if event.__name__ != "step":
            self.last = event.__name__
        event()
        self.rest()

    # ---- pods

    def _pod(self, name: str, demands: Demands = NO_DEMANDS) -> ObservedPod:
        made = super()._pod(name, demands)
        return replace(
            made,
            pod=self._among_others(made.pod),
            volumes=self._volumes(),
            gates=("a-gate",) if self.rng.random() < 0.1 else (),
            preempts=self.rng.random() >= 0.1,
        )

    def _among_others(self, pod: Pod) -> Pod:
        rng = self.rng
        if rng.random() < 0.2:
            pod = replace(pod, host_ports=(HostPort(int(rng.choice([80, 81]))),))
        if rng.random() < 0.15:
            everywhere = LabelSelector.of({"team": "red"}) if rng.random() < 0.5 else None
            where = HOSTNAME if rng.random() < 0.5 else _HALF
            term = PodTerm(where, LabelSelector.of({"app": "web"}), namespace_selector=everywhere)
            pod = replace(pod, affinity=(term,)) if rng.random() < 0.4 else replace(pod, anti_affinity=(term,))
        if rng.random() < 0.15:
            pod = replace(pod, node_selector=Labels.of({_HALF: str(rng.integers(2))}))
        if rng.random() < 0.07:
            pod = replace(pod, tolerations=_TOLERATES_RED)
        return replace(pod, namespace=str(rng.choice(_NAMESPACES))) if rng.random() < 0.3 else pod

    def _volumes(self) -> tuple[VolumeNeed, ...]:
        rng, found = self.rng, list[VolumeNeed]()
        if rng.random() < 0.12:
            claim, anywhere = f"default/alone{rng.integers(2)}", VolumeOption("alone", None)
            found.append(VolumeNeed(claim, ClaimBinding.BOUND, (anywhere,), exclusive=True))
        if rng.random() < 0.25:
            volume = self._volume()
            options = (VolumeOption(volume, None),)
            attached = Attachment(_DRIVER, volume)
            found.append(VolumeNeed(f"default/{volume}", ClaimBinding.BOUND, options, attachment=attached))
        if rng.random() < 0.1:
            disk = InlineDisk(f"disk{rng.integers(2)}", bool(rng.random() < 0.3))
            found.append(VolumeNeed(disk.identity, ClaimBinding.BOUND, (VolumeOption("", None),), disk=disk))
        return tuple(found)

    def _volume(self) -> str:
        return f"volume{self.rng.integers(6)}"

    # ---- events

    def _waiting_changes(self) -> None:
        uid = self._some([uid for uid, seen in self.pods.items() if not seen.node])
        if not uid:
            return
        seen, dice = self.pods[uid], self.rng.random()
        if seen.gates and dice < 0.7:
            self.see(replace(seen, gates=()))
        elif dice < 0.3:
            self.see(replace(seen, pod=replace(seen.pod, tolerations=_TOLERATES_RED)))
        elif dice < 0.6:
            self._change(seen, app=None if seen.pod.labels.get("app") else "web")
        elif dice < 0.8:
            self.see(replace(seen, volumes=()))
        else:
            self.see(replace(seen, pod=replace(seen.pod, node_selector=NO_LABELS)))

    def _resized(self) -> None:
        uid = self._some([uid for uid, seen in self.pods.items() if seen.node])
        if uid:
            seen = self.pods[uid]
            size = Amounts.of({"cpu": int(self.rng.choice([100, 500, 1000, 2000]))})
            self.see(replace(seen, pod=replace(seen.pod, requests=seen.pod.requests.replaced(size))))

    def _namespace(self) -> None:
        name = str(self.rng.choice(_NAMESPACES))
        if self.rng.random() < 0.2:
            self.cluster.namespace_gone(name)
        else:
            team = Labels.of({"team": str(self.rng.choice(["red", "blue"]))})
            self.cluster.namespace_seen(NamespaceFacts(name, team))

    def _storage(self) -> None:
        attached = frozenset({Attachment(_DRIVER, self._volume())}) if self.rng.random() < 0.3 else frozenset()
        most = int(self.rng.integers(0, 4))
        self.cluster.node_storage_seen(NodeStorage(f"n{self.rng.integers(NODES)}", ((_DRIVER, most),), attached))

    def _ends(self) -> None:
        uid = self._some([uid for uid, seen in self.pods.items() if seen.node and not seen.has_ended])
        if uid:
            self.see(replace(self.pods[uid], phase=PodPhase.SUCCEEDED))

    def _is_ending(self) -> None:
        uid = self._some([uid for uid, seen in self.pods.items() if seen.node and not seen.terminating])
        if uid:
            self.see(replace(self.pods[uid], ends_s=self.now_s + _FOR_LONG_S))

    def _node_is_unusable(self) -> None:
        i = int(self.rng.integers(NODES))
        if i not in self._gone:
            self._gone.add(i)
            self.cluster.node_unusable(f"n{i}", "it has no CPU", self.now_s)
