"""What borrowers may have of a card beside model servers that say how they serve, and which of them are suspended.

A server that always answers keeps kernels on its card at any load, so its share of time says nothing of what it leaves;
its latencies do. Where every holder of a card has an objective, the borrowers together have `beside_percent` of its
multiprocessors at most, and less where the guard allows less: the one that holds best-effort CPU, with the card in
place of the node (policy/nodeqos/guard). MPS changes nothing for a client that runs, so who borrows has the same limit
for all its life, and the part is kept by whom: the oldest whose limits fit run, the others are suspended, keep their
memory, and leave after `patience_s`.

The guard looks at the present of one replica, and lets each come as near to its objective as that allows; with what
bursts and starts of replicas miss anyway, that adds up to more than the budget on some days. So what a service's
replicas missed on this node over `spent_s` counts as well: from `spent_percent` of its error budget on nobody runs
beside it.
Limits: what a suspended program launched before still runs; requests of replicas on other nodes are not counted; of
several objectives of one replica the one that burns most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cotenant.engine.node.gpu_lending.cards import SECOND_US, WHOLE, CardBorrower, HeldCard
from cotenant.engine.node.gpu_lending.settings import GpuLendingSettings
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.devices.shares import lent_threads_percent
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import PPM, GroupUse, HostUse, NodeState, PodUse, ServiceHealth
from cotenant.policy.nodeqos.guard.policy import GuardMemory, judge

_PERCENT = 100
_REQUESTS = 5000.0  # that a service is taken to have answered well before any was seen
_RESUMES = 10  # percent of the budget below which it has to fall again
_SETTLES_US = 5 * SECOND_US  # in which a suspension is seen in the group


@dataclass(frozen=True, slots=True)
class SpentBudget:
    """Requests of one service on this node and how many missed, the recent ones counting more."""

    requests: float = 0.0
    missed: float = 0.0
    percent: int = 0  # of the misses that its budget allows for as many requests
    is_spent: bool = False

    def after(self, reports: Sequence[ServiceHealth], interval_us: int, settings: GpuLendingSettings) -> SpentBudget:
        """With what its replicas report, of each window the part that is new."""
        fade = 0.5 ** (interval_us / (settings.spent_s * SECOND_US))
        parts = [(min(1.0, interval_us / max(1, health.window_us)), health) for health in reports]
        requests = self.requests * fade + sum(part * health.requests for part, health in parts)
        missed = self.missed * fade + sum(part * health.over_objective for part, health in parts)
        budgets = [health.budget_ppm for health in reports if health.budget_ppm is not None]
        budget_ppm = min(budgets, default=settings.guard.budget_ppm)
        percent = round(_PERCENT * PPM * missed / ((requests + _REQUESTS) * budget_ppm))
        stops = settings.spent_percent - (_RESUMES if self.is_spent else 0)
        return SpentBudget(requests, missed, percent, percent >= stops)


@dataclass(frozen=True, slots=True)
class BesideMemory:
    """State between calls: guards by card, budgets by service, and since when each borrower is suspended."""

    guards: Mapping[str, GuardMemory] = field(default_factory=dict)
    budgets: Mapping[str, SpentBudget] = field(default_factory=dict)
    suspended_us: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BesideVerdict:
    """Of one card, thousandths of its multiprocessors. `overdue`: who is to leave, and why."""

    part: int  # that borrowers may have now
    cause: str
    spent_percent: int
    has_room: bool  # whether one more fits
    suspended: tuple[CardBorrower, ...] = ()
    overdue: Mapping[str, str] = field(default_factory=dict)


def judge_beside(
    state: NodeState,
    cards: Sequence[HeldCard],
    known_us: Mapping[str, int],
    settings: GpuLendingSettings,
    memory: BesideMemory,
) -> tuple[Mapping[str, BesideVerdict], BesideMemory]:
    """By card, of those whose holders all say how they serve; none while that is off. `known_us`: since when each pod
    is known.
    """
    if not settings.beside_percent:
        return {}, BesideMemory()
    entries = {entry.pod.uid: entry for entry in state.pods}
    serving = {card.gpu.uuid: servers for card in cards if (servers := _servers(card, entries))}
    budgets = _budgets(serving.values(), state.interval_us, settings, memory.budgets)
    guards: dict[str, GuardMemory] = {}
    verdicts: dict[str, BesideVerdict] = {}
    since_us: dict[str, int] = {}
    for card in cards:
        uuid = card.gpu.uuid
        if uuid not in serving:
            continue
        servers = serving[uuid]
        node, before = _as_node(state, card, servers), memory.guards.get(uuid, GuardMemory())
        ceiling, guards[uuid] = judge(node, settings.guard, before)
        part, cause = min(settings.beside_percent * WHOLE // _PERCENT, ceiling.cpu_m), ceiling.cause
        spent = max((budgets[_service(entry)] for entry in servers), key=lambda budget: budget.percent)
        silent = [entry.pod.key for entry in servers if _is_silent(entry, known_us, settings, state.at_us)]
        if silent:
            part, cause = 0, f"nothing is heard of how {silent[0]} serves"
        elif any(budgets[_service(entry)].is_spent for entry in servers):
            part, cause = 0, f"{spent.percent} % of its error budget is spent"
        suspended, overdue, has_room = _fitted(state, card, part, known_us, settings, memory.suspended_us, since_us)
        verdicts[uuid] = BesideVerdict(part, cause, spent.percent, has_room, suspended, overdue)
    return verdicts, BesideMemory(guards, budgets, since_us)


def held_by(card: HeldCard, verdict: BesideVerdict | None, settings: GpuLendingSettings) -> HeldCard:
    """The card with that part: what its holders' kernels take counts no more."""
    if verdict is None:
        return card
    holders = tuple(replace(holder, sm=None if holder.sm is None else 0) for holder in card.holders)
    more = settings.beside_percent * WHOLE // _PERCENT if verdict.has_room else 0
    return replace(card, holders=holders, most=card.taken + more)


