"""`cotenant traces`: receive spans; list, show, graph, critical and services ask the process that does.

Only signatures and help texts are here; what a command does is imported when it runs, so that `--help` stays fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cotenant.services.options import GIVEN
from cotenant.services.traces.traces_arguments import TraceSettings, check

app = App(
    name="traces",
    help="Receive OpenTelemetry spans, and say which part of a request makes it slow.",
    help_format="plaintext",
)

Url = Annotated[
    str,
    Parameter(
        help="Where `cotenant traces` listens. Default: as `cotenant up` wrote it beside the kubeconfig, else "
        "http://127.0.0.1:4318."
    ),
]
TokenFile = Annotated[Path | None, Parameter(help="File with the token of the process's --token-file.")]
Ca = Annotated[Path | None, Parameter(help="Certificate authority of the process's certificate, as PEM.")]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print exactly one JSON document and nothing else.")]


@app.default
def serve(*, request: Annotated[TraceSettings, GIVEN] = TraceSettings()) -> int:
    """Receive spans until Ctrl-C or SIGTERM.

    Services send OTLP to it (OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318). What it knows is in memory: latency of
    every operation, the graph of services, the last and the slowest traces. /metrics has names that Grafana's service
    map reads.
    """
    check(request)
    from cotenant.services.traces import traces_process

    return traces_process.run(request)


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


@app.command
def close(
    channel: Annotated[str, Parameter(help="A service, NAME or NAMESPACE/NAME, or the GUID of one instance.")],
    /,
    *,
    lasts: Annotated[str, Parameter(name="--for", help="How long; then it opens by itself.")] = "10m",
    url: Url = "",
    token_file: TokenFile = None,
    ca: Ca = None,
    json: Json = False,
) -> int:
    """Take no more spans of a service, or of one instance (`service.instance.id`), for a time.

    They are answered as if they were taken, and counted. No node acts for an objective of a closed service.
    """
    from cotenant.cli.traces import channel_showing
    from cotenant.cli.traces.asking import client
    from cotenant.model.fleet.durations import duration_s

    return channel_showing.close(client(url, token_file, ca), channel, duration_s("--for", lasts), json)


@app.command(name="open")
def open_(
    channel: Annotated[str, Parameter(help="As it was closed.")],
    /,
    *,
    url: Url = "",
    token_file: TokenFile = None,
    ca: Ca = None,
    json: Json = False,
) -> int:
    """Take the spans of a closed channel again."""
    from cotenant.cli.traces import channel_showing
    from cotenant.cli.traces.asking import client

    return channel_showing.open_(client(url, token_file, ca), channel, json)


@app.command
def closed(*, url: Url = "", token_file: TokenFile = None, ca: Ca = None, json: Json = False) -> int:
    """Closed channels: since when, until when, how many spans were left out."""
    from cotenant.cli.traces import channel_showing
    from cotenant.cli.traces.asking import client

    return channel_showing.closed(client(url, token_file, ca), json)
