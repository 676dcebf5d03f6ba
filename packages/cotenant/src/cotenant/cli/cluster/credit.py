"""`cotenant credit`: what tenants earned and spent, why, and the process that books it.

Only signatures and help texts are here; the implementation is imported when a command runs, so that `--help` stays
quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cotenant.cli.access import check_access
from cotenant.services.credit.credit_arguments import CreditArguments, Store, check
from cotenant.services.options import (
    GIVEN,
)

app = App(
    name="credit",
    help="What tenants earned by lending and spent by borrowing: a double-entry journal, and the process that books "
    "it.",
    help_format="plaintext",
)
Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print exactly one JSON value and nothing else.")]


Prices = Annotated[
    Path | None,
    Parameter(help="A file of prices: balances in money too, by its cpuPerHour, since a credit is a core-hour."),
]


@app.command(name="list")
def list_(*, store: Store = "", prices: Prices = None, json: Json = False) -> int:
    """Print every tenant's balance, in credits (core-hours).

    Exit status: 0 printed, 1 the database does not answer, 2 bad input or no journal.
    """
    from cotenant.cli.cluster import credit_showing

    return credit_showing.tenants(store, json, prices)


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
def serve(*, request: Annotated[CreditArguments, GIVEN] = CreditArguments()) -> int:
    """Book what the tenants (ElasticQuotas) of a cluster earn and spend, and write their standings.

    Serves /credit/v1/tenants, /credit/v1/entries, POST /credit/v1/incidents, /metrics, /healthz and /readyz. Exit
    status: 0 after SIGTERM or Ctrl-C, 1 the database does not answer at the start, 2 bad input.
    """
    check(request)
    check_access(request.kubeconfig, request.context)
    from cotenant.services.credit import main

    return main.run(request)
