"""What a person asks of `cotenant scheduler`, and the checks that need nothing else.

The fields are the options of the command. A refused value costs what the command line costs: nothing here imports an
engine or a client.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.model.errors import InvalidInput
from cotenant.model.shards.table import MAX_SHARDS
from cotenant.services.kube_process.identity import check_lease_namespace
from cotenant.services.kube_process.span_target import span_target
from cotenant.services.logs import check_logging
from cotenant.services.options import (
    CLUSTER,
    COMMON,
    LISTENING,
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
    TlsCert,
    TlsKey,
    WorkloadKinds,
)
from cotenant.services.readable import check_readable
from cotenant.services.scheduling.names import DEFAULT_SCHEDULER, by_requests, cluster_profile, read_names

if TYPE_CHECKING:
    from cotenant.engine.plugins.quotas.settings import QuotaSettings
    from cotenant.services.scheduler_config.configuration_file import SchedulerConfig


@dataclass(frozen=True, slots=True)
class SchedulerArguments:
    """The command's arguments."""

    kubeconfig: Annotated[Kubeconfig, Parameter(group=COMMON)] = None
    scheduler_names: Annotated[
        tuple[str, ...],
        Parameter(
            name="--scheduler-name",
            help=(
                "Pods with this spec.schedulerName are ours; may be repeated, and NAME=PROFILE scores them by "
                "another profile. The first name is that of the Lease and of Events."
            ),
            group=COMMON,
        ),
    ] = ("cotenant",)
    profile: Annotated[
        str,
        Parameter(
            help=(
                "Placement profile, or a profile file (.yaml) such as `cotenant lab tune` writes; an unknown name "
                "lists them. Requests fit under all; under cotenant, batch and mid pods fit by predicted use too."
            ),
            group=COMMON,
        ),
    ] = "cotenant"
    config: Annotated[
        Path | None,
        Parameter(
            help=(
                "A kube-scheduler's KubeSchedulerConfiguration (v1), in place of --scheduler-name and --profile: its "
                "profiles are scored as kube-scheduler scores them. What is not honoured is named at the start."
            ),
            group=WORK,
        ),
    ] = None
    shadow: Annotated[
        bool,
        Parameter(
            negative=(),
            help=(
                "Decide beside another scheduler and only compare: nothing is bound, written or evicted, and no Lease "
                "is needed. `cotenant explain shadow` shows it."
            ),
            group=WORK,
        ),
    ] = False
    shadow_of: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            help=(
                "With --shadow: spec.schedulerName of the pods that are judged; may be repeated, and NAME=PROFILE. "
                "Default: default-scheduler, or the names of --config."
            ),
            group=WORK,
        ),
    ] = ()
    shadow_cpu_share_pct: Annotated[
        float,
        Parameter(
            name="--shadow-cpu-share",
            help="With --shadow: percent of one core that judging may take.",
            group=WORK,
        ),
    ] = 50.0
    leader_elect: Annotated[
        bool, Parameter(help="Compete with other replicas for a Lease before binding.", group=COMMON)
    ] = True
    shards: Annotated[
        int,
        Parameter(
            help=(
                "How many replicas may act at once, each on its part of nodes and pods; 1: one leads and the others "
                "wait. One is enough almost always."
            ),
            group=CLUSTER,
        ),
    ] = 1
    listen: Annotated[str, Parameter(help="HOST:PORT of metrics, health and reports; port 0: any.", group=COMMON)] = (
        "127.0.0.1:10261"
    )
    context: Context = ""
    predicted_use_risk_pct: Annotated[
        float,
        Parameter(
            name="--predicted-use-risk",
            help="Percent of time in which a pod may use more CPU or memory than it is predicted to.",
            group=WORK,
        ),
    ] = 1.0
    lease_namespace: LeaseNamespace = ""
    leader_elect_lease_s: Annotated[
        float, Parameter(help="Seconds after which a Lease that was not renewed may be acquired.", group=CLUSTER)
    ] = 6.0
    leader_elect_renew_deadline_s: Annotated[
        float, Parameter(help="Seconds after which a leader that cannot renew stops leading.", group=CLUSTER)
    ] = 4.0
    leader_elect_retry_s: Annotated[
        float, Parameter(help="Seconds between two attempts to acquire or renew the Lease.", group=CLUSTER)
    ] = 1.0
    state_dir: IdentityFolder = None
    qps: Annotated[
        float, Parameter(help="Maximum requests per second to the API server; inf: no limit.", group=CLUSTER)
    ] = float("inf")
    burst: Annotated[float, Parameter(help="Maximum burst of requests.", group=CLUSTER)] = 1000.0
    binds_in_flight: Annotated[int, Parameter(help="Maximum number of concurrent binds.", group=CLUSTER)] = 32
    notices_per_s: Annotated[
        float, Parameter(help="Maximum pod conditions written per second, and as many events.", group=CLUSTER)
    ] = 50.0
    tls_cert: TlsCert = None
    tls_key: TlsKey = None
    report_token_file: Annotated[
        Path | None, Parameter(help="File with the bearer token required by POST /metrics/report.", group=LISTENING)
    ] = None
    report_account: Annotated[
        str,
        Parameter(
            help=(
                "NAMESPACE/NAME of the agents' service account: each may report for its own node, by a "
                "TokenReview of its token."
            ),
            group=LISTENING,
        ),
    ] = ""
    seal: Annotated[
        Path | None,
        Parameter(
            help=(
                "Folder with tls.key and tls.crt (Ed25519): what pods are given is signed, and what pods say that "
                "they were given is believed by its signature only. A folder without them counts as none."
            ),
            group=WORK,
        ),
    ] = None
    debug_token_file: Annotated[
        Path | None,
        Parameter(
            help="File with the bearer token for remote callers of the debug API; default: no remote access.",
            group=LISTENING,
        ),
    ] = None
    load_aware: Annotated[
        Path | None,
        Parameter(help="File with load thresholds for load-aware placement; an empty file: the defaults.", group=WORK),
    ] = None
    device_strategy: Annotated[
        str,
        Parameter(
            help="Choice of devices and nodes: binpack, spread, default (least allocated), or fragmentation.",
            group=WORK,
        ),
    ] = "binpack"
    usual_gpu_pods: Annotated[
        str,
        Parameter(
            help="For fragmentation, typical pods: percent of a GPU, GPUs, weight; such as 50:6,100:3,100x8:1.",
            group=WORK,
        ),
    ] = ""
    only_enforced_gpu_shares: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Give shares of a GPU only on nodes labelled cotenant.io/gpu-isolation-provider.",
            group=WORK,
        ),
    ] = False
    gpu_neighbours: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Keep shares apart that want the same of a GPU, as measured, else by annotation cotenant.io/gpu-need.",
            group=WORK,
        ),
    ] = False
    default_spread: Annotated[
        str,
        Parameter(
            help=(
                "Spread of replicas without topologySpreadConstraints over hosts and zones: system (as "
                "kube-scheduler), none, or profile (system for kube-default and kube-1.36, none for others)."
            ),
            group=WORK,
        ),
    ] = "profile"
    plugins: Annotated[
        tuple[str, ...],
        Parameter(
            name="--plugin",
            negative=(),
            help="A plugin of an installed package, by its entry point in cotenant.scheduler_plugins; repeatable.",
            group=WORK,
        ),
    ] = ()
    quota_revoke: Annotated[
        bool,
        Parameter(help="Evict pods of quotas over their runtime while other quotas wait for their share.", group=WORK),
    ] = True
    quota_revoke_after_s: Annotated[float, Parameter(help="Continuous overuse tolerated before that.", group=WORK)] = (
        120.0
    )
    quota_check_parents: Annotated[
        bool, Parameter(negative=(), help="A pod must also fit every ancestor of its quota.", group=WORK)
    ] = False
    preempt_for_resizes: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Evict pods of lower priority for a resize in place that a kubelet defers, within budgets and gangs.",
            group=WORK,
        ),
    ] = False
    credit: Annotated[
        bool,
        Parameter(
            negative=(),
            help=(
                "The standing that `cotenant credit serve` writes on quotas changes their share of lent resources "
                "and the order among pods of equal priority; with the profile founding, debtors avoid nodes that "
                "miss objectives."
            ),
            group=WORK,
        ),
    ] = False
    workload_kinds: WorkloadKinds = None
    otlp_traces: Annotated[
        str,
        Parameter(
            help=(
                "URL of an OTLP/HTTP receiver, such as `cotenant traces` (http://127.0.0.1:4318): one trace for "
                "each scheduling attempt. Default: none."
            ),
            group=OBSERVED,
        ),
    ] = ""
    otlp_traces_token_file: OtlpTracesTokenFile = None
    otlp_traces_ca: OtlpTracesCa = None
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"

    @property
    def election(self) -> Timing:
        """Of the Lease. Raises `InvalidInput` for times that do not fit together."""
        leases = (self.leader_elect_lease_s, self.leader_elect_renew_deadline_s, self.leader_elect_retry_s)
        try:
            return Timing(*leases)
        except InvalidInput as error:
            flags = "--leader-elect-lease-s, --leader-elect-renew-deadline-s, --leader-elect-retry-s"
            raise InvalidInput(flags, ", ".join(f"{seconds:g}" for seconds in leases), error.expected) from None

    @property
    def quotas(self) -> QuotaSettings:
        """How quotas are kept."""
        from cotenant.engine.plugins.quotas.settings import QuotaSettings

        return QuotaSettings(
            check_parents=self.quota_check_parents,
            revoke=self.quota_revoke,
            revoke_after_s=self.quota_revoke_after_s,
            credit=self.credit,
        )


