"""The joiner's process: each period it reads its cluster, states it to the hub, and brings quotas to the weights, and
shared WorkloadProfiles to the figures, that are in force.

Whatever fails, the next period tries again: no bus, no hub, no API server. Without an answer the weights that stand
expire, and are given back, and figures of others go; so it is when the process ends by a signal. Nothing else of the
cluster is written.
Autonomy objects are read before each write: where they hold weights back, what stands stays, and is still given back
once it expires. While they cannot be read, those that were read last count; before the first time, nothing is weighed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import Conflict, Forbidden, NotFound
from cotenant.drivers.kube.kinds.custom.autonomy import AUTONOMIES, read_autonomy
from cotenant.drivers.kube.kinds.custom.elastic_quota import place_of, weight_text
from cotenant.drivers.kube.kinds.shared_predictions import PredictionsMap
from cotenant.drivers.nats.client import BusAccess, NatsBus, connect
from cotenant.drivers.nats.contract import MAX_PAYLOAD, Bus
from cotenant.drivers.nats.keys import kept_seed, public_key
from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.federation.hub import FederationWeights
from cotenant.engine.federation.joined import Joined, KeptWeight, WeighedQuota, WriteWeight, writes
from cotenant.engine.federation.sharing import shared_writes, stated
from cotenant.model.autonomy.autonomy import Action, Autonomy
from cotenant.model.cluster.workload_profile import WorkloadProfile
from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient
from cotenant.model.groups.quota import FEDERATION, SHARED_WEIGHT
from cotenant.model.prediction.shared_use import MAX_PREDICTIONS, UseEvidence, place_of_predictions
from cotenant.policy.federation.noise import Stated
from cotenant.policy.federation.statement import MAX_LASTS_MS, MAX_TENANTS, Statement, TenantSums, check_name, fit_to
from cotenant.policy.federation.weights import dominant_ppm
from cotenant.services.fleet.federation.envelopes import STATEMENT_SUBJECT, EnvelopeKind, is_by, opened, sealed
from cotenant.services.fleet.federation.members import federation_dir, hub_key
from cotenant.services.fleet.federation.own_statement import ReadCluster, read_cluster, read_quotas
from cotenant.services.fleet.federation.prediction_objects import JoinedPredictions
from cotenant.services.fleet.federation.profile_objects import read_profiles, write_shared
from cotenant.services.fleet.places import BusOptions, access_of
from cotenant.services.logs import log_to_stderr
from cotenant.services.running import run_until_signal

_log = logging.getLogger(__name__)
_ANSWER_S = 5.0
_PERIODS = 3  # a statement counts, and weights stand, for so many periods
_PROFILE_BYTES = 128 * 1024  # of a message
_PREDICTION_BYTES = 128 * 1024
_TENANT_BYTES = MAX_PAYLOAD - _PROFILE_BYTES - _PREDICTION_BYTES - 8 * 1024
_PREDICTION_SLACK_S = 120.0  # a manager looks once a minute
_NOISE_BYTES = 32  # by which a part may grow once noise is added
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """`price`: of a core-hour; 0: not stated. `epsilon` 0: no noise."""

    bus: BusOptions
    cluster: str
    hub_key: str = ""
    kubeconfig: Path | None = None
    context: str = ""
    period_s: float = 30.0
    epsilon: float = 1.0
    price: float = 0.0
    predictions: str = ""  # NAMESPACE/NAME of a ConfigMap; empty: none are shared
    log_level: str = "info"
    log_format: str = "text"


class Joiner:
    """One cluster's. `bus` may be set later, and again."""

    def __init__(self, options: JoinOptions, client: Client, seed: str, hub: str, rng: np.random.Generator) -> None:
        self._options = options
        self._client = client
        self._seed = seed
        self._hub = hub
        self._session = secrets.token_hex(8)
        self._epsilon_milli = floor(round(options.epsilon * 1000, 6))  # never less noise than was asked for
        self._stated = Stated(self._epsilon_milli, rng)
        self.joined = Joined(options.cluster, lasts_ms(options.period_s))
        self.bus: Bus | None = None
        self._autonomy: Sequence[Autonomy] | None = None  # as last read; None = not yet
        place = place_of_predictions("--predictions", options.predictions)
        self._predictions = JoinedPredictions(PredictionsMap(client, *place)) if place is not None else None
        self._held_back: dict[str, str] = {}  # as last logged

    async def step(self) -> None:
        """One period."""
        try:
            found = await read_cluster(
                self._client, round(self._options.price * 1e6), is_clamped=bool(self._epsilon_milli)
            )
            profiles = await read_profiles(self._client)
        except CotenantError as error:
            _log.warning("the cluster cannot be read: %s", error)
            await self._give_back_expired()
            return
        await self._state(found, profiles, await self._predicted())
        await self._apply(found.quotas)
        await self._share(profiles)
        await self._share_predictions()

    async def give_back(self) -> int:
        """Original weights everywhere, and no figures of others; how many weights. Raises `CotenantError`."""
        return await _give_back(self._client)

    async def _give_back_expired(self) -> None:
        """Where nothing is in force, give back by the quotas alone: the rest of the cluster is not read."""
        if self.joined.in_force(_now_ms()):
            return
        with contextlib.suppress(CotenantError):  # no API server: next period
            await self._apply(await read_quotas(self._client))

    async def _predicted(self) -> tuple[UseEvidence, ...]:
        if self._predictions is None:
            return ()
        try:
            return await self._predictions.learned()
        except CotenantError as error:
            _log.warning("predictions are not stated: %s", error)
            return ()

    async def _share_predictions(self) -> None:
        if self._predictions is None:
            return
        lasts_s = lasts_ms(self._options.period_s) / 1000
        try:
            written = await self._predictions.write(
                self.joined.predictions_in_force(_now_ms()), time.time(), lasts_s + _PREDICTION_SLACK_S
            )
        except CotenantError as error:
            _log.warning("what others learned of use is not written: %s", error)
            return
        if written:
            _log.debug("what other clusters learned of use is written")

    async def _state(
        self, found: ReadCluster, profiles: Sequence[WorkloadProfile], predictions: tuple[UseEvidence, ...]
    ) -> None:
        bus = self.bus
        if bus is None:
            _log.warning("no bus yet: nothing is stated")
            return
        wait_s = min(_ANSWER_S, self._options.period_s)  # so that waiting delays no giving back by more than a period
        sent_ms, epoch = _now_ms(), self.joined.next_epoch(int(time.time() * 1000))
        statement = self._statement(found, profiles, predictions, epoch)
        try:
            data = sealed(EnvelopeKind.STATEMENT, statement, self._seed)
            answer = (await bus.request(STATEMENT_SUBJECT, data, timeout_s=wait_s)).data
            if not is_by(EnvelopeKind.WEIGHTS, answer, self._hub):
                raise InvalidInput("answer", "", "the hub's signature", "is --hub-key the key of this hub?")
            why = self.joined.answered(opened(EnvelopeKind.WEIGHTS, answer, FederationWeights), epoch, sent_ms)
        except TimeoutError:
            why = f"no answer within {wait_s:g} s"
        except CotenantError as error:
            why = str(error)
        if why:
            _log.warning("the hub's weights are not renewed: %s", why)

    def _statement(
        self,
        found: ReadCluster,
        profiles: Sequence[WorkloadProfile],
        predictions: tuple[UseEvidence, ...],
        epoch: int,
    ) -> Statement:
        tenants = _statable(found)
        return Statement(
            self._options.cluster,
            self._session,
            epoch,
            int(time.time() * 1000),
            lasts_ms(self._options.period_s),
            self._epsilon_milli,
            found.room,
            fit_to(found.room.capacity, self._stated.of(tenants)),
            _fitting(stated(profiles), _PROFILE_BYTES),
            _fitting(predictions[:MAX_PREDICTIONS], _PREDICTION_BYTES),
        )

    async def _apply(self, quotas: tuple[WeighedQuota, ...]) -> None:
        wanted = writes(quotas, self.joined.in_force(_now_ms()))
        wanted = await self._allowed(wanted)
        try:
            written = await _write(self._client, wanted)
        except CotenantError as error:
            _log.warning("weights are not all written: %s", error)
            return
        if written:
            back = sum(write.weight is None for write in wanted)
            _log.info("%d weights written, %d of them given back", written, back)

    async def _share(self, profiles: Sequence[WorkloadProfile]) -> None:
        try:
            written = await write_shared(
                self._client, shared_writes(profiles, self.joined.profiles_in_force(_now_ms()))
            )
        except CotenantError as error:
            _log.warning("what others learned is not all written: %s", error)
            return
        if written:
            _log.info("%d workload profiles have what other clusters learned of them", written)

    async def _allowed(self, wanted: list[WriteWeight]) -> list[WriteWeight]:
        """Without those that the cluster's Autonomy objects hold back now; to give back is always allowed."""
        weighed = {place_of(write.key)[1] for write in wanted if write.weight is not None}
        held = await self._held(weighed) if weighed else {}
        if held != self._held_back:
            self._held_back = held
            for namespace, why in sorted(held.items()):
                _log.warning("quotas in namespace %s are not weighed: %s", namespace, why)
        return [write for write in wanted if write.weight is None or place_of(write.key)[1] not in held]

    async def _held(self, namespaces: set[str]) -> dict[str, str]:
        try:
            self._autonomy = [read_autonomy(found) for found in await self._client.all_of(AUTONOMIES)]
        except (NotFound, Forbidden):
            self._autonomy = ()  # there are none, or they are not for this process
        except CotenantError as error:
            _log.warning("Autonomy objects cannot be read: %s", error)
        permissions = Permissions(lambda: self._autonomy is not None)
        for found in self._autonomy or ():
            permissions.seen(found)
        return permissions.held(Action.WEIGHTS, namespaces, time.time())


