"""The manager process: watches update the engine, and the leader carries out what it decides.

Several replicas run, and one that does not lead must be ready to lead at once. Every replica watches and learns; only
the leader decides and writes, through the status writer of the process home, where the newest write of an object
replaces older ones and what may pass is tried again. Nothing is kept on disk.
Limits: one core.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Protocol

from cotenant.drivers.http.address import Address, ListeningSocket
from cotenant.drivers.http.messages import TEXT, HttpAnswer, Receive, Scope, Send, send_answer
from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.config_map import CONFIG_MAPS
from cotenant.drivers.kube.kinds.custom.elastic_quota_profile import QUOTA_PROFILES
from cotenant.drivers.kube.kinds.shared_predictions import PredictionsMap
from cotenant.drivers.parquet.use_history import UseHistoryFile
from cotenant.drivers.seals.seals import NO_SEALS, Seals
from cotenant.engine.manager.gpu_nodes import GpuNodes
from cotenant.engine.manager.instructions import WriteAmounts
from cotenant.engine.manager.manager import Manager
from cotenant.engine.manager.node_ratios import NodeRatioKeeper
from cotenant.engine.manager.quota_profiles import QuotaProfiles
from cotenant.engine.manager.settings import ManagerSettings
from cotenant.services.certificates.parts import PartCertificates
from cotenant.services.kube_process.clock import SteadyClock
from cotenant.services.kube_process.events import NORMAL, WARNING
from cotenant.services.kube_process.kube_process import KubeProcess
from cotenant.services.kube_process.leadership import Leadership
from cotenant.services.kube_process.span_export import exporter
from cotenant.services.kube_process.span_target import SpanTarget
from cotenant.services.manager import metrics
from cotenant.services.manager.kept_use import KeptUse
from cotenant.services.manager.right_sizing import RightSizingService
from cotenant.services.manager.shared_predictions import SharedPredictions
from cotenant.services.manager.watches import ConfigSource, ManagerWatches
from cotenant.services.manager.write_spans import KeyedWrite, WriteSpans
from cotenant.services.manager.writing import WRITERS, write_amounts

LISTEN = Address("127.0.0.1", 10263)
COMPONENT = "cotenant-manager"
_LONGEST_SLEEP_S = 5.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    """What may be set of the process."""

    listen: Address = LISTEN
    tls: Tls | None = None
    source: ConfigSource = field(default_factory=ConfigSource)
    writes_per_s: float = 50.0
    settings: ManagerSettings = field(default_factory=ManagerSettings)
    span_target: SpanTarget | None = None  # of writes; None = no spans
    seals: Seals = NO_SEALS
    right_sizing: bool = False  # resize pods in place, by RightSizings
    history: UseHistoryFile | None = None  # of use by the hour; None = none is kept
    predictions: tuple[str, str] | None = None  # namespace and name of the ConfigMap to share them by


class DueEngine(Protocol):
    """An engine that decides writes when it is due."""

    def next_s(self) -> float:
        """When it is due, Unix time."""
        ...

    def decide(self, now_s: float) -> Sequence[KeyedWrite]:
        """What is to be written."""
        ...


class ManagerProcess:
    """One replica."""

    def __init__(
        self,
        access: Access,
        options: ManagerOptions,
        identity: str,
        leadership: Callable[[Client], Leadership],
        clock: SteadyClock | None = None,
        listening: ListeningSocket | None = None,
        certificates: PartCertificates | None = None,
    ) -> None:
        """`listening`: a socket that is bound already. `certificates`: those that this replica keeps for the parts
        of the installation.
        """
        self.client = Client(access, qps=float("inf"), burst=100, in_flight=32, user_agent=COMPONENT)
        self.kube = kube = KubeProcess(
            COMPONENT, identity, self.client, leadership=leadership(self.client), events_per_s=5.0, clock=clock
        )
        self.manager = Manager(options.settings)
        self.kept_use = KeptUse(options.history, self.manager.lending.prediction)
        self.kept_use.replay(kube.now())
        self._shared: SharedPredictions | None = None
        if options.predictions is not None:
            stored = PredictionsMap(self.client, *options.predictions)
            self._shared = SharedPredictions(stored, self.manager.lending.prediction, lambda: kube.leads, kube.now)
        self.profiles = QuotaProfiles(options.settings.confirm_s)
        self.ratios = NodeRatioKeeper(options.settings.confirm_s)
        self.gpus = GpuNodes(options.settings.confirm_s)
        self._refused_profiles: dict[str, str] = {}
        self._unknown_ratios: dict[str, str] = {}
        sink = exporter(kube, COMPONENT, options.span_target)
        self._spans = WriteSpans(sink, kube.now) if sink is not None else None
        if sink is not None:
            metrics.read_spans(kube.metrics, sink.samples)
        self.sizes = (
            RightSizingService(kube.watches, kube.now, self.manager.permissions, self.manager.capacity_of)
            if options.right_sizing
            else None
        )
        of_sizes = self.sizes.writers() if self.sizes is not None else {}
        all_writers = {**WRITERS, WriteAmounts: self._write_amounts, **of_sizes}
        writers = self._spans.traced(all_writers) if self._spans is not None else all_writers
        self.writer = kube.status_writer("writes", writers, per_s=options.writes_per_s)
        self._source = options.source
        self.watches = ManagerWatches(
            kube.watches,
            self.manager,
            options.source,
            kube.now,
            self._refused,
            self.profiles,
            self.ratios,
            self.gpus,
            options.seals,
        )
        self._pages = HealthPages(kube.metrics.page, kube.health.unhealthy, kube.health.unready, kube.standing)
        self.server = HttpServer(self._answer, listening or options.listen, tls=options.tls)
        kube.serve("http", self.server)
        if certificates is not None:
            kube.background("certificates", certificates.run)
        metrics.register(
            kube.metrics,
            self.manager,
            self.profiles,
            self.ratios,
            self.gpus,
            leads=lambda: kube.leads,
            written=lambda: (self.writer.written, self.writer.refused, self.writer.waiting()),
            malformed=self._malformed,
            expiries_s=certificates.expiries_s if certificates is not None else dict,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Errors of the API server never end it; a defect of ours does."""
        if self.kept_use.is_on:
            self.kube.background("history", self.kept_use.run)
        if self._shared is not None:
            self.kube.background("predictions", self._shared.run)
        await self.kube.run(stop, self._work, on_synced=self._synced)

    def _malformed(self) -> dict[str, int]:
        """What could not be read or believed, by kind."""
        impossible = self.sizes.engine.reports.impossible if self.sizes is not None else 0
        return {**self.kube.watches.malformed, **({"NodeMetric, amounts of pods": impossible} if impossible else {})}

    def _synced(self) -> None:
        self.watches.synced()
        _log.info("listed %d nodes; metrics and health on %s", len(self.manager.nodes()), self.server.url)

    async def _work(self) -> None:
        self.manager.leads_now(self.kube.now())
        self.profiles.leads_now(self.kube.now())
        self.ratios.leads_now(self.kube.now())
        self.gpus.leads_now(self.kube.now())
        engines: list[DueEngine] = [self.manager, self.profiles, self.ratios, self.gpus]
        if self.sizes is not None:
            self.sizes.engine.leads_now()
            engines.append(self.sizes.engine)
        while True:
            self.kube.turn()
            self._decide(self.manager)
            if self._decide(self.profiles):
                self._report_profiles()
            if self._decide(self.ratios):
                self._report_ratios()
            self._decide(self.gpus)
            if self.sizes is not None:
                self._decide(self.sizes.engine)
            wait_s = min(engine.next_s() for engine in engines) - self.kube.now()
            await self.kube.sleep(min(_LONGEST_SLEEP_S, max(0.05, wait_s)) if isfinite(wait_s) else _LONGEST_SLEEP_S)

    def _decide(self, engine: DueEngine) -> bool:
        """Let an engine decide if it is due, and pass its writes on. Whether it was."""
        begun_s = self.kube.now()
        if not self.kube.leads or engine.next_s() > begun_s:
            return False
        writes = engine.decide(begun_s)
        if self._spans is not None:
            self._spans.decided(writes, begun_s)
        for write in writes:
            self.writer.put(write.key, write)
        return True

    def _report_ratios(self) -> None:
        """A line for each node whose ratio is not known, once for each reason."""
        for node, why in self.ratios.unknown.items():
            if self._unknown_ratios.get(node) != why:
                _log.warning("ratios of %s stay as they are: %s", node, why)
        self._unknown_ratios = dict(self.ratios.unknown)

    def _report_profiles(self) -> None:
        """A line and an Event for each profile that is not in force, once for each reason."""
        for key, why in self.profiles.refused.items():
            if self._refused_profiles.get(key) != why:
                _log.warning("ElasticQuotaProfile %s is not in force: %s", key, why)
                uid = self.profiles.uid_of(key)
                self.kube.events.record(QUOTA_PROFILES, key, uid, WARNING, "ProfileNotInForce", why)
        self._refused_profiles = dict(self.profiles.refused)

    def _refused(self, uid: str, errors: tuple[str, ...]) -> None:
        """An Event on the ConfigMap, from the leader."""
        if not uid or not self.kube.leads:
            return
        key = f"{self._source.namespace}/{self._source.name}"
        for error in errors:
            reason = (
                "ColocationCfgUnmarshalFailed" if error.startswith("colocation-config") else "SLOCfgUnmarshalFailed"
            )
            self.kube.events.record(CONFIG_MAPS, key, uid, WARNING, reason, f"the last good value stays: {error}")
        if not errors:
            self.kube.events.record(CONFIG_MAPS, key, uid, NORMAL, "ConfigInForce", "every key is in force")

    async def _write_amounts(self, client: Client, write: WriteAmounts) -> None:
        if self.manager.may_write(write, self.kube.now()):  # a freeze may have come while it waited
            await write_amounts(client, write)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._pages.answer(scope["method"], scope["path"], scope["query_string"])
        await send_answer(send, found or HttpAnswer(404, b"not found\n", TEXT))
