"""What a person asks of `cotenant rebalancer run` and `plan`, and the checks that need nothing else.

The fields are the options of the command. A refused value costs what the command line costs: nothing here imports an
engine or a client.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.model.autonomy.autonomy import MoveMode
from cotenant.model.errors import InvalidInput
from cotenant.services.kube_process.identity import check_lease_namespace
from cotenant.services.kube_process.span_target import span_target
from cotenant.services.logs import check_logging
from cotenant.services.options import (
    CLUSTER,
    COMMON,
    LISTENING,
    NOT_AN_OPTION,
    OBSERVED,
    WORK,
    Context,
    IdentityFolder,
    Kubeconfig,
    LeaseNamespace,
    LogFormat,
    LogLevel,
    OtlpTracesCa,
    OtlpTracesTokenFile,
    SealCertificate,
    TlsCert,
    TlsKey,
    WorkloadKinds,
)
from cotenant.services.readable import check_readable
from cotenant.services.scheduling.names import by_requests, cluster_profile, read_names


@dataclass(frozen=True, slots=True)
class RunArguments:
    """The command's arguments."""

    act: Annotated[
        bool | None,
        Parameter(
            help="Carry moves out. Default: as `dryRun` in the configuration says; without it nothing is written.",
            group=COMMON,
        ),
    ] = None
    config: Annotated[
        Path | None, Parameter(help="DeschedulerConfiguration (YAML), as for `cotenant rebalancer plan`.", group=COMMON)
    ] = None
    kubeconfig: Annotated[Kubeconfig, Parameter(group=COMMON)] = None
    scheduler_names: Annotated[
        tuple[str, ...],
        Parameter(
            name="--scheduler-name",
            help=(
                "Pods with this spec.schedulerName may move; may be repeated, NAME=PROFILE as for `cotenant scheduler`."
            ),
            group=COMMON,
        ),
    ] = ("cotenant", "default-scheduler")
    interval_s: Annotated[
        float | None,
        Parameter(help="Seconds between rounds. Default: the configuration's deschedulingInterval, 120.", group=COMMON),
    ] = None
    watch_s: Annotated[
        float | None,
        Parameter(help="Seconds for which the nodes of a move are watched afterwards. Default: 180.", group=WORK),
    ] = None
    mode: Annotated[
        str,
        Parameter(
            help=(
                "How far --act goes: act; approve: each move waits for `cotenant receipts approve`; earned: for each "
                "namespace as far as its moves have helped, beginning as approve."
            ),
            group=WORK,
        ),
    ] = "act"
    context: Context = ""
    profile: Annotated[
        str, Parameter(help="The scheduler's placement profile, by which landings are simulated.", group=WORK)
    ] = "cotenant"
    load_aware: Annotated[Path | None, Parameter(help="The scheduler's file of load thresholds.", group=WORK)] = None
    workload_kinds: WorkloadKinds = None
    seal_certificate: SealCertificate = None
    leader_elect: Annotated[
        bool, Parameter(help="Compete with other replicas for a Lease before acting.", group=CLUSTER)
    ] = True
    lease_namespace: LeaseNamespace = ""
    state_dir: IdentityFolder = None
    listen: Annotated[str, Parameter(help="HOST:PORT of metrics and health; port 0: any.", group=LISTENING)] = (
        "127.0.0.1:10264"
    )
    tls_cert: TlsCert = None
    tls_key: TlsKey = None
    otlp_traces: Annotated[
        str,
        Parameter(
            help=(
                "URL of an OTLP/HTTP receiver, such as `cotenant traces` (http://127.0.0.1:4318): a trace for "
                "each round and each move. Default: none."
            ),
            group=OBSERVED,
        ),
    ] = ""
    otlp_traces_token_file: OtlpTracesTokenFile = None
    otlp_traces_ca: OtlpTracesCa = None
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"
    election: Annotated[Timing, NOT_AN_OPTION] = field(default_factory=Timing)


@dataclass(frozen=True, slots=True)
class PlanArguments:
    """The command's arguments."""

    config: Annotated[
        Path | None,
        Parameter(
            help=(
                "DeschedulerConfiguration (YAML): which kinds of moves, and MigrationController's filters and "
                "limits. Default: LowNodeLoad with low cpu 45, memory 60, high cpu 75, memory 85 percent."
            ),
            group=COMMON,
        ),
    ] = None
    kubeconfig: Annotated[Kubeconfig, Parameter(group=COMMON)] = None
    scheduler_names: Annotated[
        tuple[str, ...],
        Parameter(
            name="--scheduler-name",
            help=(
                "Pods with this spec.schedulerName may move; may be repeated, NAME=PROFILE as for `cotenant scheduler`."
            ),
            group=COMMON,
        ),
    ] = ("cotenant", "default-scheduler")
    profile: Annotated[
        str, Parameter(help="The scheduler's placement profile, by which landings are simulated.", group=COMMON)
    ] = "cotenant"
    context: Context = ""
    load_aware: Annotated[Path | None, Parameter(help="The scheduler's file of load thresholds.", group=WORK)] = None
    workload_kinds: WorkloadKinds = None
    seal_certificate: SealCertificate = None
    within_s: Annotated[float, Parameter(help="Seconds for reading the cluster.", group=WORK)] = 60.0
    prices: Annotated[
        Path | None, Parameter(help="A file of prices of nodes: what the nodes that are emptied cost.", group=WORK)
    ] = None


_MAX_S = 3600.0


def check(request: RunArguments) -> Address:
    """The address to listen on. Raises `InvalidInput` for a value that cannot be."""
    address = Address.parse("--listen", request.listen)
    if address.path:
        raise InvalidInput("--listen", request.listen, "HOST:PORT")
    for option, value in (("--interval-s", request.interval_s), ("--watch-s", request.watch_s)):
        if value is not None and not (value > 0 and isfinite(value)):
            raise InvalidInput(option, value, "more than 0 seconds")
    if request.mode not in set(MoveMode):
        raise InvalidInput("--mode", request.mode, ", ".join(MoveMode))
    check_lease_namespace(request.lease_namespace)
    check_logging(request.log_level, request.log_format)
    read_names(request.scheduler_names, by_requests(cluster_profile("--profile", request.profile)))
    check_readable("--config", request.config)
    check_readable("--load-aware", request.load_aware)
    span_target(request.otlp_traces, request.otlp_traces_token_file, request.otlp_traces_ca)
    return address


def check_plan(request: PlanArguments) -> None:
    """Raises `InvalidInput` for a value that cannot be."""
    read_names(request.scheduler_names, by_requests(cluster_profile("--profile", request.profile)))
    check_readable("--config", request.config)
    check_readable("--load-aware", request.load_aware)
    check_readable("--prices", request.prices)
    if not 0 < request.within_s <= _MAX_S:
        raise InvalidInput("--within-s", request.within_s, f"more than 0, at most {_MAX_S:g} seconds")
