"""The certificates of one Service in a Secret, and in files for the server.

Replicas must serve certificates of one authority, and none may start without. A Secret is the only state; each replica
takes the step that certificates.py says is due and writes it only over what it has read, so that of several one
succeeds and the others read its result. What is kept goes to a private folder, from where the server loads it again
when it changes.
Limits: a Secret with a certificate that we did not make (cert-manager's) is refused: mount it and name its files
instead.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from cotenant.drivers.http.certificates import validity
from cotenant.drivers.http.private_files import write_private
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import AlreadyExists, Conflict, NotFound
from cotenant.drivers.kube.kinds.secret import SECRETS, Secret
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.services.certificates.material import Material, advance, read_material

CHECK_S = 30.0
RETRY_S, LONGEST_RETRY_S = 1.0, 10.0
_log = logging.getLogger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


class CertificateKeeper:
    """Keeps the Secret `namespace/name`, and the files of `folder` where there is one. `hosts`: names and addresses
    that are served.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        hosts: tuple[str, ...],
        folder: Path | None,
        now: Callable[[], datetime] = _now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._where = (namespace, name)
        self._hosts = hosts
        self._folder = folder
        self._now = now
        self._sleep = sleep
        self._kept: Material | None = None

    def with_files(self, folder: Path) -> CertificateKeeper:
        """The same Secret, with files in `folder`."""
        return CertificateKeeper(self._client, *self._where, self._hosts, folder, self._now, self._sleep)

    @property
    def tls(self) -> Tls:
        """The files for the server; there must be a folder."""
        assert self._folder is not None
        return Tls(self._folder / "tls.crt", self._folder / "tls.key")

    @property
    def bundle(self) -> str:
        """The authorities to trust, PEM; empty before the first `step`."""
        return self._kept.bundle if self._kept is not None else ""

    @property
    def expires_s(self) -> float:
        """Unix time at which the certificate in use ends; 0 before the first `step`."""
        return validity(self._kept.server.certificate).end.timestamp() if self._kept is not None else 0.0

    async def step(self) -> None:
        """Read what is kept, renew what is due, and write the files where it has changed. Raises `CotenantError`."""
        for _ in range(5):
            try:
                material = await self._settled()
                break
            except (AlreadyExists, Conflict):
                continue  # another replica was first
        else:
            raise Conflict(f"the Secret {'/'.join(self._where)} keeps changing")
        if material != self._kept:
            if self._folder is not None:
                write_private(self._folder / "tls.key", material.server.key)
                write_private(self._folder / "tls.crt", material.server.certificate)
            self._kept = material

    async def obtain(self) -> None:
        """`step` until it succeeds. Raises `InvalidInput` for a Secret that is not ours."""
        pause_s, told = RETRY_S, ""
        while True:
            try:
                await self.step()
                return
            except InvalidInput:
                raise
            except CotenantError as error:
                why = str(error)
                if why != told and self._client.outage.lasts_s == 0:  # the client itself tells of an outage, once
                    _log.warning("no certificate yet: %s", why)
                    told = why
                await self._sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_RETRY_S)

    async def run(self) -> None:
        """Look every `CHECK_S`, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                await self.step()
            except CotenantError as error:
                _log.warning("the certificates were not looked at: %s", error)

    async def _settled(self) -> Material:
        namespace, name = self._where
        try:
            secret = await self._client.get(SECRETS, namespace, name)
        except NotFound:
            secret = None
        kept = None if secret is None else read_material(_values(secret, self._where))
        wanted = advance(kept, self._hosts, self._now(), name)
        if secret is None:
            data = _encoded(wanted)
            body = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": name}, "data": data}
            await self._client.create(SECRETS, namespace, body)
            _log.info("made the authority and certificate in Secret %s/%s", namespace, name)
        elif wanted != kept:
            change = {"metadata": {"resourceVersion": secret.metadata.resource_version}, "data": _encoded(wanted)}
            await self._client.patch(SECRETS, namespace, name, change)
            _log.info("renewed the certificates in Secret %s/%s", namespace, name)
        return wanted


def _values(secret: Secret, where: tuple[str, str]) -> dict[str, str]:
    data = secret.data or {}
    if data.get("tls.crt") and not data.get("signer.crt"):
        hint = "mount it, and name its files by --tls-cert, --tls-key and --ca-file"
        raise InvalidInput(f"Secret {'/'.join(where)}", "a certificate of another issuer", "no Secret, or ours", hint)
    found = {}
    for key, text in data.items():
        try:
            found[key] = base64.b64decode(text).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue  # counts as absent
    return found


def _encoded(material: Material) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode("ascii") for key, value in material.values().items()}
