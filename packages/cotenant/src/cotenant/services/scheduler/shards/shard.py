"""One shard of a scheduler: follows the table, and keeps its engine to what it may decide.

All of it is in the process's event loop. A step reads what is in flight, lets the member decide, and closes and opens
nodes before anything else can run, so that the engine never decides by an older territory than the one that was said to
be settled. Requests are between steps.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cotenant.drivers.kube.kinds.custom.elastic_quota import ELASTIC_QUOTAS, X_ELASTIC_QUOTAS
from cotenant.drivers.kube.kinds.custom.pod_group import POD_GROUPS, X_POD_GROUPS
from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Evict
from cotenant.engine.plugins.quotas.status import QuotaStatus
from cotenant.engine.plugins.reservations.instructions import DeleteReservation, ReservationStatus
from cotenant.engine.sharding.member import FenceLost, ShardMember, ShardView, WriteTable
from cotenant.engine.sharding.territory import Territory
from cotenant.engine.workloads.profiles import WorkloadProfileStatus
from cotenant.model.cluster.node import Node
from cotenant.model.errors import CotenantError
from cotenant.model.groups.gang import PodGroupStatus
from cotenant.model.shards.table import ROOMS_FORMAT, ShardTable
from cotenant.policy.sharding.borrowing import BorrowableNode, LoanLimits, choose, may_lend
from cotenant.policy.sharding.groups import in_words, node_of
from cotenant.policy.sharding.rendezvous import owner
from cotenant.services.scheduler.shards.agreement import Agreement
from cotenant.services.scheduler.shards.fence import ShardFence
from cotenant.services.scheduler.shards.pods_of_shard import PodsOfShard
from cotenant.services.scheduler.shards.rooms_of_shard import RoomsOfShard
from cotenant.services.scheduling.custom_kinds import CustomKind

_QUICK_S, _SLOW_S = 0.05, 0.5  # between two steps: while something is under way, and else
_HOLDERS_S = 1.0
_WANTED_S = 0.5
_IDLE_S = 3.0
_STIR_S = 0.3
_MAX_SHAPES = 4  # of waiting pods, for which nodes are looked for in one step
_GROUPS_CHANGE = (ELASTIC_QUOTAS, X_ELASTIC_QUOTAS, POD_GROUPS, X_POD_GROUPS)

_log = logging.getLogger(__name__)


class Shard:
    """The part of a process that makes it one shard of several; `run` is one term of a slot."""

    def __init__(
        self,
        cluster: Cluster,
        pods: PodsOfShard,
        agreement: Agreement,
        fence: ShardFence,
        identity: str,
        pods_version: Callable[[], int],
        leads: Callable[[], bool],
        wake: Callable[[], None],
        limits: LoanLimits | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self.pods = pods
        self._agreement = agreement
        self._fence = fence
        self._identity = identity
        self._pods_version = pods_version
        self._leads = leads
        self._wake = wake
        self._limits = limits or LoanLimits()
        self._now = now
        self.territory = Territory(-1)
        self.member: ShardMember | None = None
        self._open: set[str] = set()
        self._holders: dict[str, str] = {}
        self._wanted: tuple[str, ...] = ()
        self._wanted_at_s = self._held_at_s = -1e9
        self._used: dict[str, tuple[int, float]] = {}  # borrowed: how many pods, and since when
        self._lags_since_s = -1e9
        self._must_sort = False
        self._fencing: dict[str, asyncio.Task[None]] = {}
        self._trouble = ""  # why it could not take part in its last turn
        self.loans = self.rings = 0  # so far
        self.rooms = RoomsOfShard(cluster, pods, now)

    # ---- events on their way to the engine

    def node_seen(self, node: Node) -> None:
        """A node was created or changed: one that is not ours is closed before the engine has it."""
        if self.territory.owns_node(node.name):
            self._open.add(node.name)
        else:
            self._open.discard(node.name)
            self._cluster.closed.close((node.name,), self.pods.now())
        self._cluster.node_seen(node)

    def node_gone(self, name: str, now_s: float) -> None:
        """A node was deleted."""
        self._open.discard(name)
        self._cluster.node_gone(name, now_s)
        self._cluster.closed.forget(name)

    def custom(self, custom: CustomKind[Any, Any]) -> CustomKind[Any, Any]:
        """A custom kind as this shard hears of it."""
        if custom.kind is RESERVATIONS:
            return replace(custom, seen=self.pods.reservation_seen, gone=self.pods.reservation_gone)
        if custom.kind not in _GROUPS_CHANGE:
            return custom

        def seen(value: Any, now_s: float) -> None:
            custom.seen(value, now_s)
            self._must_sort = True

        def gone(key: str, now_s: float) -> None:
            custom.gone(key, now_s)
            self._must_sort = True

        return replace(custom, seen=seen, gone=gone)

    def carries_out(self, instruction: object) -> bool:
        """Whether this shard writes a status or evicts; every engine counts all pods, and would say the same."""
        if isinstance(instruction, QuotaStatus):
            return self.territory.owns_group(f"quota:{self._cluster.plugins.quotas.tree_named(instruction.key)}")
        if isinstance(instruction, PodGroupStatus):
            gangs = (instruction.key, *self._cluster.plugins.gangs.tied_to(instruction.key))
            return self.territory.owns_group(f"gang:{min(gangs)}")
        if isinstance(instruction, ReservationStatus | DeleteReservation):
            return self.territory.owns_group(f"reservation:{instruction.key}")
        if isinstance(instruction, WorkloadProfileStatus):
            return self.territory.owns_group(f"profile:{instruction.key}")
        if isinstance(instruction, Evict):
            entry = self._cluster.find(instruction.victim.key)
            return entry is not None and self.territory.owns_group(self.pods.group(entry.seen, runs=True))
        return True

    # ---- a term

    async def run(self, slot: int) -> None:
        """Take part until cancelled. Errors of the server never end it."""
        self.begin(slot)
        try:
            while True:
                await asyncio.sleep(_SLOW_S if await self.turn() else _QUICK_S)
        finally:
            for task in self._fencing.values():
                task.cancel()
            self._fencing.clear()

    @property
    def term(self) -> str:
        """What names this term of a slot; empty before the first."""
        return self.member.token if self.member is not None else ""

    @property
    def is_lost(self) -> bool:
        """Whether others count this term as over."""
        return self.member is not None and self.member.is_lost

    async def leave(self, may_write: bool) -> None:
        """Out of the ring, where nothing is in flight; to be called when nothing is decided any more."""
        member, self.member = self.member, None
        nodes, *_ = self.pods.in_flight()
        self._occupy(Territory(-1))
        if member is None or nodes or not may_write:
            return
        for _ in range(20):
            try:
                member.table_seen(*await self._agreement.read())
                leaving = member.leave()
                if leaving is None or await self._agreement.replace(leaving.table, leaving.version) is not None:
                    return
            except CotenantError as error:
                _log.warning("shard %d cannot leave the ring, and counts as lost: %s", member.slot, error)
                return

    def begin(self, slot: int) -> None:
        """A new term: nothing is ours yet."""
        self.member = ShardMember(slot, self._identity, secrets.token_hex(6), self._limits)
        self._wanted = ()
        self._occupy(Territory(slot))

    async def turn(self) -> bool:
        """Read the table, and do one step; whether nothing is under way."""
        member = self.member
        assert member is not None
        try:
            self._table_seen(member, *await self._agreement.read())
            await self._read_holders(member)
            await self._stir(member)
            self._trouble = ""
            return await self._step(member) if self._leads() else True
        except CotenantError as error:
            if self._trouble != str(error):
                _log.warning("shard %d: %s", member.slot, error)
            self._trouble = str(error)
            return True

    def _table_seen(self, member: ShardMember, table: ShardTable, version: int) -> None:
        """A version of the table, read or written by this shard."""
        before = member.table.epoch
        member.table_seen(table, version)
        self.pods.is_asked = bool(member.table.rooms)
        if before != member.table.epoch:
            self.rings += 1
            _log.info("ring %d: shards %s", member.table.epoch, ", ".join(map(str, member.table.slots)) or "none")

    async def _step(self, member: ShardMember) -> bool:
        """One step; whether nothing is under way."""
        if self._must_sort:
            self._must_sort = False
            self.pods.sort()
        self.pods.give_up_late()
        nodes, groups, homes = self.pods.in_flight()
        if member.is_lost and not nodes:
            _log.warning("shard %d counts as lost: it joins anew", member.slot)
            self.begin(member.slot)
            return False
        view = ShardView(
            dict(self._holders),
            self._pods_version(),
            nodes,
            groups,
            self._wishes(member),
            self._may_lend,
            self.rooms.view(member, homes),
        )
        instructions = member.step(self._now(), view)
        self._occupy(member.territory, member)
        for instruction in instructions:
            if isinstance(instruction, FenceLost):
                self._start_fence(instruction, member)
        for instruction in instructions:
            if isinstance(instruction, WriteTable):
                stored = await self._agreement.replace(instruction.table, instruction.version)
                if stored is not None:
                    self._table_seen(member, *stored)
                return False
        table = member.table
        is_asked = any(not loan.is_lent for loan in table.loans.values()) or any(r.asked for r in table.rooms.values())
        return not (member.standing() or is_asked)

    def _start_fence(self, asked: FenceLost, member: ShardMember) -> None:
        token = asked.member.token
        if token in self._fencing and not self._fencing[token].done():
            return

        async def carry_out() -> None:
            try:
                await self._fence.carry_out(asked)
            except (CotenantError, ExceptionGroup) as error:
                _log.warning("shard %d cannot be fenced yet: %s", asked.member.slot, error)
                member.fenced(token, done=False)
            else:
                member.fenced(token, done=True)

        self._fencing[token] = asyncio.create_task(carry_out())

    async def _read_holders(self, member: ShardMember) -> None:
        if self._now() < self._held_at_s + _HOLDERS_S:
            return
        self._held_at_s = self._now()
        found = [other for other in member.table.members if other.token != member.token]
        holders = await asyncio.gather(*(self._agreement.holder(other) for other in found))
        self._holders = {other.token: holder for other, holder in zip(found, holders, strict=True)}

    async def _stir(self, member: ShardMember) -> None:
        """Have the watch of pods deliver something, where that is all that is waited for and pods wait."""
        if not member.lags(self._pods_version()):
            self._lags_since_s = self._now()
        elif self._leads() and self._now() >= self._lags_since_s + _STIR_S:
            self._lags_since_s = self._now()
            pending = self.pods.pending()
            if pending is not None:
                await self._fence.stir(pending)

    # ---- what follows for the engine

    def _occupy(self, territory: Territory, member: ShardMember | None = None) -> None:
        self.rooms.count(member)
        before, self.territory = self.territory, territory
        if before == territory:
            return
        if before.rings != territory.rings or before.slot != territory.slot:
            names = {node.name for node in self._cluster.nodes()}
        else:
            changed = (before.away ^ territory.away) | (before.borrowed ^ territory.borrowed)
            names = {name for name in changed if self._cluster.node(name) is not None}  # a lent one may be deleted
        ours = {name for name in names if territory.owns_node(name)}
        self.loans += len(territory.borrowed - before.borrowed)
        self._open -= names
        self._open |= ours
        self._cluster.closed.close(sorted(names - ours), self.pods.now())
        if before.rings != territory.rings or before.slot != territory.slot:
            self.pods.occupy(territory)
        else:
            self.pods.lend(territory)
        self._cluster.closed.open(sorted(ours))
        self._wake()

    def _wishes(self, member: ShardMember) -> tuple[str, ...]:
        """Nodes to borrow for pods that wait."""
        if self._now() < self._wanted_at_s + _WANTED_S or member.standing():
            return ()
        self._wanted_at_s = self._now()
        self._cluster.closed.refused(member.refused)
        self._give_back_idle(member)
        wanted: dict[str, None] = {}
        for pods, rooms in self._cluster.closed.helpful(_MAX_SHAPES):
            left = (BorrowableNode(node, room) for node, room in rooms.items() if node not in wanted)
            wanted.update(dict.fromkeys(choose(left, pods)))
        return tuple(wanted)

    def _give_back_idle(self, member: ShardMember) -> None:
        """Return borrowed nodes on which nothing was placed for a while."""
        now_s = self._now()
        used = {node: len(self._cluster.pods_on(node)) for node in self.territory.borrowed}
        self._used = {
            node: self._used[node] if node in self._used and self._used[node][0] == pods else (pods, now_s)
            for node, pods in used.items()
        }
        for node, (_, since_s) in self._used.items():
            if now_s >= since_s + _IDLE_S:
                member.give_back(node)

    def _may_lend(self, node: str) -> bool:
        away = len(self.territory.away)
        return may_lend(away, len(self._open) + away, self._cluster.closed.is_awaited(node), self._limits)

    # ---- for people

    def standing(self) -> str:
        """What this shard has, for a person."""
        member = self.member
        if member is None:
            return "no shard"
        why = self._trouble or member.standing() or _older(member.table)
        words = (
            f"shard {member.slot} of {', '.join(map(str, member.table.slots)) or 'none'}, ring {member.table.epoch}: "
            f"{len(self._open)} nodes, {len(self.territory.borrowed)} of them borrowed, "
            f"{len(self.territory.away)} lent; {len(self.pods.others)} pods wait in other shards"
        )
        return f"{words}; {why}" if why else words

    def of_pod(self, key: str) -> str:
        """Which shard decides for a pod, and where it is; empty for a pod that is not known."""
        seen = self.pods.find(key)
        if seen is None or self.member is None:
            return ""
        group, home = self.pods.group(seen), self.pods.home(seen)
        by_room = self.rooms.of_pod(self.member, home) if home is not None else ""
        if by_room:
            return f"{by_room}; this is shard {self.territory.slot}"
        slot = owner(node_of(group) or group, self.member.table.slots)
        if slot == self.territory.slot:
            return f"shard {slot}, this one, decides for it, by {in_words(group)}"
        member = self.member.table.member(slot)
        who = f", {member.identity}," if member is not None else ""
        return f"shard {slot}{who} decides for it, by {in_words(group)}; this is shard {self.territory.slot}"

    def counts(self) -> dict[str, float]:
        """Figures that only grow."""
        return {
            "rings": float(self.rings),
            "loans": float(self.loans),
            "quota_grants": float(self.rooms.grants),
            "fenced_pods": float(self._fence.changed),
            "table_conflicts": float(self._agreement.conflicts),
        }

    def samples(self) -> dict[str, float]:
        """Figures of the moment."""
        return {
            "slot": float(self.territory.slot),
            "epoch": float(self.member.table.epoch if self.member is not None else 0),
            "nodes": float(len(self._open)),
            "borrowed": float(len(self.territory.borrowed)),
            "lent": float(len(self.territory.away)),
            "quotas_borrowed": float(len({of.quota for of in self.territory.rooms})),
            "quotas_lent": float(len({key.of.quota for key in self.territory.rooms_away})),
            "others": float(len(self.pods.others)),
        }


def _older(table: ShardTable) -> str:
    """Of members that say no form of the table: they divide pods in another way, so some have two shards or none."""
    older = [str(member.slot) for member in table.members if member.format < ROOMS_FORMAT]
    return f"shard {', '.join(older)} divides pods as an older version: stop all, then start all" if older else ""
