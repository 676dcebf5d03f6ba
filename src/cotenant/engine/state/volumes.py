"""Which nodes a pod's volumes leave to it, and which volume each claim would take there.

Problem: a claim may already be tied to a place, may be made where its pod goes, or may take one of several existing volumes; several claims of
one pod must agree on a node without taking one volume twice, and a choice made for a pod holds before the API server knows of it. Choice: a row is
open if every claim has an option there, and claims that compete find different volumes by augmenting paths, the smallest first as
listed. Seating a pod holds its choices; leaving gives them back. Source: Kubernetes' VolumeBinding and VolumeRestrictions plugins.
Limits: claims that share candidates are matched row by row in plain Python (about 5 us a row).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cotenant.engine.state.topology import Regions
from cotenant.model.arrays import Mask
from cotenant.model.cluster.observed import Binding, VolumeNeed, VolumeOption

REASON_CONFLICT = "node(s) had volume node affinity conflict"
REASON_NONE = "node(s) didn't find available persistent volumes to bind"
REASON_EXCLUSIVE = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"


class VolumeChoice(NamedTuple):
    """The volume that a claim takes if its pod goes to a row; no volume = it is made there."""

    claim: str
    volume: str


@dataclass(slots=True)
class _Hold:
    """What a claim that is not bound yet was promised."""

    volume: str  # empty = made on the row
    row: int
    users: set[int] = field(default_factory=set)


class Volumes:
    """Needs of pods by their numbers, and what has been promised."""

    def __init__(self, regions: Regions) -> None:
        self._regions = regions
        self._needs: dict[int, tuple[VolumeNeed, ...]] = {}
        self._seats: dict[int, int] = {}
        self._holds: dict[str, _Hold] = {}  # by claim
        self._promised: dict[str, str] = {}  # volume -> claim
        self._users: dict[str, set[int]] = {}  # seated pods by claim

    def __contains__(self, number: int) -> bool:
        return number in self._needs

    def known(self, numbers: Iterable[int]) -> set[int]:
        """Which of these pods have claims."""
        return self._needs.keys() & numbers

    def set(self, number: int, needs: tuple[VolumeNeed, ...]) -> None:
        """A pod's claims as they are now; a seated pod's promises follow."""
        row = self._seats.get(number)
        if row is not None:
            self.leave(number)
        if needs:
            self._needs[number] = needs
        else:
            self._needs.pop(number, None)
        if row is not None:
            self.assign(number, row)

    def forget(self, number: int) -> None:
        """The pod is gone for good; it sits nowhere."""
        self._needs.pop(number, None)

    def assign(self, number: int, row: int) -> None:
        """The pod sits on a row: its claims are in use, and those that are not bound hold what they chose."""
        needs = self._needs.get(number)
        if not needs:
            return
        choices = self.choices(number, row)
        self._seats[number] = row
        for need in needs:
            self._users.setdefault(need.claim, set()).add(number)
        for claim, volume in choices:
            hold = self._holds.setdefault(claim, _Hold(volume, row))
            hold.users.add(number)
            if volume:
                self._promised[volume] = claim

    def leave(self, number: int) -> None:
        """The pod left its row; what only it held is free again."""
        if self._seats.pop(number, None) is None:
            return
        for need in self._needs[number]:
            users = self._users[need.claim]
            users.discard(number)
            if not users:
                del self._users[need.claim]
            hold = self._holds.get(need.claim)
            if hold is not None:
                hold.users.discard(number)
                if not hold.users:
                    del self._holds[need.claim]
                    self._promised.pop(hold.volume, None)

    def choices(self, number: int, row: int) -> tuple[VolumeChoice, ...]:
        """What the claims that are not bound yet take on a row, in the order of the claims; empty where they cannot all be satisfied."""
        open_needs = [need for need in self._needs.get(number, ()) if need.binding is not Binding.BOUND]
        matched = self._match(open_needs, row)
        if matched is None:
            return ()
        return tuple(VolumeChoice(need.claim, volume) for need, volume in zip(open_needs, matched, strict=True))

    def users_elsewhere(self, number: int) -> tuple[tuple[int, ...], ...]:
        """For each claim that only one pod may use, the other seated pods that use it."""
        return tuple(
            tuple(sorted(self._users.get(need.claim, set()) - {number}))
            for need in self._needs.get(number, ())
            if need.exclusive
        )

    def row_filters(self, number: int) -> Iterator[tuple[tuple[str, str], Mask]]:
        """Plugin and reason of each claim, and the rows that it leaves. No removal of pods opens what these close."""
        needs = self._needs.get(number, ())
        size = self._regions.size()
        for need in needs:
            if need.waits_for:
                yield ("VolumeBinding", need.waits_for), np.zeros(size, dtype=np.bool_)
                return
        for need in needs:
            reason = REASON_CONFLICT if need.binding is Binding.BOUND else REASON_NONE
            yield ("VolumeBinding", reason), self._reached(need, size)
        static = [need for need in needs if need.binding is Binding.STATIC]
        wanted = [option.volume for need in static for option in need.options]
        if len(static) > 1 and len(set(wanted)) < len(wanted):
            together = np.ones(size, dtype=np.bool_)
            for need in needs:
                together &= self._reached(need, size)
            for row in np.flatnonzero(together).tolist():
                together[row] = self._match(static, row) is not None
            yield ("VolumeBinding", REASON_NONE), together

    def _reached(self, need: VolumeNeed, size: int) -> Mask:
        """`bool[N]`: rows on which some option is open to the claim."""
        hold = self._holds.get(need.claim)
        mask = np.zeros(size, dtype=np.bool_)
        for option in need.options:
            if not self._open(need, option, hold):
                continue
            rows = self._regions.reach(option.nodes)
            if rows is None:
                mask[:] = True
                break
            mask[rows] = True
        if hold is not None and not hold.volume and need.binding is Binding.PROVISIONED:
            on_row = np.zeros(size, dtype=np.bool_)
            on_row[hold.row] = mask[hold.row]
            return on_row
        return mask

    def _open(self, need: VolumeNeed, option: VolumeOption, hold: _Hold | None) -> bool:
        if need.binding is Binding.BOUND:
            return True
        if hold is not None:
            return option.volume == hold.volume
        return self._promised.get(option.volume, need.claim) == need.claim

    def _match(self, needs: list[VolumeNeed], row: int) -> list[str] | None:
        """A volume for each claim on a row, no volume twice; None where there is no such choice."""
        taken: dict[str, int] = {}  # volume -> which claim
        chosen = [""] * len(needs)

        def options(i: int) -> Iterator[str]:
            need = needs[i]
            hold = self._holds.get(need.claim)
            if hold is not None and not hold.volume and hold.row != row:
                return
            for option in need.options:
                if self._open(need, option, hold):
                    rows = self._regions.reach(option.nodes)
                    if rows is None or ((at := int(np.searchsorted(rows, row))) < len(rows) and rows[at] == row):
                        yield option.volume

        def find(i: int, seen: set[str]) -> bool:
            for volume in options(i):
                if not volume:
                    chosen[i] = ""
                    return True
                if volume in seen:
                    continue
                seen.add(volume)
                if volume not in taken or find(taken[volume], seen):
                    taken[volume] = i
                    chosen[i] = volume
                    return True
            return False

        return chosen if all(find(i, set()) for i in range(len(needs))) else None
