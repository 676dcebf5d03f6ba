"""What the agent serves: health, metrics, what it sees, holds and decided, and why; and where services report their
latency.

    GET  /healthz, /readyz, /metrics
    GET  /v1/state                       the node as its policies saw it last
    GET  /v1/leases                      what the keeper holds now (503 while it is away); /v1/holds: what the engine
                                         believes and wants
    GET  /v1/decisions?since=N           the log, oldest first; `since` the last number seen
    GET  /v1/zones                       Control Zones that run here: last reading, both sides of their machines
    GET  /v1/explain?group=G | ?pod=P    the story of a group or a pod
    GET  /v1/explain?service=S           the incidents of a service on this node: cause, actions, proofs, recovery
    POST /v1/latency                     a service's latency report (latency.py)

An operator asks these while something is on fire, from a shell, and a monitor asks every few seconds. Plain ASGI in the
agent's own event loop, answers made from what the engine keeps; nothing here can change a knob.
Limits: no TLS and no authentication: it listens on loopback or on a unix socket of its own user, unless the
configuration says that the network is trusted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol
from urllib.parse import parse_qs

import msgspec

from cotenant.drivers.http.messages import (
    BodyRefused,
    Disconnected,
    HttpAnswer,
    Receive,
    Scope,
    Send,
    read_body,
    send_answer,
)
from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.resctrl.monitoring import CacheUse
from cotenant.engine.node.agent import Agent
from cotenant.engine.node.decision_log import GroupExplanation, HeldKnob, KnobDecision
from cotenant.engine.node.idle_cards import NO_GPUS
from cotenant.model.devices.gpu_use import IdleGpus
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.machine.counters import Gap, GpuCounters
from cotenant.model.machine.knob import KnobLease
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, ServiceHealth
from cotenant.model.machine.replica_signal import ReplicaSignal
from cotenant.model.machine.stalls import LongWait
from cotenant.services.reporting import latency
from cotenant.services.reporting.latency import LatencyOutcome
from cotenant.services.zones.agent_pods import ZonePodPage
from cotenant.services.zones.agent_zones import ZonesPage

MAX_DECISIONS = 500  # an answer


class Trouble(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request was refused."""

    error: str
    field: str = ""


class PodPage(msgspec.Struct, frozen=True):
    """One pod of `/v1/state`."""

    pod: str
    uid: str
    group: str
    qos: str
    tenant: str
    phase: str
    objective_p99_us: int | None
    use: GroupUse
    health: ServiceHealth | None
    signals: tuple[ReplicaSignal, ...] = ()
    labels: dict[str, str] = {}


class StatePage(msgspec.Struct, frozen=True):
    """`/v1/state`. Units are in the names; null = not known."""

    node: str
    mode: str
    at_us: int
    interval_us: int
    keeper_up: bool | None
    keeper_said: str
    host: HostUse
    best_effort_group: str | None
    best_effort: GroupUse | None
    pods: tuple[PodPage, ...]
    gpus: tuple[GpuCounters, ...]
    cache: tuple[CacheUse, ...]  # the classes of the last-level cache, the root's first
    gaps: tuple[Gap, ...]
    sources: dict[str, str]  # source of pods -> what is wrong with it, "" where nothing is
    cpu_ratio_milli: int = 1000  # the CPU normalization ratio that quotas are divided by, thousandths
    remark: str = ""  # conflicts that were found at the start
    kubelet: str = ""  # who gives CPUs on this node
    failing: tuple[str, ...] = ()  # policies that failed when they last ran, and how
    runtime_hook_state: str = ""  # the file in which the node's runtime hook says how it is, by the agent's settings
    idle_gpus: IdleGpus = NO_GPUS  # of the GPUs that somebody holds those that nobody uses
    gpu_shares: str = ""  # what holds shares of the node's GPUs, or why nothing does; "" where nothing is to
    zone_pods: tuple[ZonePodPage, ...] = ()  # of zones in this node's virtual machines
    holdings: str = ""  # how far pods' holdings are believed, where that is not by the scheduler's seal


class LeasesPage(msgspec.Struct, frozen=True):
    """`/v1/leases`."""

    leases: tuple[KnobLease, ...]


class HoldsPage(msgspec.Struct, frozen=True):
    """`/v1/holds`."""

    holds: tuple[HeldKnob, ...]


class DecisionsPage(msgspec.Struct, frozen=True):
    """`/v1/decisions`. Ask again with `since` = `last`."""

    decisions: tuple[KnobDecision, ...]
    last: int
    more: bool


class LongWaitPage(msgspec.Struct, frozen=True):
    """A wait with its kind in words."""

    kind: str
    wait: LongWait


class LongWaitsPage(msgspec.Struct, frozen=True):
    """`/v1/long-waits`, oldest first."""

    long_waits: tuple[LongWaitPage, ...]


class AskedAgent(Protocol):
    """The process, as far as it is asked."""

    agent: Agent
    latency_counts: dict[LatencyOutcome, int]

    def unhealthy(self) -> str:
        """What is wrong with the process, empty if nothing is."""
        ...

    def unready(self) -> str:
        """Why it does not do its work, empty if it does."""
        ...

    def remark(self) -> str:
        """What a person should know who asks whether it is ready, empty if nothing."""
        ...

    def state_page(self, state: NodeState) -> StatePage:
        """The answer to `/v1/state`."""
        ...

    def long_waits(self, group: str | None) -> list[LongWait] | None:
        """Those kept, of one group or of all; None where none are kept."""
        ...

    async def leases(self) -> tuple[KnobLease, ...]:
        """What the keeper holds. Raises `CotenantError` or `OSError` where it cannot be asked."""
        ...

    def latency_reported(self, report: latency.LatencyReport) -> bool:
        """Take a service's report; False where the workload is unknown. Raises `InvalidInput`."""
        ...


