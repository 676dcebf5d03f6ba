"""What a person asks of `cotenant up`, checked before anything starts.

What needs profiles, policies and workloads is imported once everything else is right: a refused option costs no more
than the command line itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.model.errors import InvalidInput
from cotenant.services.logs import FORMATS, TEXT
from cotenant_local.nodes.devices.shapes import MAX_GPUS, NO_DEVICES, DeviceShape
from cotenant_local.nodes.fleet import NodeSize

if TYPE_CHECKING:
    from cotenant_local.nodes.topologies import CpuShape

MAX_NODES = 20_000
FASTEST = 3600.0
LONGEST_GRACE_S = 3600.0
USUAL_NODES = 10
REBALANCER_INTERVAL_S, REBALANCER_WATCH_S = 10.0, 60.0  # simulated time is faster than the clock
NODES_FILE = "nodes"  # in the directory: how many nodes were simulated last


def usual_nodes(directory: Path) -> int:
    """The nodes to simulate where none are asked for: as many as the directory's cluster had, 10 in a new one."""
    try:
        return min(MAX_NODES, max(0, int((directory / NODES_FILE).read_text())))
    except (OSError, ValueError):
        return USUAL_NODES


@dataclass(frozen=True, slots=True)
class UpConfig:
    """One local cluster. Raises `InvalidInput` with the option's name."""

    directory: Path
    nodes: int = 0  # simulated ones
    gpus_per_node: int = 0
    device_shape: DeviceShape = NO_DEVICES  # devices of each simulated node that claims ask for
    workload: str = ""  # the workload to submit; "" = none
    host: str = "127.0.0.1"
    port: int = 0  # 0 = the last one used in the directory, or any free one
    is_ephemeral: bool = False  # only the kubeconfig is kept on disk
    is_bare: bool = False  # the API server alone
    has_extender: bool = True
    profile: str = "cotenant"
    speed: float = 60.0  # simulated seconds a second
    seed: int = 0
    cpu_topology: str = ""  # of the simulated nodes: SOCKETSxCORESxTHREADS; "" = not reported
    load_aware: Path | None = None  # the scheduler's file of load thresholds
    load: float | None = None  # of the workload, share of the nodes' CPU; None = the workload's own
    node_grace_s: float = 40.0  # without a heartbeat until a node counts as dead
    device_strategy: str = "binpack"  # the scheduler's
    usual_gpu_pods: str = ""  # the scheduler's, for fragmentation
    only_enforced_gpu_shares: bool = False  # the scheduler's
    gpu_neighbours: bool = False  # the scheduler's
    more_names: tuple[str, ...] = ()  # further scheduler names to serve, NAME or NAME=PROFILE
    is_default_scheduler: bool = True  # serve pods that name no scheduler
    has_manager: bool = False  # run a manager, which lends by the ConfigMap slo-controller-config
    has_right_sizing: bool = False  # the manager resizes pods in place, by RightSizings
    has_credit: bool = False  # run the credit process, and let the scheduler consider standings
    has_console: bool = False  # serve the console
    console_port: int = 0  # 0 = the last one used in the directory, or any free one
    fleet: str = ""  # bus of a fleet that the console shows
    has_traces: bool = False  # run a trace process, which counts ServiceObjectives
    shows_loop: bool = (
        False  # with a workload and traces: agents on simulated nodes, and a neighbour that hurts a service
    )
    has_rebalancer: bool = False  # run a rebalancer that acts; needs the manager, whose NodeMetrics it reads
    rebalancer_config: Path | None = None  # its DeschedulerConfiguration
    lend: str = (
        ""  # lend from the start by this policy, and the workload's batch requests what is lent; needs the manager
    )
    has_workloads: bool = False  # each Job gets a Workload and a PodGroup, as with the feature gate WorkloadWithJob
    log_format: str = TEXT  # of this process and its children
    audit_log: Path | None = None  # every request to the API server is appended here

    def __post_init__(self) -> None:
        if not 0 <= self.nodes <= MAX_NODES:
            raise InvalidInput("--nodes", self.nodes, f"0 to {MAX_NODES}")
        if not 0 <= self.gpus_per_node <= MAX_GPUS:
            raise InvalidInput("--gpus-per-node", self.gpus_per_node, f"0 to {MAX_GPUS}")
        if self.gpus_per_node and not self.nodes:
            raise InvalidInput("--gpus-per-node", self.gpus_per_node, "nodes to have them", "say --nodes 20")
        if self.device_shape.drivers and not self.nodes:
            raise InvalidInput("--dra", "without nodes", "nodes to have the devices", "say --nodes 20")
        if not 0 <= self.port <= 65535:
            raise InvalidInput("--port", self.port, "0 to 65535", "0 takes any free port")
        if not 0 <= self.console_port <= 65535:
            raise InvalidInput("--console-port", self.console_port, "0 to 65535", "0 takes any free port")
        if not 0 < self.speed <= FASTEST:
            raise InvalidInput("--speed", self.speed, f"more than 0, at most {FASTEST:g} simulated seconds a second")
        if self.cpu_topology:
            self.cpus()
        if not 1 <= self.node_grace_s <= LONGEST_GRACE_S:
            raise InvalidInput("--node-grace-s", self.node_grace_s, f"1 to {LONGEST_GRACE_S:g} seconds")
        if self.seed < 0:
            raise InvalidInput("--seed", self.seed, "0 or more")
        if self.workload and not self.nodes:
            raise InvalidInput("--workload", self.workload, "nodes to run it on", "say --nodes 200")
        if not self.host:
            raise InvalidInput("--host", "", "an address of this machine", "0.0.0.0 for every address")
        if self.is_bare and self.more_names:
            raise InvalidInput(
                "--scheduler-name", ", ".join(self.more_names), "not together with --bare, which starts no scheduler"
            )
        if self.is_bare and self.has_manager:
            raise InvalidInput("--manager", "with --bare", "one of them", "--bare starts the API server alone")
        if self.has_right_sizing and not self.has_manager:
            raise InvalidInput("--right-sizing", "without --manager", "both", "it is the manager that resizes")
        if self.is_bare and self.has_traces:
            raise InvalidInput("--traces", "with --bare", "one of them", "--bare starts the API server alone")
        if self.has_traces and find_spec("opentelemetry") is None:
            raise InvalidInput("--traces", "not installed", "the extra `traces`", "pip install 'cotenant[traces]'")
        if self.shows_loop and not (self.workload and self.has_traces):
            raise InvalidInput("shows_loop", True, "a workload and traces")
        if self.has_rebalancer and not self.has_manager:
            raise InvalidInput(
                "--rebalancer", "without --manager", "both", "the manager makes the NodeMetrics that it reads"
            )
        if self.rebalancer_config is not None and not self.has_rebalancer:
            raise InvalidInput("--rebalancer-config", str(self.rebalancer_config), "together with --rebalancer")
        if self.fleet and not self.has_console:
            raise InvalidInput("--fleet", self.fleet, "a console", "it is the console that shows a fleet")
        if self.fleet and self.fleet != "local" and not self.fleet.startswith(("nats://", "tls://")):
            raise InvalidInput("--fleet", self.fleet, "nats://HOST:PORT, tls://HOST:PORT or local")
        if self.is_bare and self.has_credit:
            raise InvalidInput("--credit", "with --bare", "one of them", "--bare starts the API server alone")
        if self.has_credit and find_spec("sqlalchemy") is None:
            raise InvalidInput("--credit", "", "the package sqlalchemy", "pip install 'cotenant[credit]'")
        if self.lend and not self.has_manager:
            raise InvalidInput("--lend", self.lend, "a manager, which lends", "say --manager")
        if self.log_format not in FORMATS:
            raise InvalidInput("--log-format", self.log_format, " or ".join(FORMATS))
        if self.is_bare and (self.nodes or self.workload):
            raise InvalidInput("--bare", "with --nodes or --workload", "the API server alone")
        self._check_contents()

    def _check_contents(self) -> None:
        """Read what is named, so that an error is raised here, before a child fails to start."""
        from cotenant.services.scheduling.device_settings import device_settings
        from cotenant.services.scheduling.load_aware import read_settings
        from cotenant.services.scheduling.names import by_requests, cluster_profile, read_names

        if self.load_aware is not None:
            read_settings(self.load_aware)
        device_settings(self.device_strategy, self.usual_gpu_pods)
        read_names(self._written_names(), by_requests(cluster_profile("--profile", self.profile)))
        if self.workload:
            from cotenant_local.workloads import script

            if self.workload not in script.names():
                raise InvalidInput("--workload", self.workload, "one of " + ", ".join(script.names()))
        if self.rebalancer_config is not None:
            from cotenant.services.rebalancer.configuration import read_settings as read_rebalancer

            read_rebalancer(self.rebalancer_config)
        if self.lend:
            from cotenant_local.up.lending import POLICIES

            if self.lend not in POLICIES:
                raise InvalidInput("--lend", self.lend, "one of " + ", ".join(POLICIES))

    def scheduler_names(self) -> tuple[str, ...]:
        """The names of schedulers that are served; the first names the Lease."""
        return tuple(name.partition("=")[0] for name in self._written_names())

    def _written_names(self) -> tuple[str, ...]:
        from cotenant.services.scheduling.names import DEFAULT_SCHEDULER

        default = (DEFAULT_SCHEDULER,) if self.is_default_scheduler else ()
        return ("cotenant", *default, *self.more_names)

    def scheduler_options(self) -> tuple[str, ...]:
        """The scheduler's command-line options about placement."""
        from cotenant.services.scheduling.device_settings import ENFORCED, NEIGHBOURS, STRATEGY, USUAL
        from cotenant.services.scheduling.names import FLAG

        # the only scheduler here: a lease that it could not renew in time would stop it for nobody's sake
        asked = ["--profile", self.profile, STRATEGY, self.device_strategy, "--no-leader-elect", "--state-dir", ""]
        for name in self._written_names():
            asked += [FLAG, name]
        if self.usual_gpu_pods:
            asked += [USUAL, self.usual_gpu_pods]
        if self.only_enforced_gpu_shares:
            asked.append(ENFORCED)
        if self.gpu_neighbours:
            asked.append(NEIGHBOURS)
        if self.load_aware is not None:
            asked += ["--load-aware", str(self.load_aware)]
        if self.has_credit:
            asked.append("--credit")
        return tuple(asked)

    def manager_options(self) -> tuple[str, ...]:
        """The manager's command-line options."""
        return ("--right-sizing",) if self.has_right_sizing else ()

    def rebalancer_options(self) -> tuple[str, ...]:
        """The rebalancer's command-line options."""
        from cotenant.services.scheduling.names import FLAG

        asked = ["--profile", self.profile]
        for name in self._written_names():
            asked += [FLAG, name]
        if self.load_aware is not None:
            asked += ["--load-aware", str(self.load_aware)]
        if self.rebalancer_config is not None:
            return (*asked, "--act", "--config", str(self.rebalancer_config))
        return (*asked, "--act", "--interval-s", f"{REBALANCER_INTERVAL_S:g}", "--watch-s", f"{REBALANCER_WATCH_S:g}")

    def cpus(self) -> CpuShape | None:
        """The CPU topology that simulated nodes report."""
        if not self.cpu_topology:
            return None
        from cotenant_local.nodes.topologies import CpuShape

        return CpuShape.parse(self.cpu_topology, NodeSize().cores, "--cpu-topology")
