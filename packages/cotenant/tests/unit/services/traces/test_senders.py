"""Whose spans count: another tenant's neither burn nor dilute an objective, and without a proof of the sender's
namespace nothing is done for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import aiohttp
import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.servers.scripted_server import Reply, ScriptedServer
from tests.fakes.servers.spans import EPOCH_S, Given, batch_of

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.otlp.grpc_server import METHOD, OtlpGrpcServer
from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.bounded_table import BoundedTable
from cotenant.engine.traces.replicas import ObservedReplicas
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.replica_signal import MaxAction
from cotenant.model.traces.objective import Indicator, ServiceObjective
from cotenant.model.traces.spans import EVERYBODY, SpanKind, SpanSource
from cotenant.services.reporting.identity import TokenReviews
from cotenant.services.reporting.signals import SignalSubscription, SubscribedPod
from cotenant.services.traces.app import EXPORT, TracesApp
from cotenant.services.traces.metrics import TraceMetrics
from cotenant.services.traces.objective_board import ObjectiveBoard
from cotenant.services.traces.saved_counts import CountsFile
from cotenant.services.traces.senders import ACCOUNT, AUDIENCE, NamespaceTokens, Senders, namespace_of
from cotenant.services.traces.signal_streams import SignalStreams, replica_signal
from cotenant.services.traces.traces_arguments import TraceSettings, check

NOW_S = float(EPOCH_S + 10)
CART = ServiceObjective("shop/cart", "shop", "cart", threshold_us=80_000, max_action=MaxAction.EVICT)
OWN = SpanSource("cart", "shop", "cart-1", "u1", "n1", "shop", "shop")


def world(*, trusts_all: bool = False) -> TraceEngine:
    engine = TraceEngine(NOW_S, span_tags)
    engine.objectives.trusts_all = trusts_all
    engine.objectives.set(CART, NOW_S)
    return engine


def send(engine: TraceEngine, source: SpanSource, *ms: float) -> None:
    spans = [Given(n + 1, 0, "POST", SpanKind.SERVER, 0, value, "cart", trace=n + 1) for n, value in enumerate(ms)]
    batch = batch_of(*spans)
    columns = batch.columns._replace(source=np.zeros(len(batch), np.int32))
    engine.add(replace(batch, columns=columns, sources=(source,)), NOW_S)


def counted(engine: TraceEngine) -> tuple[int, int, bool]:
    tracked = engine.objectives.get(CART.key)
    assert tracked is not None
    sums = engine.objectives.counted(tracked, 3600, NOW_S)
    return sums.requests, sums.bad, engine.objectives.may_act(tracked)


def condition(engine: TraceEngine) -> tuple[str, str, str]:
    (view,) = ObjectiveBoard(engine.objectives, lambda: NOW_S).views()
    (found,) = [condition_row for condition_row in view.conditions if condition_row.type == "Authenticated"]
    return found.status, found.message, view.max_action


def test_spans_that_nobody_vouches_for_are_observed_only() -> None:
    engine = world()
    send(engine, replace(OWN, sender=""), 500, 1)
    assert counted(engine) == (2, 1, False)
    assert condition(engine) == (
        "False",
        "unauthenticated spans: observe only; no sender has proven to be of namespace shop",
        "observe",
    )
    tracked = engine.objectives.get(CART.key)
    assert tracked is not None
    signal = replica_signal(engine.objectives, tracked, replace(OWN, sender=""), NOW_S)
    assert signal is not None
    assert (signal.guard, signal.max_action) == (False, MaxAction.OBSERVE)


STRANGERS = st.builds(
    SpanSource,
    st.just("cart"),
    st.just("shop"),
    st.sampled_from(["cart-1", "other", ""]),
    st.sampled_from(["u1", "u2", ""]),
    st.sampled_from(["n1", ""]),
    st.sampled_from(["shop", "evil", ""]),
    st.sampled_from(["evil", "", "shopping"]),
)


@given(
    st.lists(st.tuples(STRANGERS, st.lists(st.sampled_from([1.0, 500.0]), min_size=1, max_size=5)), max_size=6),
    st.integers(0, 6),
)
def test_another_tenants_spans_neither_burn_nor_dilute(sent: list[tuple[SpanSource, list[float]]], at: int) -> None:
    engine = world()
    for number in range(max(len(sent), at) + 1):
        if number == at:
            send(engine, OWN, 500, 1, 1)
        if number < len(sent):
            send(engine, sent[number][0], *sent[number][1])
    assert counted(engine) == (3, 1, True)
    assert condition(engine)[::2] == ("True", "evict")
    assert {source.sender for _, source in engine.objectives.replicas.all()} == {"shop"}


def test_a_sender_speaks_for_its_own_namespaces_pods_and_a_collector_for_all() -> None:
    engine = world()
    send(engine, replace(OWN, pod_namespace="pay"), 500)
    assert counted(engine) == (1, 1, False)  # it is of shop, and says that the pod is not
    send(engine, replace(OWN, sender=EVERYBODY), 1)
    assert counted(engine) == (1, 0, True)
    streams = SignalStreams(engine.objectives, lambda: NOW_S)
    stream = streams._subscribe(
        SignalSubscription("n1", (SubscribedPod("pay/db-1", "u9"), SubscribedPod("shop/cart-1", "u1")))
    )
    assert stream.pod_of(OWN) == ("shop/cart-1", "u1")
    assert stream.pod_of(replace(OWN, pod_uid="u9")) is None  # another namespace's pod by its uid
    assert stream.pod_of(replace(OWN, pod_uid="u9", sender=EVERYBODY)) == ("pay/db-1", "u9")


def test_old_spans_of_strangers_neither_burn_nor_dilute_nor_take_a_share_of_a_batch() -> None:
    engine = world()
    tracked = engine.objectives.get(CART.key)
    assert tracked is not None
    tracked.since_s = NOW_S - 3600
    old = replace(OWN, sender=""), OWN, replace(OWN, sender="evil")
    for at_s in (NOW_S - 300, NOW_S):  # hours apart in one batch, and in the next
        spans = [
            Given(
                n + 1,
                0,
                "POST",
                SpanKind.SERVER,
                (at_s - EPOCH_S) * 1e3 - 500,
                (at_s - EPOCH_S) * 1e3,
                "cart",
                trace=int(at_s),
            )
            for n in range(30)
        ]
        batch = batch_of(*spans)
        columns = batch.columns._replace(source=np.arange(30, dtype=np.int32) % 3)
        engine.add(replace(batch, columns=columns, sources=old), NOW_S)
    assert counted(engine) == (20, 20, True)
    assert tracked.unproven == 40
    send(engine, replace(OWN, sender=""), 500)
    assert counted(engine) == (20, 20, True)


def test_a_strangers_copy_of_ids_is_no_repeat_of_the_owners_and_a_flood_of_them_forgets_none() -> None:
    engine = world()
    engine._seen_of_strangers._max_prints = 10
    send(engine, replace(OWN, sender=""), 500, 500)
    send(engine, replace(OWN, sender="evil"), 500, 500)
    send(engine, OWN, 1, 1)
    assert counted(engine) == (2, 0, True)
    for trace in range(100):
        copied = batch_of(*[Given(n, trace=trace + 10) for n in range(1, 6)])
        engine.add(replace(copied, sources=tuple(replace(source, sender="") for source in copied.sources)), NOW_S)
    send(engine, OWN, 1, 1)
    assert (counted(engine), engine.counts.repeated) == ((2, 0, True), 2)


def restarted(engine: TraceEngine, path: Path, *, senders_prove: bool) -> TraceEngine:
    CountsFile(path).save(engine.objectives, engine.seen.saved())
    after, saved = world(), CountsFile(path, senders_prove=senders_prove)
    after.seen.restore(saved.seen)
    for tracked in after.objectives:
        saved.restore(tracked)
    return after


def test_what_strangers_said_before_a_restart_does_not_come_back(tmp_path: Path) -> None:
    before = world()
    send(before, replace(OWN, sender=""), 500, 500)
    after = restarted(before, tmp_path / "state", senders_prove=True)
    assert counted(after) == (2, 2, False)
    send(after, OWN, 1)
    assert counted(after) == (1, 0, True)


@pytest.mark.parametrize("senders_prove", [True, False])
def test_a_restart_lets_no_stranger_count_where_senders_prove_who_they_are(tmp_path: Path, senders_prove: bool) -> None:
    before = world()
    send(before, OWN, 1)
    after = restarted(before, tmp_path / "state", senders_prove=senders_prove)
    assert counted(after) == (1, 0, senders_prove)
    send(after, replace(OWN, sender=""), 500, 500)
    assert counted(after) == ((1, 0, True) if senders_prove else (3, 2, False))  # nobody can prove: observed only


def test_a_changed_threshold_does_not_let_strangers_count() -> None:
    engine = world()
    send(engine, OWN, 1)
    engine.objectives.set(replace(CART, threshold_us=1), NOW_S)
    send(engine, replace(OWN, sender=""), 500)
    assert counted(engine) == (0, 0, True)


def test_tables_that_strangers_have_filled_leave_a_proven_replica_its_signal() -> None:
    engine = world()
    engine.objectives.set(replace(CART, key="open/cart", service_namespace="open"), NOW_S)
    engine.objectives.replicas = ObservedReplicas(40)
    engine._sources = BoundedTable(SpanSource(), 40)
    for pod in range(100):
        send(engine, SpanSource("cart", "open", f"p-{pod}", f"u-{pod}", "n1", f"made-up-{pod}"), 500)
    send(engine, OWN, 1)
    assert counted(engine) == (1, 0, True)
    tracked = engine.objectives.get(CART.key)
    assert tracked is not None
    assert replica_signal(engine.objectives, tracked, OWN, NOW_S) is not None
    assert engine._sources.number(OWN) > 0
    assert len(engine._sources) <= 32  # the reserve is free but for this one


def test_where_everybody_is_trusted_all_counts_and_nothing_is_said() -> None:
    engine = world(trusts_all=True)
    send(engine, replace(OWN, sender=""), 500)
    assert counted(engine) == (1, 1, True)
    (view,) = ObjectiveBoard(engine.objectives, lambda: NOW_S).views()
    assert "Authenticated" not in [condition.type for condition in view.conditions]


def test_reports_of_services_on_themselves_are_senders_too() -> None:
    engine = TraceEngine(NOW_S, span_tags)
    engine.objectives.trusts_all = False
    engine.objectives.set(replace(CART, indicator=Indicator.SELF_REPORTED), NOW_S)
    for sender, wanted in (("", (10, 5, False)), ("shop", (10, 5, True)), ("evil", (10, 5, True))):
        engine.objectives.reported("shop/cart", 10, 5, NOW_S, sender)
        assert counted(engine) == wanted


def write(folder: Path, **tokens: str) -> None:
    folder.mkdir(exist_ok=True)
    for name, token in tokens.items():
        (folder / name).write_text(token + "\n")


def review(username: str) -> Reply:
    status = {"authenticated": bool(username), "audiences": [AUDIENCE], "user": {"username": username}}
    return Reply(201, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status})


def test_tokens_of_senders_and_of_askers_are_apart(tmp_path: Path) -> None:
    write(tmp_path, ask="the-token-of-those-who-ask", send="the-token-that-senders-share")
    write(tmp_path / "by-namespace", shop="the-token-of-the-shop-00", pay="the-token-of-the-pay-000")
    ask, shared = (BearerToken(tmp_path / name, "token") for name in ("ask", "send"))
    senders = Senders(lambda: 0.0, ask)

    async def of(token: str) -> str | None:
        return await senders.of(f"Bearer {token}".encode())

    async def scenario() -> None:
        assert [await of("the-token-of-those-who-ask"), await of("x")] == ["", None]  # one token for both
        senders.shared, senders.by_namespace = shared, NamespaceTokens(tmp_path / "by-namespace")
        told = [
            await of(f"the-token-{name}")
            for name in ("of-those-who-ask", "that-senders-share", "of-the-shop-00", "of-the-pay-000")
        ]
        assert told == [None, "", "shop", "pay"]
        (tmp_path / "by-namespace" / "pay").write_text("another-token-of-pay")
        senders.now = lambda: 60.0
        assert [await of("the-token-of-the-pay-000"), await of("another-token-of-pay")] == [None, "pay"]
        collectors = frozenset({f"{ACCOUNT}telemetry:collector"})
        users = [f"{ACCOUNT}shop:cart", f"{ACCOUNT}telemetry:collector", f"{ACCOUNT}telemetry:other", "alice", ""]
        async with ScriptedServer({"POST": [review(name) for name in users]}) as api:
            access = Access(api.url, FixedCredential(Credential("")))
            async with Client(access, qps=1000, burst=1000, in_flight=4) as client:
                senders.reviews = TokenReviews(
                    client, AUDIENCE, lambda user: namespace_of(user.username, collectors), lambda: 0.0
                )
                found = [await of(f"reviewed-{number}") for number in range(len(users))]
        assert found == ["shop", EVERYBODY, "telemetry", None, None]

    asyncio.run(scenario())


def test_both_protocols_take_a_senders_token_and_questions_do_not(tmp_path: Path) -> None:
    write(tmp_path, ask="the-token-of-those-who-ask")
    write(tmp_path / "by-namespace", shop="the-token-of-the-shop-00")

    async def scenario() -> None:
        engine = world()
        app = TracesApp(engine, TraceMetrics(engine), lambda: NOW_S, BearerToken(tmp_path / "ask", "token"))
        app.senders.by_namespace = NamespaceTokens(tmp_path / "by-namespace")
        server = HttpServer(app, Address.parse("--http", "127.0.0.1:0"))
        rpc = OtlpGrpcServer(app.export, Address.parse("--grpc", "127.0.0.1:0"), door=app.exporting)
        await server.start()
        await rpc.start()
        try:
            async with aiohttp.ClientSession() as session, grpc.aio.insecure_channel(str(rpc.address)) as channel:
                for token, send, ask in (
                    ("the-token-of-the-shop-00", 200, 401),
                    ("the-token-of-those-who-ask", 401, 200),
                ):
                    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
                    async with session.post(server.url + EXPORT, data=b'{"resourceSpans": []}', headers=headers) as got:
                        assert got.status == send
                    async with session.get(server.url + "/api/v1/services", headers=headers) as got:
                        assert got.status == ask
                    call = channel.unary_unary(METHOD)(b"", metadata=(("authorization", headers["Authorization"]),))
                    assert (await call.code() is grpc.StatusCode.OK) is (send == 200)
        finally:
            await rpc.stop()
            await server.stop()

    asyncio.run(scenario())


def test_who_is_trusted_by_the_settings(tmp_path: Path) -> None:
    write(tmp_path, token="0123456789abcdef")
    write(tmp_path / "by-namespace", shop="the-token-of-the-shop-00")
    beyond = TraceSettings(http="0.0.0.0:0", grpc="", token_file=tmp_path / "token")
    cases = {
        TraceSettings(): True,  # of one machine
        TraceSettings(sender_tokens=tmp_path / "by-namespace"): False,
        beyond: False,
        replace(beyond, trust_senders=True): True,
        TraceSettings(http="127.0.0.1:0", grpc="0.0.0.0:0", insecure=True): False,
    }
    assert {trace_settings: check(trace_settings).trusts_senders for trace_settings in cases} == cases
    for wrong in (
        TraceSettings(review_senders=True),
        TraceSettings(collectors=("a/b",)),
        TraceSettings(cluster=True, review_senders=True, collectors=("nobody",)),
        TraceSettings(sender_tokens=tmp_path / "absent"),
    ):
        with pytest.raises(InvalidInput):
            check(wrong)