def _statable(found: ReadCluster) -> list[TenantSums]:
    """The tenants that fit into a statement, the larger ones first where there are too many, by name."""
    named = []
    for sums in found.tenants:
        with contextlib.suppress(InvalidInput):
            check_name("tenant", sums.tenant)
            named.append(sums)
    named.sort(key=lambda sums: (-dominant_ppm(sums.used, found.room.capacity), sums.tenant))
    fitting = _fitting(named[:MAX_TENANTS], _TENANT_BYTES)
    if len(fitting) < len(found.tenants):
        _log.warning("%d tenants are not stated, and keep their weights", len(found.tenants) - len(fitting))
    return sorted(fitting, key=lambda sums: sums.tenant)


def _fitting(parts: Sequence[T], max_bytes: int) -> tuple[T, ...]:
    """The first of these that a message has room for."""
    size = 0
    for count, part in enumerate(parts):
        size += len(msgspec.json.encode(part)) + _NOISE_BYTES
        if size > max_bytes:
            return tuple(parts[:count])
    return tuple(parts)


async def _write(client: Client, wanted: list[WriteWeight]) -> int:
    written = 0
    for write in wanted:
        kind, namespace, name = place_of(write.key)
        text = write.before if write.weight is None else weight_text(write.weight)
        kept = None
        if write.weight is not None and text is not None:
            kept = msgspec.json.encode(KeptWeight(write.before, text)).decode()
        meta: dict[str, object] = {"uid": write.uid, "annotations": {SHARED_WEIGHT: text, FEDERATION: kept}}
        if write.version:
            meta["resourceVersion"] = write.version
        try:
            await client.patch(kind, namespace, name, {"metadata": meta}, content_type=MERGE_PATCH)
            written += 1
        except (Conflict, NotFound):
            continue  # it changed since it was read: next period
    return written