def names_of(request: SchedulerArguments) -> tuple[tuple[str, ...], str]:
    """The scheduler names, and where they were written. Raises `InvalidInput` for options that do not go together."""
    if not request.shadow:
        if request.shadow_of:
            raise InvalidInput("--shadow-of", ", ".join(request.shadow_of), "nothing, without --shadow")
        return request.scheduler_names, own_flag(request)
    for flag, value, hint in (
        ("--seal", request.seal, "a shadow signs nothing, and what another scheduler wrote has no seal"),
        ("--report-account", request.report_account, "that needs TokenReviews, which are written: --report-token-file"),
    ):
        if value:
            raise InvalidInput(flag, str(value), "nothing, with --shadow", hint)
    if not 0 < request.shadow_cpu_share_pct <= 100:
        raise InvalidInput("--shadow-cpu-share", request.shadow_cpu_share_pct, "percent of a core, above 0 to 100")
    if request.config is not None:
        if request.shadow_of:
            raise InvalidInput("--shadow-of", ", ".join(request.shadow_of), "nothing, with --config")
        return request.scheduler_names, own_flag(request)
    if request.scheduler_names != SchedulerArguments().scheduler_names:
        given = ", ".join(request.scheduler_names)
        raise InvalidInput("--scheduler-name", given, "nothing, with --shadow", "--shadow-of names whom it watches")
    return request.shadow_of or (DEFAULT_SCHEDULER,), "--shadow-of"


