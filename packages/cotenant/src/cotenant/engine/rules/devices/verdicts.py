"""Which nodes can satisfy a device request, cached by node state.

Choosing devices takes microseconds per node, and there are thousands of nodes for each pod. An ask is judged once per
node state (nodes.py) by a trial allocation: whether it fits, which minors, its score between nodes, or the reason and
whether it would fit on an idle node. Per row only a code is stored, and a row is judged again when its state changes.
Where allocations are restricted to NUMA nodes, the same is cached per state and NUMA node set; for each state, so are
the sets that could serve.
Limits: a few bytes per ask and row; beyond `_MAX_ASKS` the least recently used ask is dropped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cotenant.engine.rules.devices.nodes import UNKNOWN, DeviceNodes
from cotenant.engine.rules.devices.requests import DistinctDeviceRequest
from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import DeviceType
from cotenant.policy.placement.devices.allocation import DeviceChoice, allocate, crowding
from cotenant.policy.placement.devices.ledger import DeviceLedger
from cotenant.policy.placement.devices.numa import device_hints
from cotenant.policy.placement.devices.scoring import worth
from cotenant.policy.placement.numa import NUMA_IDS, Hint, Hints
from cotenant.policy.placement.refusal import Refusal

_FEW = 8
_MAX_ASKS = 512
_LOOKED_AT = 64  # states searched for the nearest miss of a reason
NO_OBJECT = Refusal("no devices known on the node", "there is no Device object of its name")
_COUNTED = ()  # no choice: whole cards are counted by the row's sums


class DeviceVerdict(NamedTuple):
    """The answer to one ask on nodes of one state."""

    refusal: Refusal | None
    chosen: tuple[DeviceAllocation, ...] = _COUNTED
    worth: float = 0.0
    yields: bool = False  # refused now, but would fit on an idle node
    points: int = 0  # how ill it fits beside who is there


def judge(ask: DistinctDeviceRequest, state: int, ledger: DeviceLedger, numa: int | None = None) -> DeviceVerdict:
    """A trial allocation, within these NUMA nodes (mask), None = anywhere."""
    if ask.plain and (state == UNKNOWN or ledger.pool(DeviceType.GPU) is None):
        return DeviceVerdict(None)
    if state == UNKNOWN:
        return DeviceVerdict(NO_OBJECT)
    wanted = ask.wanted if numa is None else replace(ask.wanted, numa=numa)
    got = allocate(ledger, wanted)
    if isinstance(got, DeviceChoice):
        beside = crowding(ledger, wanted.need, got.allocations) if ask.is_share else 0
        value = worth(wanted.strategy, ledger, got.allocations, wanted.usual)
        return DeviceVerdict(None, got.allocations, value, points=beside)
    return DeviceVerdict(got, yields=bool(allocate(ledger.idle(), wanted)))


def fits(ask: DistinctDeviceRequest, ledger: DeviceLedger) -> bool:
    """Whether a node with a Device object and this ledger can satisfy the ask."""
    return (ask.plain and ledger.pool(DeviceType.GPU) is None) or isinstance(allocate(ledger, ask.wanted), DeviceChoice)


def hints_of(ask: DistinctDeviceRequest, ledger: DeviceLedger, numa_nodes: tuple[int, ...]) -> Hints:
    """Which of these NUMA nodes could serve; empty where the ask does not fit, or nothing is chosen there."""
    if not isinstance(allocate(ledger, ask.wanted), DeviceChoice):
        return {}
    return {ask.name: device_hints(ledger, ask.wanted, numa_nodes)}


class DeviceVerdicts:
    """The answers to one ask, by row."""

    def __init__(self, ask: DistinctDeviceRequest) -> None:
        self.ask = ask
        self.reasons: list[tuple[str, bool]] = [
            ("", False)
        ]  # by code: text, and whether evictions could help; 0 = it fits
        self.codes: Int = np.zeros(0, dtype=np.int64)
        self.worths: Float = np.zeros(0)
        self.points: Int = np.zeros(0, dtype=np.int64)
        self._states: Int = np.zeros(0, dtype=np.int64)  # that the codes were computed from
        self._by_state: dict[int, tuple[DeviceVerdict, int]] = {}
        self._within: dict[tuple[int, int], DeviceVerdict] = {}  # by state and NUMA nodes
        self._hints: dict[tuple[int, tuple[int, ...]], tuple[Hint, ...]] = {}
        self._generation = -1

    def of(self, nodes: DeviceNodes, state: int, numa: int | None = None) -> DeviceVerdict:
        """The verdict on nodes of one state, within these NUMA nodes (mask), None = anywhere."""
        if nodes.generation != self._generation:
            self._forget(nodes.generation)
        if numa is None:
            return self._judged(nodes, state)[0]
        found = self._within.get((state, numa))
        if found is None:
            found = self._within[state, numa] = judge(self.ask, state, nodes.ledgers[state], numa)
        return found

    def hints(self, nodes: DeviceNodes, state: int, numa_nodes: tuple[int, ...]) -> Hints:
        """Which of these NUMA nodes could serve on nodes of one state; empty where the ask does not fit, or nothing
        is chosen there.
        """
        if not self.of(nodes, state).chosen:
            return {}
        found = self._hints.get((state, numa_nodes))
        if found is None:
            found = self._hints[state, numa_nodes] = device_hints(nodes.ledgers[state], self.ask.wanted, numa_nodes)
        return {self.ask.name: found}

    def within(self, nodes: DeviceNodes, where: Int) -> tuple[Float, Int]:
        """`worths` and `points` with each row's choice restricted to NUMA nodes: `where[N]`, a mask or -1 = anywhere.
        Rows must be up to date.
        """
        aligned = np.flatnonzero(where >= 0)
        if not len(aligned):
            return self.worths, self.points
        pairs = self._states[aligned] << NUMA_IDS | where[aligned]
        kinds, at = np.unique(pairs, return_inverse=True)
        lowest = (1 << NUMA_IDS) - 1
        judged = [self.of(nodes, pair >> NUMA_IDS, pair & lowest) for pair in kinds.tolist()]
        worths, points = self.worths.copy(), self.points.copy()
        worths[aligned] = np.array([verdict.worth for verdict in judged])[at]
        points[aligned] = np.array([verdict.points for verdict in judged])[at]
        return worths, points

    def refresh(self, nodes: DeviceNodes) -> None:
        """Judge the rows whose state has changed."""
        now = nodes.states()
        if nodes.generation != self._generation:
            self._forget(nodes.generation)
        if len(now) != len(self._states):
            self._grow(len(now))
        changed = np.flatnonzero(self._states != now)
        if len(changed) <= _FEW:
            for row in changed.tolist():
                verdict, self.codes[row] = self._judged(nodes, int(now[row]))
                self.worths[row], self.points[row] = verdict.worth, verdict.points
        else:
            kinds, where = np.unique(now[changed], return_inverse=True)
            judged = [self._judged(nodes, int(state)) for state in kinds]
            self.codes[changed] = np.array([code for _, code in judged], dtype=np.int64)[where]
            self.worths[changed] = np.array([verdict.worth for verdict, _ in judged])[where]
            self.points[changed] = np.array([verdict.points for verdict, _ in judged], dtype=np.int64)[where]
        self._states[changed] = now[changed]

    def figures(self, nodes: DeviceNodes, code: int, among: Mask) -> str:
        """The shortage on the nearest miss among these rows, refused for this reason."""
        rows = np.flatnonzero((self.codes == code) & among)
        states, first = np.unique(self._states[rows], return_index=True)
        found: list[tuple[int, int, str]] = []
        for state, index in zip(states[:_LOOKED_AT].tolist(), first.tolist(), strict=False):
            refusal = self._judged(nodes, state)[0].refusal
            if refusal is not None:
                found.append((refusal.missing, int(rows[index]), refusal.nearest))
        if not found:
            return ""
        _, row, text = min(found)
        return f"{nodes.name_of(row)}: {text}"

    def _judged(self, nodes: DeviceNodes, state: int) -> tuple[DeviceVerdict, int]:
        known = self._by_state.get(state)
        if known is None:
            verdict = judge(self.ask, state, nodes.ledgers[state])
            known = self._by_state[state] = (verdict, self._code(verdict))
        return known

    def _code(self, verdict: DeviceVerdict) -> int:
        if verdict.refusal is None:
            return 0
        reason = (verdict.refusal.reason, verdict.yields)
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason)

    def _forget(self, generation: int) -> None:
        self._generation = generation
        self._by_state.clear()
        self._within.clear()
        self._hints.clear()
        self._states[:] = -1

    def _grow(self, size: int) -> None:
        self._states = np.full(size, -1, dtype=np.int64)
        self.codes = np.zeros(size, dtype=np.int64)
        self.worths = np.zeros(size)
        self.points = np.zeros(size, dtype=np.int64)


class DeviceVerdictCache:
    """Verdicts by ask, the least recently used dropped first."""

    def __init__(self, nodes: DeviceNodes) -> None:
        self._nodes = nodes
        self._by_ask: dict[DistinctDeviceRequest, DeviceVerdicts] = {}

    def of(self, ask: DistinctDeviceRequest) -> DeviceVerdicts:
        """The verdicts on one ask, up to date."""
        found = self._by_ask.pop(ask, None) or DeviceVerdicts(ask)
        self._by_ask[ask] = found  # most recently used last
        if len(self._by_ask) > _MAX_ASKS:
            del self._by_ask[next(iter(self._by_ask))]
        found.refresh(self._nodes)
        return found

    def as_known(self, ask: DistinctDeviceRequest) -> DeviceVerdicts:
        """The verdicts on one ask, whose rows may be out of date: for queries by state."""
        return self._by_ask.get(ask) or self.of(ask)

    def clear(self) -> None:
        """Drop everything: the rows changed."""
        self._by_ask.clear()
