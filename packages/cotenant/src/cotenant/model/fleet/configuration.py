"""What an agent is configured with: by role and platform from the registry, parts of it overridden by its own file.

Fields of `FIXED` are read when the agent starts, those of `FIXED_WHILE_ON` when their function is switched on; a change
of one is refused with the reason, and nothing of that configuration is applied.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from cotenant.model.errors import InvalidInput
from cotenant.model.urls import split_url

FUNCTIONS = (
    "containers",
    "figures",
    "limits",
    "experiments",
    "terminals",
    "profiles",
    "logs",
    "exporter",
    "gateway",
    "forwarding",
)  # what an agent can switch on and off; each is a part of services/fleet/functions
USUAL_FUNCTIONS = ("containers", "figures", "limits", "logs")  # the others listen, or spoil something on purpose
_MIN_HEARTBEAT_S, _MAX_HEARTBEAT_S = 0.1, 10.0
_MIN_RING, _MAX_RING = 64 << 10, 1 << 30
FIXED = {"keeper": "the agent's keeper is chosen when the agent starts; change it and restart the agent"}
FIXED_WHILE_ON = {"exporter": "exporter", "exporter_host": "exporter", "gateway": "gateway", "otlp": "forwarding"}


@dataclass(frozen=True, slots=True)
class AgentConfiguration:
    """One agent's settings. `functions`: those that are on."""

    functions: tuple[str, ...] = USUAL_FUNCTIONS
    heartbeat_s: float = 1.0
    environment: dict[str, str] = field(default_factory=dict)  # of each container that is created from now on
    mount_paths: tuple[str, ...] | None = None  # what containers may mount lies below these; None: not said
    log_ring_bytes: int = 4 << 20  # of each container's log that is kept in the agent
    log_age_s: float = 3600.0
    pod_logs: str = "/var/log/pods"  # folder of the logs of a Kubernetes node's pods
    pod_runtime: str = ""  # CRI socket of a Kubernetes node's runtime: terminals go into its pods; "": into none
    collector: str = ""  # base URL of an OTLP/HTTP collector that gets logs and figures; "": none
    exporter: str = "127.0.0.1:9477"  # where figures are served to Prometheus; :9477 for every address
    exporter_host: str = ""  # by which Prometheus reaches it; "": the host's usual address
    gateway: str = "127.0.0.1:9478"  # where exporters of all hosts are listed for Prometheus
    otlp: str = "127.0.0.1:4318"  # where OTLP/HTTP is taken and sent on to the collector
    keeper: str = ""  # path of the keeper's socket; "": the usual one where it is there, else one in the agent

    def __post_init__(self) -> None:
        for name in self.functions:
            if name not in FUNCTIONS:
                raise InvalidInput("functions", name, "one of " + ", ".join(FUNCTIONS))
        if not _MIN_HEARTBEAT_S <= self.heartbeat_s <= _MAX_HEARTBEAT_S:
            raise InvalidInput("heartbeat_s", self.heartbeat_s, f"{_MIN_HEARTBEAT_S:g} to {_MAX_HEARTBEAT_S:g} seconds")
        if not _MIN_RING <= self.log_ring_bytes <= _MAX_RING:
            raise InvalidInput("log_ring_bytes", self.log_ring_bytes, f"{_MIN_RING} to {_MAX_RING} bytes")
        if not self.log_age_s >= 1:
            raise InvalidInput("log_age_s", self.log_age_s, "1 second or more")
        if self.collector and split_url(self.collector) is None:
            raise InvalidInput("collector", self.collector, "http://HOST:PORT or https://HOST:PORT")
        for path in self.mount_paths or ():
            if not path.startswith("/"):
                raise InvalidInput("mount_paths", path, "an absolute path, as /srv")
        for key in self.environment:
            if not key or "=" in key or "\0" in key:
                raise InvalidInput("environment", key, "the name of an environment variable")


def merged(remote: AgentConfiguration, local: AgentConfiguration, overridden: tuple[str, ...]) -> AgentConfiguration:
    """The remote configuration, with the fields named in `overridden` from the local one."""
    return replace(remote, **{name: getattr(local, name) for name in overridden})


def refusals(now: AgentConfiguration, wanted: AgentConfiguration) -> tuple[str, ...]:
    """Why a running agent cannot go over to `wanted`, a reason for each field."""
    changed = [
        entry.name for entry in fields(AgentConfiguration) if getattr(now, entry.name) != getattr(wanted, entry.name)
    ]
    reasons = [f"{name}: {FIXED[name]}" for name in changed if name in FIXED]
    for name in changed:
        function = FIXED_WHILE_ON.get(name, "")
        if function in now.functions and function in wanted.functions:
            reasons.append(f"{name}: the function {function} listens there; switch it off first")
    return tuple(reasons)
