"""What a person asks of `cotenant traces`, and the checks that need nothing else.

The fields are the options of the command. A refused value costs what the command line costs: nothing here imports an
engine or a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.tokens import BearerToken
from cotenant.model.errors import InvalidInput
from cotenant.model.urls import split_url
from cotenant.services.logs import check_logging
from cotenant.services.options import CLUSTER, COMMON, LISTENING, WORK, LogFormat, LogLevel, TlsKey
from cotenant.services.reporting.accounts import parse_account

if TYPE_CHECKING:
    from cotenant.model.traces.objective import ServiceObjective
    from cotenant.services.traces.model_servers.server_file import ModelServerFile
    from cotenant.services.traces.senders import NamespaceTokens


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """The command's arguments."""

    http: Annotated[str, Parameter(help="Where to receive OTLP/HTTP and to answer questions.", group=COMMON)] = (
        "127.0.0.1:4318"
    )
    grpc: Annotated[str, Parameter(help="Where to receive OTLP/gRPC; empty: nowhere.", group=COMMON)] = "127.0.0.1:4317"
    cluster: Annotated[
        bool,
        Parameter(
            negative=(), help="Count the ServiceObjectives of the cluster, and write their statuses.", group=COMMON
        ),
    ] = False
    objectives: Annotated[Path | None, Parameter(help="YAML file of ServiceObjectives to count.", group=COMMON)] = None
    model_servers: Annotated[
        Path | None,
        Parameter(
            help="YAML file of model servers whose /metrics are read, for objectives with a modelServer indicator.",
            group=WORK,
        ),
    ] = None
    token_file: Annotated[
        Path | None, Parameter(help="Accept requests with the bearer token in this file only.", group=COMMON)
    ] = None
    jaeger_udp: Annotated[
        str,
        Parameter(
            help=(
                "Where to receive spans of Jaeger clients (compact Thrift), usually 127.0.0.1:6831. Default: nowhere."
            ),
            group=LISTENING,
        ),
    ] = ""
    tls_cert: Annotated[Path | None, Parameter(help="Certificate chain of both servers, as PEM.", group=LISTENING)] = (
        None
    )
    tls_key: TlsKey = None
    client_ca: Annotated[
        Path | None, Parameter(help="Accept clients with certificates of this authority only.", group=LISTENING)
    ] = None
    send_token_file: Annotated[
        Path | None,
        Parameter(
            help="Accept spans with the bearer token in this file, and no longer with that of --token-file.",
            group=LISTENING,
        ),
    ] = None
    sender_tokens: Annotated[
        Path | None,
        Parameter(
            help=(
                "Folder with a token for each namespace, in a file of its name: its spans count for that "
                "namespace's objectives."
            ),
            group=LISTENING,
        ),
    ] = None
    review_senders: Annotated[
        bool,
        Parameter(
            negative=(),
            help=(
                "Accept spans with tokens of service accounts, projected for the audience cotenant-spans: they "
                "count for objectives of their namespace; needs --cluster."
            ),
            group=LISTENING,
        ),
    ] = False
    collectors: Annotated[
        tuple[str, ...],
        Parameter(
            name="--collector",
            negative=(),
            help=(
                "NAMESPACE/NAME of a service account that forwards others' spans; may be repeated; needs "
                "--review-senders."
            ),
            group=LISTENING,
        ),
    ] = ()
    trust_senders: Annotated[
        bool,
        Parameter(
            negative=(), help="Let nodes act by the spans of whoever can send, also beyond loopback.", group=LISTENING
        ),
    ] = False
    report_account: Annotated[
        str,
        Parameter(
            help=(
                "NAMESPACE/NAME of the agents' service account: with its token an agent gets signals and reports "
                "actions of its own node; needs --cluster. Default: agents need the token."
            ),
            group=LISTENING,
        ),
    ] = ""
    insecure: Annotated[
        bool,
        Parameter(negative=(), help="Listen beyond loopback without a token: the network is trusted.", group=LISTENING),
    ] = False
    max_skew_s: Annotated[
        float, Parameter(help="Do not correct clock skews beyond this many seconds; 0: correct none.", group=WORK)
    ] = 10.0
    keep_spans_per_s: Annotated[
        float,
        Parameter(
            help=(
                "Keep traces of at most this many spans a second, failed, slow and rare ones first; counts stay exact. "
                "0: the last ones, whatever they are."
            ),
            group=WORK,
        ),
    ] = 0.0
    forward: Annotated[
        str,
        Parameter(
            help=(
                "Base URL of an OTLP/HTTP collector that gets the spans of kept traces, with their sampling "
                "probability in tracestate; needs --keep-spans-per-s. Default: none."
            ),
            group=WORK,
        ),
    ] = ""
    head_spans_per_s: Annotated[
        float,
        Parameter(
            help=(
                "Tell remote samplers (GET /sampling) to begin traces of at most this many spans a second of each "
                "service. 0: tell them nothing."
            ),
            group=WORK,
        ),
    ] = 0.0
    kubeconfig: Annotated[Path | None, Parameter(help="Of the cluster; implies --cluster.", group=CLUSTER)] = None
    context: Annotated[str, Parameter(help="Of the kubeconfig; implies --cluster.", group=CLUSTER)] = ""
    request_moves: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Make PodMigrationJobs of the moves that agents ask for, for objectives with maxAction evict.",
            group=WORK,
        ),
    ] = False
    state: Annotated[
        Path | None, Parameter(help="File that keeps the counts of objectives over a restart.", group=WORK)
    ] = None
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"


