"""The commands `cotenant credit ...`: arguments are checked, parts joined, signals set up."""

from __future__ import annotations

import asyncio

from cotenant.drivers.http.tls import tls_of
from cotenant.drivers.http.tokens import read_token
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.drivers.seals.seals import read_seals
from cotenant.policy.credit.bounds import CreditRules
from cotenant.services.credit.credit_arguments import CreditArguments, check
from cotenant.services.credit.opening import open_journal
from cotenant.services.kube_process.replica import open_replica
from cotenant.services.logs import log_to_stderr
from cotenant.services.reporting.accounts import parse_account
from cotenant.services.running import run_until_signal

COMPONENT = "cotenant-credit"


def run(request: CreditArguments) -> int:
    """Run until a signal. Raises `InvalidInput`."""
    address = check(request)
    rules = CreditRules(request.half_life_s, request.bound * 1000)
    if request.token_file is not None:
        read_token(request.token_file, "--token-file")
    user = parse_account(request.report_account) if request.report_account else ""
    log_to_stderr(request.log_level, request.log_format)
    access = load_access(request.kubeconfig, request.context)
    journal = open_journal(request.store, migrates=True)
    from cotenant.services.credit.credit_process import CreditOptions, CreditProcess

    options = CreditOptions(
        address,
        request.period_s,
        rules,
        request.token_file,
        request.writes_standing,
        report_user=user,
        tls=tls_of(request.tls_cert, request.tls_key),
        seals=read_seals(request.seal_certificate),
    )
    replica = open_replica(request, access, address, COMPONENT, Timing())

    async def main(stop: asyncio.Event) -> None:
        await CreditProcess(
            access, options, journal, replica.identity, replica.elected, listening=replica.listening
        ).run(stop)

    run_until_signal(main)
    return 0
