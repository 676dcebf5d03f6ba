"""The bus over NATS, by nats-py. Implements `Bus`.

The connection comes back by itself: a quarter of a second after a server is there again, with all subscriptions. What
is published meanwhile waits, up to `_PENDING_BYTES`; then publishing fails as `Transient`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.drivers.http.trust import trusting
from cotenant.drivers.nats.contract import NO_HEADERS, BusMessage, BusService, Handler, NoResponder, Subscription
from cotenant.drivers.nats.keys import public_key, read_seed
from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.fleet.refusal import FleetForbidden
from cotenant.model.json_object import JsonObject
from cotenant.model.urls import split_url

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.micro.request import Request

_log = logging.getLogger(__name__)
_RECONNECT_S = 0.25
_PING_S = 5  # two without an answer end a connection that no packet passes
_PENDING_BYTES = 4 << 20
_CREDENTIALS = "BEGIN NATS USER JWT"


@dataclass(frozen=True, slots=True)
class BusAccess:
    """How to reach a server.

    `seed`: file with an nkey's seed, or with credentials (a JWT and its seed), whose text `credentials` may also be;
    `ca`: the authority of the server's certificate; `name` is also the inbox's.
    """

    url: str
    name: str
    token: str = ""
    seed: Path | None = None
    ca: Path | None = None
    credentials: str = ""


@dataclass(frozen=True, slots=True)
class _Ended:
    """Why a request that waits is cancelled by the connection."""

    error: CotenantError


class NatsBus:
    """A connection to a server. Make it with `connect`."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._inbox = f'subscription to "_inbox.{name}.'
        self._waiting: set[tuple[str, asyncio.Future[Msg]]] = set()  # requests under way

    @property
    def client(self) -> Client:
        """nats-py's own, for what only NATS has (JetStream)."""
        return self._client

    @property
    def is_connected(self) -> bool:
        """As the Protocol."""
        return bool(self._client.is_connected)

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """As the Protocol. Raises `Transient` where it cannot even wait."""
        from nats.errors import Error

        try:
            await self._client.publish(subject, data, headers=dict(headers) or None)
        except Error as error:
            raise Transient(f"the bus takes no message: {error}") from error

    async def request(
        self, subject: str, data: bytes, headers: Mapping[str, str] = NO_HEADERS, timeout_s: float = 5.0
    ) -> BusMessage:
        """As the Protocol."""
        from nats.errors import Error, NoRespondersError
        from nats.errors import TimeoutError as NatsTimeout

        asking = self._client.request(subject, data, timeout=timeout_s, headers=dict(headers) or None)
        waiting = (subject, asyncio.ensure_future(asking))
        self._waiting.add(waiting)
        try:
            answer = await waiting[1]
        except asyncio.CancelledError as error:
            waiting[1].cancel()
            if error.args and isinstance(error.args[0], _Ended):  # by `deny` or `lost`
                raise error.args[0].error from None
            raise
        except NoRespondersError:
            raise NoResponder(f"nobody answers on {subject}") from None
        except NatsTimeout:
            raise TimeoutError from None
        except Error as error:
            raise Transient(f"the bus takes no request: {error}") from error
        finally:
            self._waiting.discard(waiting)
        return _message(answer)

    def deny(self, said: str) -> None:
        """The server refused a subject: end the requests that wait for nothing."""
        for subject, task in self._waiting:
            if f'"{subject}"' in said or self._inbox in said.lower():
                task.cancel(_Ended(FleetForbidden(f"the bus refuses: {said}")))

    def lost(self) -> None:
        """The connection is gone, and with it the answers to what was asked: whoever waits may ask again at once."""
        for subject, task in self._waiting:
            task.cancel(_Ended(Transient(f"the bus went away before an answer on {subject} came")))

    async def subscribe(self, subject: str, handler: Handler, queue: str = "") -> Subscription:
        """As the Protocol."""

        async def received(message: Msg) -> None:
            try:
                await handler(_message(message))
            except Exception:  # nats-py would report it and go on; so do we, with the subject
                _log.exception("handling a message on %s failed", subject)

        found: Subscription = await self._client.subscribe(subject, queue=queue, cb=received)
        return found

    async def serve(self, service: BusService, handler: Handler) -> Subscription:
        """As the Protocol: a NATS micro service, found with its statistics by `nats micro ls`."""
        from nats.micro import ServiceConfig, add_service

        async def received(request: Request) -> None:
            await handler(_message(request._msg))

        config = ServiceConfig(
            name=service.name, version=_semantic(service.version), description="", metadata=dict(service.metadata)
        )
        added = await add_service(self._client, config)
        group = added.add_group(name=service.prefix, queue_group=service.queue or None)
        for verb in service.verbs:
            metadata = dict(service.metadata_of.get(verb, NO_HEADERS))
            await group.add_endpoint(name=verb, handler=received, metadata=metadata)
        return _Served(added)

    async def flush(self, timeout_s: float) -> None:
        """Wait until the server has what was sent and subscribed before; nats-py raises where it does not answer.

        nats-py writes the ping itself before what is pending, so the first answer may come before a subscription.
        """
        for _ in range(2):
            await self._client.flush(timeout_s)

    async def close(self) -> None:
        """As the Protocol; what was published is sent first."""
        if self._client.is_connected:
            try:
                await self.flush(1.0)
            except Exception as error:  # nats-py has many; the connection ends anyway
                _log.debug("the last messages were not sent: %s", error)
        await self._client.close()


