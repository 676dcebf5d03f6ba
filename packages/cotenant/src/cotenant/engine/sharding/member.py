"""One member of a sharded scheduler, as a state machine without I/O.

What it may decide follows from the versions of one object that all members replace by compare-and-swap (`ShardTable`).
- A ring is followed by the next only when everybody acts by it, except where somebody is lost.
- Who sees a newer ring gives up at once what is no longer its own, lets the binds under way end, and says so
  (`settled`). It takes what is new when everybody has said so, and its view of pods is as new as the version that says
  so: every bind of the former owner is in it then.
- Who lost its Lease is lost: it is no longer in the ring, and may have sent binds that still arrive. One member changes
  every pending pod for which it may have done so, after which such a bind names an old version of the pod and is
  refused (`FenceLost`). Nobody takes anything new before that.
- Room of a quota is lent as `QuotaRooms` says.
- A node is lent in two steps: asked for by the borrower; then given up by the owner, its binds ended, and marked as
  lent. The borrower returns it in the same way at the end of its time, which it counts from before it asked.
Source: the two-step change of ownership is that of incremental cooperative rebalancing in Apache Kafka (KIP-429).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType

from cotenant.engine.sharding.rooms import QuotaRooms, RoomView
from cotenant.engine.sharding.territory import Territory
from cotenant.model.shards.table import ROOMS_FORMAT, Loan, ShardRing, ShardTable, SlotMember
from cotenant.policy.sharding.borrowing import MAX_LOAN_BYTES, MAX_LOANS, LoanLimits, loan_bytes
from cotenant.policy.sharding.rendezvous import is_owned_in_all


@dataclass(frozen=True, slots=True)
class WriteTable:
    """Replace the version on which it was decided, and no other."""

    table: ShardTable
    version: int


@dataclass(frozen=True, slots=True)
class FenceLost:
    """Change every pending pod for which this member may have sent a bind: those whose group it owned by `slots`. Then
    `fenced`.
    """

    member: SlotMember
    slots: tuple[int, ...]


Instruction = WriteTable | FenceLost


@dataclass(frozen=True, slots=True)
class ShardView:
    """What a member knows at the moment of a step. `holders`: by token, who held the slot's Lease in a consistent read
    that began after the table with this token was seen; "" = nobody, absent = not read. An older read could show the
    holder before this one, and a living member would count as lost.
    """

    holders: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    pods_version: int = 0  # every change of pods up to here has been seen
    nodes_in_flight: frozenset[str] = frozenset()  # of binds that are decided or under way
    groups_in_flight: frozenset[str] = frozenset()
    wanted: tuple[str, ...] = ()  # nodes to borrow, the most wanted first
    may_lend: Callable[[str], bool] = lambda node: True
    rooms: RoomView = field(default_factory=RoomView)


class ShardMember:
    """One term of one slot. `token` must be unique among all terms."""

    def __init__(self, slot: int, identity: str, token: str, limits: LoanLimits | None = None) -> None:
        self.slot = slot
        self.token = token
        self._identity = identity
        self._limits = limits or LoanLimits()
        self._table = ShardTable()
        self._version = -1  # nothing was read yet
        self._rings: tuple[ShardRing, ...] = ()  # since the last one that everybody acted by
        self._settled_at = -1  # the first version seen in which everybody acts by the newest ring
        self._lending: set[str] = set()  # given up, and not marked yet
        self._back_at: dict[str, int] = {}  # own nodes that were returned, and the version that says so
        self._asked_s: dict[str, float] = {}  # when this member asked
        self._lent_at: dict[str, int] = {}  # borrowed: the first version that says so
        self._returning: set[str] = set()
        self._refused_s: dict[str, float] = {}
        self._fenced: set[str] = set()  # tokens
        self.rooms = QuotaRooms(slot, self._limits)
        self.territory = Territory(slot)

    @property
    def table(self) -> ShardTable:
        """The newest that was seen."""
        return self._table

    @property
    def is_member(self) -> bool:
        """Whether the newest table has this term."""
        own = self._table.member(self.slot)
        return own is not None and own.token == self.token

    @property
    def is_lost(self) -> bool:
        """Whether others count this term as over: it must end."""
        return any(member.token == self.token for member in self._table.lost)

    @property
    def refused(self) -> frozenset[str]:
        """Nodes that are not asked for now: they were refused, or did not help."""
        return frozenset(self._refused_s)

    def standing(self) -> str:
        """What it waits for, for a person; empty where it acts by the newest ring."""
        table = self._table
        if not self.is_member:
            return "waits to join the ring"
        if table.lost:
            return "waits until no bind can arrive any more of shard " + ", ".join(str(m.slot) for m in table.lost)
        late = [str(member.slot) for member in table.members if member.settled != table.epoch]
        if late:
            return f"waits for shard {', '.join(late)} to act by ring {table.epoch}"
        return "" if self._acts_by_newest else "waits for its watch of pods"

    @property
    def _acts_by_newest(self) -> bool:
        return len(self._rings) == 1 and self._rings[0].epoch == self._table.epoch

    def lags(self, pods_version: int) -> bool:
        """Whether something is its own as soon as it has seen newer changes of pods."""
        waits = (*self._back_at.values(), *self._lent_at.values())
        is_behind = self._settled_at > pods_version and self.is_member and self._table.is_settled
        return is_behind or any(version > pods_version for version in waits) or self.rooms.lent.lags(pods_version)

    # ---- facts

    def table_seen(self, table: ShardTable, version: int) -> None:
        """A version of the table; an older one than the newest has no effect."""
        if version <= self._version:
            return
        before, self._table, self._version = self._table, table, version
        self.rooms.seen(before, table, version)
        for node, loan in before.loans.items():
            after = table.loans.get(node)
            if loan.is_lent and loan.borrower != self.slot and (after is None or not after.is_lent):
                self._back_at[node] = version
            elif not loan.is_lent and loan.borrower == self.slot and (after is None or after.borrower != self.slot):
                self._refused_s[node] = inf  # from the next step on
        self._lent_at = {
            node: self._lent_at.get(node, version)
            for node, loan in table.loans.items()
            if loan.is_lent and loan.borrower == self.slot
        }
        if not self.is_member:
            self._rings = ()
        elif self._rings:
            last = self._rings[-1].epoch
            self._rings += tuple(ring for ring in table.rings if ring.epoch > last)
        if not table.is_settled:
            self._settled_at = -1
        elif self._settled_at < 0 or before.epoch != table.epoch:
            self._settled_at = version

    def fenced(self, token: str, done: bool) -> None:
        """`FenceLost` was carried out, or failed and is asked for again."""
        if done:
            self._fenced.add(token)
        else:
            self._fenced.discard(token)

    # ---- steps

    def step(self, now_s: float, view: ShardView) -> tuple[Instruction, ...]:
        """What to do now; `territory` is up to date afterwards. To be called after every change of a fact, and a few
        times a second.
        """
        if self._version < 0:
            return ()
        for node, since_s in list(self._refused_s.items()):
            if since_s == inf:
                self._refused_s[node] = now_s
            elif now_s >= since_s + self._limits.refused_s:
                del self._refused_s[node]
        if self.is_member and self._table.is_settled and view.pods_version >= self._settled_at:
            self._rings = self._table.rings[-1:]
        self._set_territory(now_s, view)
        if self.is_lost:
            return ()
        changed = self._membership(view)
        if changed is None and self.is_member:
            changed = self._settling(view)
            if changed is None and self._table.is_settled:
                changed = self._lending_step(now_s, view) or self._announced()
                self._set_territory(now_s, view)  # what is about to be lent is given up now
        if changed is not None:
            return (WriteTable(changed, self._version),)
        return self._fences()

    def leave(self) -> WriteTable | None:
        """The write that takes this member out of the ring; only where none of its binds is decided or under way."""
        if not self.is_member:
            return None
        table = self._table
        return WriteTable(
            replace(
                table,
                rings=_next(table, tuple(slot for slot in table.slots if slot != self.slot)),
                members=tuple(member for member in table.members if member.slot != self.slot),
                loans={node: loan for node, loan in table.loans.items() if loan.borrower != self.slot},
                rooms={key: room for key, room in table.rooms.items() if key.borrower != self.slot},
            ),
            self._version,
        )

    def _set_territory(self, now_s: float, view: ShardView) -> None:
        borrowed, away = set(), set(self._lending)
        for node, loan in self._table.loans.items():
            if loan.is_lent and loan.borrower != self.slot:
                away.add(node)
            elif loan.is_lent and self._may_use(node, now_s, view):
                borrowed.add(node)
            elif loan.is_lent:
                away.add(node)  # also where the ring makes it its own meanwhile
        for node, version in list(self._back_at.items()):
            if view.pods_version >= version:
                del self._back_at[node]
            else:
                away.add(node)
        rings = tuple(ring.slots for ring in self._rings)
        self.rooms.settle(self._table, now_s, view.pods_version)
        usable = frozenset(quota for quota, granted in self.rooms.own.items() if granted is not None and rings)
        lent = frozenset(borrowed if rings else ())
        found = Territory(self.slot, rings, frozenset(away), lent, usable, self.rooms.lent.away)
        if found != self.territory:
            self.territory = found

    def _may_use(self, node: str, now_s: float, view: ShardView) -> bool:
        asked_s = self._asked_s.get(node)
        return (
            asked_s is not None
            and node not in self._returning
            and now_s < asked_s + self._limits.loan_s
            and view.pods_version >= self._lent_at.get(node, self._version)
        )

    # ---- members

    def _membership(self, view: ShardView) -> ShardTable | None:
        table = self._table
        over = [
            member
            for member in table.members
            if (member.slot == self.slot and member.token != self.token)
            or (member.slot != self.slot and view.holders.get(member.token, member.identity) != member.identity)
        ]
        if over:
            gone = {member.slot for member in over}
            return replace(
                table,
                rings=_next(table, tuple(slot for slot in table.slots if slot not in gone)),
                members=tuple(member for member in table.members if member.slot not in gone),
                lost=table.lost + tuple(over),
                loans={n: loan for n, loan in table.loans.items() if loan.is_lent or loan.borrower not in gone},
                rooms={key: room for key, room in table.rooms.items() if room.is_lent or key.borrower not in gone},
            )
        cleared = [member for member in table.lost if member.token in self._fenced]
        if cleared:
            gone = {member.slot for member in cleared}
            return _pruned(
                replace(
                    table,
                    lost=tuple(member for member in table.lost if member not in cleared),
                    loans={node: loan for node, loan in table.loans.items() if loan.borrower not in gone},
                    rooms={key: room for key, room in table.rooms.items() if key.borrower not in gone},
                )
            )
        if self.is_member or not table.is_settled or view.nodes_in_flight:
            return None
        rings = _next(table, tuple(sorted((*table.slots, self.slot))))
        joined = SlotMember(self.slot, self._identity, self.token, rings[-1].epoch, ROOMS_FORMAT)
        return _pruned(replace(table, rings=rings, members=(*table.members, joined)))

    def _fences(self) -> tuple[Instruction, ...]:
        table = self._table
        first = min((member.slot for member in table.members), default=self.slot)
        if first != self.slot:
            return ()
        found: list[Instruction] = []
        for member in table.lost:
            ring = table.ring(member.settled)
            found.append(FenceLost(member, ring.slots if ring is not None else ()))
        return tuple(found)

    def _settling(self, view: ShardView) -> ShardTable | None:
        own = self._table.member(self.slot)
        assert own is not None
        if own.settled == self._table.epoch:
            return None
        held = self.territory
        if not all(map(held.owns_node, view.nodes_in_flight)) or not all(map(held.owns_group, view.groups_in_flight)):
            return None
        settled = replace(own, settled=self._table.epoch)
        members = tuple(settled if member is own else member for member in self._table.members)
        return _pruned(replace(self._table, members=members))

    def _announced(self) -> ShardTable | None:
        """Say again which form of the table we keep, where one that knows of no forms has erased it."""
        table = self._table
        if all(member.format == ROOMS_FORMAT for member in table.members if member.slot == self.slot):
            return None
        members = (replace(m, format=ROOMS_FORMAT) if m.slot == self.slot else m for m in table.members)
        return replace(table, members=tuple(members))

    # ---- loans

    def _lending_step(self, now_s: float, view: ShardView) -> ShardTable | None:
        """The table after this step, with other loans of nodes or room of quotas."""
        table = self._loans(now_s, view) or self._table
        rooms = self.rooms.step(table, now_s, view.rooms, may_lend=self._acts_by_newest)
        if rooms != dict(table.rooms):
            table = replace(table, rooms=rooms)
        return table if table is not self._table else None

    def _loans(self, now_s: float, view: ShardView) -> ShardTable | None:
        """The loans after this step; only while everybody acts by the newest ring, so that owners are agreed on."""
        table, limits = self._table, self._limits
        loans, ring = dict(table.loans), table.slots
        self._lending &= {node for node, loan in loans.items() if not loan.is_lent}
        for node, loan in table.loans.items():
            if loan.borrower == self.slot:
                over = not self._may_use(node, now_s, view) and (
                    node not in self._asked_s or node in self._returning or now_s >= self._asked_s[node] + limits.loan_s
                )
                if loan.is_lent and over:
                    self._returning.add(node)
                    if node not in view.nodes_in_flight:
                        del loans[node]
                        self._refused_s[node] = now_s
                elif not loan.is_lent and (node not in self._asked_s or now_s >= self._asked_s[node] + limits.loan_s):
                    del loans[node]
            elif not loan.is_lent and is_owned_in_all(node, self.slot, (ring,)):
                if node in self._lending:
                    if node not in view.nodes_in_flight:
                        loans[node] = replace(loan, is_lent=True)
                elif self.territory.owns_node(node) and view.may_lend(node):
                    self._lending.add(node)
                else:
                    del loans[node]
        size = sum(map(loan_bytes, loans)) if view.wanted else 0
        for node in view.wanted:
            size += loan_bytes(node)
            if len(loans) >= MAX_LOANS or size > MAX_LOAN_BYTES:
                break
            if node in loans or node in self._refused_s or is_owned_in_all(node, self.slot, (ring,)):
                continue
            loans[node] = Loan(self.slot)
            self._asked_s[node] = now_s
            self._returning.discard(node)
        for node in [node for node in self._asked_s if node not in loans and node not in table.loans]:
            del self._asked_s[node]
            self._returning.discard(node)
        return replace(table, loans=loans) if loans != dict(table.loans) else None

    def give_back(self, node: str) -> None:
        """A borrowed node is no longer of use."""
        if node in self._lent_at:
            self._returning.add(node)


def _next(table: ShardTable, slots: tuple[int, ...]) -> tuple[ShardRing, ...]:
    return (*table.rings, ShardRing(table.epoch + 1, slots))


def _pruned(table: ShardTable) -> ShardTable:
    """Without the rings by which nobody can act any more."""
    oldest = min((member.settled for member in (*table.members, *table.lost)), default=table.epoch)
    return replace(table, rings=tuple(ring for ring in table.rings if ring.epoch >= min(oldest, table.epoch)))
