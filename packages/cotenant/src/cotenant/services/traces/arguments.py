"""What a person asks of `cotenant traces`, and the checks that need nothing else: a refused value costs no more than the command line (services/scheduler/arguments.py)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.tokens import BearerToken
from cotenant.model.errors import InvalidInput
from cotenant.services.logs import check_logging

if TYPE_CHECKING:
    from cotenant.model.traces.objective import ServiceObjective
    from cotenant.services.traces.senders import NamespaceTokens


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """The command's arguments. An empty address turns a server off."""

    http: str = "127.0.0.1:4318"
    grpc: str = "127.0.0.1:4317"
    jaeger_udp: str = ""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    token_file: Path | None = None
    send_token_file: Path | None = None  # of senders alone; they share it, and it proves nothing
    sender_tokens: Path | None = None  # a folder with a token for each namespace
    review_senders: bool = False  # senders come with tokens of their service accounts
    collectors: tuple[str, ...] = ()  # NAMESPACE/NAME of service accounts that forward others' spans
    trust_senders: bool = False  # whoever can send is believed, beyond loopback too
    report_account: str = ""  # NAMESPACE/NAME of the agents' service account; "" = no review of tokens
    insecure: bool = False
    most_skew_s: float = 10.0
    objectives: Path | None = None  # a file of ServiceObjectives
    cluster: bool = False  # watch those of a cluster
    kubeconfig: Path | None = None
    context: str = ""
    request_moves: bool = False  # make PodMigrationJobs of what nodes ask for
    state: Path | None = None  # keeps the counts of objectives over a restart
    log_level: str = "info"
    log_format: str = "text"


@dataclass(frozen=True, slots=True)
class Checked:
    """What the settings mean."""

    http: Address
    grpc: Address | None
    tls: Tls | None
    token: BearerToken | None
    jaeger_udp: Address | None = None
    objectives: tuple[ServiceObjective, ...] = ()
    send_token: BearerToken | None = None
    sender_tokens: NamespaceTokens | None = None
    collectors: frozenset[str] = frozenset()  # as user names
    trusts_senders: bool = False


def check(settings: TraceSettings) -> Checked:
    """Raises `InvalidInput` for what does not fit together."""
    http = Address.parse("--http", settings.http)
    grpc = Address.parse("--grpc", settings.grpc) if settings.grpc else None
    cert, key = settings.tls_cert, settings.tls_key
    if (cert is None) != (key is None):
        raise InvalidInput("--tls-cert, --tls-key", str(cert or key), "both or neither")
    if settings.client_ca is not None and cert is None:
        raise InvalidInput("--client-ca", str(settings.client_ca), "--tls-cert and --tls-key beside it")
    if grpc is not None and grpc.path:
        raise InvalidInput("--grpc", settings.grpc, "HOST:PORT")
    if settings.request_moves and not (settings.cluster or settings.kubeconfig or settings.context):
        raise InvalidInput("--request-moves", "given", "--cluster or --kubeconfig beside it")
    if settings.report_account:
        from cotenant.services.reporting.identity import parse_account

        parse_account(settings.report_account)
        if not (settings.cluster or settings.kubeconfig or settings.context):
            hint = "the API server says whose a token is"
            raise InvalidInput("--report-account", settings.report_account, "--cluster or --kubeconfig beside it", hint)
    if settings.review_senders and not (settings.cluster or settings.kubeconfig or settings.context):
        hint = "the API server says whose a token is"
        raise InvalidInput("--review-senders", "given", "--cluster or --kubeconfig beside it", hint)
    if not 0 <= settings.most_skew_s <= 3600:
        raise InvalidInput("--most-skew-s", settings.most_skew_s, "0 to 3600 seconds; 0 turns the correction off")
    jaeger_udp = Address.parse("--jaeger-udp", settings.jaeger_udp) if settings.jaeger_udp else None
    if jaeger_udp is not None:
        if jaeger_udp.path:
            raise InvalidInput("--jaeger-udp", settings.jaeger_udp, "HOST:PORT")
        if not jaeger_udp.is_loopback and not settings.insecure:
            hint = "the protocol knows no tokens and no certificates; --insecure says that the network is trusted"
            raise InvalidInput("--jaeger-udp", settings.jaeger_udp, "a loopback address", hint)
    token = None if settings.token_file is None else BearerToken(settings.token_file, "--token-file")
    tls = None if cert is None or key is None else Tls(cert, key, settings.client_ca)
    for option, address in (("--http", http), ("--grpc", grpc)):
        protected = token is not None or settings.client_ca is not None or settings.insecure
        if address is not None and not address.is_loopback and not protected:
            raise InvalidInput(
                option,
                str(address),
                "a loopback address, or --token-file, or --client-ca",
                "anyone who can reach it could send spans; --insecure says that the network is trusted",
            )
    check_logging(settings.log_level, settings.log_format)
    objectives: tuple[ServiceObjective, ...] = ()
    if settings.objectives is not None:
        from cotenant.services.objectives.files import read_file

        objectives = tuple(read_file(settings.objectives))
    send_token = (
        None if settings.send_token_file is None else BearerToken(settings.send_token_file, "--send-token-file")
    )
    by_namespace = None
    if settings.sender_tokens is not None:
        from cotenant.services.traces.senders import NamespaceTokens

        by_namespace = NamespaceTokens(settings.sender_tokens)
    proves = by_namespace is not None or settings.review_senders
    listens = [each for each in (http, grpc, jaeger_udp) if each is not None]
    return Checked(
        http,
        grpc,
        tls,
        token,
        jaeger_udp,
        objectives,
        send_token,
        by_namespace,
        _collectors(settings),
        settings.trust_senders or (not proves and all(each.is_loopback for each in listens)),
    )


def _collectors(settings: TraceSettings) -> frozenset[str]:
    if not settings.collectors and not settings.review_senders:
        return frozenset()
    from cotenant.services.reporting.identity import parse_account

    if not settings.review_senders:
        raise InvalidInput("--collector", settings.collectors[0], "--review-senders beside it")
    return frozenset(parse_account(each, "--collector") for each in settings.collectors)
