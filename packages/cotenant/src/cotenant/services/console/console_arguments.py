"""What a person asks of `cotenant console`, and the checks that need nothing else.

The fields are the options of the command. A refused value costs what the command line costs: nothing here imports an
engine or a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.tokens import read_token
from cotenant.model.errors import InvalidInput
from cotenant.model.urls import split_url
from cotenant.services.clients.scheduler_address import DEFAULT_URL
from cotenant.services.console.proxy_login import ProxyLogin
from cotenant.services.logs import check_logging
from cotenant.services.options import CLUSTER, COMMON, LISTENING, WORK, LogFormat, LogLevel, SealCertificate

NODE, ADDRESS = "{node}", "{ip}"  # in the URL of agents
LOCAL_FLEET = "local"


@dataclass(frozen=True, slots=True)
class ConsoleArguments:
    """The command's arguments."""

    kubeconfig: Annotated[
        Path | None,
        Parameter(
            help=(
                "Default: $KUBECONFIG, ~/.kube/config, or the pod's service account. Its user must be allowed to "
                "list and watch nodes and pods."
            ),
            group=COMMON,
        ),
    ] = None
    listen: Annotated[str, Parameter(help="HOST:PORT of the page; port 0: any.", group=COMMON)] = "127.0.0.1:10266"
    scheduler: Annotated[
        str,
        Parameter(
            help=(
                "URL of the scheduler's debug API. Default: the one that `cotenant up` wrote beside the "
                "kubeconfig, or http://127.0.0.1:10261."
            ),
            group=COMMON,
        ),
    ] = ""
    traces: Annotated[
        str | None,
        Parameter(
            help=(
                "URL of `cotenant traces`; empty: none. Default: the one that `cotenant up` wrote beside the "
                "kubeconfig, or http://127.0.0.1:4318."
            ),
            group=COMMON,
        ),
    ] = None
    kubernetes_login: Annotated[
        bool,
        Parameter(
            negative=(),
            help=(
                "Accept a viewer's own Kubernetes token in the log-in form, where it may list nodes and pods in "
                "all namespaces."
            ),
            group=COMMON,
        ),
    ] = False
    seal_certificate: SealCertificate = None
    context: Annotated[str, Parameter(help="Default: the file's current context.", group=CLUSTER)] = ""
    scheduler_token_file: Annotated[
        Path | None,
        Parameter(
            help="File with the token of the scheduler's --debug-token-file, where it is on another machine.",
            group=LISTENING,
        ),
    ] = None
    scheduler_ca: Annotated[
        Path | None,
        Parameter(
            help=(
                "Certificate authority of the scheduler's certificate, as PEM; read again when it changes. "
                "Default: the system's."
            ),
            group=LISTENING,
        ),
    ] = None
    traces_token_file: Annotated[
        Path | None, Parameter(help="File with the token of the trace process.", group=LISTENING)
    ] = None
    traces_ca: Annotated[
        Path | None,
        Parameter(help="Certificate authority of the trace process's certificate, as PEM.", group=LISTENING),
    ] = None
    credit: Annotated[
        str,
        Parameter(
            help=(
                "URL of the credit process (`cotenant credit serve`), such as http://127.0.0.1:10265. Default: "
                'none, and the view "Credit" says so.'
            ),
            group=WORK,
        ),
    ] = ""
    credit_token_file: Annotated[
        Path | None,
        Parameter(help="File with the token of the credit process, where it is on another machine.", group=LISTENING),
    ] = None
    credit_ca: Annotated[
        Path | None,
        Parameter(help="Certificate authority of the credit process's certificate, as PEM.", group=LISTENING),
    ] = None
    agents: Annotated[
        str,
        Parameter(
            help=(
                "Where the agents of nodes answer, for knobs, run delay and incidents: a URL in which {ip} stands "
                "for a node's internal address and {node} for its name, such as http://{ip}:10262. Default: none "
                "are asked."
            ),
            group=WORK,
        ),
    ] = ""
    fleet: Annotated[
        str,
        Parameter(
            help=(
                'Bus of a fleet, for the view "Fleet" and logs: nats://HOST:PORT, tls://HOST:PORT, or local for this '
                "user's `cotenant fleet serve --embedded`. Default: none."
            ),
            group=WORK,
        ),
    ] = ""
    terminals: Annotated[
        bool,
        Parameter(
            negative=(),
            help="With --fleet: viewers may open terminals into containers. Needs the verb exec for the console, the "
            "agents' function terminals, and of a viewer's Kubernetes token the right to create pods/exec.",
            group=WORK,
        ),
    ] = False
    changes: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Viewers may stop, start and roll back releases, and tell virtual machines what to do, with what the "
            "console's kubeconfig may; a viewer's Kubernetes token needs the right of each verb.",
            group=WORK,
        ),
    ] = False
    approvals: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Viewers may approve and undo what is suggested and done to sizes, by moves and by lending, freeze "
            "and thaw, as far as the console's kubeconfig may; a viewer's Kubernetes token needs the right to write "
            "that kind.",
            group=WORK,
        ),
    ] = False
    prices: Annotated[
        Path | None, Parameter(help="A file of prices: what the running pods of a release cost.", group=WORK)
    ] = None
    fleet_key: Annotated[
        Path | None,
        Parameter(
            help="File with the seed of an operator's nkey with the verbs list, top, logs, and exec for --terminals.",
            group=LISTENING,
        ),
    ] = None
    fleet_ca: Annotated[Path | None, Parameter(help="Authority of the bus's certificate, as PEM.", group=LISTENING)] = (
        None
    )
    fleet_name: Annotated[str, Parameter(help="Name of that operator.", group=LISTENING)] = "console"
    results: Annotated[
        Path | None,
        Parameter(
            help='Folder with results of `cotenant lab compare`, or with folders of them, for the view "Lab".',
            group=WORK,
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        Parameter(
            help=(
                "File with a token that logs in as often as wanted, and that scripts send as a bearer token. "
                "Default: the printed link only."
            ),
            group=LISTENING,
        ),
    ] = None
    login_file: Annotated[
        Path | None,
        Parameter(
            help=(
                "File with the one-time token of the link; it is removed when it is used. Default: one is made "
                "and printed."
            ),
            group=LISTENING,
        ),
    ] = None
    session_file: Annotated[
        Path | None,
        Parameter(
            help=(
                "File that keeps viewers' sessions over a restart, as digests. Default: none, and viewers log in "
                "again; sessions of Kubernetes tokens are never kept."
            ),
            group=LISTENING,
        ),
    ] = None
    proxy_header: Annotated[
        str,
        Parameter(
            help=(
                "Header in which a proxy in front names the viewer it has logged in, for example with OpenID "
                "Connect: X-Forwarded-User. Requests that have it are admitted, from the proxy's addresses only. "
                "Default: none."
            ),
            group=LISTENING,
        ),
    ] = ""
    proxy_from: Annotated[
        str,
        Parameter(
            help=(
                "Addresses or networks of that proxy, separated by commas. Default: this machine; then every "
                "process on it can send the header."
            ),
            group=LISTENING,
        ),
    ] = "127.0.0.1,::1"
    tls_cert: Annotated[
        Path | None, Parameter(help="Certificate chain, as PEM. Needed beyond loopback.", group=LISTENING)
    ] = None
    tls_key: Annotated[Path | None, Parameter(help="Its key.", group=LISTENING)] = None
    insecure: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Listen beyond loopback without TLS: the network is trusted, or a proxy ends TLS.",
            group=LISTENING,
        ),
    ] = False
    period_s: Annotated[float, Parameter(help="Seconds between two looks at what nodes and pods use.", group=WORK)] = (
        10.0
    )
    title: Annotated[
        str, Parameter(help="Name of the cluster in the page. Default: the API server's address.", group=WORK)
    ] = ""
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"


