"""`cotenant rebalancer`: moves pods to better nodes, and shows which would move.

Only signatures and help texts are here; the implementation is imported when a command runs, so that `--help` stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cotenant.cli.options import (
    Context,
    IdentityFolder,
    Json,
    Kubeconfig,
    LeaseNamespace,
    LogFormat,
    LogLevel,
    OtlpTracesCa,
    OtlpTracesTokenFile,
    TlsCert,
    TlsKey,
    WorkloadKinds,
)

app = App(
    name="rebalancer",
    help="Move pods of overloaded nodes, pods that violate rules or miss objectives, and pods in the way of others; or show which would move.",
    help_format="plaintext",
)


@app.command
def plan(
    *,
    config: Annotated[
        Path | None,
        Parameter(
            help="DeschedulerConfiguration (YAML): which kinds of moves, and MigrationController's filters and limits. Default: LowNodeLoad with low cpu 45, memory 60, high cpu 75, memory 85 percent."
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    scheduler_name: Annotated[
        tuple[str, ...],
        Parameter(
            help="Pods with this spec.schedulerName may move; may be repeated, NAME=PROFILE as for `cotenant scheduler`."
        ),
    ] = ("cotenant", "default-scheduler"),
    profile: Annotated[
        str, Parameter(help="The scheduler's placement profile, by which landings are simulated.")
    ] = "cotenant",
    load_aware: Annotated[Path | None, Parameter(help="The scheduler's file of load thresholds.")] = None,
    workload_kinds: WorkloadKinds = None,
    within_s: Annotated[float, Parameter(help="Seconds for reading the cluster.")] = 60.0,
    json: Json = False,
) -> int:
    """Print the moves of the next round with reasons and expected effect, and what is not moved and why.

    Reads nodes, pods, NodeMetrics, workloads and budgets, simulates each move on the scheduling engine, and writes nothing. Where interference is known, the predicted effect on objectives is shown.
    Exit status: 0 planned, also without a move; 1 no answer of the API server; 2 bad input.
    """
    from cotenant.cli.cluster import rebalancer_showing
    from cotenant.services.rebalancer.planning import PlanArguments

    return rebalancer_showing.plan(
        PlanArguments(kubeconfig, context, config, scheduler_name, profile, load_aware, within_s, workload_kinds), json
    )


@app.command
def run(
    *,
    act: Annotated[
        bool | None,
        Parameter(
            help="Carry moves out. Default: as `dryRun` in the configuration says; without it nothing is written."
        ),
    ] = None,
    config: Annotated[
        Path | None, Parameter(help="DeschedulerConfiguration (YAML), as for `cotenant rebalancer plan`.")
    ] = None,
    interval_s: Annotated[
        float | None, Parameter(help="Seconds between rounds. Default: the configuration's deschedulingInterval, 120.")
    ] = None,
    watch_s: Annotated[
        float | None, Parameter(help="Seconds for which the nodes of a move are watched afterwards. Default: 180.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    scheduler_name: Annotated[
        tuple[str, ...],
        Parameter(
            help="Pods with this spec.schedulerName may move; may be repeated, NAME=PROFILE as for `cotenant scheduler`."
        ),
    ] = ("cotenant", "default-scheduler"),
    profile: Annotated[
        str, Parameter(help="The scheduler's placement profile, by which landings are simulated.")
    ] = "cotenant",
    load_aware: Annotated[Path | None, Parameter(help="The scheduler's file of load thresholds.")] = None,
    workload_kinds: WorkloadKinds = None,
    leader_elect: Annotated[bool, Parameter(help="Compete with other replicas for a Lease before acting.")] = True,
    lease_namespace: LeaseNamespace = "",
    state_dir: IdentityFolder = None,
    listen: Annotated[str, Parameter(help="HOST:PORT of metrics and health; port 0: any.")] = "127.0.0.1:10264",
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    otlp_traces: Annotated[
        str,
        Parameter(
            help="URL of an OTLP/HTTP receiver, such as `cotenant traces` (http://127.0.0.1:4318): a trace for each round and each move. Default: none."
        ),
    ] = "",
    otlp_traces_token_file: OtlpTracesTokenFile = None,
    otlp_traces_ca: OtlpTracesCa = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Plan a round at each interval and carry its moves out as PodMigrationJobs: reserve, evict, wait for the replacement, measure.

    A dry run unless --act or `dryRun: false` is given. Jobs that others create are carried out too. Serves /metrics, /healthz and /readyz.
    Exit status: 0 after SIGTERM or Ctrl-C, 2 bad input.
    """
    from cotenant.services.kube_process.identity import state_folder
    from cotenant.services.rebalancer.arguments import RunArguments, check

    request = RunArguments(
        kubeconfig=kubeconfig,
        context=context,
        config=config,
        act=act,
        interval_s=interval_s,
        watch_s=watch_s,
        scheduler_names=scheduler_name,
        profile=profile,
        load_aware=load_aware,
        workload_kinds=workload_kinds,
        listen=listen,
        tls_cert=tls_cert,
        tls_key=tls_key,
        leader_elect=leader_elect,
        lease_namespace=lease_namespace,
        state_dir=state_folder() if state_dir is None else Path(state_dir) if state_dir else None,
        otlp_traces=otlp_traces,
        otlp_traces_token_file=otlp_traces_token_file,
        otlp_traces_ca=otlp_traces_ca,
        log_level=log_level,
        log_format=log_format,
    )
    check(request)  # before the imports below, which take seconds
    from cotenant.services.rebalancer import main

    return main.run(request)
