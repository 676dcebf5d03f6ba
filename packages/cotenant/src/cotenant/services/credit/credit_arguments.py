"""What a person asks of `cotenant credit serve`, and the checks that need nothing else.

The fields are the options of the command. A refused value costs what the command line costs: nothing here imports an
engine or a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.tokens import read_token
from cotenant.model.errors import InvalidInput
from cotenant.services.kube_process.identity import check_lease_namespace
from cotenant.services.logs import check_logging
from cotenant.services.options import (
    CLUSTER,
    COMMON,
    LISTENING,
    WORK,
    Context,
    IdentityFolder,
    Kubeconfig,
    LeaseNamespace,
    LogFormat,
    LogLevel,
    SealCertificate,
    TlsCert,
    TlsKey,
)
from cotenant.services.reporting.accounts import parse_account

Store = Annotated[
    str,
    Parameter(
        help="The journal: a path (SQLite), or postgresql://USER@HOST/DATABASE. Default: credit.db in "
        "$STATE_DIRECTORY, else in ~/.local/state/cotenant."
    ),
]


@dataclass(frozen=True, slots=True)
class CreditArguments:
    """The command's arguments."""

    kubeconfig: Annotated[Kubeconfig, Parameter(group=COMMON)] = None
    store: Annotated[Store, Parameter(group=COMMON)] = ""
    listen: Annotated[str, Parameter(help="HOST:PORT of the pages, metrics and health; port 0: any.", group=COMMON)] = (
        "127.0.0.1:10265"
    )
    half_life_s: Annotated[int, Parameter(help="Seconds in which a balance halves.", group=COMMON)] = 86400
    bound: Annotated[
        int, Parameter(help="Largest balance and debt, in credits; the standing is the share of it.", group=COMMON)
    ] = 100
    context: Context = ""
    period_s: Annotated[float, Parameter(help="Seconds of a period; each is one posting.", group=WORK)] = 60.0
    writes_standing: Annotated[
        bool,
        Parameter(
            name="--annotate",
            help="Write standings on quota objects, where `cotenant scheduler --credit` reads them.",
            group=WORK,
        ),
    ] = True
    seal_certificate: SealCertificate = None
    leader_elect: Annotated[
        bool, Parameter(help="Compete with other replicas for a Lease before booking.", group=CLUSTER)
    ] = True
    lease_namespace: LeaseNamespace = ""
    state_dir: IdentityFolder = None
    tls_cert: TlsCert = None
    tls_key: TlsKey = None
    token_file: Annotated[
        Path | None,
        Parameter(
            help="File with the bearer token for callers from other machines; default: no remote access.",
            group=LISTENING,
        ),
    ] = None
    report_account: Annotated[
        str,
        Parameter(
            help=(
                "NAMESPACE/NAME of the agents' service account: each may report incidents between pods of its own "
                "node, by a TokenReview of its token."
            ),
            group=LISTENING,
        ),
    ] = ""
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"


def check(request: CreditArguments) -> Address:
    """The address to listen on. Raises `InvalidInput` for a value that cannot be."""
    address = Address.parse("--listen", request.listen)
    if address.path:
        raise InvalidInput("--listen", request.listen, "HOST:PORT")
    if not 1 <= request.period_s <= 86_400:
        raise InvalidInput("--period-s", request.period_s, "1 to 86400 seconds")
    if not 1 <= request.bound <= 10**9:
        raise InvalidInput("--bound", request.bound, f"1 to {10**9} credits")
    if request.half_life_s < 60:
        raise InvalidInput("--half-life-s", request.half_life_s, "60 seconds or more")
    check_lease_namespace(request.lease_namespace)
    check_logging(request.log_level, request.log_format)
    if request.token_file is not None:
        read_token(request.token_file, "--token-file")
    if request.report_account:
        parse_account(request.report_account)
    return address
