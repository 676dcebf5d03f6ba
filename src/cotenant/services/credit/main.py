"""The commands `cotenant credit ...`: arguments are checked, parts joined, signals set up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.http.address import Address, bind
from cotenant.drivers.http.tls import tls_of
from cotenant.drivers.http.tokens import read_token
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.model.errors import InvalidInput
from cotenant.policy.credit.bounds import CreditRules
from cotenant.services.credit.opening import open_journal
from cotenant.services.kube_process.identity import check_lease_namespace, kept_identity, new_identity
from cotenant.services.kube_process.leadership import Leadership, leadership
from cotenant.services.logs import log_to_stderr
from cotenant.services.reporting.identity import parse_account
from cotenant.services.running import raise_descriptors, run_until_signal

COMPONENT = "cotenant-credit"


@dataclass(frozen=True, slots=True)
class CreditArguments:
    """The arguments of `cotenant credit serve`."""

    kubeconfig: Path | None = None
    context: str = ""
    store: str = ""
    listen: str = "127.0.0.1:10265"
    token_file: Path | None = None
    report_account: str = ""  # NAMESPACE/NAME of the agents' service account
    period_s: float = 60.0
    half_life_s: int = 86_400
    bound: int = 100
    writes_standing: bool = True
    leader_elect: bool = True
    lease_namespace: str = ""
    state_dir: Path | None = None
    log_level: str = "info"
    log_format: str = "text"
    tls_cert: Path | None = None
    tls_key: Path | None = None


def run(request: CreditArguments) -> int:
    """Run until a signal. Raises `InvalidInput`."""
    address = Address.parse("--listen", request.listen)
    if address.path:
        raise InvalidInput("--listen", request.listen, "HOST:PORT")
    if not 1 <= request.period_s <= 86_400:
        raise InvalidInput("--period-s", request.period_s, "1 to 86400 seconds")
    if not 1 <= request.bound <= 10**9:
        raise InvalidInput("--bound", request.bound, f"1 to {10**9} credits")
    if request.half_life_s < 60:
        raise InvalidInput("--half-life-s", request.half_life_s, "60 seconds or more")
    rules = CreditRules(request.half_life_s, request.bound * 1000)
    check_lease_namespace(request.lease_namespace)
    if request.token_file is not None:
        read_token(request.token_file, "--token-file")
    user = parse_account(request.report_account) if request.report_account else ""
    log_to_stderr(request.log_level, request.log_format)
    access = load_access(request.kubeconfig, request.context)
    journal = open_journal(request.store, migrates=True)
    from cotenant.services.credit.process import CreditOptions, CreditProcess

    options = CreditOptions(
        address,
        request.period_s,
        rules,
        request.token_file,
        request.writes_standing,
        report_user=user,
        tls=tls_of(request.tls_cert, request.tls_key),
    )
    raise_descriptors()
    listening = bind(address)
    namespace = request.lease_namespace or access.namespace
    identity = (
        kept_identity(request.state_dir, access.server, namespace, COMPONENT) if request.state_dir else new_identity()
    )

    def connect() -> Client:
        return Client(access, qps=float("inf"), burst=10, in_flight=2, user_agent=f"{COMPONENT}/leader-election")

    def elected(_: Client) -> Leadership:
        return leadership(connect, namespace, COMPONENT, identity, Timing(), elect=request.leader_elect)

    async def main(stop: asyncio.Event) -> None:
        await CreditProcess(access, options, journal, identity, elected, listening=listening).run(stop)

    run_until_signal(main)
    return 0