async def _give_back(client: Client) -> int:
    given_back = await _write(client, writes(await read_quotas(client), {}))
    await write_shared(client, shared_writes(await read_profiles(client), {}))
    return given_back


def lasts_ms(period_s: float) -> int:
    """For how long a statement counts."""
    return min(MAX_LASTS_MS, int(period_s * 1000) * _PERIODS)


def key_of(cluster: str, state_dir: Path) -> str:
    """The cluster's seed on this machine; made where there is none. Raises `InvalidInput`, `Permanent`."""
    check_name("--cluster", cluster)
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        return kept_seed(state_dir / f"{cluster}.nk")
    except OSError as error:
        raise Permanent(f"{state_dir} cannot be written: {error.strerror}") from error


def run(options: JoinOptions) -> int:
    """Until a signal. Raises `InvalidInput`, `Permanent`."""
    if not 1 <= options.period_s <= 600:
        raise InvalidInput("--period-s", options.period_s, "1 to 600 seconds")
    if options.epsilon != 0 and not 0.001 <= options.epsilon <= 1000:
        raise InvalidInput("--epsilon", options.epsilon, "0 (no noise), or 0.001 to 1000")
    if options.price != 0 and not 1e-6 <= options.price <= 1e6:
        raise InvalidInput("--price", options.price, "0 (not stated), or 0.000001 to 1000000, of a core-hour")
    place_of_predictions("--predictions", options.predictions)
    state_dir = federation_dir(options.bus.state_dir)
    seed = key_of(options.cluster, state_dir)
    hub = hub_key(options.hub_key, state_dir)
    named = BusOptions(options.bus.url, options.bus.key, options.bus.ca, options.bus.name or options.cluster, state_dir)
    access = load_access(options.kubeconfig, options.context)
    log_to_stderr(options.log_level, options.log_format)
    _log.info("cluster %s signs with %s", options.cluster, public_key(seed))

    async def main(stop: asyncio.Event) -> None:
        async with Client(access, qps=20.0, burst=50, in_flight=4, user_agent="cotenant-federate") as client:
            joiner = Joiner(options, client, seed, hub, np.random.default_rng())
            following = asyncio.create_task(_follow_bus(joiner, named))
            try:
                while not stop.is_set():
                    await joiner.step()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), options.period_s)
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            try:
                _log.info("%d weights given back", await joiner.give_back())
            except CotenantError as error:
                _log.warning("weights are not given back: %s; `cotenant federate leave` does it", error)

    run_until_signal(main)
    return 0


def leave(kubeconfig: Path | None, context: str) -> int:
    """Give back what a joiner that was killed left; how many. Raises `CotenantError`."""
    access = load_access(kubeconfig, context)

    async def given_back() -> int:
        async with Client(access, qps=20.0, burst=50, in_flight=4, user_agent="cotenant-federate") as client:
            return await _give_back(client)

    return asyncio.run(given_back())


async def _follow_bus(joiner: Joiner, options: BusOptions) -> None:
    """Connect, and connect anew where the address of an embedded hub's bus changed."""
    bus: NatsBus | None = None
    known: BusAccess | None = None
    try:
        while True:
            try:
                found = access_of(options)
                if found != known:
                    fresh = await connect(found, within_s=_ANSWER_S)
                    if bus is not None:
                        await bus.close()
                    bus, known, joiner.bus = fresh, found, fresh
            except (InvalidInput, Transient, Permanent) as error:
                _log.info("no bus: %s", error)
            await asyncio.sleep(1.0)
    finally:
        if bus is not None:
            await bus.close()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