def _servers(card: HeldCard, entries: Mapping[str, PodUse]) -> tuple[PodUse, ...]:
    """The holders, where each has an objective for its latency; else none."""
    found = [entries.get(holder.uid) for holder in card.holders]
    serving = [entry for entry in found if entry is not None and entry.pod.objective_p99_us is not None]
    return tuple(serving) if len(serving) == len(found) else ()


def _service(entry: PodUse) -> str:
    named = entry.health.objective if entry.health is not None else ""
    return named or entry.pod.workload or entry.pod.key


def _is_fresh(health: ServiceHealth | None, settings: GpuLendingSettings) -> bool:
    return health is not None and health.age_us <= settings.guard.health_age_us


def _is_silent(entry: PodUse, known_us: Mapping[str, int], settings: GpuLendingSettings, now_us: int) -> bool:
    """Silence of who had time to start is no calm."""
    since_us = known_us.get(entry.pod.uid, now_us)
    return not _is_fresh(entry.health, settings) and now_us - since_us >= settings.starting_s * SECOND_US


def _budgets(
    serving: Iterable[tuple[PodUse, ...]],
    interval_us: int,
    settings: GpuLendingSettings,
    before: Mapping[str, SpentBudget],
) -> dict[str, SpentBudget]:
    """Of each service that is here, or was a while ago."""
    entries = {entry.pod.uid: entry for servers in serving for entry in servers}
    reports: dict[str, list[ServiceHealth]] = {name: [] for name in before}
    for entry in entries.values():
        known = reports.setdefault(_service(entry), [])
        if entry.health is not None and _is_fresh(entry.health, settings):
            known.append(entry.health)
    after = {
        name: before.get(name, SpentBudget()).after(found, interval_us, settings) for name, found in reports.items()
    }
    here = {_service(entry) for entry in entries.values()}
    return {name: spent for name, spent in after.items() if name in here or spent.requests >= 1.0}


def _as_node(state: NodeState, card: HeldCard, servers: Sequence[PodUse]) -> NodeState:
    """The card as a node that the guard judges: its thousandths are milli-CPU, latencies the only signal."""
    own = {borrower.pod.uid for borrower in card.borrowers}
    used = sum((use.sm_percent or 0) * WHOLE // _PERCENT for use in card.gpu.pods if use.uid in own)
    borrowers = PodUse(NodePod("", "", "borrowers", "", qos=QoSClass.BE), GroupUse("", cpu_m=used))
    served = [PodUse(replace(entry.pod, qos=QoSClass.LS), GroupUse(""), health=entry.health) for entry in servers]
    return NodeState(state.at_us, state.interval_us, HostUse(1, None, 1, 0), (*served, borrowers))


def _fitted(
    state: NodeState,
    card: HeldCard,
    part: int,
    known_us: Mapping[str, int],
    settings: GpuLendingSettings,
    before_us: Mapping[str, int],
    since_us: dict[str, int],
) -> tuple[tuple[CardBorrower, ...], Mapping[str, str], bool]:
    """Who does not fit into the part, the youngest first, and is suspended or overdue; `since_us` is filled in. And
    whether one more would fit.
    """
    now, taken = state.at_us, 0
    suspended: list[CardBorrower] = []
    overdue: dict[str, str] = {}
    for borrower in sorted(card.borrowers, key=lambda one: (known_us.get(one.pod.uid, now), one.pod.uid)):
        if borrower.leaves:
            continue
        lent = borrower.taken * _PERCENT // WHOLE
        threads = lent_threads_percent(lent, settings.beside_percent) * WHOLE // _PERCENT
        if taken + threads <= part:
            taken += threads
            continue
        uid = borrower.pod.uid
        since = since_us[uid] = before_us.get(uid, now)
        if Knob.CGROUP_FREEZE in state.supported and borrower.pod.group:
            suspended.append(borrower)
        if why := _leaves(state, borrower, now - since, settings):
            overdue[uid] = why
    one_more = settings.beside_percent * WHOLE // _PERCENT
    return tuple(suspended), overdue, not suspended and not overdue and taken + one_more <= part


def _leaves(state: NodeState, borrower: CardBorrower, for_us: int, settings: GpuLendingSettings) -> str:
    """Why a borrower without a part is to leave; empty while it may wait."""
    group = borrower.pod.group
    if Knob.CGROUP_FREEZE not in state.supported or not group:
        return "it cannot be suspended here"
    if for_us >= _SETTLES_US and state.knobs.get(KnobTarget(group, Knob.CGROUP_FREEZE)) == "0":
        return "it could not be suspended"
    return f"it was suspended for {settings.patience_s} s" if for_us >= settings.patience_s * SECOND_US else ""
