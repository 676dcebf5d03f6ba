"""What the agent of one node does: knobs with their leases, pressure, run delay.

    /api/agent/NODE

Why a value is set, who set it and until when are in three answers of the agent: the keeper's leases, what the engine
holds and wants, and the state of the node. They are joined by knob here, and times of the node's monotonic clock, which
leases and state share, become Unix times.
Limits: a lease of which the engine no longer knows has a rule and no policy; the time of the state is that of its last
sample.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.services.console.agents import Agents, read_answer
from cotenant.services.console.sources import AGENT
from cotenant.services.console.upstream import Unanswered

MAX_PODS = 300


class _Target(msgspec.Struct, frozen=True):
    group: str = ""
    knob: str = ""


class _Reason(msgspec.Struct, frozen=True):
    rule: str = ""
    text: str = ""


class _Lease(msgspec.Struct, frozen=True):
    target: _Target = _Target()
    value: str = ""
    reason: _Reason = _Reason()
    state: str = ""
    taken_at_s: float = 0.0
    expires_at_us: int = 0
    detail: str = ""
    before: str = ""
    raw_before: str = ""
    stands: str | None = None


class _Leases(msgspec.Struct, frozen=True):
    leases: tuple[_Lease, ...] = ()


class _Hold(msgspec.Struct, frozen=True):
    target: _Target = _Target()
    value: str = ""
    state: str = ""
    policy: str = ""
    reason: _Reason = _Reason()
    since_us: int = 0
    lost: tuple[tuple[str, str], ...] = ()
    lifts: str = ""
    detail: str = ""


class _Holds(msgspec.Struct, frozen=True):
    holds: tuple[_Hold, ...] = ()


class GroupUseView(msgspec.Struct, frozen=True):
    """Use and waiting of a cgroup; shares in millionths, None = not known."""

    group: str = ""
    cpu_m: int | None = None
    throttled_ppm: int | None = None
    run_delay_ppm: int | None = None
    cpu_stall_ppm: int | None = None
    memory_stall_ppm: int | None = None
    io_stall_ppm: int | None = None
    memory_bytes: int | None = None


class _Host(msgspec.Struct, frozen=True):
    cpus: int = 0
    cpu_m: int | None = None
    memory_total_bytes: int = 0
    memory_used_bytes: int = 0
    cpu_stall_ppm: int | None = None
    memory_stall_ppm: int | None = None
    memory_full_stall_ppm: int | None = None
    io_stall_ppm: int | None = None
    steal_ppm: int | None = None


class _Health(msgspec.Struct, frozen=True):
    p99_us: int = 0


class _Pod(msgspec.Struct, frozen=True):
    pod: str = ""
    group: str = ""
    qos: str = ""
    objective_p99_us: int | None = None
    use: GroupUseView = GroupUseView()
    health: _Health | None = None


class _Gap(msgspec.Struct, frozen=True):
    what: str = ""
    needs: str = ""


class IdleGpusView(msgspec.Struct, frozen=True):
    """Of the GPUs that somebody holds those that nobody uses."""

    allocated: int = 0
    idle: int = 0
    unknown: int = 0  # the driver does not say
    idle_memory_bytes: int = 0
    idle_holders: tuple[str, ...] = ()


class _State(msgspec.Struct, frozen=True):
    node: str = ""
    mode: str = ""
    at_us: int = 0
    keeper_up: bool | None = None
    keeper_said: str = ""
    host: _Host = _Host()
    best_effort_group: str | None = None
    best_effort: GroupUseView | None = None
    pods: tuple[_Pod, ...] = ()
    idle_gpus: IdleGpusView = IdleGpusView()
    gaps: tuple[_Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class KnobView:
    """One knob that is held, wanted or refused. `taken`, `until`: Unix times of its lease; None = no lease."""

    group: str
    knob: str
    pod: str  # namespace/name of the pod whose group it is, or that the group is a part of
    value: str
    before: str
    stands: str | None  # as read back
    state: str
    policy: str
    rule: str
    why: str
    lifts: str  # when it is given back
    taken: float | None
    until: float | None
    detail: str
    lost: tuple[tuple[str, str], ...]  # other policies and what they wanted


@dataclass(frozen=True, slots=True)
class PodWaiting:
    """A pod's use and waiting, and its latency against its objective in milliseconds."""

    pod: str
    qos: str
    use: GroupUseView
    latency_ms: float | None
    objective_ms: float | None


