"""The certificates of all parts of an installation, and the bundle of their authorities for clients in another
namespace.

Every port should have TLS without a tool that has to be installed first, and a part must not be able to pose as
another. Each Service has an authority of its own, in the Secret SERVICE-tls beside the server's certificate; a part
mounts `tls.crt` and `tls.key` of its Secret, a client `ca.crt` of the server's. Any replica takes the step that is due,
whether it leads or not, so that a first installation waits for no election. A ConfigMap has all authorities, for
clients that may not read Secrets (agents).
Limits: kubelets bring a changed Secret to pods within a minute or two, less than the overlap of two authorities
(material.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from cotenant.drivers.http.tls import Tls
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import AlreadyExists, NotFound
from cotenant.drivers.kube.kinds.config_map import CONFIG_MAPS
from cotenant.model.errors import CotenantError
from cotenant.services.certificates.keeper import CHECK_S, RETRY_S, CertificateKeeper

BUNDLE = "ca.crt"
_log = logging.getLogger(__name__)


def secret_name(service: str) -> str:
    """The Secret of a Service's certificate."""
    return f"{service}-tls"


def service_hosts(service: str, namespace: str) -> tuple[str, ...]:
    """The names by which a Service is called, and those of `kubectl port-forward`."""
    inside = (f"{service}.{namespace}", f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local")
    return (service, *inside, "localhost", "127.0.0.1")


class PartCertificates:
    """Keeps the Secrets of `services` in `namespace`, and the ConfigMap `bundle` (namespace, name) of what their
    clients trust.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        services: Sequence[str],
        bundle: tuple[str, str] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._bundle = bundle
        self._keepers = {
            service: CertificateKeeper(
                client, namespace, secret_name(service), service_hosts(service, namespace), None, now
            )
            for service in services
        }

    def expiries_s(self) -> dict[str, float]:
        """By Service, the Unix time at which its certificate ends; 0 before it was read."""
        return {service: keeper.expires_s for service, keeper in self._keepers.items()}

    async def step(self) -> bool:
        """Renew what is due. Whether all were read and written; the others are logged, and do not depend on one
        another.
        """
        is_whole = True
        for service, keeper in self._keepers.items():
            try:
                await keeper.step()
            except CotenantError as error:
                _log.warning("the certificate of %s was not looked at: %s", service, error)
                is_whole = False
        if self._bundle is not None and is_whole:
            try:
                await self._publish(*self._bundle)
            except CotenantError as error:
                _log.warning("the authorities were not written to ConfigMap %s: %s", "/".join(self._bundle), error)
                is_whole = False
        return is_whole

    async def obtain(self, service: str, folder: Path, stop: asyncio.Event) -> Tls | None:
        """Step until the certificate of `service` exists; its files, which are renewed in `folder` from now on. None:
        `stop` was set before.

        Raises `InvalidInput` for a Secret that is not ours.
        """
        keeper = self._keepers[service] = self._keepers[service].with_files(folder)
        obtaining, stopping = asyncio.create_task(keeper.obtain()), asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((obtaining, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not obtaining.done():
                return None
            obtaining.result()
            return keeper.tls
        finally:
            obtaining.cancel()
            stopping.cancel()

    async def run(self) -> None:
        """Look every `CHECK_S`, sooner after an error; until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S if await self.step() else RETRY_S)

    async def _publish(self, namespace: str, name: str) -> None:
        wanted = "".join(keeper.bundle for _, keeper in sorted(self._keepers.items()))
        try:
            found = (await self._client.get(CONFIG_MAPS, namespace, name)).data or {}
        except NotFound:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {BUNDLE: wanted}}
            try:
                await self._client.create(CONFIG_MAPS, namespace, body)
            except AlreadyExists:
                return  # another replica was first
            _log.info("wrote the authorities to ConfigMap %s/%s", namespace, name)
            return
        if found.get(BUNDLE) != wanted:
            await self._client.patch(CONFIG_MAPS, namespace, name, {"data": {BUNDLE: wanted}})
            _log.info("renewed the authorities in ConfigMap %s/%s", namespace, name)