class AgentPages:
    """The ASGI application."""

    def __init__(self, asked: AskedAgent, metrics: Callable[[], bytes], zones: Callable[[], ZonesPage]) -> None:
        self._asked, self._zones = asked, zones
        self._health = HealthPages(metrics, asked.unhealthy, lambda: asked.unhealthy() or asked.unready(), asked.remark)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path, method = scope["path"], scope["method"]
        if path == "/v1/latency":
            await self._take_latency(scope, receive, send)
        elif (health := self._health.answer(method, path)) is not None:
            await send_answer(send, health)
        elif method not in ("GET", "HEAD"):
            await send_answer(send, _trouble(405, "only GET", more=((b"allow", b"GET, HEAD"),)))
        else:
            try:
                answer = await self._answer(path, scope.get("query_string", b""))
            except InvalidInput as error:
                answer = _trouble(400, str(error), error.field)
            await send_answer(send, answer)

    async def _answer(self, path: str, query: bytes) -> HttpAnswer:
        agent = self._asked.agent
        if path == "/v1/state":
            state = agent.state()
            return (
                _trouble(503, "nothing has been measured yet")
                if state is None
                else _page(self._asked.state_page(state))
            )
        if path == "/v1/leases":
            try:
                return _page(LeasesPage(await self._asked.leases()))
            except (CotenantError, OSError) as error:
                return _trouble(503, f"the keeper cannot be asked: {error}")
        if path == "/v1/zones":
            return _page(await asyncio.to_thread(self._zones))
        if path == "/v1/holds":
            return _page(HoldsPage(agent.held_knobs()))
        if path == "/v1/decisions":
            return _page(_decisions(agent, _one(query, "since", "0")))
        if path == "/v1/explain":
            return _explained(agent, query)
        if path == "/v1/long-waits":
            return self._long_waits(_one(query, "group", ""))
        return _trouble(404, "not found")

    def _long_waits(self, group: str) -> HttpAnswer:
        waits = self._asked.long_waits(group.strip("/") or None)
        if waits is None:
            return _trouble(404, "long waits are kept with probe: {stalls: true} and an eBPF probe that loads")
        return _page(LongWaitsPage(tuple(LongWaitPage(wait.kind.name.lower(), wait) for wait in waits)))

    async def _take_latency(self, scope: Scope, receive: Receive, send: Send) -> None:
        counts = self._asked.latency_counts
        try:
            outcome, answer = await self._latency(scope, receive)
        except BodyRefused as refused:
            outcome, answer = LatencyOutcome.REFUSED, refused.answer
        except Disconnected:
            counts[LatencyOutcome.REFUSED] += 1
            return
        counts[outcome] += 1
        await send_answer(send, answer)

    async def _latency(self, scope: Scope, receive: Receive) -> tuple[LatencyOutcome, HttpAnswer]:
        if scope["method"] != "POST":
            return LatencyOutcome.REFUSED, _trouble(405, "only POST", more=((b"allow", b"POST"),))
        body = await read_body(scope, receive, latency.MAX_BYTES)
        try:
            report = latency.read(body)
            known = self._asked.latency_reported(report)
        except InvalidInput as error:
            status, field = (400, "") if error.field == latency.WHOLE else (422, error.field)
            return LatencyOutcome.INVALID, _trouble(status, str(error), field)
        if not known:
            return LatencyOutcome.UNKNOWN, _trouble(404, f"unknown workload {report.workload[:200]}", "workload")
        return LatencyOutcome.TAKEN, HttpAnswer(204)


def _decisions(agent: Agent, since: str) -> DecisionsPage:
    if not since.isdecimal() or len(since) > 18:
        raise InvalidInput("since", since, "the number of the last decision seen")
    found = agent.decisions(int(since))
    shown = found[:MAX_DECISIONS]
    return DecisionsPage(shown, shown[-1].number if shown else int(since), len(found) > len(shown))


def _explained(agent: Agent, query: bytes) -> HttpAnswer:
    if service := _one(query, "service", ""):
        found = agent.service_story(service)
        return _trouble(404, f"unknown service {service[:200]}", "service") if found is None else _page(found)
    group, pod = _one(query, "group", ""), _one(query, "pod", "")
    if bool(group) == bool(pod):
        raise InvalidInput("group, pod", "both" if group else "neither", "one of them")
    story: GroupExplanation | None = agent.explain(group.strip("/") if group else pod)
    if story is None:
        return _trouble(
            404, f"unknown {'group' if group else 'pod'} {(group or pod)[:200]}", "group" if group else "pod"
        )
    return _page(story)


def _one(query: bytes, name: str, default: str) -> str:
    try:
        values: dict[str, list[str]] = parse_qs(
            query.decode(), keep_blank_values=True, max_num_fields=8, errors="strict"
        )
    except ValueError as error:
        raise InvalidInput("query", str(error), "name=value pairs") from None
    given = values.get(name, [default])
    if len(given) != 1:
        raise InvalidInput(name, f"{len(given)} values", "one")
    return given[0]


def _page(value: object) -> HttpAnswer:
    return HttpAnswer(200, msgspec.json.encode(value))


def _trouble(status: int, error: str, field: str = "", more: tuple[tuple[bytes, bytes], ...] = ()) -> HttpAnswer:
    return HttpAnswer(status, msgspec.json.encode(Trouble(" ".join(error.split()), field)) + b"\n", more=more)
