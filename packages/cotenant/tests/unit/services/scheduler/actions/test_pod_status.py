"""What a pod's owner reads while decisions about it are carried out: nothing that is no longer true."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.fakes.virtual_time import run_virtually

from cotenant.engine.framework.instructions import Bind, ClaimChoice, ClearNomination, Unschedulable
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.model.claims.needs import ClaimHolding
from cotenant.model.cluster.demands import Holdings
from cotenant.model.cluster.observed import ClaimBinding
from cotenant.model.decisions.record import DecisionRecord
from cotenant.model.errors import Transient
from cotenant.services.kube_process.statuses import StatusWriter
from cotenant.services.scheduler.actions.binding import TOLD_AFTER_S, Binder
from cotenant.services.scheduler.actions.pod_status import PodStatuses, writers

RECORD = DecisionRecord(pod="shop/web", at_s=0.0, nodes=4, node=None, policy="p")
WAITS = Unschedulable("uid-web", "shop/web", "Unschedulable", "0/4 nodes are available.", RECORD)
CLAIMS = (ClaimChoice("shop/data", ClaimBinding.PROVISIONED),)
BIND = Bind("uid-web", "shop/web", "a", RECORD, CLAIMS, number=1)


class Server:
    """Keeps what is written about the pod, each after `takes_s`."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.takes_s = takes_s
        self.nominated: list[str | None] = []
        self.told: list[tuple[str, str]] = []
        self.requests: list[str] = []

    async def patch_status(self, kind: Any, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        await asyncio.sleep(self.takes_s)
        self.requests.append("status")
        assert (namespace, name, body["metadata"]) == ("shop", "web", {"uid": "uid-web"})
        status = body["status"]
        if "nominatedNodeName" in status:
            self.nominated.append(status["nominatedNodeName"])
        self.told += [(entry["reason"], entry["message"]) for entry in status.get("conditions", ())]

    async def bind(self, namespace: str, name: str, uid: str, node: str, *rest: Any, **more: Any) -> None:
        self.requests.append("bind")


class Events:
    def record(self, *told: str) -> None:
        pass


class Process:
    """The parts that write, and the state of the pod in the engine."""

    def __init__(self, takes_s: float = 0.0, per_s: float = 1000.0) -> None:
        self.server, self.state = Server(takes_s), SchedulingState.QUEUED
        self.writer = StatusWriter(
            self.server,  # type: ignore[arg-type]
            writers(lambda uid: self.state),
            per_s=per_s,
            monotonic=lambda: asyncio.get_running_loop().time(),
        )
        self.statuses = PodStatuses(self.writer, Events())  # type: ignore[arg-type]

    async def written(self) -> list[tuple[str, str]]:
        running = asyncio.create_task(self.writer.run())
        await asyncio.sleep(60.0)
        running.cancel()
        return self.server.told


@pytest.mark.parametrize("state", SchedulingState)
def test_why_a_pod_waits_is_not_written_once_it_has_a_node_or_is_gone(state: SchedulingState) -> None:
    async def scenario() -> list[tuple[str, str]]:
        process = Process()
        process.statuses.unschedulable(WAITS)
        process.state = state
        return await process.written()

    over = {SchedulingState.ASSUMED, SchedulingState.BINDING, SchedulingState.BOUND, SchedulingState.GONE}
    assert run_virtually(scenario()) == ([] if state in over else [("Unschedulable", WAITS.message)])


def test_a_pod_that_is_to_be_bound_is_told_nothing_of_before() -> None:
    async def scenario() -> Process:
        process = Process()
        process.statuses.unschedulable(WAITS)
        process.statuses.nomination_cleared(ClearNomination("uid-web", "shop/web"))
        process.state = SchedulingState.ASSUMED
        await process.written()
        return process

    assert run_virtually(scenario()).server.requests == []


def test_a_nomination_is_not_cleared_by_what_was_said_of_an_earlier_one() -> None:
    async def scenario() -> Process:
        process = Process()
        process.statuses.unschedulable(WAITS)  # its place in the row is before the other
        process.statuses.nomination_cleared(ClearNomination("uid-web", "shop/web"))
        process.statuses.unschedulable(Unschedulable(WAITS.uid, WAITS.key, "Unschedulable", "it waits", RECORD, "b"))
        await process.written()
        return process

    assert run_virtually(scenario()).server.nominated == ["b"]


class Outcomes:
    def __init__(self, process: Process) -> None:
        self.process = process

    def sending(self, uid: str, now_s: float, number: int) -> bool:
        self.process.state = SchedulingState.BINDING
        return True

    def bound(self, uid: str, now_s: float, number: int) -> None:
        self.process.state = SchedulingState.BOUND

    def bind_failed(self, uid: str, why: str, now_s: float, retry: bool = True, number: int = 0) -> None:
        self.process.state = SchedulingState.HELD


class Claims:
    """Bound after `takes_s`, or never."""

    def __init__(self, takes_s: float, error: Exception | None = None) -> None:
        self.takes_s, self.error = takes_s, error

    async def bind_claims(self, bind: Bind, within_s: float) -> None:
        await asyncio.sleep(self.takes_s)
        if self.error is not None:
            raise self.error


class Metrics:
    def __getattr__(self, name: str) -> Any:
        return self

    def labels(self, *names: str) -> Any:
        return self

    def inc(self) -> None:
        pass

    def observe(self, value: float) -> None:
        pass


async def bound(process: Process, bind: Bind, claims: Claims | None = None) -> None:
    """Carry out the bind while conditions are written."""
    binder = Binder(
        process.server,  # type: ignore[arg-type]
        Outcomes(process),  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        claims,  # type: ignore[arg-type]
        process.statuses,
        Metrics(),  # type: ignore[arg-type]
        lambda: 0.0,
        in_flight=1,
        may_bind=lambda: True,
        changed=lambda: None,
    )
    tasks = [asyncio.create_task(work) for work in (process.writer.run(), binder.run())]
    await asyncio.sleep(0.1)
    process.state = SchedulingState.ASSUMED
    binder.add(bind)
    await asyncio.sleep(1000.0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_a_bind_is_sent_after_a_condition_that_is_being_written() -> None:
    async def scenario() -> Process:
        process = Process(takes_s=5.0)
        process.statuses.unschedulable(WAITS)
        await bound(process, Bind("uid-web", "shop/web", "a", RECORD, number=1))
        return process

    assert run_virtually(scenario()).server.requests == ["status", "bind"]


@pytest.mark.parametrize(("takes_s", "is_told"), [(TOLD_AFTER_S / 2, False), (60.0, True)])
def test_a_pod_whose_claims_take_long_is_told_that_it_has_a_node(takes_s: float, is_told: bool) -> None:
    async def scenario() -> list[tuple[str, str]]:
        process = Process()
        await bound(process, BIND, Claims(takes_s))
        assert process.server.requests[-1] == "bind"
        return process.server.told

    message = "It was given a; its bind waits for PersistentVolumeClaim shop/data."
    assert run_virtually(scenario()) == ([("AwaitsAdmission", message)] if is_told else [])


def test_device_claims_are_named_too() -> None:
    async def scenario() -> list[tuple[str, str]]:
        process = Process()
        process.state = SchedulingState.BINDING
        holds = Holdings(claims=(ClaimHolding("shop/gpu", "uid-gpu"), ClaimHolding("", "")))
        process.statuses.awaits_claims(Bind("uid-web", "shop/web", "a", RECORD, CLAIMS, holds=holds))
        return await process.written()

    names = "PersistentVolumeClaim shop/data, ResourceClaim shop/gpu, ResourceClaim of its extended resources"
    assert run_virtually(scenario()) == [("AwaitsAdmission", f"It was given a; its bind waits for {names}.")]


def test_a_bind_that_failed_is_what_the_pod_is_told() -> None:
    async def scenario() -> list[tuple[str, str]]:
        process = Process()
        await bound(process, BIND, Claims(60.0, Transient("it was not bound within 60 s")))
        return process.server.told

    assert run_virtually(scenario())[-1] == (
        "SchedulerError",
        "binding to a: volumes: it was not bound within 60 s",
    )