DEFAULT_SPREADS = {"profile": None, "system": True, "none": False}


def own_flag(request: SchedulerArguments) -> str:
    """Where scheduler names were written."""
    return "--scheduler-name" if request.config is None else f"{request.config}: schedulerName"


def configured(request: SchedulerArguments) -> tuple[SchedulerArguments, SchedulerConfig | None]:
    """The arguments with what the configuration file says, and what it says besides. Raises `InvalidInput`."""
    if request.config is None:
        return request, None
    from cotenant.services.scheduler_config.applying import refuse_beside, taken_options
    from cotenant.services.scheduler_config.configuration_file import read_config

    refuse_beside(request, SchedulerArguments())
    config = read_config(request.config)
    return replace(request, **taken_options(config)), config  # type: ignore[arg-type]  # fields by their names


def _check_shards(request: SchedulerArguments) -> None:
    if not 1 <= request.shards <= MAX_SHARDS:
        raise InvalidInput("--shards", request.shards, f"1 to {MAX_SHARDS}")
    if request.shards == 1:
        return
    if not request.leader_elect:
        raise InvalidInput("--no-leader-elect", "with --shards", "no --no-leader-elect", "each shard holds a Lease")
    if request.shadow:
        raise InvalidInput("--shards", request.shards, "1, with --shadow", "a shadow binds nothing")


def check(request: SchedulerArguments) -> Address:
    """The address to listen on. Raises `InvalidInput` for a value that cannot be."""
    _ = request.election  # which refuses times that do not fit together
    if not 0 <= request.quota_revoke_after_s < float("inf"):
        raise InvalidInput("--quota-revoke-after-s", request.quota_revoke_after_s, "seconds, 0 or more")
    address = Address.parse("--listen", request.listen)
    if address.path:
        raise InvalidInput("--listen", request.listen, "HOST:PORT")
    _check_shards(request)
    if request.binds_in_flight < 1:
        raise InvalidInput("--binds-in-flight", request.binds_in_flight, "1 or more")
    if not request.burst >= 1 or not isfinite(request.burst):
        raise InvalidInput("--burst", request.burst, "1 or more")
    if not request.qps > 0:
        raise InvalidInput("--qps", request.qps, "a number above 0, or inf")
    if not (request.notices_per_s > 0 and isfinite(request.notices_per_s)):
        raise InvalidInput("--notices-per-s", request.notices_per_s, "a number above 0")
    if not 0 < request.predicted_use_risk_pct < 50:
        raise InvalidInput("--predicted-use-risk", request.predicted_use_risk_pct, "percent, above 0 and below 50")
    check_lease_namespace(request.lease_namespace)
    check_logging(request.log_level, request.log_format)
    if request.default_spread not in DEFAULT_SPREADS:
        raise InvalidInput("--default-spread", request.default_spread, f"one of {', '.join(DEFAULT_SPREADS)}")
    names, flag = names_of(request)
    read_names(names, by_requests(cluster_profile("--profile", request.profile)), flag)
    span_target(request.otlp_traces, request.otlp_traces_token_file, request.otlp_traces_ca)
    check_readable("--load-aware", request.load_aware)
    if request.device_strategy != "binpack" or request.usual_gpu_pods:  # what reads them loads the rules of devices
        from cotenant.services.scheduling.device_settings import device_settings

        device_settings(request.device_strategy, request.usual_gpu_pods)
    return address