def _semantic(version: str) -> str:
    """Micro services have semantic versions; ours may have a suffix of Python's."""
    numbers = re.match(r"\d+(\.\d+){0,2}", version)
    return ".".join(((numbers[0] if numbers else "0") + ".0.0").split(".")[:3])


class _Served:
    def __init__(self, service: Any) -> None:
        self._service = service

    async def unsubscribe(self) -> None:
        await self._service.stop()


async def connect(access: BusAccess, within_s: float | None = None) -> NatsBus:
    """A connection; tried again until it is there, or `within_s` is over (`Transient`).

    Raises `InvalidInput`, `Permanent`, `Unsupported`.
    """
    try:
        from nats.aio.client import Client
    except ImportError as error:
        raise Unsupported("the fleet's bus", "nats-py: pip install 'cotenant[fleet]'") from error
    state = _Connecting(access)
    client = Client()
    connecting = asyncio.ensure_future(client.connect(**_settings(access, state)))
    try:
        async with asyncio.timeout(within_s):
            await asyncio.wait({connecting, state.refused}, return_when=asyncio.FIRST_COMPLETED)
            if state.refused.done():
                raise Permanent(state.refused.result())
            await connecting
    except TimeoutError:
        raise Transient(f"no bus answers at {access.url} within {within_s:g} s") from None
    except OSError as error:
        raise Transient(f"no bus answers at {access.url}: {error}") from error
    finally:
        if not connecting.done():
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
            await client.close()
    state.bus = NatsBus(client, access.name)
    return state.bus


class _Connecting:
    """What nats-py reports by callbacks: it tries for ever, also what will never be granted."""

    def __init__(self, access: BusAccess) -> None:
        self._access = access
        self.bus: NatsBus | None = None
        self.refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def said(self, error: Exception) -> None:
        text = (str(error) or type(error).__name__).removeprefix("nats: ").strip("'")
        if self.bus is not None:
            _log.warning("bus: %s", text)
            if "permissions violation" in text.lower():
                self.bus.deny(text)
        elif isinstance(error, ssl.SSLCertVerificationError):
            self._refuse(f"{self._access.url}: its certificate is not trusted: {error.verify_message}")
        elif "authorization" in text.lower():
            self._refuse(f"{self._access.url} refuses {self._access.name}: {text}")
        else:
            _log.info("no bus at %s yet: %s", self._access.url, text)

    async def lost(self) -> None:
        if self.bus is not None:
            _log.warning("the bus at %s is away", self._access.url)
            self.bus.lost()

    async def back(self) -> None:
        _log.info("the bus at %s is back", self._access.url)

    def _refuse(self, why: str) -> None:
        if not self.refused.done():
            self.refused.set_result(why)


def _settings(access: BusAccess, state: _Connecting) -> JsonObject:
    settings: JsonObject = {
        "servers": [access.url],
        "name": access.name,
        "inbox_prefix": f"_INBOX.{access.name}".encode(),
        "error_cb": state.said,
        "disconnected_cb": state.lost,
        "reconnected_cb": state.back,
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": _RECONNECT_S,
        "connect_timeout": 2,
        "ping_interval": _PING_S,
        "pending_size": _PENDING_BYTES,
    }
    if split_url(access.url, ("nats", "tls")) is None:
        raise InvalidInput("--bus", access.url, "nats://HOST:PORT or tls://HOST:PORT")
    if access.token:
        settings["token"] = access.token
    credentials, seed = access.credentials, ""
    if access.seed is not None:
        seed = read_seed(access.seed)
        if _CREDENTIALS in seed:
            credentials, seed = seed, ""
    if credentials:
        from nats.aio.client import RawCredentials

        settings["user_credentials"] = RawCredentials(credentials.strip() + "\n")
    elif seed:
        public_key(seed)  # a wrong file is reported before anything is tried
        settings["nkeys_seed_str"] = seed
    if access.url.startswith("tls://") or access.ca is not None:
        settings["tls"] = trusting(access.ca)
    return settings


def _message(message: Msg) -> BusMessage:
    return BusMessage(message.subject, message.data, message.headers or NO_HEADERS, message.reply)
