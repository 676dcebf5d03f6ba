"""`cotenant traces`: receive spans; list, show, graph, critical and services ask the process that does.

Only signatures and help texts are here; what a command does is imported when it runs, so that `--help` stays fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cotenant.cli.options import LogFormat, LogLevel, TlsKey

app = App(
    name="traces",
    help="Receive OpenTelemetry spans, and say which part of a request makes it slow.",
    help_format="plaintext",
)

Url = Annotated[
    str,
    Parameter(
        help="Where `cotenant traces` listens. Default: as `cotenant up` wrote it beside the kubeconfig, else http://127.0.0.1:4318."
    ),
]
TokenFile = Annotated[Path | None, Parameter(help="File with the token of the process's --token-file.")]
Ca = Annotated[Path | None, Parameter(help="Certificate authority of the process's certificate, as PEM.")]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print exactly one JSON document and nothing else.")]


@app.default
def serve(
    *,
    http: Annotated[str, Parameter(help="Where to receive OTLP/HTTP and to answer questions.")] = "127.0.0.1:4318",
    grpc: Annotated[str, Parameter(help="Where to receive OTLP/gRPC; empty: nowhere.")] = "127.0.0.1:4317",
    jaeger_udp: Annotated[
        str,
        Parameter(
            help="Where to receive spans of Jaeger clients (compact Thrift), usually 127.0.0.1:6831. Default: nowhere."
        ),
    ] = "",
    tls_cert: Annotated[Path | None, Parameter(help="Certificate chain of both servers, as PEM.")] = None,
    tls_key: TlsKey = None,
    client_ca: Annotated[
        Path | None, Parameter(help="Accept clients with certificates of this authority only.")
    ] = None,
    token_file: Annotated[
        Path | None, Parameter(help="Accept requests with the bearer token in this file only.")
    ] = None,
    send_token_file: Annotated[
        Path | None,
        Parameter(help="Accept spans with the bearer token in this file, and no longer with that of --token-file."),
    ] = None,
    sender_tokens: Annotated[
        Path | None,
        Parameter(
            help="Folder with a token for each namespace, in a file of its name: its spans count for that namespace's objectives."
        ),
    ] = None,
    review_senders: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Accept spans with tokens of service accounts, projected for the audience cotenant-spans: they count for objectives of their namespace; needs --cluster.",
        ),
    ] = False,
    collector: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            help="NAMESPACE/NAME of a service account that forwards others' spans; may be repeated; needs --review-senders.",
        ),
    ] = (),
    trust_senders: Annotated[
        bool,
        Parameter(negative=(), help="Let nodes act by the spans of whoever can send, also beyond loopback."),
    ] = False,
    report_account: Annotated[
        str,
        Parameter(
            help="NAMESPACE/NAME of the agents' service account: with its token an agent gets signals and reports actions of its own node; needs --cluster. Default: agents need the token."
        ),
    ] = "",
    insecure: Annotated[
        bool, Parameter(negative=(), help="Listen beyond loopback without a token: the network is trusted.")
    ] = False,
    most_skew_s: Annotated[
        float, Parameter(help="Do not correct clock skews beyond this many seconds; 0: correct none.")
    ] = 10.0,
    objectives: Annotated[Path | None, Parameter(help="YAML file of ServiceObjectives to count.")] = None,
    cluster: Annotated[
        bool, Parameter(negative=(), help="Count the ServiceObjectives of the cluster, and write their statuses.")
    ] = False,
    kubeconfig: Annotated[Path | None, Parameter(help="Of the cluster; implies --cluster.")] = None,
    context: Annotated[str, Parameter(help="Of the kubeconfig; implies --cluster.")] = "",
    request_moves: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Make PodMigrationJobs of the moves that agents ask for, for objectives with maxAction evict.",
        ),
    ] = False,
    state: Annotated[Path | None, Parameter(help="File that keeps the counts of objectives over a restart.")] = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Receive spans until Ctrl-C or SIGTERM.

    Services send OTLP to it (OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318). What it knows is in memory: latency of
    every operation, the graph of services, the last and the slowest traces. /metrics has names that Grafana's service map reads.
    """
    from cotenant.services.traces.arguments import TraceSettings, check

    settings = TraceSettings(
        http=http,
        grpc=grpc,
        jaeger_udp=jaeger_udp,
        tls_cert=tls_cert,
        tls_key=tls_key,
        client_ca=client_ca,
        token_file=token_file,
        send_token_file=send_token_file,
        sender_tokens=sender_tokens,
        review_senders=review_senders,
        collectors=collector,
        trust_senders=trust_senders,
        report_account=report_account,
        insecure=insecure,
        most_skew_s=most_skew_s,
        objectives=objectives,
        cluster=cluster,
        kubeconfig=kubeconfig,
        context=context,
        request_moves=request_moves,
        state=state,
        log_level=log_level,
        log_format=log_format,
    )
    check(settings)  # before the imports below, which take seconds
    from cotenant.services.traces import process

    return process.run(settings)


