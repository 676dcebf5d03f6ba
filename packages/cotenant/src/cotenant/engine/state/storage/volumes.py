"""Feasible nodes of a pod's volumes, and the volume that each claim would take on a node.

A claim may be bound to a volume with a node affinity, be provisioned where its pod is placed, or take one of several
existing volumes; several claims of one pod must agree on a node without taking one volume twice, and a choice made for
a pod is valid before the API server reports it. A row is feasible if every claim has an option there, and claims that
compete get different volumes by augmenting paths, in the order listed (smallest first). Assigning a pod holds its
choices; unassigning it frees them.
Source: Kubernetes' VolumeBinding, VolumeRestrictions, NodeVolumeLimits and VolumeZone plugins
(engine/state/storage/attach_limits.py, engine/state/storage/inline_disks.py).
Limits: claims that share candidates are matched row by row in plain Python (about 5 us a row).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.node_rules import RuleResult
from cotenant.engine.state.storage import attach_limits, inline_disks
from cotenant.engine.state.storage.attach_limits import AttachLimits, DriverTotals
from cotenant.engine.state.storage.inline_disks import InlineDisks
from cotenant.engine.state.topology import Regions
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.affinity import NodeSelector
from cotenant.model.cluster.observed import Attachment, ClaimBinding, StorageRoom, VolumeNeed, VolumeOption

REASON_CONFLICT = "node(s) had volume node affinity conflict"
REASON_NONE = "node(s) didn't find available persistent volumes to bind"
REASON_ROOM = "node(s) did not have enough free storage"
REASON_ZONE = "node(s) had no available volume zone"
REASON_EXCLUSIVE = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"


class VolumeChoice(NamedTuple):
    """The volume that a claim takes if its pod is placed on a row; empty = it is provisioned there."""

    claim: str
    volume: str


@dataclass(slots=True)
class _Hold:
    """What an unbound claim will get, chosen for its assigned pods."""

    volume: str  # empty = provisioned on the row
    row: int
    users: set[int] = field(default_factory=set)


_Selectors = tuple[NodeSelector | StorageRoom | None, ...]


def _reach(need: VolumeNeed, option: VolumeOption) -> _Selectors:
    """Where the option is, without what other filters report."""
    return (option.nodes,) if need.binding is ClaimBinding.BOUND else (option.nodes, option.zone)


def _zone(need: VolumeNeed, option: VolumeOption) -> _Selectors:
    return (option.zone,)


def _selectors(need: VolumeNeed, option: VolumeOption) -> _Selectors:
    return option.nodes, option.zone, option.room


def _attachments(needs: Iterable[VolumeNeed]) -> Iterator[Attachment]:
    return (need.attachment for need in needs if need.attachment is not None)


class Volumes:
    """Claims of pods by their numbers, and the volumes held for unbound claims."""

    def __init__(self, encoder: Encoder, regions: Regions) -> None:
        self.limits = AttachLimits(encoder)
        self._disks = InlineDisks()
        self._regions = regions
        self.needs: dict[int, tuple[VolumeNeed, ...]] = {}
        self._rows: dict[int, int] = {}
        self._holds: dict[str, _Hold] = {}  # by claim
        self._held_for: dict[str, str] = {}  # volume -> claim
        self._users: dict[str, set[int]] = {}  # assigned pods by claim

    def __contains__(self, number: int) -> bool:
        return number in self.needs

    def set(self, number: int, needs: tuple[VolumeNeed, ...]) -> None:
        """Set a pod's claims; the choices of an assigned pod are made again."""
        row = self._rows.get(number)
        if row is not None:
            self.unassign(number)
        if needs:
            self.needs[number] = needs
        else:
            self.needs.pop(number, None)
        if row is not None:
            self.assign(number, row)

    def forget(self, number: int) -> None:
        """Remove an unassigned pod for good."""
        self.needs.pop(number, None)

    def assign(self, number: int, row: int) -> None:
        """Assign a pod: its claims are in use, and unbound claims hold their choices."""
        needs = self.needs.get(number)
        if not needs:
            return
        choices = self.choices(number, row)
        self._rows[number] = row
        for need in needs:
            if need.disk is not None:
                self._disks.assign(number, row, need.disk)
            else:
                self._users.setdefault(need.claim, set()).add(number)
        self.limits.assign(_attachments(needs), row)
        for claim, volume in choices:
            hold = self._holds.setdefault(claim, _Hold(volume, row))
            hold.users.add(number)
            if volume:
                self._held_for[volume] = claim

    def unassign(self, number: int) -> None:
        """Remove a pod from its row; what only it held is free again."""
        row = self._rows.pop(number, None)
        if row is None:
            return
        self.limits.unassign(_attachments(self.needs[number]), row)
        for need in self.needs[number]:
            if need.disk is not None:
                self._disks.unassign(number, need.disk)
                continue
            users = self._users[need.claim]
            users.discard(number)
            if not users:
                del self._users[need.claim]
            hold = self._holds.get(need.claim)
            if hold is not None:
                hold.users.discard(number)
                if not hold.users:
                    del self._holds[need.claim]
                    self._held_for.pop(hold.volume, None)

    def choices(self, number: int, row: int) -> tuple[VolumeChoice, ...]:
        """What unbound claims take on a row, in the order of the claims; empty if they cannot all be satisfied."""
        open_needs = [need for need in self.needs.get(number, ()) if need.binding is not ClaimBinding.BOUND]
        matched = self._match(open_needs, row)
        if matched is None:
            return ()
        return tuple(VolumeChoice(need.claim, volume) for need, volume in zip(open_needs, matched, strict=True))

    def users_elsewhere(self, number: int) -> tuple[tuple[int, ...], ...]:
        """For each claim that only one pod may use, the other assigned pods that use it."""
        return tuple(
            tuple(sorted(self._users.get(need.claim, set()) - {number}))
            for need in self.needs.get(number, ())
            if need.exclusive
        )

    def disk_conflicts(self, number: int) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each inline disk of the pod, the other pods whose use conflicts: number and row."""
        return tuple(
            tuple(sorted(self._disks.conflicts(number, need.disk)))
            for need in self.needs.get(number, ())
            if need.disk is not None
        )

    def attach_totals(self, number: int, pods: Int) -> Iterator[tuple[DriverTotals, Int]]:
        """For each limited driver of the pod, what rows hold and may hold; and how many volumes each of the
        assigned `pods` would free.
        """
        wanted = set(_attachments(self.needs.get(number, ())))
        for total in self.limits.totals(wanted):
            freed = np.zeros(len(pods), dtype=np.int64)
            for i, pod in enumerate(pods.tolist()):
                if pod in self._rows:
                    held = _attachments(self.needs[pod])
                    freed[i] = self.limits.freed(total.driver, held, self._rows[pod], wanted.__contains__)
            yield total, freed

    def rules(self, number: int, check: Callable[[], None] = lambda: None) -> Iterator[RuleResult]:
        """The rules of the pod's claims and disks, in kube-scheduler's order of plugins. `check` is called for each
        disk, and raises where this costs too much.
        """
        needs = self.needs.get(number, ())
        size = self._regions.size()
        if any(self.users_elsewhere(number)):
            yield RuleResult("VolumeRestrictions", REASON_EXCLUSIVE, np.zeros(size, dtype=np.bool_), True)
        taken: list[int] = []
        for need in needs:
            if need.disk is not None:
                check()
                taken += (row for _, row in self._disks.conflicts(number, need.disk))
        if taken:
            free = np.ones(size, dtype=np.bool_)
            free[taken] = False
            yield RuleResult("VolumeRestrictions", inline_disks.REASON, free, True)
        attachable = self.limits.feasible(_attachments(needs))
        if attachable is not None:
            yield RuleResult(attach_limits.PLUGIN, attach_limits.REASON, attachable, True)
        claims = tuple(need for need in needs if need.disk is None)
        for (plugin, reason), left in self._claim_rows(claims, size):
            yield RuleResult(plugin, reason, left, False)

    def _claim_rows(self, needs: tuple[VolumeNeed, ...], size: int) -> Iterator[tuple[tuple[str, str], Mask]]:
        """Plugin and reason of each claim, and its feasible rows. Removing pods cannot make other rows feasible."""
        for need in needs:
            if need.waits_for:
                yield ("VolumeBinding", need.waits_for), np.zeros(size, dtype=np.bool_)
                return
        for need in needs:
            is_bound = need.binding is ClaimBinding.BOUND
            yield ("VolumeBinding", REASON_CONFLICT if is_bound else REASON_NONE), self._feasible(need, size, _reach)
            if not is_bound and any(option.room is not None for option in need.options):
                yield ("VolumeBinding", REASON_ROOM), self._feasible(need, size, _selectors)
        for need in needs:
            if need.binding is ClaimBinding.BOUND and any(option.zone is not None for option in need.options):
                yield ("VolumeZone", REASON_ZONE), self._feasible(need, size, _zone)
        static = [need for need in needs if need.binding is ClaimBinding.STATIC]
        wanted = [option.volume for need in static for option in need.options]
        if len(static) > 1 and len(set(wanted)) < len(wanted):
            together = np.ones(size, dtype=np.bool_)
            for need in needs:
                together &= self._feasible(need, size, _selectors)
            for row in np.flatnonzero(together).tolist():
                together[row] = self._match(static, row) is not None
            yield ("VolumeBinding", REASON_NONE), together

    def _feasible(
        self, need: VolumeNeed, size: int, selectors: Callable[[VolumeNeed, VolumeOption], _Selectors]
    ) -> Mask:
        """`bool[N]`: rows on which the claim has an option, by these selectors of an option."""
        hold = self._holds.get(need.claim)
        mask = np.zeros(size, dtype=np.bool_)
        for option in need.options:
            if not self._is_available(need, option, hold):
                continue
            rows = self._matching(selectors(need, option))
            if rows is None:
                mask[:] = True
                break
            mask[rows] = True
        if hold is not None and not hold.volume and need.binding is ClaimBinding.PROVISIONED:
            on_row = np.zeros(size, dtype=np.bool_)
            on_row[hold.row] = mask[hold.row]
            return on_row
        return mask

    def _matching(self, selectors: _Selectors) -> Int | None:
        """Rows that match all selectors, ascending; None = all rows."""
        found: Int | None = None
        for selector in selectors:
            rows = self._regions.matching(selector)
            if rows is not None:
                found = rows if found is None else np.intersect1d(found, rows, assume_unique=True)
        return found

    def _is_available(self, need: VolumeNeed, option: VolumeOption, hold: _Hold | None) -> bool:
        if need.binding is ClaimBinding.BOUND:
            return True
        if hold is not None:
            return option.volume == hold.volume
        return self._held_for.get(option.volume, need.claim) == need.claim

    def _match(self, needs: list[VolumeNeed], row: int) -> list[str] | None:
        """A volume for each claim on a row, no volume twice; None if there is no such choice."""
        taken: dict[str, int] = {}  # volume -> index of its claim
        chosen = [""] * len(needs)

        def options(i: int) -> Iterator[str]:
            need = needs[i]
            hold = self._holds.get(need.claim)
            if hold is not None and not hold.volume and hold.row != row:
                return
            for option in need.options:
                if self._is_available(need, option, hold):
                    rows = self._matching(_selectors(need, option))
                    if rows is None or ((at := int(np.searchsorted(rows, row))) < len(rows) and rows[at] == row):
                        yield option.volume

        def find(first: int) -> bool:
            """Give a claim a volume; each claim on the path passes its own to the one before it, and looks for
            another. As deep as there are claims, so without recursion.
            """
            path, seen = [(first, options(first))], set[str]()
            wanted = [""]  # what each claim of the path would take
            while path:
                volume = next((name for name in path[-1][1] if name not in seen), None)
                if volume is None:
                    path.pop()
                    wanted.pop()
                    continue
                wanted[-1] = volume
                if volume:
                    seen.add(volume)
                if volume in taken:
                    path.append((taken[volume], options(taken[volume])))
                    wanted.append("")
                    continue
                for (claim, _), found in zip(path, wanted, strict=True):
                    chosen[claim] = found
                    if found:
                        taken[found] = claim
                return True
            return False

        return chosen if all(map(find, range(len(needs)))) else None
