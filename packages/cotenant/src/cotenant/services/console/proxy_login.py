"""Viewers whom a proxy in front has logged in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from cotenant.drivers.http.messages import Scope, header
from cotenant.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ProxyLogin:
    """A proxy in front that logs viewers in: requests from its addresses with its header are admitted."""

    header: bytes  # in lower case
    networks: tuple[IPv4Network | IPv6Network, ...]

    @classmethod
    def parse(cls, name: str, networks: str) -> ProxyLogin:
        """Raises `InvalidInput`."""
        if not re.fullmatch(r"[A-Za-z0-9-]{1,100}", name) or name.lower() in ("authorization", "cookie", "host"):
            raise InvalidInput("--proxy-header", name, "the name of a header", "such as X-Forwarded-User")
        try:
            found = tuple(ip_network(entry.strip()) for entry in networks.split(",") if entry.strip())
        except ValueError:
            found = ()
        if not found:
            raise InvalidInput("--proxy-from", networks, "addresses or networks of the proxy", "such as 127.0.0.1,::1")
        return cls(name.lower().encode(), found)

    def viewer(self, scope: Scope) -> str:
        """Whom it names."""
        return header(scope, self.header).strip().decode("latin-1")[:200]

    def admits(self, scope: Scope) -> bool:
        """Whether the proxy sent this request and names a user."""
        client = scope.get("client")
        if client is None or not header(scope, self.header).strip():
            return False
        try:
            address = ip_address(client[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self.networks)
