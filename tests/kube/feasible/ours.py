"""The nodes that this scheduler's filters pass for a pod, and the node that it chooses, from the objects that a server
has: read as a watch would deliver them, by the scheduler's own engine.

The nodes are those about which the engine asks an extender of its own, as kube-scheduler does. The choice is of an
engine without extenders, so the compiled filters of placement are compared as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tests.fakes.servers.told_watches import ToldWatches, nobody
from tests.kube.feasible.vocabulary import Manifest

from cotenant.drivers.kube.kinds.namespace import NAMESPACES
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.drivers.kube.kinds.pod.by_scheduler import PodsOfScheduler
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.kube.kinds.storage.persistent_volume import PERSISTENT_VOLUMES
from cotenant.drivers.kube.kinds.storage.persistent_volume_claim import PERSISTENT_VOLUME_CLAIMS
from cotenant.drivers.kube.kinds.storage.storage_class import STORAGE_CLASSES
from cotenant.engine.framework.instructions import Bind, Instruction
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.engine.plugins.extenders.question import AskExtenders
from cotenant.engine.state.reports import NodeReports
from cotenant.model.cluster.extender import Extender
from cotenant.model.decisions.answers import WhatIf
from cotenant.policy.placement.profiles import profile
from cotenant.services.scheduler_config.configuration_file import convert_config
from cotenant.services.scheduling.claims import ClaimBinder
from cotenant.services.scheduling.engine import scheduling_engine
from cotenant.services.scheduling.options import Options
from cotenant.services.scheduling.watches import EngineWatches

SCHEDULER = "default-scheduler"
KINDS = {
    kind.plural: kind
    for kind in (NAMESPACES, NODES, STORAGE_CLASSES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS, PODS)
}


@dataclass(frozen=True, slots=True)
class Own:
    """None = the pod is not judged. `chosen`: empty = none."""

    nodes: frozenset[str] | None
    chosen: str


class _Engine:
    def __init__(
        self, objects: Mapping[str, Sequence[Manifest]], extenders: tuple[Extender, ...], config: Manifest | None
    ) -> None:
        placement = replace(profile("kube-default"), default_spread=False)
        options = Options(schedulers=(SCHEDULER,), profiles={SCHEDULER: placement}, extenders=extenders)
        self.cluster = scheduling_engine(placement, options)
        self.watches = ToldWatches()
        self.now_s = 0.0
        pods = convert_config(config).profiles[SCHEDULER].pods if config is not None else PodsOfScheduler()
        reader = PodReader(by_scheduler={SCHEDULER: PodsOfScheduler(unfiltered=pods.unfiltered)})
        EngineWatches(
            self.watches, self.cluster, reader, ClaimBinder(nobody(), reader.volumes), NodeReports(), lambda: self.now_s
        )
        for plural, kind in KINDS.items():
            for obj in objects[plural]:
                self.watches.seen(kind, obj)

    def decide(self, pod: Manifest) -> tuple[Instruction, ...]:
        self.now_s += 100.0
        self.watches.seen(PODS, pod)
        return self.cluster.decide(self.now_s)

    def forget(self, pod: Manifest) -> None:
        self.watches.gone(PODS, f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
        self.cluster.decide(self.now_s)


class Engines:
    """The engine's two views of the objects of one world."""

    def __init__(self, objects: Mapping[str, Sequence[Manifest]], config: Manifest | None = None) -> None:
        """`config`: of a kube-scheduler, whose filters alone count."""
        noting = Extender("http://127.0.0.1:1", filter_verb="filter", caches_nodes=True)
        self._asking, self._placing = _Engine(objects, (noting,), config), _Engine(objects, (), config)

    def judge(self, pod: Manifest) -> Own:
        """A pod that has no node."""
        uid = pod["metadata"]["uid"]
        asked = [one for one in self._asking.decide(pod) if isinstance(one, AskExtenders) and one.uid == uid]
        is_held = self._asking.cluster.state_of(uid) is SchedulingState.GATED
        self._asking.forget(pod)
        chosen = [one.node for one in self._placing.decide(pod) if isinstance(one, Bind) and one.uid == uid]
        self._placing.forget(pod)
        nodes = None if is_held else frozenset(asked[0].nodes) if asked else frozenset()
        return Own(nodes, chosen[0] if chosen else "")

    def reasons(self, pod: Manifest, node: str) -> str:
        """Why a node is refused, in the engine's words."""
        engine = self._placing
        engine.watches.seen(PODS, pod)
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        answer = engine.cluster.why.pod(key, engine.now_s, WhatIf(node=node))
        engine.forget(pod)
        if answer is None or answer.asked_about is None:
            return "nothing is known"
        return "; ".join(f"{one.plugin}: {one.reason} {one.missing}" for one in answer.asked_about.refusals)
