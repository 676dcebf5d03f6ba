"""`cotenant scheduler`: the scheduler of a Kubernetes cluster, or one of its replicas.

Only signatures and help texts are here; the implementation is imported when the command runs, so that `--help` stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.options import (
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

DEFAULT_PROFILE = "cotenant"


def scheduler(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    scheduler_name: Annotated[
        tuple[str, ...],
        Parameter(
            help="Pods with this spec.schedulerName are ours; may be repeated, and NAME=PROFILE scores them by another profile. The first name is that of the Lease and of Events.",
        ),
    ] = ("cotenant",),
    profile: Annotated[
        str,
        Parameter(
            help="Placement profile, or a profile file (.yaml) such as `cotenant lab tune` writes; an unknown name lists them. Requests fit under all; under cotenant, batch and mid pods fit by predicted use too."
        ),
    ] = DEFAULT_PROFILE,
    predicted_use_risk: Annotated[
        float,
        Parameter(help="Percent of time in which a pod may use more CPU or memory than it is predicted to."),
    ] = 1.0,
    leader_elect: Annotated[bool, Parameter(help="Compete with other replicas for a Lease before binding.")] = True,
    lease_namespace: LeaseNamespace = "",
    leader_elect_lease_s: Annotated[
        float, Parameter(help="Seconds after which a Lease that was not renewed may be acquired.")
    ] = 6.0,
    leader_elect_renew_deadline_s: Annotated[
        float, Parameter(help="Seconds after which a leader that cannot renew stops leading.")
    ] = 4.0,
    leader_elect_retry_s: Annotated[
        float, Parameter(help="Seconds between two attempts to acquire or renew the Lease.")
    ] = 1.0,
    state_dir: IdentityFolder = None,
    qps: Annotated[float, Parameter(help="Maximum requests per second to the API server; inf: no limit.")] = float(
        "inf"
    ),
    burst: Annotated[float, Parameter(help="Maximum burst of requests.")] = 1000.0,
    binds_in_flight: Annotated[int, Parameter(help="Maximum number of concurrent binds.")] = 32,
    notices_per_s: Annotated[
        float, Parameter(help="Maximum pod conditions written per second, and as many events.")
    ] = 50.0,
    listen: Annotated[
        str, Parameter(help="HOST:PORT of metrics, health and reports; port 0: any.")
    ] = "127.0.0.1:10261",
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    report_token_file: Annotated[
        Path | None, Parameter(help="File with the bearer token required by POST /metrics/report.")
    ] = None,
    report_account: Annotated[
        str,
        Parameter(
            help="NAMESPACE/NAME of the agents' service account: each may report for its own node, by a TokenReview of its token."
        ),
    ] = "",
    seal: Annotated[
        Path | None,
        Parameter(
            help="Folder with tls.key and tls.crt (Ed25519): what pods are given is signed, and what pods say that they were given is believed by its signature only. A folder without them counts as none."
        ),
    ] = None,
    debug_token_file: Annotated[
        Path | None,
        Parameter(help="File with the bearer token for remote callers of the debug API; default: no remote access."),
    ] = None,
    load_aware: Annotated[
        Path | None,
        Parameter(help="File with load thresholds for load-aware placement; an empty file: the defaults."),
    ] = None,
    device_strategy: Annotated[
        str,
        Parameter(help="Choice of devices and nodes: binpack, spread, default (least allocated), or fragmentation."),
    ] = "binpack",
    usual_gpu_pods: Annotated[
        str,
        Parameter(help="For fragmentation, typical pods: percent of a GPU, GPUs, weight; such as 50:6,100:3,100x8:1."),
    ] = "",
    default_spread: Annotated[
        str,
        Parameter(
            help="Spread of replicas without topologySpreadConstraints over hosts and zones: system (as kube-scheduler), none, or profile (system for kube-default, none for others)."
        ),
    ] = "profile",
    quota_revoke: Annotated[
        bool, Parameter(help="Evict pods of quotas over their runtime while other quotas wait for their share.")
    ] = True,
    quota_revoke_after_s: Annotated[float, Parameter(help="Continuous overuse tolerated before that.")] = 120.0,
    quota_check_parents: Annotated[
        bool, Parameter(negative=(), help="A pod must also fit every ancestor of its quota.")
    ] = False,
    credit: Annotated[
        bool,
        Parameter(
            negative=(),
            help="The standing that `cotenant credit serve` writes on quotas changes their share of lent resources and the order among pods of equal priority; with the profile founding, debtors avoid nodes that miss objectives.",
        ),
    ] = False,
    workload_kinds: WorkloadKinds = None,
    otlp_traces: Annotated[
        str,
        Parameter(
            help="URL of an OTLP/HTTP receiver, such as `cotenant traces` (http://127.0.0.1:4318): one trace for each scheduling attempt. Default: none."
        ),
    ] = "",
    otlp_traces_token_file: OtlpTracesTokenFile = None,
    otlp_traces_ca: OtlpTracesCa = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Schedule the pods of a Kubernetes cluster that have one of our schedulerNames.

    Serves /metrics, /healthz, /readyz, the debug API (listed by GET /apis/v1/__services__), and accepts node reports at POST /metrics/report. Exit status: 0 after SIGTERM or Ctrl-C, 2 bad input.
    """
    from cotenant.drivers.kube.leaderelection.election import Timing
    from cotenant.engine.plugins.quotas.settings import QuotaSettings
    from cotenant.model.errors import InvalidInput
    from cotenant.services.kube_process.identity import state_folder
    from cotenant.services.scheduler.arguments import SchedulerArguments, check

    leases = (leader_elect_lease_s, leader_elect_renew_deadline_s, leader_elect_retry_s)
    try:
        election = Timing(*leases)
    except InvalidInput as error:
        flags = "--leader-elect-lease-s, --leader-elect-renew-deadline-s, --leader-elect-retry-s"
        raise InvalidInput(flags, ", ".join(f"{each:g}" for each in leases), error.expected) from None
    if not 0 <= quota_revoke_after_s < float("inf"):
        raise InvalidInput("--quota-revoke-after-s", quota_revoke_after_s, "seconds, 0 or more")
    request = SchedulerArguments(
        kubeconfig=kubeconfig,
        context=context,
        scheduler_names=scheduler_name,
        profile=profile,
        leader_elect=leader_elect,
        lease_namespace=lease_namespace,
        qps=qps,
        burst=burst,
        binds_in_flight=binds_in_flight,
        notices_per_s=notices_per_s,
        listen=listen,
        tls_cert=tls_cert,
        tls_key=tls_key,
        report_token_file=report_token_file,
        report_account=report_account,
        debug_token_file=debug_token_file,
        seal=seal,
        load_aware=load_aware,
        workload_kinds=workload_kinds,
        predicted_use_risk_pct=predicted_use_risk,
        device_strategy=device_strategy,
        usual_gpu_pods=usual_gpu_pods,
        default_spread=default_spread,
        otlp_traces=otlp_traces,
        otlp_traces_token_file=otlp_traces_token_file,
        otlp_traces_ca=otlp_traces_ca,
        log_level=log_level,
        log_format=log_format,
        election=election,
        state_dir=state_folder() if state_dir is None else Path(state_dir) if state_dir else None,
        quotas=QuotaSettings(
            check_parents=quota_check_parents,
            revoke=quota_revoke,
            revoke_after_s=quota_revoke_after_s,
            credit=credit,
        ),
    )
    check(request)
    from cotenant.services.scheduler.main import run  # seconds: after the checks

    return run(request)
