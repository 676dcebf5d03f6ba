"""The options of `cotenant up`, and the configuration that they ask for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from cotenant.services.options import COMMON
from cotenant_local.nodes.devices.shapes import read_shape
from cotenant_local.up.config import UpConfig, usual_nodes

_NODES = Group("Simulated nodes", sort_key=1)
_PROCESSES = Group("Further processes", sort_key=2)
_SCHEDULING = Group("Scheduling", sort_key=3)
_SERVER = Group("API server and logs", sort_key=4)


@dataclass(frozen=True, slots=True)
class UpArguments:
    """The command's arguments."""

    directory: Annotated[
        Path | None,
        Parameter(
            help=("Folder of all state, and of the kubeconfig for kubectl. Default: ~/.local/state/cotenant/up."),
            group=COMMON,
            name="--dir",
        ),
    ] = None
    nodes: Annotated[
        int | None,
        Parameter(
            help=(
                "Number of simulated nodes. Default: as many as the cluster in the directory has, 10 "
                "in a new one; 0 with --bare."
            ),
            group=COMMON,
        ),
    ] = None
    workload: Annotated[
        str,
        Parameter(
            help=("Workload to submit automatically: colocation or founding. Default: none; use kubectl."), group=COMMON
        ),
    ] = ""
    port: Annotated[
        int,
        Parameter(
            help=("The API server's port. Default, and 0: the last one used in the directory, or any free port."),
            group=COMMON,
            show_default=False,
        ),
    ] = 0
    bare: Annotated[bool, Parameter(help="Start the API server only.", group=COMMON, negative=())] = False
    gpus_per_node: Annotated[int, Parameter(help="GPUs of each node, reported by a Device object.", group=_NODES)] = 0
    dra: Annotated[
        str,
        Parameter(
            help=(
                "Devices of each node that ResourceClaims ask for, published by a simulated DRA "
                "driver: a number of GPUs (class gpu.cotenant.io), or a file of drivers and devices. "
                "Default: none."
            ),
            group=_NODES,
        ),
    ] = ""
    cpu_topology: Annotated[
        str,
        Parameter(
            help=(
                "Topology that simulated nodes report for their 32 CPUs: SOCKETSxCORESxTHREADS, such "
                "as 2x8x2. Default: none, so pods get no exclusive CPUs."
            ),
            group=_NODES,
        ),
    ] = ""
    speed: Annotated[
        float, Parameter(help="Simulated seconds per second, for pods on simulated nodes.", group=_NODES)
    ] = 60.0
    seed: Annotated[int, Parameter(help="Seed of the workload and the nodes' behaviour.", group=_NODES)] = 0
    node_grace_s: Annotated[
        float,
        Parameter(
            help=(
                "Seconds without a heartbeat after which a node counts as dead. Simulated nodes renew "
                "their Leases four times in it."
            ),
            group=_NODES,
        ),
    ] = 40.0
    profile: Annotated[
        str, Parameter(help="The scheduler's placement profile (`cotenant scheduler --help`).", group=_SCHEDULING)
    ] = "cotenant"
    default_scheduler: Annotated[
        bool,
        Parameter(
            help=("Place the pods that name no scheduler too. Turn it off for another scheduler of that name."),
            group=_SCHEDULING,
        ),
    ] = True
    scheduler_name: Annotated[
        tuple[str, ...],
        Parameter(
            help=(
                "A further spec.schedulerName to serve, besides cotenant and default-scheduler; may "
                "be repeated. NAME=PROFILE scores its pods by another profile."
            ),
            group=_SCHEDULING,
        ),
    ] = ()
    load_aware: Annotated[
        Path | None,
        Parameter(
            help=(
                "The scheduler's file of load thresholds (`cotenant scheduler --help`). Default: loads are not checked."
            ),
            group=_SCHEDULING,
        ),
    ] = None
    device_strategy: Annotated[
        str,
        Parameter(
            help=(
                "The scheduler's choice of devices: binpack, spread, default or fragmentation "
                "(`cotenant scheduler --help`)."
            ),
            group=_SCHEDULING,
        ),
    ] = "binpack"
    usual_gpu_pods: Annotated[
        str, Parameter(help="For fragmentation: typical pods (`cotenant scheduler --help`).", group=_SCHEDULING)
    ] = ""
    only_enforced_gpu_shares: Annotated[
        bool,
        Parameter(
            negative=(),
            help=(
                "Give shares of a GPU only on nodes whose label cotenant.io/gpu-isolation-provider says what "
                "enforces them; label one with kubectl."
            ),
            group=_SCHEDULING,
        ),
    ] = False
    gpu_neighbours: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Keep shares apart that want the same of a GPU (`cotenant scheduler --help`).",
            group=_SCHEDULING,
        ),
    ] = False
    loop: Annotated[
        bool,
        Parameter(
            help=(
                "With --workload colocation: show the whole loop. A manager that lends by peak, "
                "credit and traces run too; quotas, objectives and profiles are there; simulated "
                "nodes have agents; and every four minutes a job hurts the service shop/checkout "
                "beside it."
            ),
            group=_PROCESSES,
        ),
    ] = True
    manager: Annotated[
        bool,
        Parameter(
            help=(
                "Start a manager too: nodes offer batch and mid resources by the ConfigMap "
                "koordinator-system/slo-controller-config, from what their pods use."
            ),
            group=_PROCESSES,
            negative=(),
        ),
    ] = False
    lend: Annotated[
        str,
        Parameter(
            help=(
                "With --manager: lend from the start, by peak (ours, at 1 % risk), usage or "
                "maxUsageRequest; the workload's batch jobs then request batch-cpu and batch-memory."
            ),
            group=_PROCESSES,
        ),
    ] = ""
    right_sizing: Annotated[
        bool,
        Parameter(
            help="With --manager: resize pods in place, by RightSizings.",
            group=_PROCESSES,
            negative=(),
        ),
    ] = False
    rebalancer: Annotated[
        bool,
        Parameter(
            help=(
                "Start a rebalancer too, which moves pods of overloaded nodes and those that a "
                "PodMigrationJob asks for. It reads what the manager and the simulated nodes measure, "
                "so this starts a manager."
            ),
            group=_PROCESSES,
            negative=(),
        ),
    ] = False
    rebalancer_config: Annotated[
        Path | None,
        Parameter(
            help=(
                "With --rebalancer: its DeschedulerConfiguration. Without it a round is planned every "
                "10 seconds, and nodes are watched for a minute after a move."
            ),
            group=_PROCESSES,
        ),
    ] = None
    credit: Annotated[
        bool,
        Parameter(
            help=(
                "Book what tenants (ElasticQuotas) earn and spend in credit.db in the directory, and "
                "let the scheduler consider it. `cotenant credit list --store DIR/credit.db` shows "
                "it."
            ),
            group=_PROCESSES,
            negative=(),
        ),
    ] = False
    fleet: Annotated[
        str,
        Parameter(
            help=(
                "Bus of a fleet that the console shows: local for this user's `cotenant fleet serve --embedded`, or "
                "nats://HOST:PORT. Default: none."
            ),
            group=_PROCESSES,
        ),
    ] = ""
    traces: Annotated[
        bool,
        Parameter(
            help=("Receive OpenTelemetry spans too, and count ServiceObjectives from them. The addresses are printed."),
            group=_PROCESSES,
            negative=(),
        ),
    ] = False
    console: Annotated[
        bool,
        Parameter(
            help=("Serve the console too, a web page about the cluster; prints a link that logs in once."),
            group=_PROCESSES,
        ),
    ] = True
    console_port: Annotated[
        int,
        Parameter(
            help=("The console's port. Default, and 0: the last one used in the directory, or any free port."),
            group=_PROCESSES,
        ),
    ] = 0
    host: Annotated[str, Parameter(help="The address to listen on.", group=_SERVER)] = "127.0.0.1"
    ephemeral: Annotated[bool, Parameter(help="Keep only the kubeconfig.", group=_SERVER, negative=())] = False
    workload_with_job: Annotated[
        bool,
        Parameter(
            help=("Give each Job a Workload and a PodGroup, as clusters with the feature gate WorkloadWithJob do."),
            group=_SERVER,
            negative=(),
        ),
    ] = False
    audit_log: Annotated[
        Path | None,
        Parameter(
            help=(
                "Append every request to the API server to this file, one audit.k8s.io/v1 Event a "
                "line. `userAgent` tells the processes apart."
            ),
            group=_SERVER,
        ),
    ] = None
    log_format: Annotated[
        str,
        Parameter(
            help=(
                "Of the log lines of this process, and of the logs of the others in the directory: "
                "text, or json for one object a line."
            ),
            group=_SERVER,
        ),
    ] = "text"


