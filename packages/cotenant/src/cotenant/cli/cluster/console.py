"""`cotenant console`: a web page about a running cluster.

Only signatures and help texts are here; the implementation is imported when the command runs, so that `--help` stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Flag = Annotated[bool, Parameter(negative=())]


def console(
    *,
    kubeconfig: Path | None = None,
    context: str = "",
    listen: str = "127.0.0.1:10266",
    scheduler: str = "",
    scheduler_token_file: Path | None = None,
    scheduler_ca: Path | None = None,
    traces: str = "http://127.0.0.1:4318",
    traces_token_file: Path | None = None,
    traces_ca: Path | None = None,
    credit: str = "",
    credit_token_file: Path | None = None,
    credit_ca: Path | None = None,
    agents: str = "",
    results: Path | None = None,
    token_file: Path | None = None,
    login_file: Path | None = None,
    session_file: Path | None = None,
    kubernetes_login: Flag = False,
    proxy_header: str = "",
    proxy_from: str = "127.0.0.1,::1",
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    insecure: Flag = False,
    period_s: float = 10.0,
    title: str = "",
    log_level: str = "info",
    log_format: str = "text",
) -> int:
    """Serve a web page about a cluster: machines, pods and why they are where they are, quotas, services. It reads and changes nothing.

    Prints a link that logs in once. Exit status: 0 after SIGTERM or Ctrl-C, 2 bad input.

    Parameters
    ----------
    kubeconfig
        Default: $KUBECONFIG, ~/.kube/config, or the pod's service account. Its user must be allowed to list and watch nodes and pods.
    context
        Default: the file's current context.
    listen
        HOST:PORT of the page; port 0: any.
    scheduler
        URL of the scheduler's debug API. Default: the one that `cotenant up` wrote beside the kubeconfig, or http://127.0.0.1:10261.
    scheduler_token_file
        File with the token of the scheduler's --debug-token-file, where it is on another machine.
    scheduler_ca
        Certificate authority of the scheduler's certificate, as PEM; read again when it changes. Default: the system's.
    traces
        URL of `cotenant traces`; empty: none.
    traces_token_file
        File with the token of the trace process.
    traces_ca
        Certificate authority of the trace process's certificate, as PEM.
    credit
        URL of the credit process (`cotenant credit serve`), such as http://127.0.0.1:10265. Default: none, and the view "Credit" says so.
    credit_token_file
        File with the token of the credit process, where it is on another machine.
    credit_ca
        Certificate authority of the credit process's certificate, as PEM.
    agents
        Where the agents of nodes answer, for knobs, run delay and incidents: a URL in which {ip} stands for a node's internal address and {node} for its name, such as http://{ip}:10262. Default: none are asked.
    results
        Folder with results of `cotenant lab compare`, or with folders of them, for the view "Lab".
    token_file
        File with a token that logs in as often as wanted, and that scripts send as a bearer token. Default: the printed link only.
    login_file
        File with the one-time token of the link; it is removed when it is used. Default: one is made and printed.
    session_file
        File that keeps viewers' sessions over a restart, as digests. Default: none, and viewers log in again; sessions of Kubernetes tokens are never kept.
    kubernetes_login
        Accept a viewer's own Kubernetes token in the log-in form, where it may list nodes and pods in all namespaces.
    proxy_header
        Header in which a proxy in front names the viewer it has logged in, for example with OpenID Connect: X-Forwarded-User. Requests that have it are admitted, from the proxy's addresses only. Default: none.
    proxy_from
        Addresses or networks of that proxy, separated by commas. Default: this machine; then every process on it can send the header.
    tls_cert
        Certificate chain, as PEM. Needed beyond loopback.
    tls_key
        Its key.
    insecure
        Listen beyond loopback without TLS: the network is trusted, or a proxy ends TLS.
    period_s
        Seconds between two looks at what nodes and pods use.
    title
        Name of the cluster in the page. Default: the API server's address.
    log_level
        debug, info, warning or error.
    log_format
        text, or json: one object a line.
    """
    from cotenant.services.console import main

    return main.run(
        main.ConsoleArguments(
            kubeconfig=kubeconfig,
            context=context,
            listen=listen,
            scheduler=scheduler,
            scheduler_token_file=scheduler_token_file,
            scheduler_ca=scheduler_ca,
            traces=traces,
            traces_token_file=traces_token_file,
            traces_ca=traces_ca,
            credit=credit,
            credit_token_file=credit_token_file,
            credit_ca=credit_ca,
            agents=agents,
            results=results,
            token_file=token_file,
            login_file=login_file,
            session_file=session_file,
            kubernetes_login=kubernetes_login,
            proxy_header=proxy_header,
            proxy_from=proxy_from,
            tls_cert=tls_cert,
            tls_key=tls_key,
            insecure=insecure,
            period_s=period_s,
            title=title,
            log_level=log_level,
            log_format=log_format,
        )
    )
