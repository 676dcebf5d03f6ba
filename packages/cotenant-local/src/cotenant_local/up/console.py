"""The console of a local cluster: a child process with its port, its token, and a link that logs in once.

The console listens in a process of its own, and the person needs a link with a token that no other process on the
machine can read. Tokens are in private files of the cluster's directory; the child gets the files' names. The port is
the one that was used last, and sessions are kept in a file, so that a page that is still open goes on.
Limits: loopback only, as the scheduler and the extender.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cotenant.drivers.http.address import Address, AddressUnusable, bind
from cotenant.drivers.http.ports import HeldPort, hold_port
from cotenant.drivers.http.private_files import write_private
from cotenant.drivers.http.tokens import new_token
from cotenant.model.errors import InvalidInput
from cotenant.services.console.login_link import link
from cotenant_local.up.children import ChildSpec

HOST = "127.0.0.1"
PORT_FILE, TOKEN_FILE, LOGIN_FILE = "console-port", "console-token", "console-login"
SESSIONS_FILE = "console-sessions"
PERIOD_S = 2.0  # between two looks at what is used: a simulated day lasts minutes


class Console:
    """The console beside a cluster. Raises `InvalidInput` where the wanted port is in use, `OSError` where a file
    cannot be written.
    """

    def __init__(
        self,
        directory: Path,
        kubeconfig: Path,
        port: int,
        log_format: str,
        *,
        traces: str = "",
        credit: str = "",
        agents: str = "",
        fleet: str = "",
        more: tuple[str, ...] = (),
    ) -> None:
        """`traces`, `credit`: the URLs of the trace and the credit process, `agents`: the pattern of those of
        nodes' agents, `fleet`: a fleet's bus; empty = there is none. `more`: further options.
        """
        self._more = more
        self._traces, self._credit, self._agents, self._fleet = traces, credit, agents, fleet
        self._directory, self._kubeconfig, self._log_format = directory, kubeconfig, log_format
        self.held = _usable(port, directory / PORT_FILE)
        self.port = self.held.port
        write_private(directory / PORT_FILE, f"{self.port}\n")
        if not (directory / TOKEN_FILE).exists():
            write_private(directory / TOKEN_FILE, new_token() + "\n")
        token = new_token()
        write_private(directory / LOGIN_FILE, token + "\n")
        self.link = link(f"http://{HOST}:{self.port}", token)

    def child(self) -> ChildSpec:
        """What to run."""
        directory = self._directory
        arguments = (
            "console",
            "--kubeconfig",
            str(self._kubeconfig),
            "--listen",
            f"{HOST}:{self.port}",
            "--token-file",
            str(directory / TOKEN_FILE),
            "--login-file",
            str(directory / LOGIN_FILE),
            "--session-file",
            str(directory / SESSIONS_FILE),
            "--period-s",
            str(PERIOD_S),
            "--title",
            "cotenant up",
            "--log-format",
            self._log_format,
            *(("--traces", self._traces) if self._traces else ()),
            *(("--credit", self._credit) if self._credit else ()),
            *(("--agents", self._agents) if self._agents else ()),
            *(("--fleet", self._fleet) if self._fleet else ()),
            *self._more,
        )
        return ChildSpec("console", arguments, directory / "logs" / "console.log", self.port)


def _usable(asked: int, last: Path) -> HeldPort:
    """The port that was asked for; else the last one, or any where that is in use."""
    if asked:
        try:
            bind(Address(HOST, asked, field="--console-port")).close()
        except AddressUnusable as error:
            raise InvalidInput("--console-port", asked, "a free port", error.hint) from None
        return hold_port(asked)
    with suppress(OSError, ValueError, InvalidInput):
        port = int(last.read_text())
        bind(Address(HOST, port)).close()
        return hold_port(port)
    return hold_port()
