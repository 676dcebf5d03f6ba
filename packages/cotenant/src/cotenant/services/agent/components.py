"""The components that the agent's process is given: the machine, the keeper, the cluster.

The process must run over this machine and over one in memory, and most parts of a machine may be missing. One value
with all parts; those that may be missing have a neutral default.
Limits: what is missing at the start is not looked for again, apart from groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from cotenant.drivers.resctrl.monitoring import CacheUse
from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.node.interfaces import Keeper, KnobPort, PodDiscovery, Sensor
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.policies import PolicySettings
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.cache_partition import CacheHardware
from cotenant.model.machine.counters import Gap, LogicalCpu
from cotenant.model.machine.knob import Knob, KnobLease
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import Allocatable
from cotenant.services.agent.discovery.own_pods import OwnPods
from cotenant.services.agent.loop.actor import Evictor
from cotenant.services.agent.loop.triggers import TriggerSource
from cotenant.services.nodeview.stalls import StallWatch

if TYPE_CHECKING:  # an HTTP client comes with it: only where there is a cluster
    from cotenant.drivers.kube.client.client import Client
    from cotenant.services.agent.trace_link import TraceLink


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of the machine, or of a test."""

    monotonic: Callable[[], float]  # seconds
    wall: Callable[[], float]  # Unix seconds

    def now_us(self) -> int:
        """Monotonic microseconds: the clock of samples, leases and the engine."""
        return int(self.monotonic() * 1_000_000)


class Placer(Protocol):
    """Puts programs into the classes that a policy has created."""

    what: str

    def place(self, pods: Sequence[NodePod], policies: PolicySettings) -> None:
        """Blocking. Raises `CotenantError` or `OSError`; called again every few seconds all the same."""
        ...


@dataclass(frozen=True, slots=True)
class AgentComponents:
    """All components of one agent."""

    sensor: Sensor
    knobs: KnobPort
    keeper: Keeper
    evictor: Evictor
    sources: Mapping[str, PodDiscovery]  # beside the configured groups, in order of precedence
    clocks: Clocks
    mode: AgentMode  # the mode the keeper was opened for; the configuration may change to observe, and back
    triggers: Mapping[str, TriggerSource]
    before_sample: Callable[[], Awaitable[None]] | None = None  # what is asked for just before each sample
    cpu_times: Callable[[Sequence[str]], Mapping[str, int]] | None = None  # by group; None: no looks between ticks
    groups_seen: Sequence[
        Callable[[Sequence[str], Sequence[str]], None]
    ] = ()  # receivers of the services' and best-effort groups
    leases_seen: Sequence[
        Callable[[Sequence[KnobLease]], None]
    ] = ()  # receivers of the keeper's leases, when they are fetched
    supported: frozenset[Knob] = frozenset(Knob)
    cpus: tuple[LogicalCpu, ...] = ()
    post: Callable[[str, bytes], Awaitable[None]] | None = None  # delivers a report to a URL
    post_incident: Callable[[str, bytes], Awaitable[None]] | None = None  # delivers an incident to the credit process
    background: Mapping[str, Callable[[], Coroutine[object, object, None]]] = field(default_factory=dict)
    discovery_due: asyncio.Event = field(default_factory=asyncio.Event)  # set when discovery should run before its time
    own: OwnPods = field(default_factory=lambda: OwnPods(()))  # which of the pods are the agent's
    client: Client | None = None  # API client of the cluster
    pod_groups_changed: Callable[[], bool] = lambda: False  # whether pods' groups did; called twice per period
    kubelet_roots: Callable[[], Sequence[str]] | None = (
        None  # read now, blocking; None where they are no source of pods
    )
    group_exists: Callable[[str], bool] = lambda group: True
    allocatable: Callable[[], Allocatable | None] = lambda: None  # of the node, as reported by its cluster
    kubelet: Callable[[], KubeletFacts] = KubeletFacts  # the other writers of knobs
    cache: CacheHardware | None = None  # where this process may partition the cache
    cache_use: Callable[[], tuple[CacheUse, ...]] = tuple
    network: Callable[[NodePod], tuple[int, int] | None] = lambda pod: (
        None
    )  # received and sent in a network of the pod's own
    permissions: Permissions = field(default_factory=Permissions)  # by the cluster's Autonomy objects
    uplink_bps: int | None = None  # bytes per second in one direction; None = not known
    placers: Sequence[Placer] = ()
    stalls: StallWatch | None = None  # what groups wait for besides a CPU
    traces: TraceLink | None = None  # the trace process
    holdings: str = ""  # how far pods' holdings are believed, where that is not by the scheduler's seal
    gaps: tuple[Gap, ...] = ()  # what this machine or set-up lacks, determined at the start
