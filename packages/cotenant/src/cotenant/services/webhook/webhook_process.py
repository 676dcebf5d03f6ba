"""The webhook process: arguments are checked, parts joined, and served until a signal.

A webhook must have a certificate before it can listen, know the cluster before it may judge, and only one replica
should write configurations. The home of processes against an API server (services/kube_process): every replica watches
and answers; the one that holds the Lease injects the CA bundle. Certificates come from files, or from a Secret that the
replicas keep themselves.
Limits: a replica answers 503 until everything has been listed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic
from urllib.parse import urlsplit

from cotenant.drivers.http.address import Address, ListeningSocket, bind
from cotenant.drivers.http.certificates import validity
from cotenant.drivers.http.limits import DEFAULTS
from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.traffic import ServerTraffic
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject
from cotenant.services.certificates.keeper import CertificateKeeper
from cotenant.services.kube_process.identity import new_identity
from cotenant.services.kube_process.kube_process import KubeProcess
from cotenant.services.kube_process.leadership import Leadership, leadership
from cotenant.services.logs import log_to_stderr
from cotenant.services.reviewing.facts import WebhookFacts
from cotenant.services.reviewing.review import MAX_BODY_BYTES
from cotenant.services.reviewing.reviewer import Reviewer
from cotenant.services.reviewing.rules import ReviewRules
from cotenant.services.running import raise_descriptors, run_until_signal
from cotenant.services.webhook.app import WebhookApp
from cotenant.services.webhook.configurations import configurations
from cotenant.services.webhook.injection import Injector
from cotenant.services.webhook.metrics import WebhookMetrics
from cotenant.services.webhook.watches import add_watches, has_pods, node_of
from cotenant.services.webhook.webhook_arguments import NAME, WebhookSettings, check

# API servers keep connections for a while.
LIMITS = replace(DEFAULTS, body_bytes=MAX_BODY_BYTES, certificate_check_s=10.0)
_log = logging.getLogger(__name__)


def _by_url(settings: WebhookSettings, address: Address) -> bool:
    """Whether an API server reaches it by a URL, not by its Service."""
    return bool(settings.url) or (settings.register and address.is_loopback)


def judged_rules(settings: WebhookSettings, namespace: str, address: Address) -> ReviewRules:
    """The rules of a replica in this namespace. Reached by its Service, it is a pod of it, and must not stand in
    the way of its own start.
    """
    return (
        settings.rules
        if _by_url(settings, address)
        else replace(settings.rules, exempt=settings.rules.exempt | {namespace})
    )


class WebhookProcess:
    """One replica. `tls` and `bundle` are of the certificates that it serves; the client is owned."""

    def __init__(
        self,
        client: Client,
        settings: WebhookSettings,
        namespace: str,
        listening: ListeningSocket,
        tls: Tls,
        bundle: Callable[[], str],
        *,
        identity: str,
        expires_s: Callable[[], float] = lambda: 0.0,
        leads: Leadership | None = None,
    ) -> None:
        rules = judged_rules(settings, namespace, listening.address)
        registry = MetricsRegistry()
        traffic = ServerTraffic("webhook")
        registry.register(traffic)
        self.kube = KubeProcess(NAME, identity, client, leadership=leads, metrics=registry)
        self.facts = WebhookFacts(monotonic)
        add_watches(self.kube.watches, self.facts, rules)
        reviewer = Reviewer(self.facts, rules, partial(has_pods, client), Random(), partial(node_of, client))
        self.injector = Injector(client, bundle, every_s=settings.inject_every_s)
        self.metrics = WebhookMetrics(
            registry, self.facts, lambda: self.kube.watches.malformed, expires_s, lambda: self.injector.results
        )
        health = HealthPages(registry.page, self.kube.health.unhealthy, self.kube.health.unready, self.kube.standing)
        self.server = HttpServer(
            WebhookApp(reviewer, self.metrics, health), listening, limits=LIMITS, tls=tls, traffic=traffic
        )
        if settings.register:
            service = {"namespace": namespace, "name": settings.service, "port": 443}
            by_url = {"url": settings.url or self.server.url}
            reached: JsonObject = by_url if _by_url(settings, listening.address) else {"service": service}
            self.injector = Injector(
                client,
                bundle,
                lambda encoded: configurations(rules, reached, encoded, settings.failure_policy),
                settings.inject_every_s,
            )
        self._injects = settings.tls_cert is None or settings.ca_file is not None
        self.kube.serve("https", self.server)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set."""
        await self.kube.run(stop, self._work, on_synced=self._synced)

    def _synced(self) -> None:
        _log.info("reviews on %s; %d profiles", self.server.url, len(self.facts.profiles))

    async def _work(self) -> None:
        beating = asyncio.create_task(self._beat())
        try:
            if self._injects:
                await self.injector.run()
            await asyncio.Event().wait()  # certificates of others: nothing to write
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            self.kube.turn()
            await asyncio.sleep(5.0)


