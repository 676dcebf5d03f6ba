"""What a person asks of `cotenant webhook`, and the checks that need nothing else.

The fields are the options of the command. A refused value costs what the command line costs: nothing here imports an
engine or a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.drivers.http.address import Address
from cotenant.model.errors import InvalidInput
from cotenant.model.urls import split_url
from cotenant.services.logs import check_logging
from cotenant.services.options import (
    CLUSTER,
    COMMON,
    LISTENING,
    NOT_AN_OPTION,
    WORK,
    Context,
    Kubeconfig,
    LogFormat,
    LogLevel,
)
from cotenant.services.reporting.accounts import parse_account
from cotenant.services.reviewing.rules import SYSTEM_NAMESPACE, ReviewRules

NAME = "cotenant-webhook"
POLICIES = ("Ignore", "Fail")
CHECK_S = 10.0


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The command's arguments."""

    kubeconfig: Annotated[Kubeconfig, Parameter(group=COMMON)] = None
    listen: Annotated[
        str, Parameter(help="HOST:PORT for reviews, health and metrics, over TLS; port 0: any.", group=COMMON)
    ] = "127.0.0.1:9443"
    register: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Create the webhook configurations, or replace their webhooks, at the start.",
            group=COMMON,
        ),
    ] = False
    failure_policy: Annotated[
        str,
        Parameter(help="With --register: Ignore, or Fail, which refuses pods while no replica answers.", group=COMMON),
    ] = POLICIES[0]
    quota_admission: Annotated[
        bool,
        Parameter(
            negative=(), help="Refuse new and growing pods that do not fit into their quota's maximum.", group=COMMON
        ),
    ] = False
    context: Context = ""
    namespace: Annotated[
        str,
        Parameter(help="Namespace of the Secret, the Lease and the Service; default: the kubeconfig's.", group=CLUSTER),
    ] = ""
    service: Annotated[
        str, Parameter(help="Name of the Service, and of the Secret with the certificates.", group=CLUSTER)
    ] = NAME
    tls_cert: Annotated[
        Path | None,
        Parameter(help="Certificate, PEM, such as cert-manager's; read again when it changes.", group=LISTENING),
    ] = None
    tls_key: Annotated[Path | None, Parameter(help="Its key, PEM, without passphrase.", group=LISTENING)] = None
    ca_file: Annotated[
        Path | None,
        Parameter(
            help="CA of --tls-cert, written into the webhook configurations; default: not written.", group=LISTENING
        ),
    ] = None
    url: Annotated[
        str,
        Parameter(
            help="With --register: URL by which API servers reach this process, instead of the Service.",
            group=LISTENING,
        ),
    ] = ""
    exempt_namespaces: Annotated[
        tuple[str, ...],
        Parameter(
            name="--exempt-namespace",
            help="Namespace that is left alone, besides kube-system and --namespace; may be repeated.",
            group=WORK,
        ),
    ] = ()
    reservations: Annotated[
        bool, Parameter(negative=(), help="Apply profiles to new Reservations too.", group=WORK)
    ] = False
    amplify_nodes: Annotated[
        bool, Parameter(negative=(), help="Amplify the allocatable CPU and memory of nodes with ratios.", group=WORK)
    ] = False
    check_devices: Annotated[
        bool, Parameter(negative=(), help="Refuse GPU requests that cannot be divided.", group=WORK)
    ] = False
    translate: Annotated[
        bool, Parameter(help="Translate cpu and memory of batch and mid pods that a profile matches.", group=WORK)
    ] = True
    draw_by_pod: Annotated[
        bool,
        Parameter(negative=(), help="Draw a profile's share for each pod, instead of for each workload.", group=WORK),
    ] = False
    agent_account: Annotated[
        str,
        Parameter(
            help=(
                "NAMESPACE/NAME of the agents' service account: each may evict pods of its own node only, by its "
                "token (Kubernetes 1.30)."
            ),
            group=WORK,
        ),
    ] = ""
    holdings_writers: Annotated[
        tuple[str, ...],
        Parameter(
            name="--holdings-writer",
            help=(
                "User name that may write what pods hold (CPUs, devices, reservations); may be repeated; default: "
                "everybody."
            ),
            group=WORK,
        ),
    ] = ()
    leader_elect: Annotated[
        bool, Parameter(help="Compete for a Lease; only the leader writes webhook configurations.", group=CLUSTER)
    ] = True
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"
    inject_every_s: Annotated[float, NOT_AN_OPTION] = CHECK_S

    @property
    def rules(self) -> ReviewRules:
        """What the installation chose. Raises `InvalidInput`."""
        return ReviewRules(
            exempt=frozenset({SYSTEM_NAMESPACE, *self.exempt_namespaces}),
            reservations=self.reservations,
            amplifies_nodes=self.amplify_nodes,
            limits_quotas=self.quota_admission,
            checks_devices=self.check_devices,
            translates=self.translate,
            draws_by_pod=self.draw_by_pod,
            agents=parse_account(self.agent_account, "--agent-account") if self.agent_account else "",
            holders=frozenset(self.holdings_writers),
        )


def check(settings: WebhookSettings) -> Address:
    """The address of the settings. Raises `InvalidInput` for what does not fit together."""
    address = Address.parse("--listen", settings.listen)
    if address.path:
        raise InvalidInput("--listen", settings.listen, "HOST:PORT")
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise InvalidInput("--tls-cert, --tls-key", str(settings.tls_cert or settings.tls_key), "both or neither")
    if settings.ca_file is not None and settings.tls_cert is None:
        raise InvalidInput("--ca-file", str(settings.ca_file), "--tls-cert and --tls-key beside it")
    if settings.failure_policy not in POLICIES:
        raise InvalidInput("--failure-policy", settings.failure_policy, " or ".join(POLICIES))
    if settings.url:
        parts = split_url(settings.url, ("https",))
        if parts is None or parts.query or parts.fragment:
            raise InvalidInput("--url", settings.url, "https://HOST[:PORT]")
        if not settings.register:
            raise InvalidInput("--url", settings.url, "--register beside it", "the URL is written into configurations")
    if settings.register and settings.tls_cert is not None and settings.ca_file is None:
        raise InvalidInput(
            "--register", "with --tls-cert", "--ca-file beside it", "API servers must trust the certificate"
        )
    _ = settings.rules  # which refuses a wrong account
    check_logging(settings.log_level, settings.log_format)
    return address
