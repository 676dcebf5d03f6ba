"""What came of two nodes: the one that another scheduler has chosen for a pod, and the one that we would have chosen.

Agreement says nothing about who was right. Each pod with two different nodes is followed for a while: whether a node
came under pressure, was lost, evicted pods or refused to start them, and what it reported at the end. It is no
experiment: the pod ran on one of the two only, and both had other pods as well; many pods together show a tendency.
Limits: pressure and loss are known by the taints that the node controller sets; `MAX_OPEN` pods are followed at a time,
the newest.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from cotenant.engine.framework.plugin import Plugin
from cotenant.model.arrays import ReportColumn
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.report import REPORT_TTL_S
from cotenant.model.decisions.shadow import Followed, NodeSignal, Worse

MAX_OPEN = 4096
WINDOW_S = 600.0
_PREFIX = "node.kubernetes.io/"
_PRESSURE = frozenset(f"{_PREFIX}{what}-pressure" for what in ("memory", "disk", "pid"))
_LOST = frozenset({f"{_PREFIX}not-ready", f"{_PREFIX}unreachable"})
_COUNTED = (NodeSignal.PRESSURE, NodeSignal.NOT_READY, NodeSignal.EVICTIONS, NodeSignal.REFUSED_STARTS)
_REPORTED = {
    NodeSignal.CPU_USED: ReportColumn.CPU_USED,
    NodeSignal.LATENCY_P99: ReportColumn.LATENCY_P99_MS,
    NodeSignal.VIOLATIONS: ReportColumn.VIOLATION,
}
_APART = 0.1  # reported values that differ by less than this share are alike

Reported = Callable[[str], tuple[float, ...]]  # a node's last report, in the order of `ReportColumn`


class NodeSignals(Plugin):
    """Counts what happens to nodes."""

    name = "ShadowSignals"

    def __init__(self) -> None:
        self._times: dict[str, Counter[NodeSignal]] = {}
        self._now: dict[str, frozenset[NodeSignal]] = {}  # what holds at present

    def capture(self) -> Callable[[], Plugin]:
        """See `Plugin`."""
        return NodeSignals

    def node_changed(self, name: str, node: Node | None) -> None:
        """See `Plugin`."""
        if node is None:
            self._times.pop(name, None)
            self._now.pop(name, None)
            return
        keys = {taint.key for taint in node.taints}
        under = {NodeSignal.PRESSURE} if keys & _PRESSURE else set[NodeSignal]()
        if keys & _LOST or not node.ready:
            under.add(NodeSignal.NOT_READY)
        times = self._times.setdefault(name, Counter())
        times.update(under - self._now.get(name, frozenset()))
        self._now[name] = frozenset(under)

    def happened(self, node: str, signal: NodeSignal) -> None:
        """Something else came of a node."""
        if node in self._times:
            self._times[node][signal] += 1

    def so_far(self, node: str) -> tuple[int, ...] | None:
        """How often each counted signal was seen; one that holds at present counts anew each time. None for an unknown
        node.
        """
        times = self._times.get(node)
        return None if times is None else tuple(times[signal] for signal in _COUNTED)

    def holds(self, node: str) -> frozenset[NodeSignal]:
        """What holds at present."""
        return self._now.get(node, frozenset())


@dataclass(frozen=True, slots=True)
class _Open:
    at_s: float
    pod: str
    real: str
    ours: str
    before: tuple[tuple[int, ...] | None, tuple[int, ...] | None]


class Following:
    """The pods that are followed, the oldest first."""

    def __init__(self, signals: NodeSignals, reported: Reported, window_s: float = WINDOW_S) -> None:
        self.window_s = window_s
        self.counts: Counter[tuple[NodeSignal, Worse]] = Counter()
        self.cut = 0  # pods that were given up because there were too many
        self._signals = signals
        self._reported = reported
        self._open: deque[_Open] = deque()

    def __len__(self) -> int:
        return len(self._open)

    def follow(self, pod: str, real: str, ours: str, now_s: float) -> None:
        """Begin with a pod."""
        if len(self._open) >= MAX_OPEN:
            self._open.popleft()
            self.cut += 1
        before = self._signals.so_far(real), self._signals.so_far(ours)
        self._open.append(_Open(now_s, pod, real, ours, before))

    def due_s(self) -> float:
        """When the next pod's window ends; inf = never."""
        return self._open[0].at_s + self.window_s if self._open else float("inf")

    def close(self, now_s: float) -> list[Followed]:
        """The pods whose window is over."""
        done: list[Followed] = []
        while self._open and self.due_s() <= now_s:
            case = self._open.popleft()
            signals = (*self._counted(case), *self._measured(case, now_s))
            self.counts.update(signals)
            done.append(Followed(case.at_s, case.pod, case.real, case.ours, signals))
        return done

    def _counted(self, case: _Open) -> list[tuple[NodeSignal, Worse]]:
        seen = [self._since(name, before) for name, before in zip((case.real, case.ours), case.before, strict=True)]
        real, ours = seen
        found = []
        for signal in _COUNTED:
            if real is None or ours is None:
                worse = Worse.UNKNOWN
            elif not (real[signal] or ours[signal]):
                worse = Worse.NEITHER
            elif real[signal] == ours[signal]:
                worse = Worse.ALIKE
            else:
                worse = Worse.REAL if real[signal] > ours[signal] else Worse.OURS
            found.append((signal, worse))
        return found

    def _since(self, node: str, before: tuple[int, ...] | None) -> dict[NodeSignal, int] | None:
        """How often each signal was seen since; one that held all the time counts once."""
        now = self._signals.so_far(node)
        if now is None or before is None:
            return None
        held = self._signals.holds(node)
        return {
            signal: max(int(signal in held), later - earlier)
            for signal, later, earlier in zip(_COUNTED, now, before, strict=True)
        }

    def _measured(self, case: _Open, now_s: float) -> list[tuple[NodeSignal, Worse]]:
        real, ours = (self._fresh(name, now_s) for name in (case.real, case.ours))
        found = []
        for signal, column in _REPORTED.items():
            if real is None or ours is None or not (isfinite(real[column]) and isfinite(ours[column])):
                found.append((signal, Worse.UNKNOWN))
                continue
            one, other = real[column], ours[column]
            if abs(one - other) <= _APART * max(abs(one), abs(other)):
                found.append((signal, Worse.ALIKE if one or other else Worse.NEITHER))
            else:
                found.append((signal, Worse.REAL if one > other else Worse.OURS))
        return found

    def _fresh(self, node: str, now_s: float) -> tuple[float, ...] | None:
        row = self._reported(node)
        fresh = bool(row) and now_s - row[ReportColumn.REPORTED_AT] <= REPORT_TTL_S  # NaN: it never reported
        return row if fresh else None