async def serve(settings: WebhookSettings, stop: asyncio.Event, listening: Callable[[str], None]) -> None:
    """Serve until `stop` is set; `listening` is called with the URL. Raises `InvalidInput`."""
    address = check(settings)
    access = load_access(settings.kubeconfig, settings.context)
    namespace = settings.namespace or access.namespace

    def connect(in_flight: int = 16) -> Client:
        return Client(access, qps=float("inf"), burst=100, in_flight=in_flight, user_agent="cotenant-webhook")

    identity = new_identity()
    leads = leadership(partial(connect, 2), namespace, NAME, identity, Timing(), elect=settings.leader_elect)
    async with AsyncExitStack() as stack:
        bound = bind(address)
        stack.callback(bound.close)
        client = await stack.enter_async_context(connect())
        keeper = None
        if settings.tls_cert is not None and settings.tls_key is not None:
            tls = Tls(settings.tls_cert, settings.tls_key)
            bundle = partial(_text, settings.ca_file)
            bundle()  # a missing file is reported before anything is served
            expires = partial(_end_s, settings.tls_cert)
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cotenant-webhook-")))
            keeper = CertificateKeeper(
                client, namespace, settings.service, _hosts(settings, namespace, bound.address), folder
            )
            obtaining = asyncio.create_task(keeper.obtain())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait((obtaining, stopping), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not obtaining.done():
                obtaining.cancel()
                return
            obtaining.result()
            tls, bundle, expires = keeper.tls, partial(getattr, keeper, "bundle"), partial(getattr, keeper, "expires_s")
        process = WebhookProcess(
            client, settings, namespace, bound, tls, bundle, identity=identity, expires_s=expires, leads=leads
        )
        if keeper is not None:
            process.kube.background("certificates", keeper.run)
        process.kube.spare_collections()
        listening(process.server.url)
        await process.run(stop)


def run(settings: WebhookSettings) -> int:
    """Run until SIGTERM or SIGINT. Raises `InvalidInput`."""
    check(settings)
    log_to_stderr(settings.log_level, settings.log_format)
    raise_descriptors()

    async def main(stop: asyncio.Event) -> None:
        await serve(settings, stop, lambda url: print(f"listening on {url}", flush=True))

    run_until_signal(main)
    return 0


def _text(path: Path | None) -> str:
    """A file's text, empty without a file. Raises `InvalidInput`."""
    try:
        return "" if path is None else path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("--ca-file", str(path), "a readable file as PEM", str(error)) from None


def _end_s(certificate: Path) -> float:
    try:
        return validity(certificate.read_text(encoding="ascii")).end.timestamp()
    except (OSError, ValueError):
        return 0.0


def _hosts(settings: WebhookSettings, namespace: str, address: Address) -> tuple[str, ...]:
    """Names and addresses by which API servers reach this webhook."""
    service = f"{settings.service}.{namespace}"
    found = [settings.service, service, f"{service}.svc", f"{service}.svc.cluster.local", "localhost", "127.0.0.1"]
    if settings.url:
        found.append(urlsplit(settings.url).hostname or "")
    if address.host not in ("", "0.0.0.0", "::"):
        found.append(address.host)
    return tuple(dict.fromkeys(_canonical(name) for name in found))


def _canonical(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host
