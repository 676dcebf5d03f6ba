"""Undo of simulated decisions: an engine as it was before.

A plan of moves is simulated, and a copy of the engine costs two seconds of CPU and the same memory again at 50,000
pods, while a round moves fifty. Simulate in the engine itself and restore it. What each pod was is remembered by
reference. Pods that changed leave the assignments and come back, as the same objects with the same numbers, so that
every sum over pods is exact; then what does not follow from the pods is put back as it was: the queue, nominations, and
what plugins remember (`Plugin.snapshot`). Numbers, orders and back-offs are those of before, so later decisions are
those of an engine in which nothing was simulated.
Limits: nodes, objects of plugins and measurements must be as before when `restore` is called; what was learned from
measurements in between stays learned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from operator import attrgetter

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.framework.memento import Memento
from cotenant.engine.framework.pod_state import PodInfo

_DERIVED = frozenset({"number", "shape", "row", "wanted", "node", "kind", "calls"})  # given anew by the assignments
_PLAIN = tuple(field.name for field in fields(PodInfo) if field.name not in _DERIVED)
_SEEN, _STORY = _PLAIN.index("seen"), _PLAIN.index("story")


class Undo:
    """The engine at the time of its creation. `more`: further objects and containers to be restored."""

    def __init__(self, components: ClusterComponents, pods: Pods, more: Iterable[object]) -> None:
        self._components, self._pods = components, pods
        assignments = components.assignments
        assignments.write()
        self._plugins = [plugin.snapshot() for plugin in components.roster.plugins]
        self._known = pods.by_uid.copy()
        # columns: a tuple for each of 50,000 pods would cost a pass of the garbage collector
        self._numbers = [entry.number for entry in self._known.values()]
        self._nodes = [entry.node for entry in self._known.values()]
        self._plain = [list(map(attrgetter(name), self._known.values())) for name in _PLAIN]
        self._free = assignments.encoder.free_numbers()
        self._reserved = [(entry, assignments.names[entry.row]) for entry in assignments.reserved.values()]
        queue, nominations = components.queue, components.nominations
        waiting = (queue, *queue.groups(), nominations, *nominations.each())
        kept = (assignments.residents, assignments.changed, assignments.stirred)
        self._memento = Memento((pods, pods.nominated, *waiting, components.placing, *kept, *more))

    def restore(self) -> int:
        """Restore what changed since; returns how many pods did. May be called once."""
        assignments = self._components.assignments
        for entry in tuple(assignments.reserved.values()):
            assignments.release(entry, freed=False)
        moved: list[tuple[PodInfo, str, int]] = []
        changed: list[tuple[PodInfo, int]] = []
        columns = (self._plain[_STORY], self._plain[_SEEN], self._numbers, self._nodes)
        for at, (entry, story, seen, number, node) in enumerate(zip(self._known.values(), *columns, strict=True)):
            if not (entry.story is story and entry.seen is seen and entry.number == number):
                moved.append((entry, node, number))
                changed.append((entry, at))
            elif not node:  # pods without one may have got messages and attempts
                changed.append((entry, at))
        now = self._pods.by_uid
        here = (now.get(entry.seen.uid) for entry, _, _ in moved)  # the same pod, or one that was seen again
        new = (now[uid] for uid in sorted(now.keys() - self._known.keys()))
        for entry in [pod_info for pod_info in (*here, *new) if pod_info is not None]:
            assignments.remove(entry)
        assignments.write()
        for entry, at in changed:
            for name, column in zip(_PLAIN, self._plain, strict=True):
                setattr(entry, name, column[at])
        moved.sort(key=lambda element: not element[1])  # those that had a node first
        assignments.encoder.offer_numbers([number for _, _, number in moved], self._free)
        for entry, node, _ in moved:
            assignments.add(entry)
            if node:
                assignments.assign(entry, node)
        assignments.write()
        for entry, node in self._reserved:
            assignments.reserve(entry, node)
        for put_back in self._plugins:
            put_back()
        self._memento.restore()
        return len(moved)
