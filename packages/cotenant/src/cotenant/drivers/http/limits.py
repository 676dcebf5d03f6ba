"""Limits of an HTTP server, with their defaults.

A server that listens beyond loopback meets clients that send without end, stop half way, or never read. One frozen
value holds every bound; a server that needs another one replaces that field.
Limits: the rate of requests is not bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds of one server. Every value is above 0."""

    head_bytes: int = 64 << 10  # request line and headers; also trailers, and the framing between two chunks
    head_within_s: float = 10.0  # from the first byte of a head, or from the connection, to the head's end
    body_bytes: int = 64 << 10  # of a request, where a page sets no lower limit
    body_within_s: float = 10.0  # from the end of the head to the end of the body
    idle_s: float = 300.0  # between two requests; kube-scheduler closes its own idle connections after 90 s
    write_stall_s: float = 30.0  # a client that has read nothing for so long is disconnected
    handshake_within_s: float = 10.0  # TLS
    tls_close_within_s: float = 5.0  # for the peer's half of a TLS close
    linger_s: float = 2.0  # input is discarded for so long after a refusal, so that the client can read the answer
    stop_within_s: float = 5.0  # for requests in progress when the server stops
    connections: int = 20_000  # one kept open by the agent of each node
    backlog: int = 1024  # connections that wait to be accepted
    certificate_check_s: float = 60.0  # between two looks at whether the certificate's files have changed

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"{field.name}: {getattr(self, field.name)}: expected a number above 0")


DEFAULTS = ServerLimits()
