"""The HTTPS client for webhooks.

A webhook is called inside a write, so a call must be bounded in time and size, cheap on the same machine, and its
failure must say what failed. One keep-alive client for all; one TLS context per CA bundle; the configured timeout
covers everything. A service reference is followed only if an Endpoints object leads to this machine: there is no
cluster network here.
Source: Kubernetes, "Dynamic Admission Control", contacting the webhook.
Limits: no client certificates; redirects are not followed.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from cotenant.drivers.http.trust import trusting
from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.admission.configuration import ServiceReference, Webhook
from cotenant_local.apiserver.admission.review import CallFailed

if TYPE_CHECKING:
    import aiohttp

_MAX_ANSWER_BYTES = 3 << 20
_IDLE_S = 60.0

Lookup = Callable[[str, str, str], Manifest | None]  # plural of a core kind, namespace, name


class _Address(NamedTuple):
    url: str
    server_name: str | None


class Caller:
    """The HTTPS client of all webhooks. `lookup` finds Services and Endpoints."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def post(self, webhook: Webhook, body: bytes) -> bytes:
        """POST a review. Returns the body of a 200 response. Raises CallFailed."""
        import aiohttp

        address = self._address(webhook)
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=256, keepalive_timeout=_IDLE_S)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        prefix = f'failed to call webhook: Post "{address.url}?timeout={webhook.timeout_s}s"'
        try:
            async with (
                asyncio.timeout(webhook.timeout_s),
                self._session.post(
                    f"{address.url}?timeout={webhook.timeout_s}s",
                    data=body,
                    headers={"content-type": "application/json", "accept": "application/json"},
                    ssl=self._context(webhook),
                    server_hostname=address.server_name,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None),
                ) as answer,
            ):
                body_read = await self._read(answer, prefix)
                if answer.status != 200:
                    raise CallFailed(f"failed to call webhook: the server responded with status code {answer.status}")
                return body_read
        except TimeoutError:
            raise CallFailed(f"{prefix}: context deadline exceeded") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CallFailed(f"{prefix}: {error}") from None

    async def _read(self, answer: aiohttp.ClientResponse, prefix: str) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in answer.content.iter_any():
            size += len(part)
            if size > _MAX_ANSWER_BYTES:
                raise CallFailed(f"{prefix}: the answer is larger than {_MAX_ANSWER_BYTES} bytes")
            parts.append(part)
        return b"".join(parts)

    def _context(self, webhook: Webhook) -> ssl.SSLContext:
        context = self._contexts.get(webhook.ca_bundle)
        if context is None:
            if webhook.ca_bundle:
                try:
                    pem = base64.b64decode(webhook.ca_bundle).decode("ascii")
                    context = trusting(pem)
                except (binascii.Error, UnicodeDecodeError, ssl.SSLError, ValueError) as error:
                    raise CallFailed(f"failed to call webhook: unable to load root certificates: {error}") from None
            else:
                context = trusting()
            self._contexts[webhook.ca_bundle] = context
        return context

    def _address(self, webhook: Webhook) -> _Address:
        if webhook.url:
            return _Address(webhook.url, None)
        service = webhook.service
        if service is None:
            raise CallFailed("failed to call webhook: neither url nor service is configured")
        named = f"{service.name}.{service.namespace}.svc"
        host, port = self._endpoint(
            service, f'failed to call webhook: Post "https://{named}:{service.port}{service.path}"'
        )
        path = quote("/" + service.path.lstrip("/"), safe="/")
        return _Address(f"https://{host}:{port}{path}", named)

    def _endpoint(self, service: ServiceReference, prefix: str) -> tuple[str, int]:
        """A loopback (host, port) of a service."""
        found = self._lookup("services", service.namespace, service.name)
        if found is None:
            raise CallFailed(f'{prefix}: service "{service.name}" not found')
        ports = (found.get("spec") or {}).get("ports") or []
        matching = [port for port in ports if port.get("port") == service.port]
        if not matching:
            raise CallFailed(f'{prefix}: no service port {service.port} found for service "{service.name}"')
        endpoints = self._lookup("endpoints", service.namespace, service.name) or {}
        for subset in endpoints.get("subsets") or ():
            for port in subset.get("ports") or ():
                if (port.get("name") or "") != (matching[0].get("name") or ""):
                    continue
                for address in subset.get("addresses") or ():
                    ip = address.get("ip", "")
                    if _is_loopback(ip):
                        return f"[{ip}]" if ":" in ip else ip, port.get("port", 0)
        raise CallFailed(f'{prefix}: no endpoints available for service "{service.name}" on this machine')

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
