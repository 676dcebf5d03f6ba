"""`cotenant up`: a cluster on this machine, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.local_directory import default_directory

Flag = Annotated[bool, Parameter(negative=())]


def up(
    *,
    directory: Annotated[Path | None, Parameter(name="--dir")] = None,
    nodes: int | None = None,
    gpus_per_node: int = 0,
    dra: str = "",
    workload: str = "",
    port: Annotated[int, Parameter(show_default=False)] = 0,
    host: str = "127.0.0.1",
    ephemeral: Flag = False,
    profile: str = "cotenant",
    speed: float = 60.0,
    seed: int = 0,
    cpu_topology: str = "",
    bare: Flag = False,
    load_aware: Path | None = None,
    device_strategy: str = "binpack",
    usual_gpu_pods: str = "",
    node_grace_s: float = 40.0,
    default_scheduler: bool = True,
    scheduler_name: tuple[str, ...] = (),
    manager: Flag = False,
    rebalancer: Flag = False,
    rebalancer_config: Path | None = None,
    lend: str = "",
    credit: Flag = False,
    workload_with_job: Flag = False,
    log_format: str = "text",
    audit_log: Path | None = None,
    console: bool = True,
    console_port: int = 0,
    traces: Flag = False,
    loop: bool = True,
) -> int:
    """A Kubernetes-compatible cluster on this machine: API server, controllers, simulated nodes, scheduler and
    extender. Ends with Ctrl-C.

    Parameters
    ----------
    directory
        Folder of all state, and of the kubeconfig for kubectl. Default: ~/.local/state/cotenant/up.
    nodes
        Number of simulated nodes. Default: as many as the cluster in the directory has, 10 in a new one; 0 with --bare.
    gpus_per_node
        GPUs of each node, reported by a Device object.
    dra
        Devices of each node that ResourceClaims ask for, published by a simulated DRA driver: a number of GPUs (class
        gpu.cotenant.io), or a file of drivers and devices. Default: none.
    workload
        Workload to submit automatically: colocation or founding. Default: none; use kubectl.
    port
        The API server's port. Default, and 0: the last one used in the directory, or any free port.
    host
        The address to listen on.
    ephemeral
        Keep only the kubeconfig.
    profile
        The scheduler's placement profile (`cotenant scheduler --help`).
    speed
        Simulated seconds per second, for pods on simulated nodes.
    seed
        Seed of the workload and the nodes' behaviour.
    cpu_topology
        Topology that simulated nodes report for their 32 CPUs: SOCKETSxCORESxTHREADS, such as 2x8x2. Default: none, so
        pods get no exclusive CPUs.
    bare
        Start the API server only.
    load_aware
        The scheduler's file of load thresholds (`cotenant scheduler --help`). Default: loads are not checked.
    device_strategy
        The scheduler's choice of devices: binpack, spread, default or fragmentation (`cotenant scheduler --help`).
    usual_gpu_pods
        For fragmentation: typical pods (`cotenant scheduler --help`).
    node_grace_s
        Seconds without a heartbeat after which a node counts as dead. Simulated nodes renew their Leases four times in
        it.
    default_scheduler
        Place the pods that name no scheduler too. Turn it off for another scheduler of that name.
    scheduler_name
        A further spec.schedulerName to serve, besides cotenant and default-scheduler; may be repeated. NAME=PROFILE
        scores its pods by another profile.
    manager
        Start a manager too: nodes offer batch and mid resources by the ConfigMap
        koordinator-system/slo-controller-config, from what their pods use.
    rebalancer
        Start a rebalancer too, which moves pods of overloaded nodes and those that a PodMigrationJob asks for. It reads
        what the manager and the simulated nodes measure, so this starts a manager.
    rebalancer_config
        With --rebalancer: its DeschedulerConfiguration. Without it a round is planned every 10 seconds, and nodes are
        watched for a minute after a move.
    lend
        With --manager: lend from the start, by peak (ours, at 1 % risk), usage or maxUsageRequest; the workload's batch
        jobs then request batch-cpu and batch-memory.
    credit
        Book what tenants (ElasticQuotas) earn and spend in credit.db in the directory, and let the scheduler consider
        it. `cotenant credit list --store DIR/credit.db` shows it.
    workload_with_job
        Give each Job a Workload and a PodGroup, as clusters with the feature gate WorkloadWithJob do.
    log_format
        Of the log lines of this process, and of the logs of the others in the directory: text, or json for one object a
        line.
    audit_log
        Append every request to the API server to this file, one audit.k8s.io/v1 Event a line. `userAgent` tells the
        processes apart.
    console
        Serve the console too, a web page about the cluster; prints a link that logs in once.
    console_port
        The console's port. Default, and 0: the last one used in the directory, or any free port.
    traces
        Receive OpenTelemetry spans too, and count ServiceObjectives from them. The addresses are printed.
    loop
        With --workload colocation: show the whole loop. A manager that lends by peak, credit and traces run too;
        quotas, objectives and profiles are there; simulated nodes have agents; and every four minutes a job hurts the
        service shop/checkout beside it.
    """
    from importlib.util import find_spec

    from cotenant_local.nodes.devices.shapes import read_shape
    from cotenant_local.up.config import UpConfig, usual_nodes

    where = (directory or default_directory()).expanduser().absolute()
    if nodes is None:
        nodes = 0 if bare or workload else usual_nodes(where)  # a workload is refused without a number
    shown = loop and not bare and workload == "colocation" and find_spec("opentelemetry") is not None
    keeps_credit = credit or (shown and find_spec("sqlalchemy") is not None)
    config = UpConfig(
        directory=where,
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        device_shape=read_shape(dra),
        workload=workload,
        host=host,
        port=port,
        is_ephemeral=ephemeral,
        is_bare=bare,
        profile=profile,
        speed=speed,
        seed=seed,
        cpu_topology=cpu_topology,
        load_aware=load_aware.expanduser().absolute() if load_aware is not None else None,
        device_strategy=device_strategy,
        usual_gpu_pods=usual_gpu_pods,
        node_grace_s=node_grace_s,
        is_default_scheduler=default_scheduler,
        more_names=scheduler_name,
        has_manager=manager or rebalancer or shown,
        has_rebalancer=rebalancer,
        rebalancer_config=rebalancer_config,
        lend=lend or ("peak" if shown else ""),
        has_credit=keeps_credit,
        has_workloads=workload_with_job,
        log_format=log_format,
        audit_log=audit_log.expanduser().absolute() if audit_log is not None else None,
        has_console=console and not bare,
        console_port=console_port,
        has_traces=traces or shown,
        shows_loop=shown,
    )
    from cotenant_local.up.run import run  # seconds: after the checks

    return run(config, lambda line: print(line, flush=True))
