"""One scheduler of the simulated cluster: a Lease, the real `ShardMember`, and first fit over what it has seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tests.property.shards.replica_rooms import ReplicaRooms, decides, room_of
from tests.property.shards.world import LEASE_S, RENEW_S, Server, SimPod, Timeline

from cotenant.engine.sharding.member import FenceLost, ShardMember, ShardView, WriteTable
from cotenant.model.shards.table import ROOMS_FORMAT, ShardTable
from cotenant.policy.sharding.borrowing import BorrowableNode, LoanLimits, choose
from cotenant.policy.sharding.rendezvous import owner

_LIMITS = LoanLimits(loan_s=8.0, refused_s=1.0)


class OlderMember(ShardMember):
    """One of a version that knows of no forms of the table, and of no rooms."""

    def _announced(self) -> None:
        return None


class Replica:
    """`fences` False leaves the fence out, to see that the checks notice. `pace`: of its clock, which began at any
    time, against that of the others. `is_old`: of a version that erases rooms, and what members say of forms.
    """

    def __init__(
        self,
        name: str,
        server: Server,
        time: Timeline,
        slots: int,
        fences: bool = True,
        pace: float = 1.0,
        is_old: bool = False,
    ) -> None:
        self.name = name
        self.is_old = is_old
        self.server = server
        self.time = time
        self.slots = slots
        self.fences = fences
        self.pace = pace
        self.pods: dict[str, SimPod] = {}
        self.seen = 0  # of the log of pods
        self.pods_version = 0
        self.in_flight: dict[str, tuple[str, int]] = {}  # pod -> node, version
        self.drawing: dict[str, int] = {}  # of these: what it takes of a reservation
        self.rooms = ReplicaRooms(server, self.pods, self.in_flight)
        self.member: ShardMember | None = None
        self.terms = 0
        self.lease_version = 0
        self.valid_until_s = -1.0
        self.watched: dict[int, tuple[int, float]] = {}  # slot -> version of the Lease, since when it was seen
        self.holders: dict[str, str] = {}
        self.is_dead = False
        self.paused_until_s = -1.0
        self.fencing: set[str] = set()
        self.last: dict[str, float] = {}
        self.writing = False
        self._tick()
        self._watch()

    # ---- time and messages

    @property
    def now_s(self) -> float:
        """By its own clock."""
        return self.time.now_s * self.pace

    def _later(self, seconds: float, run: Callable[[], None]) -> None:
        """Run it in this process: not while it is paused, never when it is dead."""

        def due() -> None:
            if self.is_dead:
                return
            if self.time.now_s < self.paused_until_s:
                self.time.after(self.paused_until_s - self.time.now_s + self.time.random.random() * 0.01, due)
            else:
                run()

        self.time.after(seconds, due)

    def _send(self, at_server: Callable[[], object], answered: Callable[[object], None]) -> None:
        """A request: it arrives after a while, also where this process is paused or dead by then. Every other one was
        only about to be sent when the process is paused, and is sent when it goes on.
        """
        late_s = self.time.random.uniform(5.0, 25.0) if self.time.random.random() < 0.01 else self.time.delay_s()
        unsent = self.time.random.random() < 0.5

        def arrive() -> None:
            if unsent and self.is_dead and self.time.random.random() < 0.5:
                return
            if unsent and not self.is_dead and self.time.now_s < self.paused_until_s:
                self.time.after(self.paused_until_s - self.time.now_s, arrive)
                return
            result = at_server()
            self._later(self.time.delay_s(), lambda: answered(result))

        self.time.after(late_s, arrive)

    def pause(self, seconds: float) -> None:
        """Stop the process; what it has sent goes on."""
        self.paused_until_s = max(self.paused_until_s, self.time.now_s + seconds)

    def kill(self) -> None:
        """It never runs again."""
        self.is_dead = True

    @property
    def leads(self) -> bool:
        """Whether it may act, by its own clock."""
        return self.now_s < self.valid_until_s

    # ---- watches

    def _watch(self) -> None:
        log = self.server.log
        upto = self.seen + self.time.random.randint(0, len(log) - self.seen)
        for pod in log[self.seen : upto]:
            self.pods[pod.name] = pod
            self.pods_version = pod.version
        self.seen = upto
        if upto == len(log) and self.time.random.random() < 0.3:
            self.pods_version = max(self.pods_version, self.server.version)  # a bookmark
        self._later(self.time.delay_s(), self._watch)

    # ---- the loop

    def _tick(self) -> None:
        self._later(self.time.random.uniform(0.05, 0.3), self._tick)
        self._every("lease", 0.7, self._lease)
        if self.member is None:
            return
        self._every("table", 0.3, self._read_table)
        self._every("holders", 1.0, self._read_holders)
        if not self.leads:
            return
        self._step()
        self._schedule()

    def _every(self, what: str, seconds: float, run: Callable[[], None]) -> None:
        if self.now_s >= self.last.get(what, -9.0) + seconds:
            self.last[what] = self.now_s
            run()

    # ---- the Lease of a slot

    def _lease(self) -> None:
        begun_s = self.now_s
        if self.member is not None:
            version, slot = self.lease_version, self.member.slot
            self._send(
                lambda: self.server.swap_lease(slot, self.name, version),
                lambda found: self._renewed(slot, int(found), begun_s),  # type: ignore[call-overload]
            )
            return
        slots = list(range(self.slots))
        self.time.random.shuffle(slots)
        for slot in slots:
            self._send(partial(self.server.leases.get, slot), partial(self._slot_seen, slot))

    def _slot_seen(self, slot: int, lease: object) -> None:
        if self.member is not None:
            return
        version, holder = (lease.version, lease.holder) if lease is not None else (0, "")  # type: ignore[attr-defined]
        known, since_s = self.watched.get(slot, (-1, 0.0))
        if known != version:
            self.watched[slot] = (version, self.now_s)
            since_s = self.now_s
        if holder and self.now_s - since_s < LEASE_S:
            return
        begun_s = self.now_s
        self._send(
            lambda: self.server.swap_lease(slot, self.name, version),
            lambda found: self._acquired(slot, int(found), begun_s),  # type: ignore[call-overload]
        )

    def _acquired(self, slot: int, version: int, begun_s: float) -> None:
        if not version or self.member is not None:
            return
        self.terms += 1
        kind = OlderMember if self.is_old else ShardMember
        self.member = kind(slot, self.name, f"{self.name}/{self.terms}", _LIMITS)
        self.lease_version, self.valid_until_s = version, begun_s + RENEW_S

    def _renewed(self, slot: int, version: int, begun_s: float) -> None:
        if self.member is None or self.member.slot != slot:
            return
        if version:
            if version > self.lease_version:
                self.lease_version, self.valid_until_s = version, begun_s + RENEW_S
            return
        self._send(partial(self.server.leases.get, slot), self._own_lease)

    def _own_lease(self, lease: object) -> None:
        if self.member is None or lease is None:
            return
        if lease.holder != self.name:  # type: ignore[attr-defined]
            self._end_term()
        elif lease.version > self.lease_version:  # type: ignore[attr-defined]
            self.lease_version = lease.version  # type: ignore[attr-defined]

    def _end_term(self) -> None:
        self.member, self.valid_until_s = None, -1.0
        self.writing = False

    # ---- the table

    def _read_table(self) -> None:
        member = self.member
        self._send(
            self._readable,
            lambda found: member.table_seen(*found) if member is not None and found else None,  # type: ignore[misc]
        )

    def _readable(self) -> tuple[ShardTable, int] | None:
        """The table as this version reads it; None where it cannot."""
        table, version = self.server.table, self.server.table_version
        if self.is_old and table.format >= ROOMS_FORMAT and self.server.older_stop:
            return None
        return self._kept(table), version

    def _kept(self, table: ShardTable) -> ShardTable:
        """What this version keeps of a table."""
        if not self.is_old:
            return table
        members, lost = (tuple(replace(m, format=0) for m in given) for given in (table.members, table.lost))
        return replace(table, members=members, lost=lost, rooms={})

    def _read_holders(self) -> None:
        """Read each Lease after its member was seen; take away one that has stood unchanged for too long."""
        if self.member is None:
            return
        for found in self.member.table.members:
            self._send(partial(self.server.leases.get, found.slot), partial(self._holder_seen, found.slot, found.token))

    def _holder_seen(self, slot: int, token: str, lease: object) -> None:
        if lease is None:
            return
        version, holder = lease.version, lease.holder  # type: ignore[attr-defined]
        self.holders[token] = holder
        known, since_s = self.watched.get(slot, (-1, 0.0))
        if known != version:
            self.watched[slot] = (version, self.now_s)
        elif holder and self.now_s - since_s >= LEASE_S and self.leads and holder != self.name:
            self._send(lambda: self.server.swap_lease(slot, "", version), lambda found: None)

    def _step(self) -> None:
        member = self.member
        assert member is not None
        if member.is_lost:
            return
        view = ShardView(
            dict(self.holders),
            self.pods_version,
            frozenset(node for node, _ in self.in_flight.values()),
            frozenset(map(self.rooms.group, self.in_flight)),
            self._wanted(),
            rooms=self.rooms.view(member),
        )
        instructions = member.step(self.now_s, view)
        self.rooms.settled(member)
        for instruction in instructions:
            if isinstance(instruction, WriteTable) and not self.writing:
                self.writing = True
                self._send(
                    partial(self.server.swap_table, self._kept(instruction.table), instruction.version),
                    lambda found: self._written(member),
                )
            elif isinstance(instruction, FenceLost) and instruction.member.token not in self.fencing:
                self.fencing.add(instruction.member.token)
                self._fence(instruction, member)

    def _written(self, member: ShardMember) -> None:
        if self.member is member:
            self.writing = False
            self._read_table()

    def _fence(self, instruction: FenceLost, member: ShardMember) -> None:
        def at_server() -> None:
            if not self.fences:
                return
            for pod in list(self.server.pods.values()):
                groups = {pod.group, pod.home or pod.group}
                if not instruction.slots or instruction.member.slot in {owner(g, instruction.slots) for g in groups}:
                    self.server.touch(pod.name)

        self._send(at_server, lambda found: member.fenced(instruction.member.token, True))

    # ---- decisions

    def _free(self) -> dict[str, int]:
        free = dict(self.server.nodes)
        for pod in self.pods.values():
            if pod.node:
                free[pod.node] -= pod.counts
        for name, (node, _) in self.in_flight.items():
            if not self.pods[name].node:
                free[node] -= self.pods[name].size - self.drawing.get(name, 0)
        return free

    def _reserved(self) -> dict[str, tuple[str, int]]:
        """Where each reservation is, and what is left of it."""
        drawn: dict[str, int] = {}
        for pod in self.pods.values():
            if pod.uses and not pod.has_ended:
                drawn[pod.uses] = drawn.get(pod.uses, 0) + (pod.drawn if pod.node else self.drawing.get(pod.name, 0))
        return {
            pod.holds: (pod.node, pod.size - drawn.get(pod.holds, 0))
            for pod in self.pods.values()
            if pod.holds and pod.node
        }

    def _pending(self) -> list[SimPod]:
        held = self.member.territory if self.member is not None else None
        return [
            pod
            for pod in self.pods.values()
            if not pod.node and pod.name not in self.in_flight and held is not None and decides(held, pod)
        ]

    def _wanted(self) -> tuple[str, ...]:
        assert self.member is not None
        pending = self._pending()
        if not pending:
            return ()
        free, held = self._free(), self.member.territory
        smallest = min(pod.size for pod in pending)
        rooms = [BorrowableNode(node, left // smallest) for node, left in free.items() if not held.owns_node(node)]
        return choose(rooms, 2 * len(pending), 6)

    def _schedule(self) -> None:
        assert self.member is not None
        held, free = self.member.territory, self._free()
        own = [node for node in free if held.owns_node(node)]
        charged = self.rooms.charged()
        reserved = self._reserved()
        lots: dict[str, list[SimPod]] = {}
        for pod in self._pending():
            lots.setdefault(pod.gang or pod.name, []).append(pod)
        started = {pod.gang for pod in self.pods.values() if pod.gang and (pod.node or pod.name in self.in_flight)}
        for name, lot in sorted(lots.items(), key=lambda item: (item[0] not in started, item[0])):
            size = int(lot[0].gang.partition("x")[2] or 1) if lot[0].gang else 1
            if lot[0].gang and name not in started and len(lot) < size:
                continue
            chosen: dict[str, str] = {}
            left, account = dict(free), charged.copy()
            for pod in lot:
                node = next((node for node in own if left[node] >= pod.size), "")
                at, rest = reserved.get(pod.uses, ("", 0))
                if at in own and rest >= pod.size:
                    node = at
                    reserved[pod.uses] = at, rest - pod.size
                    self.drawing[pod.name] = pod.size
                    left[node] += pod.size
                beside = sum(self.pods[other].size for other in chosen)
                if not node or not self.rooms.admits(held, pod, account, beside):
                    break
                chosen[pod.name] = node
                left[node] -= pod.size
                if pod.quota:
                    account.add(room_of(pod), pod.size)
            if len(chosen) < len(lot) and name not in started:
                continue
            for pod_name, node in chosen.items():
                self.rooms.take(held, self.pods[pod_name])
                self._bind(pod_name, node)
                free[node] -= self.pods[pod_name].size - self.drawing.get(pod_name, 0)
                if self.pods[pod_name].quota:
                    charged.add(room_of(self.pods[pod_name]), self.pods[pod_name].size)

    def _bind(self, name: str, node: str) -> None:
        version = self.pods[name].version
        self.in_flight[name] = (node, version)

        def answered(found: object) -> None:
            """The answer may come before the watch has the bind: until then it counts as under way."""
            self.rooms.answered(name, not found)
            if found:
                self.in_flight.pop(name, None)
                self.drawing.pop(name, None)
            else:
                self._when_seen(name)

        drawn, seen = self.drawing.get(name, 0), self.pods_version
        self._send(lambda: self.server.bind(name, node, version, drawn, seen), answered)

    def _when_seen(self, name: str) -> None:
        if self.pods[name].node:
            self.in_flight.pop(name, None)
            self.drawing.pop(name, None)
        else:
            self._later(0.05, lambda: self._when_seen(name))
