"""A client of a running agent's HTTP endpoint, over a TCP port or a Unix socket.

The command line and the experiments make the same few queries, and must distinguish "no agent runs" from "the agent
refuses". The standard library's HTTP client, one connection per query, blocking; answers are the endpoint's JSON
objects.
Limits: no TLS, as the endpoint has none.
"""

from __future__ import annotations

import http.client
import json
import socket
from dataclasses import dataclass
from urllib.parse import quote

from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.json_object import JsonObject

_ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class AgentClient:
    """`listen` as in the agent's configuration: HOST:PORT or unix:/PATH."""

    listen: str

    def get(self, path: str, **query: str | int) -> JsonObject:
        """GET a JSON object. Raises `Transient` where no agent answers, `Permanent` with the agent's message where
        it refuses.
        """
        words = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
        return self._decoded("GET", f"{path}?{words}" if words else path, None)

    def post(self, path: str, body: object) -> None:
        """POST a JSON body. Raises as `get` does."""
        self._decoded("POST", path, body)

    def is_healthy(self) -> bool:
        """Whether `/healthz` answers 200."""
        try:
            return self._request("GET", "/healthz", None)[0] == 200
        except Transient:
            return False

    def _decoded(self, method: str, path: str, body: object) -> dict[str, object]:
        status, answer = self._request(method, path, body)
        try:
            decoded = json.loads(answer) if answer.strip() else {}
        except (ValueError, RecursionError):
            decoded = {"error": answer.decode(errors="replace")}
        if status >= 300 or not isinstance(decoded, dict):
            error_text = decoded.get("error", "") if isinstance(decoded, dict) else "not a JSON object"
            raise Permanent(f"the agent at {self.listen} answered {status}: {error_text}")
        return decoded

    def _request(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        connection: http.client.HTTPConnection | None = None
        try:
            connection = self._connection()
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (UnicodeError, http.client.InvalidURL) as error:
            raise InvalidInput("--agent", self.listen, "HOST:PORT or unix:/PATH", str(error)) from error
        except (OSError, http.client.HTTPException) as error:
            raise Transient(f"no agent answers at {self.listen}: {error or type(error).__name__}") from error
        finally:
            if connection is not None:
                connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self.listen.startswith("unix:"):
            return _UnixConnection(self.listen.removeprefix("unix:"))
        host, colon, port = self.listen.rpartition(":")
        if not colon or not port.isdecimal() or not int(port) < 65536:
            raise InvalidInput("--agent", self.listen, "HOST:PORT or unix:/PATH, the agent's `listen`")
        return http.client.HTTPConnection(host.strip("[]"), int(port), timeout=_ANSWER_S)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_ANSWER_S)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_ANSWER_S)
        self.sock.connect(self._path)
