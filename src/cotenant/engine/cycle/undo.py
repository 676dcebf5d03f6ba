"""Undo of simulated decisions: an engine as it was before.

Problem: a plan of moves is simulated, and a copy of the engine costs two seconds of CPU and the same memory again at 50,000 pods, while a round moves fifty. Choice: simulate in the engine itself and restore it. What
each pod was is remembered by reference. Pods that changed leave the assignments and come back, as the same objects with the same numbers, so that every sum over pods is exact; then what
does not follow from the pods is put back as it was: the queue, nominations, and what plugins remember (`Plugin.snapshot`). Numbers, orders and back-offs are those of before, so later
decisions are those of an engine in which nothing was simulated.
Limits: nodes, objects of plugins and measurements must be as before when `restore` is called; what was learned from measurements in between stays learned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from operator import attrgetter

from cotenant.engine.cycle.components import Components
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.framework.memento import Memento
from cotenant.engine.framework.pod_state import PodInfo

_DERIVED = frozenset({"number", "shape", "row", "wanted", "node"})  # given anew by the assignments
_PLAIN = tuple(each.name for each in fields(PodInfo) if each.name not in _DERIVED)
_read = attrgetter("number", "node", *_PLAIN)
_SEEN, _STORY = 2 + _PLAIN.index("seen"), 2 + _PLAIN.index("story")


class Undo:
    """The engine at the time of its creation. `more`: further objects and containers to be restored."""

    def __init__(self, components: Components, pods: Pods, more: Iterable[object]) -> None:
        self._components, self._pods = components, pods
        assignments = components.assignments
        assignments.write()
        self._plugins = [plugin.snapshot() for plugin in components.plugins]
        self._entries = list(pods.by_uid.values())
        self._before = list(map(_read, self._entries))
        self._free = assignments.encoder.free_numbers()
        self._reserved = [(entry, assignments.names[entry.row]) for entry in assignments.reserved.values()]
        queue, nominations = components.queue, components.nominations
        waiting = (queue, *queue.groups(), nominations, *nominations.each())
        self._memento = Memento(
            (pods, *waiting, components.placing, assignments.residents, assignments.changed, *more)
        )

    def restore(self) -> int:
        """Restore what changed since; returns how many pods did. May be called once."""
        assignments = self._components.assignments
        for entry in tuple(assignments.reserved.values()):
            assignments.release(entry, freed=False)
        known = {id(entry) for entry in self._entries}
        moved = [
            (entry, before)
            for entry, before in zip(self._entries, self._before, strict=True)
            if entry.story is not before[_STORY] or entry.seen is not before[_SEEN] or entry.number != before[0]
        ]
        now = {id(entry) for entry in self._pods.by_uid.values()}
        for entry in [entry for entry in self._pods.by_uid.values() if id(entry) not in known]:
            assignments.remove(entry)
        for entry, _ in moved:
            if id(entry) in now:
                assignments.remove(entry)
        assignments.write()
        for entry, before in zip(self._entries, self._before, strict=True):
            if _read(entry) != before:
                for name, value in zip(_PLAIN, before[2:], strict=True):
                    setattr(entry, name, value)
        moved.sort(key=lambda each: not each[1][1])  # devices are assumed for pods on nodes first
        assignments.encoder.offer_numbers([before[0] for _, before in moved], self._free)
        for entry, before in moved:
            assignments.add(entry)
            if before[1]:
                assignments.assign(entry, before[1])
        assignments.write()
        for entry, node in self._reserved:
            assignments.reserve(entry, node)
        for put_back in self._plugins:
            put_back()
        self._memento.restore()
        return len(moved)
