"""A joiner's statement to the hub and its answer: believed only with the hub's signature, and to this statement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from cotenant.drivers.kube.client.errors import Conflict, NotFound, Unavailable
from cotenant.drivers.kube.kinds.custom.elastic_quota import ELASTIC_QUOTAS, X_ELASTIC_QUOTAS, ElasticQuota
from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.nats.keys import made_seed, public_key
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.engine.federation.hub import FederationWeights
from cotenant.engine.federation.joined import KeptWeight, WriteWeight
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import FEDERATION, SHARED_WEIGHT
from cotenant.policy.federation.statement import MAX_LASTS_MS, ClusterRoom, Statement, TenantSums
from cotenant.services.fleet.federation import joining
from cotenant.services.fleet.federation.envelopes import STATEMENT_SUBJECT, EnvelopeKind, is_by, opened, sealed
from cotenant.services.fleet.federation.joining import Joiner, JoinOptions, key_of, lasts_ms
from cotenant.services.fleet.federation.own_statement import ReadCluster
from cotenant.services.fleet.places import BusOptions

HUB, SEED = made_seed(), made_seed()
PERIOD_S = 600.0
FOUND = ReadCluster(
    ClusterRoom((8000, 1 << 34, 0), (0, 0, 0)),
    (TenantSums("a", (4000, 1 << 33, 0), (8000, 1 << 34, 0)), TenantSums("b", (10, 1, 0), (8000, 1 << 34, 0))),
    (),
)
Answer = Callable[[Statement], bytes]


def weights(to: Statement, **more: Any) -> FederationWeights:
    return msgspec.structs.replace(FederationWeights(to.cluster, to.epoch, 600_000, (("a", 2000),)), **more)


def by_hub(to: Statement) -> bytes:
    return sealed(EnvelopeKind.WEIGHTS, weights(to), HUB)


def stated(*answers: Answer | None) -> tuple[Joiner, list[bytes]]:
    """A joiner after as many periods; None: nobody answers."""
    joiner = Joiner(
        JoinOptions(BusOptions(), "east", period_s=PERIOD_S, epsilon=0.0),
        cast(Any, None), SEED, public_key(HUB), np.random.default_rng(1),
    )  # fmt: skip
    heard: list[bytes] = []

    async def play() -> None:
        for answer in answers:
            bus = MemoryBus()
            # one that is not answered is not waited for for long
            joiner._options = replace(joiner._options, period_s=PERIOD_S if answer is not None else 0.01)

            async def hub(message: BusMessage, answer: Answer | None = answer, bus: MemoryBus = bus) -> None:
                heard.append(message.data)
                if answer is not None:
                    statement = opened(EnvelopeKind.STATEMENT, message.data, Statement)
                    await bus.publish(message.reply, answer(statement))

            await bus.subscribe(STATEMENT_SUBJECT, hub)
            joiner.bus = bus
            await joiner._state(FOUND, (), ())
            await bus.close()

    asyncio.run(play())
    return joiner, heard


def in_force(joiner: Joiner) -> dict[str, int]:
    return dict(joiner.joined.in_force(joining._now_ms()))


def test_the_hubs_answer_to_this_statement_is_in_force() -> None:
    joiner, heard = stated(by_hub)
    assert in_force(joiner) == {"a": 2000}
    (message,) = heard
    assert is_by(EnvelopeKind.STATEMENT, message, public_key(SEED))
    said = opened(EnvelopeKind.STATEMENT, message, Statement)
    assert (said.cluster, [sums.tenant for sums in said.tenants]) == ("east", ["a", "b"])
    assert said.lasts_ms == lasts_ms(PERIOD_S)


def test_each_statement_is_a_later_one_of_the_same_session() -> None:
    _, heard = stated(by_hub, by_hub)
    first, second = (opened(EnvelopeKind.STATEMENT, message, Statement) for message in heard)
    assert second.epoch > first.epoch
    assert second.session == first.session


@pytest.mark.parametrize(
    "answer",
    [
        lambda to: sealed(EnvelopeKind.WEIGHTS, weights(to), SEED),  # signed by another
        lambda to: sealed(EnvelopeKind.VIEW, weights(to), HUB),  # signed as something else
        lambda to: sealed(EnvelopeKind.WEIGHTS, weights(to, epoch=to.epoch - 1), HUB),
        lambda to: sealed(EnvelopeKind.WEIGHTS, weights(to, cluster="west"), HUB),
        lambda to: sealed(EnvelopeKind.WEIGHTS, weights(to, refused="too many"), HUB),
        lambda to: sealed(EnvelopeKind.WEIGHTS, [1], HUB),
        lambda to: b"short",
        None,
    ],
)
def test_any_other_answer_changes_nothing(answer: Answer | None) -> None:
    assert in_force(stated(answer)[0]) == {}
    assert in_force(stated(by_hub, answer)[0]) == {"a": 2000}  # what was in force stays until its time


def test_without_a_bus_nothing_is_stated_and_nothing_fails() -> None:
    joiner = Joiner(JoinOptions(BusOptions(), "east"), cast(Any, None), SEED, "", np.random.default_rng(1))
    asyncio.run(joiner._state(FOUND, (), ()))
    assert in_force(joiner) == {}


@pytest.mark.parametrize(("period_s", "found"), [(30.0, 90_000), (1.0, 3000), (600.0, 1_800_000)])
def test_a_statement_outlasts_two_that_are_lost(period_s: float, found: int) -> None:
    assert lasts_ms(period_s) == min(found, MAX_LASTS_MS)


def test_a_cluster_keeps_its_key(tmp_path: Path) -> None:
    seed = key_of("east", tmp_path / "state")
    assert key_of("east", tmp_path / "state") == seed
    assert key_of("west", tmp_path / "state") != seed
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    with pytest.raises(InvalidInput, match="--cluster"):
        key_of("../east", tmp_path)


class Writes:
    """Of weights. `errors`: by name."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}
        self.written: dict[str, dict[str, Any]] = {}

    async def patch(self, kind: Any, namespace: str, name: str, body: Any, *, content_type: str) -> None:
        if name in self.errors:
            raise self.errors[name]
        self.written[name] = body["metadata"]


