"""The configuration of a node's agent, validated before anything starts.

A wrong setting of a process that writes kernel knobs must be one clear line, at the start and at a reload. One frozen
value read from YAML or TOML; errors have the file, the path to the field, its value and what was expected. Paths of
groups are relative to the cgroup tree's root, as everywhere here.
Limits: what needs the machine (does the group exist, can the socket be reached) shows when it runs.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cotenant.drivers.http.address import Address
from cotenant.drivers.kubelet.cpu_manager import STATE as CPU_MANAGER_STATE
from cotenant.drivers.kubelet.roots import KubeletGroups
from cotenant.drivers.resctrl.tree import ROOT as RESCTRL_ROOT
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.policies import DEFAULT_POLICIES, PolicySettings
from cotenant.engine.node.settings import AgentSettings, EvictionLimits
from cotenant.model.cluster.report import LONGEST_NAME
from cotenant.model.document import build, parse
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.urls import split_url
from cotenant.services.agent_settings.plain_groups import (
    NO_AMOUNTS,
    PlainEviction,
    PlainGroup,
    WrittenAmounts,
    check_group,
)
from cotenant.services.agent_settings.runtime_hook import RuntimeHook

_log = logging.getLogger(__name__)
ZONE_STATES = Path("/run/cotenant/zones")
NODE_NAME = "NODE_NAME"  # environment: the node's name in its cluster, which need not be the host's
MAX_GROUPS = 2000
MAX_BYTES = 4 << 20  # of a file
MAX_URLS = 8
SHORTEST_PERIOD_MS, LONGEST_PERIOD_MS = 100, 60_000
LONGEST_TTL_MS = 3_600_000


EVICTIONS = EvictionLimits()
USUAL_HOOK = RuntimeHook()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings:
    """The receivers of the founding payload."""

    urls: tuple[str, ...] = ()  # of `POST /metrics/report`, at the scheduler and the extender
    token_file: Path | None = None
    ca_file: Path | None = None  # authorities of the receivers' certificates; read again when it changes
    period_s: float = 30.0

    def __post_init__(self) -> None:
        if len(self.urls) > MAX_URLS or len(set(self.urls)) < len(self.urls):
            raise InvalidInput("urls", f"{len(self.urls)} of them", f"at most {MAX_URLS}, each once")
        for url in self.urls:
            _url("urls", url)
        if not 1.0 <= self.period_s <= 3600.0:
            raise InvalidInput("period_s", self.period_s, "seconds, 1 to 3600", "receivers forget a node after 120 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSource:
    """The trace process that measures this node's replicas from their spans (`cotenant traces`)."""

    url: str = ""  # as it prints it, without a path; "" = none
    token_file: Path | None = None
    ca_file: Path | None = None  # authorities of its certificate

    def __post_init__(self) -> None:
        if self.url:
            _url("url", self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditTarget:
    """The process that books tenants' credit (`cotenant credit serve`): proven incidents of the policy `recovery`
    are reported to it.
    """

    url: str = ""  # without a path; "" = none
    token_file: Path | None = None
    ca_file: Path | None = None  # authorities of its certificate

    def __post_init__(self) -> None:
        if self.url:
            _url("url", self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """Access to a Kubernetes API server: for the node's pods, evictions, NodeMetric, NodeResourceTopology and
    Device.
    """

    kubeconfig: Path | None = None  # default: found as by kubectl or in a pod
    context: str = ""
    node_metric: bool = True
    node_metric_period_s: float = 60.0
    node_topology: bool = True  # report this machine's CPUs in its NodeResourceTopology
    kubelet_configz: bool = False  # ask the kubelet for its configuration; needs the right `get nodes/proxy`
    devices: bool = True  # report this machine's GPUs in its Device object, unless another agent does
    node_conditions: bool = True  # with probe.stalls: its conditions on the Node, and Events
    node_slo: bool = False  # take the policies from this node's NodeSLO, which `policies` then changes
    zones: bool = False  # have the keeper (--zones) run the cluster's ControlZones, with this node's pods
    zone_socket: Path = Path("/run/cotenant/zones.sock")
    zone_state_dir: Path = ZONE_STATES
    prediction: bool = True  # predict what prod pods will not use of their requests, as part of the NodeMetric
    prediction_file: Path | None = None  # keeps the prediction over a restart
    prediction_cold_start_h: float = 24.0  # a pod observed for less keeps its request
    prediction_margin_percent: int = 10

    def __post_init__(self) -> None:
        if not 0.0 <= self.prediction_cold_start_h <= 24 * 30:
            raise InvalidInput("prediction_cold_start_h", self.prediction_cold_start_h, "hours, 0 to 720")
        if not 0 <= self.prediction_margin_percent <= 1000:
            raise InvalidInput("prediction_margin_percent", self.prediction_margin_percent, "0 to 1000")
        if not 5.0 <= self.node_metric_period_s <= 3600.0:
            raise InvalidInput("node_metric_period_s", self.node_metric_period_s, "seconds, 5 to 3600")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """Sources of pods beside `groups`. A cluster is another; it needs kubelet's groups or the runtime, and uses the
    former by default.
    """

    kubepods: bool = False  # the groups of kubelet
    runtime: Path | None = None  # the container runtime's CRI socket
    pod_info: Path | None = None  # kubelet's folder of pods, where each has a pod.info file
    docker: Path | None = None  # the socket of Docker's API, of dockerd or podman


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSettings:
    """Pressure triggers on the services' groups: this much waiting within a window makes urgent policies decide at
    once.

    By default the share at which the guard would cut best-effort work at its next look as well (`stall_cut_ppm`).
    """

    enabled: bool = True
    stall_ms: int = 300
    window_ms: int = 1000

    def __post_init__(self) -> None:
        if not 500 <= self.window_ms <= 10_000:
            raise InvalidInput("window_ms", self.window_ms, "500 to 10000 milliseconds", "the kernel's own bounds")
        if not 0 < self.stall_ms <= self.window_ms:
            raise InvalidInput("stall_ms", self.stall_ms, f"1 to {self.window_ms} milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """The eBPF probe of run-queue waits; where it is unavailable (not built, not allowed), run delay is read from
    /proc, without triggers.
    """

    enabled: bool = True
    late_ms: float = 10.0  # a service's task that waited longer for a CPU is late
    stalls: bool = False  # also waits for block I/O and memory, and load averages, as metrics and conditions
    long_wait_ms: float = 100.0  # with stalls: a longer wait is kept, with its stack and who ran; 0: none is

    def __post_init__(self) -> None:
        if not 0.1 <= self.late_ms <= 10_000:
            raise InvalidInput("late_ms", self.late_ms, "0.1 to 10000 milliseconds")
        if self.long_wait_ms != 0 and not 1 <= self.long_wait_ms <= 60_000:
            raise InvalidInput("long_wait_ms", self.long_wait_ms, "1 to 60000 milliseconds, or 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstLooks:
    """Looks at the use of best-effort work between two samples, which take one at once where it changed. They need
    no privilege.
    """

    enabled: bool = True
    look_ms: int = 200
    change_m: int = 200  # milli-CPU; on large machines two hundredths of their CPUs

    def __post_init__(self) -> None:
        if not 20 <= self.look_ms <= 1000:
            raise InvalidInput("look_ms", self.look_ms, "20 to 1000 milliseconds")
        if self.change_m <= 0:
            raise InvalidInput("change_m", self.change_m, "milli-CPU, more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The configuration of one agent. Raises `InvalidInput` with the field's name."""

    node: str = field(default_factory=lambda: os.environ.get(NODE_NAME) or socket.gethostname())
    mode: AgentMode = AgentMode.OBSERVE
    act_despite_conflicts: bool = False  # act also where the doctor finds a conflict; else it starts as observe
    period_ms: int = 1000
    lease_ttl_ms: int = 30_000
    discovery_period_s: float = 10.0
    cgroup_root: Path = Path("/sys/fs/cgroup")
    resctrl_root: Path = Path(RESCTRL_ROOT)  # where the kernel's cache control is mounted
    writable: tuple[str, ...] = ()  # knobs of these groups and of all below them may be written
    kubelet_groups: KubeletGroups | None = None  # of this node's kubelet, found at the start: these are writable too
    cpu_manager_state: Path = CPU_MANAGER_STATE  # kubelet's checkpoint: read with --single, and before acting
    idle_slice_ms: int = 0  # with --single: scheduling slice of tasks in best-effort groups; 0: the kernel's own
    best_effort_group: str | None = None  # the group of all best-effort groups, where there is one
    groups: tuple[PlainGroup, ...] = ()
    sources: SourceSettings = SourceSettings()
    reserved: WrittenAmounts = NO_AMOUNTS  # kept for the system and kubelet
    evictions: EvictionLimits = EVICTIONS
    policies: PolicySettings = DEFAULT_POLICIES
    node_slo: Path | None = None  # Koordinator's settings, which `policies` then changes
    plain_eviction: PlainEviction = PlainEviction.TOLD
    reports: ReportSettings = ReportSettings()
    traces: TraceSource = TraceSource()
    credit: CreditTarget = CreditTarget()
    cluster: ClusterAccess | None = None
    listen: str = "127.0.0.1:10262"  # HOST:PORT, or unix:PATH; "" = nowhere
    insecure: bool = False  # may listen beyond loopback
    keeper: Path = Path("/run/cotenant/keeper.sock")  # of the process that writes, unless one process does both
    state_dir: Path = Path("/var/lib/cotenant")  # the leases' file, in one process; incidents that wait to be reported
    pressure: TriggerSettings = TriggerSettings()
    probe: ProbeSettings = ProbeSettings()
    bursts: BurstLooks = BurstLooks()
    seal_certificate: Path | None = (
        # of the scheduler: by it alone it is believed what pods say that they hold; a file that is not there counts as
        # none
        None
    )
    runtime_hook: RuntimeHook = USUAL_HOOK  # of `cotenant nri`, which reads the same file

    def __post_init__(self) -> None:
        if not 0 < len(self.node) <= LONGEST_NAME or not self.node.isprintable():
            raise InvalidInput("node", self.node, f"the node's name, 1 to {LONGEST_NAME} characters")
        if not SHORTEST_PERIOD_MS <= self.period_ms <= LONGEST_PERIOD_MS:
            raise InvalidInput("period_ms", self.period_ms, f"{SHORTEST_PERIOD_MS} to {LONGEST_PERIOD_MS} milliseconds")
        if not 3 * self.period_ms <= self.lease_ttl_ms <= LONGEST_TTL_MS:
            raise InvalidInput(
                "lease_ttl_ms", self.lease_ttl_ms, f"3 periods ({3 * self.period_ms}) to {LONGEST_TTL_MS} milliseconds"
            )
        if not 1.0 <= self.discovery_period_s <= 600.0:
            raise InvalidInput("discovery_period_s", self.discovery_period_s, "seconds, 1 to 600")
        if not 0 <= self.idle_slice_ms <= 100:
            raise InvalidInput("idle_slice_ms", self.idle_slice_ms, "0 to 100 milliseconds")
        for name in self.writable:
            check_group("writable", name)
        if self.best_effort_group is not None:
            check_group("best_effort_group", self.best_effort_group)
        self._check_groups()
        if self.mode is AgentMode.ACT and not self.writable and self.kubelet_groups is None:
            raise InvalidInput(
                "writable", "nothing", "at least one group while mode is act", "knobs below it may be written"
            )
        check_listen(self.listen, self.insecure)

    @property
    def zone_states(self) -> Path:
        """Where the process that runs this host's zones writes their states."""
        return ZONE_STATES if self.cluster is None else self.cluster.zone_state_dir

    def settings(self) -> AgentSettings:
        """The settings of the engine."""
        return AgentSettings(
            mode=self.mode,
            policies=self.policies,
            roots=self.writable,
            best_effort_group=self.best_effort_group,
            period_us=self.period_ms * 1000,
            lease_us=self.lease_ttl_ms * 1000,
            reserved_cpu_m=self.reserved.cpu_m,
            reserved_memory_bytes=self.reserved.memory_bytes,
            evictions=self.evictions,
        )

    def pods(self) -> tuple[NodePod, ...]:
        """The plain groups."""
        return tuple(group.pod() for group in self.groups)

    def _check_groups(self) -> None:
        if len(self.groups) > MAX_GROUPS:
            raise InvalidInput("groups", f"{len(self.groups)} of them", f"at most {MAX_GROUPS}")
        for what in ("group", "name"):
            seen: set[str] = set()
            for group in self.groups:
                value = getattr(group, what)
                if value in seen:
                    raise InvalidInput(f"groups: {what}", value, "each once")
                seen.add(value)


def read_config(path: Path, node_slo: Mapping[str, object] | None = None) -> AgentConfig:
    """Read an agent's configuration from a file. Raises `InvalidInput` naming the file and the field.

    `node_slo`: the spec of the node's NodeSLO in the cluster, in place of the file that `node_slo` names.
    """
    given = _load(path) or {}
    if isinstance(given, Mapping) and isinstance(given.get("policies"), Mapping):
        given = {**given, "policies": with_names_of_today(given["policies"], f"{path}: policies")}
    config = build(AgentConfig, given, f"{path}:")
    if (config.node_slo is None and node_slo is None) or not isinstance(given, Mapping):
        return config
    from cotenant.services.agent_settings.koordinator import not_taken, policies_of, read_node_slo

    if node_slo is not None:
        where = f"NodeSLO {config.node}"
        slo = read_node_slo(node_slo, where)
    else:
        assert config.node_slo is not None
        file = path.parent / config.node_slo  # relative to the file that names it
        where = str(file)
        slo = read_node_slo(_load(file), where)
    for name in not_taken(slo):
        _log.warning("%s: %s has no counterpart here", where, name)
    policies = build(PolicySettings, given.get("policies", {}), f"{path}: policies", policies_of(slo))
    return replace(config, policies=policies)


def with_names_of_today(given: Mapping[str, object], where: str) -> dict[str, object]:
    """The settings of policies with `_pct` spelt `_percent`, as it was once; each is warned of."""
    found: dict[str, object] = {}
    for name, value in given.items():
        if name.endswith("_pct") and (today := f"{name.removesuffix('pct')}percent") not in given:
            _log.warning("%s.%s is called %s now", where, name, today)
            name = today
        found[name] = with_names_of_today(value, f"{where}.{name}") if isinstance(value, Mapping) else value
    return found


def _load(path: Path) -> object:
    """What a file has: TOML by its suffix, else YAML. Raises `InvalidInput`."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(str(path), str(path), "a readable file", error.strerror or "unreadable") from error
    if len(text) > MAX_BYTES:
        raise InvalidInput(str(path), "too large", f"at most {MAX_BYTES} bytes")
    return parse(text, str(path), path.suffix.lower() == ".toml")


def check_listen(listen: str, insecure: bool) -> None:
    """Raise `InvalidInput` for a malformed address, and for one beyond loopback unless `insecure`."""
    if not listen:
        return
    address = Address.parse("listen", listen)
    if not insecure and not address.is_loopback:
        raise InvalidInput(
            "listen", listen, "a loopback address or a unix socket", "insecure: true says that the network is trusted"
        )


def _url(field_name: str, url: str) -> None:
    parts = split_url(url)
    if parts is None or parts.username is not None:
        raise InvalidInput(field_name, url, "http:// or https:// URLs without a user")
