"""The command `cotenant console`: arguments are checked, the address is bound, the link is printed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cotenant.drivers.http.address import bind
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.kube.client.access import SERVICE_ACCOUNT, Access, load_access
from cotenant.drivers.seals.seals import read_seals
from cotenant.model.errors import InvalidInput
from cotenant.services.changes.place import ClusterPlace
from cotenant.services.clients import scheduler_address, traces_address
from cotenant.services.console.access import OneTimeToken
from cotenant.services.console.console_arguments import ConsoleArguments, check
from cotenant.services.console.console_process import ConsoleOptions, ConsoleProcess
from cotenant.services.console.hosts.contract import FleetReader, TerminalHost
from cotenant.services.console.kept_sessions import KeptSessions
from cotenant.services.console.login_link import link
from cotenant.services.console.proxy_login import ProxyLogin
from cotenant.services.console.upstream import address_in
from cotenant.services.logs import log_to_stderr
from cotenant.services.prices import price_table
from cotenant.services.running import raise_descriptors, run_until_signal


class FleetAccess(FleetReader, TerminalHost, Protocol):
    """What `--fleet` names."""


def _address(named: str | None, folder: Path | None, file: str, usual: str) -> Callable[[], str]:
    """Where a process answers: as it is named, else as `cotenant up` wrote it into this folder, else as usual."""
    if named is not None or folder is None:
        found = usual if named is None else named
        return lambda: found
    return address_in(folder / file, usual)


def options_of(asked: ConsoleArguments, fleet: FleetAccess | None = None) -> ConsoleOptions:
    """What the arguments mean; `fleet`: what they name as such. Raises `InvalidInput`."""
    address = check(asked)
    beside = asked.kubeconfig or next(
        (Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name), None
    )
    folder = None if beside is None else beside.expanduser().absolute().parent
    return ConsoleOptions(
        listen=address,
        scheduler=_address(asked.scheduler or None, folder, scheduler_address.URL_FILE, scheduler_address.DEFAULT_URL),
        scheduler_token_file=asked.scheduler_token_file,
        scheduler_ca=asked.scheduler_ca,
        traces=_address(asked.traces, folder, traces_address.URL_FILE, traces_address.DEFAULT_URL),
        traces_token_file=asked.traces_token_file,
        traces_ca=asked.traces_ca,
        credit=asked.credit,
        credit_token_file=asked.credit_token_file,
        credit_ca=asked.credit_ca,
        agents=asked.agents,
        fleet=fleet,
        terminals=fleet if asked.terminals else None,
        place=ClusterPlace(asked.kubeconfig, asked.context),
        changes=asked.changes,
        approvals=asked.approvals,
        prices=price_table(asked.prices),
        results=asked.results,
        token=BearerToken(asked.token_file, "--token-file") if asked.token_file is not None else None,
        login=OneTimeToken(asked.login_file),
        kept_sessions=KeptSessions(asked.session_file) if asked.session_file is not None else None,
        kubernetes_login=asked.kubernetes_login,
        proxy=ProxyLogin.parse(asked.proxy_header, asked.proxy_from) if asked.proxy_header else None,
        period_s=asked.period_s,
        tls=Tls(asked.tls_cert, asked.tls_key) if asked.tls_cert is not None and asked.tls_key is not None else None,
        title=asked.title,
        seals=read_seals(asked.seal_certificate),
    )


def run(asked: ConsoleArguments, fleet: FleetAccess | None = None) -> int:
    """Run until a signal. Raises `InvalidInput`."""
    log_to_stderr(asked.log_level, asked.log_format)
    options = options_of(asked, fleet)
    access = load_access(asked.kubeconfig, asked.context)
    keep_link_out_of_logs(options, access)
    raise_descriptors()
    listening = bind(options.listen)

    async def main(stop: asyncio.Event) -> None:
        process = ConsoleProcess(access, options, listening=listening)
        if process.login.token:
            print(f"console: {link(process.server.url, process.login.token)}", flush=True)
            print("the link works once; Ctrl-C ends the console", flush=True)
        else:
            print(f"console: {process.server.url}", flush=True)
        await process.run(stop)

    run_until_signal(main)
    return 0


def keep_link_out_of_logs(options: ConsoleOptions, access: Access) -> None:
    """In a pod what is printed is its log, which others read: no link is made there. Raises `InvalidInput` where
    nobody could log in.
    """
    if options.login is None or access.source != str(SERVICE_ACCOUNT):
        return
    if options.login.token and options.token is None and not options.kubernetes_login and options.proxy is None:
        raise InvalidInput(
            "--kubernetes-login, --token-file, --proxy-header, --login-file",
            "none",
            "one of them in a pod",
            "a printed link would stand in its log",
        )
    options.login.withdraw()