def write(name: str, weight: Any, before: str | None = "old", version: str = "7") -> WriteWeight:
    return WriteWeight(f"shop/{name}", f"uid-{name}", version, before, weight)


def test_a_weight_is_given_back_as_it_was_and_only_over_what_was_read() -> None:
    client = Writes()
    client.errors = {"changed": Conflict("changed"), "gone": NotFound("gone")}
    wanted = [write("changed", None), write("gone", None), write("back", None), write("never", None, None, "")]
    assert asyncio.run(joining._write(cast(Any, client), wanted)) == 2
    assert client.written["back"]["resourceVersion"] == "7"
    assert client.written["back"]["uid"] == "uid-back"
    assert set(client.written["back"]["annotations"].values()) == {"old", None}
    assert "resourceVersion" not in client.written["never"]
    assert set(client.written["never"]["annotations"].values()) == {None}
    client.errors = {"back": Unavailable("away")}
    with pytest.raises(Unavailable):
        asyncio.run(joining._write(cast(Any, client), wanted))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"period_s": 0.5}, "--period-s"),
        ({"period_s": 601.0}, "--period-s"),
        ({"epsilon": -1.0}, "--epsilon"),
        ({"epsilon": 1001.0}, "--epsilon"),
        ({"epsilon": 0.0004}, "--epsilon"),  # it would round to no noise
        ({"epsilon": float("nan")}, "--epsilon"),
        ({"price": 1e-7}, "--price"),
        ({"price": -1.0}, "--price"),
        ({"price": 1e6 + 1}, "--price"),
        ({"cluster": "a b"}, "--cluster"),
    ],
)
def test_options_have_bounds(fields: dict[str, Any], said: str, tmp_path: Path) -> None:
    options = replace(JoinOptions(BusOptions(state_dir=tmp_path), "east"), **fields)
    with pytest.raises(InvalidInput, match=said):
        joining.run(options)


@pytest.mark.parametrize(("asked", "stated_milli"), [(0.001, 1), (0.0015, 1), (0.0019, 1), (1.0, 1000), (0.007, 7)])
def test_an_epsilon_is_never_rounded_to_less_noise(asked: float, stated_milli: int) -> None:
    options = JoinOptions(BusOptions(), "east", epsilon=asked)
    joiner = Joiner(options, cast(Any, None), SEED, "", np.random.default_rng(1))
    assert joiner._epsilon_milli == stated_milli


def test_weights_are_given_back_after_their_time_also_where_the_pods_cannot_be_listed() -> None:
    class Api(Writes):
        async def all_of(self, kind: Any, **more: Any) -> list[Any]:
            if kind is X_ELASTIC_QUOTAS:
                raise NotFound("no such kind")
            if kind is not ELASTIC_QUOTAS:
                raise Unavailable("away")
            kept = msgspec.json.encode(KeptWeight(None, '{"cpu":"2"}')).decode()
            notes = {SHARED_WEIGHT: '{"cpu":"2"}', FEDERATION: kept}
            quota = {"metadata": {"name": "a", "namespace": "shop", "uid": "u", "annotations": notes}}
            return [msgspec.convert(quota | {"spec": {"max": {"cpu": "1"}}}, ElasticQuota)]

    api = Api()
    joiner = Joiner(JoinOptions(BusOptions(), "east"), cast(Any, api), SEED, "", np.random.default_rng(1))
    joiner.joined.answered(FederationWeights("east", 1, 10_000, (("a", 2000),)), 1, 1 << 60)
    asyncio.run(joiner.step())
    assert not api.written  # they are in force
    joiner.joined.answered(FederationWeights("east", 1), 1, 0)
    asyncio.run(joiner.step())
    assert api.written["a"]["annotations"] == {SHARED_WEIGHT: None, FEDERATION: None}
