"""`cotenant manager`: offers batch and mid resources on nodes, and renders their NodeSLOs.

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
)


def manager(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    config_namespace: Annotated[str, Parameter(help="Namespace of the ConfigMap.")] = "koordinator-system",
    config_name: Annotated[str, Parameter(help="Name of the ConfigMap.")] = "slo-controller-config",
    writes_per_s: Annotated[float, Parameter(help="Maximum objects written per second.")] = 50.0,
    leader_elect: Annotated[bool, Parameter(help="Compete with other replicas for a Lease before writing.")] = True,
    lease_namespace: LeaseNamespace = "",
    state_dir: IdentityFolder = None,
    listen: Annotated[str, Parameter(help="HOST:PORT of metrics and health; port 0: any.")] = "127.0.0.1:10263",
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_service: Annotated[
        str,
        Parameter(
            help="Instead: serve TLS with a certificate that the manager makes and renews for this Service, in the Secret SERVICE-tls."
        ),
    ] = "",
    certificates_for: Annotated[
        tuple[str, ...],
        Parameter(
            help="Make and renew the certificate of this Service too, in the Secret SERVICE-tls of the Lease's namespace; may be repeated."
        ),
    ] = (),
    authorities_in: Annotated[
        str, Parameter(help="NAMESPACE/NAME of a ConfigMap that gets the authorities of these certificates (ca.crt).")
    ] = "",
    otlp_traces: Annotated[
        str,
        Parameter(
            help="URL of an OTLP/HTTP receiver, such as `cotenant traces` (http://127.0.0.1:4318): a trace for each write. Default: none."
        ),
    ] = "",
    otlp_traces_token_file: OtlpTracesTokenFile = None,
    otlp_traces_ca: OtlpTracesCa = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Offer what services leave idle as batch and mid resources, by the ConfigMap slo-controller-config.

    Writes each node's amounts with their terms, its NodeSLO and the collect policy of its NodeMetric. Without the ConfigMap nothing is lent.
    Serves /metrics, /healthz and /readyz. Exit status: 0 after SIGTERM or Ctrl-C, 2 bad input.
    """
    from cotenant.services.kube_process.identity import state_folder
    from cotenant.services.manager.arguments import ManagerArguments, check

    request = ManagerArguments(
        kubeconfig=kubeconfig,
        context=context,
        listen=listen,
        tls_cert=tls_cert,
        tls_key=tls_key,
        tls_service=tls_service,
        certificates_for=certificates_for,
        authorities_in=authorities_in,
        config_namespace=config_namespace,
        config_name=config_name,
        writes_per_s=writes_per_s,
        leader_elect=leader_elect,
        lease_namespace=lease_namespace,
        state_dir=state_folder() if state_dir is None else Path(state_dir) if state_dir else None,
        otlp_traces=otlp_traces,
        otlp_traces_token_file=otlp_traces_token_file,
        otlp_traces_ca=otlp_traces_ca,
        log_level=log_level,
        log_format=log_format,
    )
    check(request)  # before the imports below, which take a second
    from cotenant.services.manager import main

    return main.run(request)
