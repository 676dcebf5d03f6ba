"""`cotenant credit`: what tenants earned and spent, why, and the process that books it.

Only signatures and help texts are here; the implementation is imported when a command runs, so that `--help` stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cotenant.cli.options import (
    Context,
    IdentityFolder,
    Kubeconfig,
    LeaseNamespace,
    LogFormat,
    LogLevel,
    TlsCert,
    TlsKey,
)

app = App(
    name="credit",
    help="What tenants earned by lending and spent by borrowing: a double-entry journal, and the process that books it.",
    help_format="plaintext",
)
Store = Annotated[
    str,
    Parameter(
        help="The journal: a path (SQLite), or postgresql://USER@HOST/DATABASE. Default: credit.db in $STATE_DIRECTORY, else in ~/.local/state/cotenant."
    ),
]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print exactly one JSON value and nothing else.")]


@app.command(name="list")
def list_(*, store: Store = "", json: Json = False) -> int:
    """Print every tenant's balance, in credits (core-hours).

    Exit status: 0 printed, 1 the database does not answer, 2 bad input or no journal.
    """
    from cotenant.cli.cluster import credit_showing

    return credit_showing.tenants(store, json)


@app.command
def show(
    tenant: str,
    /,
    *,
    limit: Annotated[int, Parameter(help="Entries, the latest first.")] = 20,
    store: Store = "",
    json: Json = False,
) -> int:
    """Print one tenant's balance and its last entries.

    Exit status: 0 printed, 1 the database does not answer, 2 bad input, an unknown tenant or no journal.
    """
    from cotenant.cli.cluster import credit_showing

    return credit_showing.tenant(store, tenant, limit, json)


@app.command
def why(entry: str, /, *, store: Store = "", json: Json = False) -> int:
    """Print an entry's cause with the figures from which its amount follows. ENTRY: its number or its key.

    Exit status: 0 printed, 1 the database does not answer, 2 bad input, an unknown entry or no journal.
    """
    from cotenant.cli.cluster import credit_showing

    return credit_showing.why(store, entry, json)


@app.command
def export(
    *,
    after: Annotated[int, Parameter(help="Begin after this number.")] = 0,
    store: Store = "",
) -> int:
    """Print all entries in the order of booking, one JSON object a line.

    Exit status: 0 printed, 1 the database does not answer, 2 bad input or no journal.
    """
    from cotenant.cli.cluster import credit_showing

    return credit_showing.export(store, after)


@app.command
def serve(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    store: Store = "",
    period_s: Annotated[float, Parameter(help="Seconds of a period; each is one posting.")] = 60.0,
    half_life_s: Annotated[int, Parameter(help="Seconds in which a balance halves.")] = 86_400,
    bound: Annotated[
        int, Parameter(help="Largest balance and debt, in credits; the standing is the share of it.")
    ] = 100,
    annotate: Annotated[
        bool, Parameter(help="Write standings on quota objects, where `cotenant scheduler --credit` reads them.")
    ] = True,
    leader_elect: Annotated[bool, Parameter(help="Compete with other replicas for a Lease before booking.")] = True,
    lease_namespace: LeaseNamespace = "",
    state_dir: IdentityFolder = None,
    listen: Annotated[
        str, Parameter(help="HOST:PORT of the pages, metrics and health; port 0: any.")
    ] = "127.0.0.1:10265",
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    token_file: Annotated[
        Path | None,
        Parameter(help="File with the bearer token for callers from other machines; default: no remote access."),
    ] = None,
    report_account: Annotated[
        str,
        Parameter(
            help="NAMESPACE/NAME of the agents' service account: each may report incidents between pods of its own node, by a TokenReview of its token."
        ),
    ] = "",
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Book what the tenants (ElasticQuotas) of a cluster earn and spend, and write their standings.

    Serves /credit/v1/tenants, /credit/v1/entries, POST /credit/v1/incidents, /metrics, /healthz and /readyz. Exit status: 0 after SIGTERM or Ctrl-C, 1 the database does not answer at the start, 2 bad input.
    """
    from cotenant.services.credit.arguments import CreditArguments, check
    from cotenant.services.kube_process.identity import state_folder

    request = CreditArguments(
        kubeconfig=kubeconfig,
        context=context,
        store=store,
        listen=listen,
        tls_cert=tls_cert,
        tls_key=tls_key,
        token_file=token_file,
        report_account=report_account,
        period_s=period_s,
        half_life_s=half_life_s,
        bound=bound,
        writes_standing=annotate,
        leader_elect=leader_elect,
        lease_namespace=lease_namespace,
        state_dir=state_folder() if state_dir is None else Path(state_dir) if state_dir else None,
        log_level=log_level,
        log_format=log_format,
    )
    check(request)  # before the imports below, which take half a second
    from cotenant.services.credit import main

    return main.run(request)
