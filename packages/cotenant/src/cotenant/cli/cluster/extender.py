"""`cotenant extender`: our placement within the cluster's existing scheduler.

Only signatures and help texts are here; the implementation is imported when the command runs, so that `--help` stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.options import Context, LogFormat, LogLevel


def extender(
    *,
    listen: Annotated[
        str, Parameter(help="HOST:PORT for the extender protocol and reports; port 0: any.")
    ] = "127.0.0.1:8888",
    health_listen: Annotated[
        str,
        Parameter(
            help="A second HOST:PORT for /healthz, /readyz and /metrics, which requires no client certificate; with --report-account or --report-token-file it takes reports too."
        ),
    ] = "",
    health_tls: Annotated[
        bool,
        Parameter(negative=(), help="That listener has the certificate of --tls-cert too. Default: it is unencrypted."),
    ] = False,
    profile: Annotated[
        str,
        Parameter(
            help="founding, founding-ledger, or, with --cluster, any placement profile; an unknown name lists them."
        ),
    ] = "founding",
    score_max: Annotated[
        int, Parameter(help="Best score sent: 10 is the protocol's; 100 sends the founding score unscaled.")
    ] = 10,
    cluster: Annotated[
        bool, Parameter(negative=(), help="Watch nodes and pods, with the credentials of kubectl or of the pod.")
    ] = False,
    kubeconfig: Annotated[Path | None, Parameter(help="Watch nodes and pods with this kubeconfig.")] = None,
    context: Context = "",
    bind: Annotated[bool, Parameter(negative=(), help="Also answer /bind (bindVerb), through the API server.")] = False,
    credit: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Consider the debt of a pod's quota (`cotenant credit`) in the founding score; with --cluster.",
        ),
    ] = False,
    tls_cert: Annotated[Path | None, Parameter(help="Certificate, PEM; read again when it changes.")] = None,
    tls_key: Annotated[Path | None, Parameter(help="Its key, PEM, without passphrase.")] = None,
    client_ca: Annotated[
        Path | None, Parameter(help="CA of the client certificates, which are then required, PEM.")
    ] = None,
    report_token_file: Annotated[
        Path | None, Parameter(help="File with the bearer token required by POST /metrics/report.")
    ] = None,
    report_account: Annotated[
        str,
        Parameter(
            help="NAMESPACE/NAME of the agents' service account: each may report for its own node, by a TokenReview of its token."
        ),
    ] = "",
    insecure: Annotated[
        bool, Parameter(negative=(), help="Listen beyond loopback without client certificates.")
    ] = False,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Serve a kube-scheduler as a scheduler extender.

    POST /filter, /prioritize, /preempt and /bind; nodes report at POST /metrics/report. Exit status: 0 after SIGTERM or Ctrl-C, 2 bad input.
    """
    from cotenant.services.extender import process

    return process.run(
        process.ExtenderSettings(
            listen=listen,
            health_listen=health_listen,
            health_tls=health_tls,
            profile=profile,
            score_max=score_max,
            cluster=cluster or kubeconfig is not None or bool(context),
            kubeconfig=kubeconfig,
            context=context,
            bind=bind,
            credit=credit,
            tls_cert=tls_cert,
            tls_key=tls_key,
            client_ca=client_ca,
            report_token_file=report_token_file,
            report_account=report_account,
            insecure=insecure,
            log_level=log_level,
            log_format=log_format,
        )
    )
