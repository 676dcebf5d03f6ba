"""What may be set of a scheduler process, apart from its placement profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.limits import DEFAULTS as HTTP_DEFAULTS
from cotenant.drivers.http.limits import ServerLimits
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.kube.kinds.pod.by_scheduler import PodsOfScheduler
from cotenant.drivers.seals.seals import NO_SEALS, Sealer, Seals
from cotenant.engine.framework.backoff import Backoff
from cotenant.engine.framework.plugin import Plugin
from cotenant.engine.plugins.quotas.settings import DEFAULTS as DEFAULT_QUOTAS
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.rules.devices.requests import DeviceSettings
from cotenant.engine.rules.devices.rules import SETTINGS as DEFAULT_DEVICES
from cotenant.model.cluster.extender import Extender
from cotenant.model.groups.workload_kind import WorkloadKind
from cotenant.policy.overcommit.predicted_use import PredictedUseSettings
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.services.kube_process.span_target import SpanTarget
from cotenant.services.scheduling.claims import VOLUMES_WITHIN_S

LISTEN = Address("127.0.0.1", 10261)


@dataclass(frozen=True, slots=True)
class Options:
    """What may be set."""

    schedulers: tuple[str, ...] = (
        "cotenant",
    )  # spec.schedulerName of the pods that are ours; the first names the component and its Lease
    profiles: Mapping[str, PlacementProfile] = field(default_factory=dict)  # of these names; others have the process's
    binds_in_flight: int = 32
    pods_a_round: int = 128  # judged together, at most
    qps: float = inf  # requests a second to the API server
    burst: int = 100
    notices_per_s: float = 50.0  # pod conditions, and as many events, and as many statuses of custom objects
    listen: Address = LISTEN
    tls: Tls | None = None
    http: ServerLimits = HTTP_DEFAULTS
    report_token: Path | None = None
    report_user: str = ""  # of the agents: their tokens are reviewed, and each may report for its own node
    debug_token: Path | None = None  # admits callers from other machines to the debug API
    streaming_lists: bool = False
    seed: int = 0
    load_aware: LoadAwareSettings | None = None  # None = off
    predicted_use: PredictedUseSettings | None = None  # of pods with lent requests; None = requests alone
    quotas: QuotaSettings = DEFAULT_QUOTAS
    devices: DeviceSettings = DEFAULT_DEVICES
    preempts_for_resizes: bool = False  # pods of lower priority go for a resize in place that a kubelet defers
    plugins: tuple[Plugin, ...] = ()  # of others, besides ours
    span_target: SpanTarget | None = None  # of scheduling attempts; None = no spans
    sealer: Sealer | None = None  # signs what pods are given
    seals: Seals = NO_SEALS  # checks what they say that they were given
    workload_kinds: tuple[WorkloadKind, ...] = ()  # controllers whose pods are known by declaration
    pods_of: Mapping[str, PodsOfScheduler] = field(default_factory=dict)  # by name, of a configuration file
    backoff: Backoff = field(default_factory=Backoff)
    volumes_within_s: float = VOLUMES_WITHIN_S
    extenders: tuple[Extender, ...] = ()
    default_spread: bool | None = (
        None  # kube-scheduler's system defaults of topology spread; None = as the profile has it
    )