@app.command
def services(*, url: Url = "", token_file: TokenFile = None, ca: Ca = None, json: Json = False) -> int:
    """Operations of every service: requests, errors and latency in the last minutes."""
    from cotenant.cli.traces import showing

    return showing.services(url, token_file, ca, json)


@app.command(name="list")
def list_(
    *,
    service: Annotated[str, Parameter(help="With a span of this service: NAME or NAMESPACE/NAME.")] = "",
    operation: Annotated[str, Parameter(help="With a span of this name.")] = "",
    min_ms: Annotated[float, Parameter(help="With a span that took at least so long.")] = 0.0,
    tag: Annotated[
        tuple[str, ...], Parameter(negative=(), help="With this attribute: KEY=VALUE, or KEY; may be repeated.")
    ] = (),
    failed: Annotated[bool, Parameter(negative=(), help="With a failed span.")] = False,
    slowest: Annotated[bool, Parameter(negative=(), help="The slowest first; default: the newest first.")] = False,
    limit: Annotated[int, Parameter(help="How many at most.")] = 20,
    url: Url = "",
    token_file: TokenFile = None,
    ca: Ca = None,
    json: Json = False,
) -> int:
    """Traces that have a span with all of these properties.

    A trace can be seen ten seconds after its last span.
    """
    from cotenant.cli.traces import showing

    return showing.traces(
        showing.TraceListQuery(service, operation, min_ms, tag, failed, slowest, limit), url, token_file, ca, json
    )


@app.command
def show(
    trace_id: Annotated[str, Parameter(help="The trace's id, or its beginning.")],
    /,
    *,
    url: Url = "",
    token_file: TokenFile = None,
    ca: Ca = None,
    json: Json = False,
) -> int:
    """One trace as a tree, with each span's part of the critical path."""
    from cotenant.cli.traces import showing

    return showing.trace(trace_id, url, token_file, ca, json)


@app.command
def graph(*, url: Url = "", token_file: TokenFile = None, ca: Ca = None, json: Json = False) -> int:
    """Who calls whom: calls, failures and mean durations since the start."""
    from cotenant.cli.traces import showing

    return showing.graph(url, token_file, ca, json)


@app.command
def critical(
    service: Annotated[str, Parameter(help="NAME or NAMESPACE/NAME.")],
    /,
    *,
    slowest: Annotated[
        float, Parameter(help="Only this share of the requests, the slowest: 0.01 asks what makes slow ones slow.")
    ] = 1.0,
    url: Url = "",
    token_file: TokenFile = None,
    ca: Ca = None,
    json: Json = False,
) -> int:
    """Where the requests of a service spend their time, over the kept traces; the shares sum to 100 %."""
    from cotenant.cli.traces import showing

    return showing.critical(service, slowest, url, token_file, ca, json)
