"""Answers the runtime's calls from the node's facts, and counts what it answered.

The same pod must be read alike here and by the agent. The kubelet's class from the pod's group, class and amounts from
labels and annotations, by the readers that discovery uses. What runs already is left to the agent: its leases hold it,
and an update by the runtime would write every knob of a container anew, against them.
Limits: a pod is known by labels and annotations alone here: batch amounts by the annotation that admission leaves, no
`spec.priority`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cotenant.drivers.kubelet.declared import Belief, DeclaredPod, merged
from cotenant.drivers.nri.containers import HookedContainer, HookedPod
from cotenant.drivers.nri.session import RuntimeVersion
from cotenant.drivers.seals.seals import NO_SEALS, Seals
from cotenant.engine.node.first_values import (
    FirstValueFacts,
    FirstValueSettings,
    StartingContainer,
    first_values,
    sentences,
    updated_values,
)
from cotenant.engine.node.gpu_limits import ShareContainer, shares_now
from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.model.devices.shares import MPS_VARIABLES, HookedShares
from cotenant.model.kubelet.group_names import PodCgroup, read_group
from cotenant.model.machine.first_values import NOTHING, FirstValues
from cotenant.model.machine.node_pod import NOT_EXTENDED, NodeContainer, NodePod
from cotenant.services.nri.facts import GroupsAbove

CREATED, UPDATED = "created", "updated"
CHANGED, UNCHANGED, WOULD = "changed", "unchanged", "would-change"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class HookCounts:
    """What the metrics show."""

    containers: Counter[tuple[str, str]] = field(default_factory=Counter)  # by call and outcome
    left_out: Counter[str] = field(default_factory=Counter)  # by cause
    failures: Counter[str] = field(default_factory=Counter)  # by call
    connections: int = 0
    adopted: int = 0  # containers that ran when the runtime last told what runs


@dataclass(slots=True)
class Hook:
    """Implements `drivers/nri/session.NriPlugin`. `acts`: else it decides and answers without a change."""

    settings: FirstValueSettings
    acts: bool
    facts: Callable[[], FirstValueFacts]
    above: GroupsAbove
    seconds: Callable[[], float]
    took: Callable[[float], None]
    connected: Callable[[RuntimeVersion], None]
    counts: HookCounts = field(default_factory=HookCounts)
    seals: Seals = NO_SEALS
    _shares: dict[str, ShareContainer] = field(default_factory=dict)  # by the container's id, until it is removed
    _runtime: RuntimeVersion | None = None

    def configured(self, runtime: RuntimeVersion) -> None:
        """The runtime knows this plugin. It asks it once it has told what runs; containers made until then are not
        changed.
        """
        self.counts.adopted = 0
        self._runtime = runtime
        self._shares.clear()  # what ended meanwhile was not told
        if self.settings.cdi_kind and runtime.name == "containerd" and runtime.version.lstrip("v").startswith("1."):
            _log.warning(
                "%s %s takes no CDI names from plugins: devices by environment alone", runtime.name, runtime.version
            )

    def synchronized(
        self, pods: Sequence[HookedPod], found: Sequence[tuple[HookedPod, HookedContainer]], *, more: bool
    ) -> None:
        """Count what runs; the agent's leases hold it, and shares of GPUs their limits from the start."""
        for pod, container in found:
            if container.is_running:
                self._share(pod, container, container.mps)
        self.counts.adopted += sum(container.is_running for _, container in found)
        if not more and self._runtime is not None:
            self.counts.connections += 1
            self.connected(self._runtime)

    def creating(self, pod: HookedPod, container: HookedContainer) -> FirstValues:
        """What a container starts with."""
        values = self._decided(CREATED, pod, container, first_values)
        given = tuple(pair for pair in values.environment if pair[0] in MPS_VARIABLES)
        self._share(pod, container, given or container.mps)
        return values

    def updating(self, pod: HookedPod, container: HookedContainer) -> FirstValues:
        """What an update of a container is changed to."""
        return self._decided(UPDATED, pod, container, updated_values)

    def removed(self, container_id: str) -> None:
        """A container is no more."""
        self._shares.pop(container_id, None)

    def shares(self) -> HookedShares:
        """What is known of shares of GPUs."""
        facts = self.facts()
        containers = tuple(self._shares.values())
        return shares_now(
            containers,
            facts.gpus,
            pipe=self.settings.mps_pipe,
            answers=facts.mps_answers,
            beside=self.settings.lent_beside_percent,
        )

    def _share(self, pod: HookedPod, container: HookedContainer, variables: tuple[tuple[str, str], ...]) -> None:
        """Remember a container of a pod with a share."""
        if self.settings.mps_pipe and pod.annotations.get(DEVICE_ALLOCATED) is not None:
            known = node_pod(pod, container, self.seals, self.facts().node)
            self._shares[container.id] = ShareContainer(known, container.name, variables)

    def failed(self, method: str) -> None:
        """Count a call that could not be decided."""
        self.counts.failures[method or "unknown"] += 1

    def _decided(
        self,
        what: str,
        pod: HookedPod,
        container: HookedContainer,
        decide: Callable[[NodePod, StartingContainer, FirstValueFacts, FirstValueSettings], FirstValues],
    ) -> FirstValues:
        began = self.seconds()
        facts = self.facts()
        known = node_pod(pod, container, self.seals, facts.node)
        values = decide(known, self._starting(known, container), facts, self.settings)
        for left_out in values.left_out:
            self.counts.left_out[left_out.cause] += 1
            _log.warning("%s of %s: left out: %s", container.name, known.key, left_out.reason.text)
        outcome = UNCHANGED if values.is_empty else CHANGED if self.acts else WOULD
        self.counts.containers[what, outcome] += 1
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s %s of %s: %s: %s", what, container.name, known.key, outcome, "; ".join(sentences(values)))
        self.took(self.seconds() - began)
        return values if self.acts else NOTHING

    def _starting(self, pod: NodePod, container: HookedContainer) -> StartingContainer:
        limited = pod.extended != NOT_EXTENDED and pod.extended.cpu_request_m is not None
        return StartingContainer(
            name=container.name,
            id=container.id,
            image=container.image,
            variables=container.variables,
            ceiling_m=self.above.quota_ceiling_m(pod.group) if limited else None,
            allowed_cpus=self.above.cpus(pod.group) if pod.own_cpus and self.settings.cpus else None,
        )


def node_pod(pod: HookedPod, container: HookedContainer, seals: Seals = NO_SEALS, node: str = "") -> NodePod:
    """The pod with this one container, as discovery would read it from its labels, its annotations and its group's
    path.
    """
    place = read_group(pod.group)
    kubernetes = place.qos if isinstance(place, PodCgroup) else KubernetesQoS.BURSTABLE
    found = NodePod(
        pod.uid,
        pod.namespace,
        pod.name,
        pod.group,
        kubernetes_qos=kubernetes,
        containers=(NodeContainer(container.name, ""),),
    )
    belief = Belief(seals, node, checks_requests=False)  # requests are not known here: `first_values` judges
    return merged(found, DeclaredPod(pod.uid, labels=pod.labels, annotations=pod.annotations), belief)