def _check_pattern(pattern: str) -> None:
    parts = split_url(pattern.replace(NODE, "node").replace(ADDRESS, "192.0.2.1"))
    if parts is None or "{" in parts.netloc:
        raise InvalidInput("--agents", pattern, "a URL", f"such as http://{ADDRESS}:10262 or http://{NODE}:10262")


def check(asked: ConsoleArguments) -> Address:
    """The address to listen on. Raises `InvalidInput` for a value that cannot be."""
    address = Address.parse("--listen", asked.listen)
    if address.path:
        raise InvalidInput("--listen", asked.listen, "HOST:PORT", "browsers do not open unix sockets")
    if (asked.tls_cert is None) != (asked.tls_key is None):
        raise InvalidInput("--tls-cert, --tls-key", str(asked.tls_cert or asked.tls_key), "both or neither")
    if not address.is_loopback and asked.tls_cert is None and not asked.insecure:
        raise InvalidInput(
            "--listen",
            asked.listen,
            "a loopback address, or --tls-cert and --tls-key",
            "a session could be read on the way; --insecure says that the network is trusted, or that a proxy ends TLS",
        )
    if not (isfinite(asked.period_s) and 0.5 <= asked.period_s <= 600):
        raise InvalidInput("--period-s", asked.period_s, "0.5 to 600 seconds")
    for option, url in (("--scheduler", asked.scheduler), ("--traces", asked.traces), ("--credit", asked.credit)):
        if url and split_url(url) is None:
            raise InvalidInput(option, url, "a URL", f"such as {DEFAULT_URL}")
    if asked.fleet not in ("", LOCAL_FLEET) and split_url(asked.fleet, ("nats", "tls")) is None:
        raise InvalidInput("--fleet", asked.fleet, "nats://HOST:PORT, tls://HOST:PORT or local")
    if asked.terminals and not asked.fleet:
        raise InvalidInput("--terminals", "no fleet", "--fleet too", "terminals lead into a fleet's containers")
    if asked.results is not None and not asked.results.is_dir():
        raise InvalidInput("--results", str(asked.results), "a folder, such as the --out of `cotenant lab compare`")
    if asked.agents:
        _check_pattern(asked.agents)
    for option, file in (
        ("--scheduler-ca", asked.scheduler_ca),
        ("--traces-ca", asked.traces_ca),
        ("--credit-ca", asked.credit_ca),
        ("--fleet-ca", asked.fleet_ca),
    ):
        if file is not None and not file.is_file():
            raise InvalidInput(option, str(file), "a file of certificates as PEM")
    if asked.proxy_header:
        ProxyLogin.parse(asked.proxy_header, asked.proxy_from)
    if asked.token_file is not None:
        read_token(asked.token_file, "--token-file")
    check_logging(asked.log_level, asked.log_format)
    return address
