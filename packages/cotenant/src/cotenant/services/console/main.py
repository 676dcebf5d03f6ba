"""The command `cotenant console`: arguments are checked, the address is bound, the link is printed."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from urllib.parse import quote, urlsplit

from cotenant.drivers.http.address import Address, bind
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.kube.client.access import SERVICE_ACCOUNT, Access, load_access
from cotenant.model.errors import InvalidInput
from cotenant.services.console.access import OneTimeToken, ProxyLogin
from cotenant.services.console.agents import check_pattern
from cotenant.services.console.kept_sessions import KeptSessions
from cotenant.services.console.process import ConsoleOptions, ConsoleProcess
from cotenant.services.console.upstream import address_in
from cotenant.services.logs import log_to_stderr
from cotenant.services.running import raise_descriptors, run_until_signal
from cotenant.services.scheduler.explain.client import DEFAULT_URL, URL_FILE


@dataclass(frozen=True, slots=True)
class ConsoleArguments:
    """The command's arguments."""

    kubeconfig: Path | None = None
    context: str = ""
    listen: str = "127.0.0.1:10266"
    scheduler: str = ""
    scheduler_token_file: Path | None = None
    scheduler_ca: Path | None = None
    traces: str = "http://127.0.0.1:4318"
    traces_token_file: Path | None = None
    traces_ca: Path | None = None
    credit: str = ""
    credit_token_file: Path | None = None
    credit_ca: Path | None = None
    agents: str = ""
    results: Path | None = None
    token_file: Path | None = None
    login_file: Path | None = None
    session_file: Path | None = None
    kubernetes_login: bool = False
    proxy_header: str = ""
    proxy_from: str = "127.0.0.1,::1"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    period_s: float = 10.0
    title: str = ""
    log_level: str = "info"
    log_format: str = "text"


def options_of(asked: ConsoleArguments) -> ConsoleOptions:
    """What the arguments mean. Raises `InvalidInput`."""
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
        if url and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc):
            raise InvalidInput(option, url, "a URL", f"such as {DEFAULT_URL}")
    if asked.results is not None and not asked.results.is_dir():
        raise InvalidInput("--results", str(asked.results), "a folder, such as the --out of `cotenant lab compare`")
    if asked.agents:
        check_pattern(asked.agents)
    for option, file in (
        ("--scheduler-ca", asked.scheduler_ca),
        ("--traces-ca", asked.traces_ca),
        ("--credit-ca", asked.credit_ca),
    ):
        if file is not None and not file.is_file():
            raise InvalidInput(option, str(file), "a file of certificates as PEM")
    beside = asked.kubeconfig or next(
        (Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each), None
    )
    if asked.scheduler or beside is None:
        fixed = asked.scheduler or DEFAULT_URL
        scheduler = lambda: fixed  # noqa: E731
    else:
        scheduler = address_in(beside.expanduser().absolute().parent / URL_FILE, DEFAULT_URL)
    return ConsoleOptions(
        listen=address,
        scheduler=scheduler,
        scheduler_token_file=asked.scheduler_token_file,
        scheduler_ca=asked.scheduler_ca,
        traces=lambda: asked.traces,
        traces_token_file=asked.traces_token_file,
        traces_ca=asked.traces_ca,
        credit=asked.credit,
        credit_token_file=asked.credit_token_file,
        credit_ca=asked.credit_ca,
        agents=asked.agents,
        results=asked.results,
        token=BearerToken(asked.token_file, "--token-file") if asked.token_file is not None else None,
        login=OneTimeToken(asked.login_file),
        kept_sessions=KeptSessions(asked.session_file) if asked.session_file is not None else None,
        kubernetes_login=asked.kubernetes_login,
        proxy=ProxyLogin.parse(asked.proxy_header, asked.proxy_from) if asked.proxy_header else None,
        period_s=asked.period_s,
        tls=Tls(asked.tls_cert, asked.tls_key) if asked.tls_cert is not None and asked.tls_key is not None else None,
        title=asked.title,
    )


def run(asked: ConsoleArguments) -> int:
    """Run until a signal. Raises `InvalidInput`."""
    log_to_stderr(asked.log_level, asked.log_format)
    options = options_of(asked)
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
    """In a pod what is printed is its log, which others read: no link is made there. Raises `InvalidInput` where nobody could log in."""
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


def link(url: str, token: str) -> str:
    """The address with which a browser logs in."""
    return f"{url}/login?token={quote(token)}"
