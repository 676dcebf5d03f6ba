"""How far lending goes in each pool: days are judged from what was measured, and rungs, approvals and undos decide.

What is offered on a node, written there or only suggested, is compared with each later measurement: within an hour it
was free unless prod pods, the system and the offer together once exceeded the capacity. Hours add up to days, and days
to a rung (`policy/autonomy/lending.py`). A broken objective ends a day at once.
What stands is kept here while this replica leads and stored as it changes, hours by the hour, so a new leader loses the
node-hours in progress and no more. Objects are followed for what people write; their statuses are taken over when this
replica begins to lead.
Limits: an objective that burns already when it is first seen is nobody's fault; one whose burn another thing caused is
lending's, where batch pods run beside a replica of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from math import inf

from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.manager.instructions import WritePool
from cotenant.engine.manager.offered import NodeHour, exceeds
from cotenant.engine.manager.pool import LendLeave, Pool, lasting, rules, suffers
from cotenant.engine.manager.record import Computed, NodeRecord
from cotenant.model.autonomy.autonomy import Action, AutonomyRung
from cotenant.model.autonomy.pool_lending import (
    DAY_S,
    HOUR_S,
    MAX_DAYS,
    LendingDay,
    LendingOutcome,
    LendingReceipt,
    LendingStatus,
    LendingSuggestion,
    LendMode,
    PoolLending,
)
from cotenant.model.traces.objective import ObjectiveStatus
from cotenant.policy.autonomy.lending import id_of, judged, standing, taken_back
from cotenant.policy.overcommit.batch import BATCH_CPU, BATCH_MEMORY
from cotenant.policy.overcommit.strategy import DEFAULTS, ColocationConfig, merge, pools_of
from cotenant.policy.rebalance.standings import Standings

_MIB = 1 << 20
_LENT = "lent"
_OFF = "no pool of the configuration has this name and a lendMode"


class PoolLedger:
    """Times are Unix seconds of a steady clock."""

    def __init__(self, records: Callable[[], Iterable[NodeRecord]], permissions: Permissions, confirm_s: float) -> None:
        self.changed = False  # what nodes may lend has changed since this was last set back
        self._records, self._permissions, self._confirm_s = records, permissions, confirm_s
        self._pools: dict[str, Pool] = {}
        self._standings = Standings()
        self._burning: set[str] = set()
        self._turned = -1  # the hour of the last turn
        self._is_new_hour = False

    # ---- events

    def config_seen(self, config: ColocationConfig | None) -> None:
        """What the ConfigMap says of each pool; None = nothing that can be read yet."""
        strategies = pools_of(config) if config is not None else {}
        for name, strategy in strategies.items():
            pool = self._pools.setdefault(name, Pool(name))
            mode = LendMode(strategy.lend_mode) if strategy.lend_mode else None
            self.changed |= (pool.mode, pool.strategy) != (mode, strategy)
            pool.mode, pool.strategy = mode, strategy
        for name in self._pools.keys() - strategies.keys():
            self._pools[name].mode = None
            self.changed = True

    def pool_seen(self, found: PoolLending, now_s: float) -> None:
        """An object as stored."""
        pool = self._pools.setdefault(found.name, Pool(found.name))
        if pool.stored is None and pool.status == LendingStatus():
            pool.status = found.status
            pool.has_begun = found.status.state == _LENT
        before, pool.stored = pool.stored, found
        if before is None:
            pool.sent, pool.tries = None, 0
        if before is None or replace(before, status=found.status) != found:
            self._undo(pool, now_s)
            self._approved(pool)
            self.changed = True

    def pool_gone(self, name: str) -> None:
        """Deleted: what was earned and approved there is forgotten."""
        pool = self._pools.get(name)
        if pool is not None:
            pool.stored, pool.status, pool.sent, pool.tries = None, LendingStatus(), None, 0
            self.changed = True

    def objective_seen(self, status: ObjectiveStatus, now_s: float) -> None:
        """How an objective stands."""
        is_new = self._standings.find(status.key) is None
        self._standings.seen(status, now_s)
        burns = any(one.status.key == status.key for one in self._standings.burning(now_s))
        has_begun = burns and not is_new and status.key not in self._burning
        if burns:
            self._burning.add(status.key)
        elif not status.firing:
            self._burning.discard(status.key)
        if has_begun:
            for name in sorted({record.pool for record in self._records() if suffers(record, status)}):
                self._broken(name, f"ServiceObjective {status.key}", now_s)

    def objective_gone(self, key: str) -> None:
        """Deleted."""
        self._standings.gone(key)
        self._burning.discard(key)

    def leads_now(self, now_s: float) -> None:
        """This replica begins to lead: what is stored counts, and what it judged as a follower does not."""
        for pool in self._pools.values():
            pool.status = pool.stored.status if pool.stored is not None else LendingStatus()
            pool.has_begun = pool.status.state == _LENT
            pool.sent, pool.tries = None, 0
            pool.hours.clear()
            self._undo(pool, now_s)
            self._approved(pool)
        self.changed = True

    def measured(self, record: NodeRecord, now_s: float) -> None:
        """A new measurement of a node, against what was offered before it."""
        pool = self._pools.get(record.pool)
        if pool is None or pool.mode is None or record.node is None:
            return
        hour = int(now_s // HOUR_S)
        found = pool.hours.get(record.name)
        if found is None or found.hour != hour:
            self._close(pool, record.name)
            found = pool.hours[record.name] = NodeHour(hour)
        offered = dict(record.suggested) or dict(record.node.lent)
        if not any(offered.get(name, 0) > 0 for name in (BATCH_CPU, BATCH_MEMORY)):
            return
        found.measured_s += float(merge(DEFAULTS, pool.strategy).metric_report_interval_seconds or 60)
        found.exceeded |= exceeds(record.facts(), record.node.normalization, offered)
        found.lent |= not record.suggested
        found.cpu_m, found.memory_bytes = offered.get(BATCH_CPU, 0), offered.get(BATCH_MEMORY, 0)

    # ---- decisions

    def leave(self, name: str, now_s: float) -> LendLeave | None:
        """Whether the nodes of a pool lend; None = nothing is asked here."""
        pool = self._pools.get(name)
        return self._leave(pool, now_s) if pool is not None and pool.mode is not None else None

    def limited(self, record: NodeRecord, computed: Computed, now_s: float) -> Computed:
        """What the node offers by its pool's leave: where it may not lend, amounts are only suggested."""
        leave = self.leave(record.pool, now_s)
        if leave is None or leave.lends or computed.state == "withdrawn":
            record.suggested = {}
            return computed
        if computed.amounts:
            record.suggested = computed.wanted
        return Computed("suggested", leave.why, view=computed.view)

    def next_s(self) -> float:
        """When `turn` has something to do; -inf = now."""
        if self.changed:
            return -inf
        active = [pool for pool in self._pools.values() if pool.mode is not None]
        waits = [pool.sent_s + self._waits_s(pool) for pool in self._pools.values() if pool.sent is not None]
        return min([*waits, (self._turned + 1) * HOUR_S if active else inf])

    def turn(self, now_s: float) -> None:
        """Judge the days that are over."""
        hour = int(now_s // HOUR_S)
        self._is_new_hour, self._turned = hour != self._turned, hour
        if not self._is_new_hour:
            return
        for pool in [one for one in self._pools.values() if one.mode is not None]:
            for name in [name for name, one in pool.hours.items() if one.hour != hour]:
                self._close(pool, name)
            for day in [one for one in pool.status.open if one.day < int(now_s // DAY_S)]:
                self._judge(pool, day, now_s)

    def writes(self, now_s: float) -> list[WritePool]:
        """The statuses to store, after amounts were computed."""
        return [write for pool in list(self._pools.values()) for write in self._write(pool, now_s)]

    # ---- inside

    def _leave(self, pool: Pool, now_s: float) -> LendLeave:
        """What it may do; lending is begun inside of windows, and what has begun goes on outside of them."""
        found, allowed = self._granted(pool, now_s), self._permissions.of(Action.LENDING, "", now_s)
        if found.lends and not pool.has_begun and not allowed.may_begin:
            return LendLeave("waiting", found.rung, allowed.why)
        pool.has_begun = found.lends
        return found

    def _granted(self, pool: Pool, now_s: float) -> LendLeave:
        assert pool.mode is not None
        own, why = pool.own()
        allowed = self._permissions.of(Action.LENDING, "", now_s)
        rung = min(own, allowed.rung)
        if allowed.rung < own:
            why = allowed.why
        if rung <= AutonomyRung.SUGGEST:
            return LendLeave("shadow" if rung is AutonomyRung.SHADOW else "suggested", rung, why)
        if self._is_approved(pool):
            by = pool.stored.approved_by if pool.stored is not None else ""
            return LendLeave(_LENT, rung, why, by or "a person")
        if pool.status.stopped:
            return LendLeave("stopped", rung, pool.status.stopped)
        if rung is AutonomyRung.ACT:
            return LendLeave(_LENT, rung, why, why)
        return LendLeave("suggested", rung, f"waits for approval of {pool.id}; {why}")

    def _is_approved(self, pool: Pool) -> bool:
        stored = pool.stored
        return stored is not None and not stored.wrong and stored.approved == pool.id

    def _approved(self, pool: Pool) -> None:
        """An approval ends what an undo stopped."""
        if pool.status.stopped and self._is_approved(pool):
            pool.status = replace(pool.status, stopped="")

    def _undo(self, pool: Pool, now_s: float) -> None:
        """Take the lending back that a person names by one of its days."""
        asked = pool.stored.undo if pool.stored is not None and not pool.stored.wrong else ""
        if not asked or pool.mode is None:
            return
        status, today = pool.status, int(now_s // DAY_S)
        receipt = next((one for one in status.receipts if one.id == asked), None)
        if receipt is not None and receipt.outcome is LendingOutcome.UNDONE:
            return  # done already
        open_ = next((one for one in status.open if one.day == today), LendingDay(today))
        if receipt is None and asked != id_of(today):
            return
        leave = self._leave(pool, now_s)
        rung, by = leave.rung, leave.by
        if receipt is not None:
            rung, by = AutonomyRung[receipt.rung.upper()], receipt.allowed_by
        pool.status = replace(status, term=status.term + 1, stopped=f"taken back ({asked}): waits for approval")
        self._keep(pool, taken_back(open_ if receipt is None else receipt.day, pool.risk, rung, by))

    def _broken(self, name: str, objective: str, now_s: float) -> None:
        """An objective began to burn beside what a pool lends: its day ends here."""
        pool = self._pools.get(name)
        if pool is None or pool.mode is None or not self._leave(pool, now_s).lends:
            return
        day = int(now_s // DAY_S)
        found = next((one for one in pool.status.open if one.day == day), LendingDay(day))
        if all(receipt.day.day != day for receipt in pool.status.receipts):
            self._judge(pool, replace(found, objective=objective), now_s)

    def _close(self, pool: Pool, node: str) -> None:
        """Add a node's hour to its day; one that was measured in less than its half tells nothing."""
        hour = pool.hours.pop(node, None)
        if hour is None or hour.measured_s < HOUR_S / 2:
            return
        number = int(hour.hour * HOUR_S // DAY_S)
        if any(receipt.day.day == number for receipt in pool.status.receipts):
            return  # judged already
        known = {one.day: one for one in pool.status.open}
        day = known.get(number) or LendingDay(number)
        known[number] = replace(
            day,
            hours=day.hours + 1,
            exceeded=day.exceeded + hour.exceeded,
            lent=day.lent + hour.lent,
            cpu_m_hours=day.cpu_m_hours + hour.cpu_m,
            memory_mib_hours=day.memory_mib_hours + hour.memory_bytes // _MIB,
        )
        pool.status = replace(pool.status, open=tuple(known[number] for number in sorted(known)))

    def _judge(self, pool: Pool, day: LendingDay, now_s: float) -> None:
        leave = self._leave(pool, now_s)
        receipt = judged(day, pool.risk, leave.rung, leave.by)
        pool.status = replace(pool.status, open=tuple(one for one in pool.status.open if one.day != day.day))
        if receipt is not None:
            self._keep(pool, receipt)

    def _keep(self, pool: Pool, receipt: LendingReceipt) -> None:
        status = pool.status
        others = [one for one in status.receipts if one.id != receipt.id]
        kept = sorted([receipt, *others], key=lambda one: -one.day.day)[:MAX_DAYS]
        fell = receipt.outcome is not LendingOutcome.UNDONE and standing(kept).fell
        open_ = tuple(one for one in status.open if one.day != receipt.day.day)
        pool.status = replace(status, receipts=tuple(kept), open=open_, term=status.term + fell)
        self.changed = True

    def _write(self, pool: Pool, now_s: float) -> list[WritePool]:
        stored = pool.stored
        if pool.mode is None:
            if stored is None or stored.status.state in ("", "off"):
                pool.sent = None
                return []
            wanted = replace(pool.status, state="off", message=_OFF)
        else:
            wanted = self._wanted(pool, now_s, is_whole=self._is_new_hour)
        if stored is not None and (
            wanted == stored.status or (not self._is_new_hour and lasting(wanted) == lasting(stored.status))
        ):
            pool.sent, pool.tries = None, 0
            return []
        is_again = pool.sent is not None and lasting(pool.sent) == lasting(wanted)
        if is_again and now_s - pool.sent_s < self._waits_s(pool):
            return []  # on its way
        pool.tries = pool.tries + 1 if is_again else 1
        if pool.mode is not None:
            wanted = self._wanted(pool, now_s, is_whole=True)
        pool.sent, pool.sent_s = wanted, now_s
        return [WritePool(pool.name, stored.uid if stored is not None else "", wanted)]

    def _waits_s(self, pool: Pool) -> float:
        return self._confirm_s * 2.0 ** min(max(0, pool.tries - 1), 7)

    def _wanted(self, pool: Pool, now_s: float, is_whole: bool) -> LendingStatus:
        """The status that should stand; unless whole, without sums over all nodes."""
        assert pool.mode is not None
        leave = self._leave(pool, now_s)
        suggestion = None
        if leave.rung >= AutonomyRung.SUGGEST:
            found = (record.standing for record in self._records() if record.pool == pool.name and record.standing)
            offers = list(found if is_whole else islice(found, 1))
            suggestion = LendingSuggestion(
                pool.id,
                rules(pool.strategy),
                len(offers),
                sum(offer.get(BATCH_CPU, 0) for offer in offers),
                sum(offer.get(BATCH_MEMORY, 0) for offer in offers) // _MIB,
            )
        return replace(
            pool.status,
            state=leave.state,
            message=f"{leave.why}; allowed by {leave.by}" if leave.by and leave.by != leave.why else leave.why,
            mode=pool.mode.value,
            rung=leave.rung.name.lower(),
            suggestion=suggestion,
        )
