"""Which nodes can give what is asked of their devices, kept by the state that a node is in.

Problem: choosing devices takes some microseconds a node, and there are thousands of nodes for each pod. Choice: an ask is judged once a state
(device_rules_nodes.py) by choosing as if it were given: whether it can be, which minors, what that is worth between nodes, or why not and whether it
could be if nobody held anything. By row only a number is kept, and a row is looked at again when its state is another. Where devices have to lie on some
NUMA nodes, the same is kept for each state and set of them; and for each state the sets that could serve. Limits: memory is a few bytes for each ask and
row; asks beyond the most are forgotten in the order in which they were used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cotenant.engine.rules.devices.nodes import UNKNOWN, DeviceNodes
from cotenant.engine.rules.devices.requests import Ask
from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import DeviceType
from cotenant.policy.placement.devices.allocation import DeviceChoice, allocate
from cotenant.policy.placement.devices.ledger import DeviceLedger
from cotenant.policy.placement.devices.numa import device_hints
from cotenant.policy.placement.devices.scoring import worth
from cotenant.policy.placement.numa import NUMA_IDS, Hint, Hints
from cotenant.policy.placement.refusal import Refusal

_FEW = 8
_MOST_ASKS = 512
_LOOKED_AT = 64  # states, for the nearest of a reason
NO_OBJECT = Refusal("no devices known on the node", "there is no Device object of its name")
_COUNTED = ()  # nothing is chosen: whole cards are counted by the row's sums


class Verdict(NamedTuple):
    """Of one ask on nodes of one state."""

    refusal: Refusal | None
    chosen: tuple[DeviceAllocation, ...] = _COUNTED
    worth: float = 0.0
    yields: bool = False  # refused, and would not be if nobody held anything


def judge(ask: Ask, state: int, ledger: DeviceLedger, numa: int | None = None) -> Verdict:
    """Choose, as if it were given; within these NUMA nodes (mask), None = anywhere."""
    if ask.plain and (state == UNKNOWN or ledger.pool(DeviceType.GPU) is None):
        return Verdict(None)
    if state == UNKNOWN:
        return Verdict(NO_OBJECT)
    wanted = ask.wanted if numa is None else replace(ask.wanted, numa=numa)
    got = allocate(ledger, wanted)
    if isinstance(got, DeviceChoice):
        return Verdict(None, got.allocations, worth(wanted.strategy, ledger, got.allocations, wanted.usual))
    return Verdict(got, yields=bool(allocate(ledger.idle(), wanted)))


class Verdicts:
    """Of one ask, by row."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.reasons: list[tuple[str, bool]] = [("", False)]  # by code: words, and whether it yields; 0 = it fits
        self.codes: Int = np.zeros(0, dtype=np.int64)
        self.worths: Float = np.zeros(0)
        self._states: Int = np.zeros(0, dtype=np.int64)  # that the codes are of
        self._by_state: dict[int, tuple[Verdict, int]] = {}
        self._within: dict[tuple[int, int], Verdict] = {}  # by state and NUMA nodes
        self._hints: dict[tuple[int, tuple[int, ...]], tuple[Hint, ...]] = {}
        self._generation = -1

    def of(self, nodes: DeviceNodes, state: int, numa: int | None = None) -> Verdict:
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
        """On which of these NUMA nodes nodes of one state could serve; nothing where they cannot at all, or nothing is chosen there."""
        if not self.of(nodes, state).chosen:
            return {}
        found = self._hints.get((state, numa_nodes))
        if found is None:
            found = self._hints[state, numa_nodes] = device_hints(nodes.ledgers[state], self.ask.wanted, numa_nodes)
        return {self.ask.name: found}

    def worths_within(self, nodes: DeviceNodes, where: Int) -> Float:
        """`worths`, where the choice on each row is within NUMA nodes: `where[N]`, a mask or -1 = anywhere. Rows are up to date."""
        aligned = np.flatnonzero(where >= 0)
        if not len(aligned):
            return self.worths
        pairs = self._states[aligned] << NUMA_IDS | where[aligned]
        kinds, at = np.unique(pairs, return_inverse=True)
        lowest = (1 << NUMA_IDS) - 1
        worths = [self.of(nodes, pair >> NUMA_IDS, pair & lowest).worth for pair in kinds.tolist()]
        found = self.worths.copy()
        found[aligned] = np.array(worths)[at]
        return found

    def refresh(self, nodes: DeviceNodes) -> None:
        """Look again at the rows whose state has changed."""
        now = nodes.states()
        if nodes.generation != self._generation:
            self._forget(nodes.generation)
        if len(now) != len(self._states):
            self._grow(len(now))
        changed = np.flatnonzero(self._states != now)
        if len(changed) <= _FEW:
            for row in changed.tolist():
                verdict, self.codes[row] = self._judged(nodes, int(now[row]))
                self.worths[row] = verdict.worth
        else:
            kinds, where = np.unique(now[changed], return_inverse=True)
            judged = [self._judged(nodes, int(state)) for state in kinds]
            self.codes[changed] = np.array([code for _, code in judged], dtype=np.int64)[where]
            self.worths[changed] = np.array([verdict.worth for verdict, _ in judged])[where]
        self._states[changed] = now[changed]

    def figures(self, nodes: DeviceNodes, code: int, among: Mask) -> str:
        """What the node that came nearest lacks, of these rows that are refused for this reason."""
        rows = np.flatnonzero((self.codes == code) & among)
        states, first = np.unique(self._states[rows], return_index=True)
        found: list[tuple[int, int, str]] = []
        for state, index in zip(states[:_LOOKED_AT].tolist(), first.tolist(), strict=False):
            refusal = self._judged(nodes, state)[0].refusal
            if refusal is not None:
                found.append((refusal.missing, int(rows[index]), refusal.nearest))
        if not found:
            return ""
        _, row, words = min(found)
        return f"{nodes.name_of(row)}: {words}"

    def _judged(self, nodes: DeviceNodes, state: int) -> tuple[Verdict, int]:
        known = self._by_state.get(state)
        if known is None:
            verdict = judge(self.ask, state, nodes.ledgers[state])
            known = self._by_state[state] = (verdict, self._code(verdict))
        return known

    def _code(self, verdict: Verdict) -> int:
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


class AllVerdicts:
    """Of every ask that was judged lately."""

    def __init__(self, nodes: DeviceNodes) -> None:
        self._nodes = nodes
        self._of: dict[Ask, Verdicts] = {}

    def of(self, ask: Ask) -> Verdicts:
        """Those of one ask, up to date."""
        found = self._of.pop(ask, None) or Verdicts(ask)
        self._of[ask] = found  # the last one used is the last to go
        if len(self._of) > _MOST_ASKS:
            del self._of[next(iter(self._of))]
        found.refresh(self._nodes)
        return found

    def as_known(self, ask: Ask) -> Verdicts:
        """Those of one ask, whose rows may be out of date: to be asked about states."""
        return self._of.get(ask) or self.of(ask)

    def clear(self) -> None:
        """Rows are others now."""
        self._of.clear()
