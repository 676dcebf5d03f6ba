"""`cotenant webhook`: the admission webhook of a Kubernetes cluster, or one of its replicas.

Only signatures and help texts are here; the implementation is imported when the command runs, so that `--help` stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.options import Context, Kubeconfig, LogFormat, LogLevel


def webhook(
    *,
    listen: Annotated[
        str, Parameter(help="HOST:PORT for reviews, health and metrics, over TLS; port 0: any.")
    ] = "127.0.0.1:9443",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    namespace: Annotated[
        str, Parameter(help="Namespace of the Secret, the Lease and the Service; default: the kubeconfig's.")
    ] = "",
    service: Annotated[str, Parameter(help="Name of the Service, and of the Secret with the certificates.")] = (
        "cotenant-webhook"
    ),
    tls_cert: Annotated[
        Path | None, Parameter(help="Certificate, PEM, such as cert-manager's; read again when it changes.")
    ] = None,
    tls_key: Annotated[Path | None, Parameter(help="Its key, PEM, without passphrase.")] = None,
    ca_file: Annotated[
        Path | None, Parameter(help="CA of --tls-cert, written into the webhook configurations; default: not written.")
    ] = None,
    register: Annotated[
        bool, Parameter(negative=(), help="Create the webhook configurations, or replace their webhooks, at the start.")
    ] = False,
    url: Annotated[
        str, Parameter(help="With --register: URL by which API servers reach this process, instead of the Service.")
    ] = "",
    failure_policy: Annotated[
        str, Parameter(help="With --register: Ignore, or Fail, which refuses pods while no replica answers.")
    ] = "Ignore",
    exempt_namespace: Annotated[
        tuple[str, ...],
        Parameter(help="Namespace that is left alone, besides kube-system and --namespace; may be repeated."),
    ] = (),
    reservations: Annotated[bool, Parameter(negative=(), help="Apply profiles to new Reservations too.")] = False,
    amplify_nodes: Annotated[
        bool, Parameter(negative=(), help="Amplify the allocatable CPU and memory of nodes with ratios.")
    ] = False,
    quota_admission: Annotated[
        bool, Parameter(negative=(), help="Refuse new pods that do not fit into their quota's maximum.")
    ] = False,
    check_devices: Annotated[bool, Parameter(negative=(), help="Refuse GPU requests that cannot be divided.")] = False,
    translate: Annotated[
        bool, Parameter(help="Translate cpu and memory of batch and mid pods that a profile matches.")
    ] = True,
    draw_by_pod: Annotated[
        bool, Parameter(negative=(), help="Draw a profile's share for each pod, instead of for each workload.")
    ] = False,
    agent_account: Annotated[
        str,
        Parameter(
            help="NAMESPACE/NAME of the agents' service account: each may evict pods of its own node only, by its token (Kubernetes 1.30)."
        ),
    ] = "",
    holdings_writer: Annotated[
        tuple[str, ...],
        Parameter(
            help="User name that may write what pods hold (CPUs, devices, reservations); may be repeated; default: everybody."
        ),
    ] = (),
    leader_elect: Annotated[
        bool, Parameter(help="Compete for a Lease; only the leader writes webhook configurations.")
    ] = True,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Apply colocation profiles to new pods, and refuse pods and quotas that break the co-location rules.

    Makes and rotates its certificates in a Secret and keeps its CA in the webhook configurations. Exit status: 0 after SIGTERM or Ctrl-C, 2 bad input.
    """
    from cotenant.services.reporting.identity import parse_account
    from cotenant.services.webhook import process
    from cotenant.services.webhook.reviewer import SYSTEM_NAMESPACE, Rules

    return process.run(
        process.WebhookSettings(
            listen=listen,
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace,
            service=service,
            url=url,
            tls_cert=tls_cert,
            tls_key=tls_key,
            ca_file=ca_file,
            register=register,
            failure_policy=failure_policy,
            leader_elect=leader_elect,
            rules=Rules(
                exempt=frozenset({SYSTEM_NAMESPACE, *exempt_namespace}),
                reservations=reservations,
                amplifies_nodes=amplify_nodes,
                limits_quotas=quota_admission,
                checks_devices=check_devices,
                translates=translate,
                draws_by_pod=draw_by_pod,
                agents=parse_account(agent_account, "--agent-account") if agent_account else "",
                holders=frozenset(holdings_writer),
            ),
            log_level=log_level,
            log_format=log_format,
        )
    )