def configured(given: UpArguments, usual_directory: Path) -> UpConfig:
    """The cluster that is asked for. Raises `InvalidInput` with the option's name."""
    where = (given.directory or usual_directory).expanduser().absolute()
    nodes = given.nodes
    if nodes is None:
        nodes = 0 if given.bare or given.workload else usual_nodes(where)  # a workload is refused without a number
    shown = given.loop and not given.bare and given.workload == "colocation" and find_spec("opentelemetry") is not None
    keeps_credit = given.credit or (shown and find_spec("sqlalchemy") is not None)
    return UpConfig(
        directory=where,
        nodes=nodes,
        gpus_per_node=given.gpus_per_node,
        device_shape=read_shape(given.dra),
        workload=given.workload,
        host=given.host,
        port=given.port,
        is_ephemeral=given.ephemeral,
        is_bare=given.bare,
        profile=given.profile,
        speed=given.speed,
        seed=given.seed,
        cpu_topology=given.cpu_topology,
        load_aware=given.load_aware.expanduser().absolute() if given.load_aware is not None else None,
        device_strategy=given.device_strategy,
        usual_gpu_pods=given.usual_gpu_pods,
        only_enforced_gpu_shares=given.only_enforced_gpu_shares,
        gpu_neighbours=given.gpu_neighbours,
        node_grace_s=given.node_grace_s,
        is_default_scheduler=given.default_scheduler,
        more_names=given.scheduler_name,
        has_manager=given.manager or given.rebalancer or shown,
        has_right_sizing=given.right_sizing,
        has_rebalancer=given.rebalancer,
        rebalancer_config=given.rebalancer_config,
        lend=given.lend or ("peak" if shown else ""),
        has_credit=keeps_credit,
        has_workloads=given.workload_with_job,
        log_format=given.log_format,
        audit_log=given.audit_log.expanduser().absolute() if given.audit_log is not None else None,
        has_console=given.console and not given.bare,
        console_port=given.console_port,
        fleet=given.fleet,
        has_traces=given.traces or shown,
        shows_loop=shown,
    )