@dataclass(frozen=True, slots=True)
class CheckedTraceSettings:
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
    model_servers: ModelServerFile | None = None


def check(settings: TraceSettings) -> CheckedTraceSettings:
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
        parse_account(settings.report_account)
        if not (settings.cluster or settings.kubeconfig or settings.context):
            hint = "the API server says whose a token is"
            raise InvalidInput("--report-account", settings.report_account, "--cluster or --kubeconfig beside it", hint)
    if settings.review_senders and not (settings.cluster or settings.kubeconfig or settings.context):
        hint = "the API server says whose a token is"
        raise InvalidInput("--review-senders", "given", "--cluster or --kubeconfig beside it", hint)
    if not 0 <= settings.max_skew_s <= 3600:
        raise InvalidInput("--max-skew-s", settings.max_skew_s, "0 to 3600 seconds; 0 turns the correction off")
    if not 0 <= settings.keep_spans_per_s <= 1e6:
        raise InvalidInput("--keep-spans-per-s", settings.keep_spans_per_s, "0 to 1000000 spans a second")
    if settings.forward and split_url(settings.forward) is None:
        raise InvalidInput("--forward", settings.forward, "http://HOST:PORT or https://HOST:PORT")
    if settings.forward and not settings.keep_spans_per_s:
        hint = "it says how many spans a second are kept, and so sent on"
        raise InvalidInput("--forward", settings.forward, "--keep-spans-per-s beside it", hint)
    if not 0 <= settings.head_spans_per_s <= 1e6:
        raise InvalidInput("--head-spans-per-s", settings.head_spans_per_s, "0 to 1000000 spans a second")
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
    servers = None
    if settings.model_servers is not None:
        from cotenant.services.traces.model_servers.server_file import OPTION, read_model_servers

        servers = read_model_servers(settings.model_servers)
        if servers.pods and not (settings.cluster or settings.kubeconfig or settings.context):
            raise InvalidInput(OPTION, "pods", "--cluster or --kubeconfig beside it", "or servers, by their addresses")
    listens = [entry for entry in (http, grpc, jaeger_udp) if entry is not None]
    return CheckedTraceSettings(
        http,
        grpc,
        tls,
        token,
        jaeger_udp,
        objectives,
        send_token,
        by_namespace,
        _collectors(settings),
        settings.trust_senders or (not proves and all(listen.is_loopback for listen in listens)),
        servers,
    )


def _collectors(settings: TraceSettings) -> frozenset[str]:
    if not settings.collectors and not settings.review_senders:
        return frozenset()
    from cotenant.services.reporting.accounts import parse_account

    if not settings.review_senders:
        raise InvalidInput("--collector", settings.collectors[0], "--review-senders beside it")
    return frozenset(parse_account(collector, "--collector") for collector in settings.collectors)