@dataclass(frozen=True, slots=True)
class AgentView:
    """The answer."""

    node: str
    mode: str
    keeper_up: bool | None
    keeper_said: str
    leases_error: str  # why the keeper's leases are not known
    host: _Host
    best_effort: GroupUseView | None
    idle_gpus: IdleGpusView
    knobs: tuple[KnobView, ...]
    pods: tuple[PodWaiting, ...]  # the longest run delay first
    gaps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoAgent:
    """Why there is no answer: a cluster without reachable agents is no error of the page."""

    problem: str


class NodeAgents:
    """Answers for one node. `now` gives Unix seconds."""

    def __init__(self, agents: Agents, now: Callable[[], float]) -> None:
        self._agents, self._now = agents, now

    async def answer(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """The answer to `/api/agent/NODE`. Raises `NotFound`."""
        if len(names) != 1:
            raise NotFound("there is no such page")
        try:
            return await self.view(names[0])
        except Unanswered as error:
            return NoAgent(error.why)

    async def view(self, node: str) -> AgentView:
        """What the node's agent says. Raises `Unanswered`."""
        state = read_answer(await self._agents.get(node, "/v1/state"), _State)
        if state.node != node:
            raise Unanswered(AGENT, f"the agent that answers is that of node {state.node}", 404)
        leases, holds = await asyncio.gather(self._leases(node), self._agents.get(node, "/v1/holds"))
        now_s = self._now()
        pods = sorted(state.pods, key=lambda pod: (-(pod.use.run_delay_ppm or 0), pod.pod))
        return AgentView(
            node=node,
            mode=state.mode,
            keeper_up=state.keeper_up,
            keeper_said=state.keeper_said,
            leases_error=leases if isinstance(leases, str) else "",
            host=state.host,
            best_effort=state.best_effort,
            idle_gpus=state.idle_gpus,
            knobs=_knobs(
                state, () if isinstance(leases, str) else leases.leases, read_answer(holds, _Holds).holds, now_s
            ),
            pods=tuple(_pod(pod) for pod in pods[:MAX_PODS]),
            gaps=tuple(f"{gap.what}: {gap.needs}" if gap.needs else gap.what for gap in state.gaps),
        )  # fmt: skip

    async def _leases(self, node: str) -> _Leases | str:
        """The leases, or why they are not known: an agent without its keeper answers everything else."""
        try:
            return read_answer(await self._agents.get(node, "/v1/leases"), _Leases)
        except Unanswered as error:
            return error.why


def _pod(pod: _Pod) -> PodWaiting:
    return PodWaiting(
        pod=pod.pod,
        qos=pod.qos,
        use=pod.use,
        latency_ms=None if pod.health is None else pod.health.p99_us / 1000,
        objective_ms=None if pod.objective_p99_us is None else pod.objective_p99_us / 1000,
    )


def _knobs(state: _State, leases: Sequence[_Lease], holds: Sequence[_Hold], now_s: float) -> tuple[KnobView, ...]:
    """Leases joined with what the engine says of the same knob, by group and knob."""
    by_target = {(entry.target.group, entry.target.knob): entry for entry in holds}
    groups = sorted(((pod.group, pod.pod) for pod in state.pods if pod.group), key=lambda pair: -len(pair[0]))

    def pod_of(group: str) -> str:
        return next((pod for of, pod in groups if group == of or group.startswith(of + "/")), "")

    found = []
    for lease in leases:
        hold = by_target.pop((lease.target.group, lease.target.knob), _Hold())
        found.append(
            KnobView(
                group=lease.target.group,
                knob=lease.target.knob,
                pod=pod_of(lease.target.group),
                value=lease.value,
                before=lease.before or lease.raw_before,
                stands=lease.stands,
                state=lease.state,
                policy=hold.policy,
                rule=lease.reason.rule,
                # the engine's is newer: a lease keeps that of its last change
                why=hold.reason.text or lease.reason.text,
                lifts=hold.lifts,
                taken=lease.taken_at_s or None,
                until=now_s + (lease.expires_at_us - state.at_us) / 1e6 if lease.expires_at_us else None,
                detail=lease.detail or hold.detail,
                lost=hold.lost,
            )
        )  # fmt: skip
    found += [
        KnobView(
            group=hold.target.group,
            knob=hold.target.knob,
            pod=pod_of(hold.target.group),
            value=hold.value,
            before="",
            stands=None,
            state=hold.state,
            policy=hold.policy,
            rule=hold.reason.rule,
            why=hold.reason.text,
            lifts=hold.lifts,
            taken=None,
            until=None,
            detail=hold.detail,
            lost=hold.lost,
        )
        for hold in by_target.values()
    ]
    return tuple(sorted(found, key=lambda knob_view: (knob_view.group, knob_view.knob)))
