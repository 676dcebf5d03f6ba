"""Writes of a node's NodeSLO and of its NodeMetric's collect policy, and their deletion once the node is gone.

A write that the watch does not show is repeated, each time after a longer wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cotenant.engine.manager.instructions import DeleteObject, Instruction, NodeObjectKind, WriteSpec, merge_patch
from cotenant.engine.manager.record import NodeRecord, SentSpec


class SpecWrites:
    """`later`: have a node looked at again, at the latest at that time."""

    def __init__(self, confirm_s: float, later: Callable[[str, float], None]) -> None:
        self._confirm_s, self._later = confirm_s, later

    def due(
        self, record: NodeRecord, kind: NodeObjectKind, wanted: Mapping[str, object], now_s: float
    ) -> list[Instruction]:
        """The write that makes the stored object what is wanted, if one is due."""
        stored = record.specs.get(kind)
        patch = merge_patch(stored or {}, {**(stored or {}), **wanted})
        if stored is not None and not patch:
            return []
        sent = record.specs_sent.get(kind)
        tries = 1
        if sent is not None and sent.spec == wanted:
            if sent.waits(now_s, self._confirm_s):
                self._later(record.name, now_s + self._confirm_s)
                return []
            tries = sent.tries + 1
        record.specs_sent[kind] = SentSpec(wanted, now_s, tries)
        self._later(record.name, now_s + self._confirm_s)
        return [WriteSpec(kind, record.name, patch, creates=stored is None)]

    def cleaned(self, record: NodeRecord, now_s: float) -> list[Instruction]:
        """Delete the objects of a node that is gone."""
        found: list[Instruction] = []
        for kind in (NodeObjectKind.NODE_SLO, NodeObjectKind.NODE_METRIC):
            if kind in record.specs:
                sent = record.specs_sent.get(kind)
                if sent is None or now_s - sent.at_s >= self._confirm_s:
                    record.specs_sent[kind] = SentSpec({}, now_s)
                    found.append(DeleteObject(kind, record.name))
                self._later(record.name, now_s + self._confirm_s)
        return found
