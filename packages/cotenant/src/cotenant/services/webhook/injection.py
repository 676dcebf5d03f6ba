"""The CA bundle in our webhook configurations, and where asked for, the configurations themselves.

An API server calls a webhook only if it trusts its certificate, and manifests that are applied again carry no bundle.
The leader compares both configurations with the bundle every `every_s` and patches what differs, by a JSON patch that
names the webhook it means; nothing else in them is touched. `register` writes them whole, once.
Limits: up to `every_s` pass until a configuration that lost its bundle has it again; meanwhile calls fail, and
failurePolicy decides.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Sequence

import msgspec

from cotenant.drivers.kube.client.client import JSON_PATCH, Client
from cotenant.drivers.kube.client.errors import AlreadyExists, NotFound
from cotenant.drivers.kube.kinds.kind import AnyKind
from cotenant.drivers.kube.kinds.webhook_configuration import MUTATING, VALIDATING
from cotenant.model.errors import CotenantError
from cotenant.model.json_object import JsonObject
from cotenant.services.webhook.webhook_arguments import CHECK_S, NAME

_log = logging.getLogger(__name__)

Wanted = Callable[[str], Sequence[tuple[AnyKind, JsonObject]]]  # base64 bundle -> (kind, configuration)


class Injector:
    """Keeps the bundle in both configurations. `wanted`: makes them whole, where they are to be registered; None =
    they are made by others.
    """

    def __init__(
        self, client: Client, bundle: Callable[[], str], wanted: Wanted | None = None, every_s: float = CHECK_S
    ) -> None:
        self.results: dict[str, int] = {"written": 0, "failed": 0, "absent": 0}
        self._client = client
        self._bundle = bundle
        self._wanted = wanted
        self._every_s = every_s
        self._is_absent: set[str] = set()

    async def run(self) -> None:
        """Until cancelled: only while leading."""
        registered = self._wanted is None
        while True:
            try:
                if not registered:
                    await self.register()
                    registered = True
                await self.inject()
            except CotenantError as error:
                self.results["failed"] += 1
                _log.log(self._client.outage.level, "the webhook configurations were not written: %s", error)
            await asyncio.sleep(self._every_s)

    async def register(self) -> None:
        """Create both configurations, or replace their webhooks. Raises `CotenantError`."""
        assert self._wanted is not None
        for made, configuration in self._wanted(_encoded(self._bundle())):
            kind = MUTATING if made is MUTATING else VALIDATING
            try:
                await self._client.create(kind, "", configuration)
            except AlreadyExists:
                await self._client.patch(kind, "", NAME, {"webhooks": configuration["webhooks"]})
            _log.info("registered %s %s", kind.name, NAME)

    async def inject(self) -> None:
        """Write the bundle where it is missing or another. Raises `CotenantError`."""
        encoded = _encoded(self._bundle())
        for is_mutating in (True, False):
            kind = MUTATING if is_mutating else VALIDATING
            try:
                found = await self._client.get(kind, "", NAME)
            except NotFound:
                if kind.name not in self._is_absent:
                    self._is_absent.add(kind.name)
                    self.results["absent"] += 1
                    _log.warning("there is no %s %s: the API server does not call this webhook", kind.name, NAME)
                continue
            self._is_absent.discard(kind.name)
            operations: list[dict[str, object]] = []
            for index, webhook in enumerate(found.webhooks or ()):
                if webhook.client_config.ca_bundle != encoded:
                    path = f"/webhooks/{index}"
                    operations.append({"op": "test", "path": f"{path}/name", "value": webhook.name})
                    operations.append({"op": "add", "path": f"{path}/clientConfig/caBundle", "value": encoded})
            if operations:
                await self._client.patch(kind, "", NAME, msgspec.json.encode(operations), content_type=JSON_PATCH)
                self.results["written"] += 1
                _log.info("wrote the CA bundle into %s %s", kind.name, NAME)


def _encoded(bundle: str) -> str:
    return base64.b64encode(bundle.encode()).decode("ascii")
