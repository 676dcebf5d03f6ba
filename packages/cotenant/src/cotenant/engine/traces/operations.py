"""Operations, numbered.

Span names often contain ids, so one bad instrumentation makes a million operations. An operation is (namespace,
service, name, kind); each service has at most `PER_SERVICE`, and all have at most `MOST`, of which no namespace takes
everything (`shares.py`). What comes later is counted under `OTHER`, of its service where that is known, so totals stay
right.
Limits: names are not guessed into patterns; an operation that is no longer seen keeps its number until the process
ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotenant.engine.traces.shares import HolderShares
from cotenant.model.traces.spans import SpanBatch, SpanKind, SpanSource

OTHER = "_other"
MOST = 10_000
MAX_SERVICES = 2_000
PER_SERVICE = 500
_KINDS = len(SpanKind)


@dataclass(frozen=True, slots=True)
class SpanOperation:
    """What one kind of span does in a service."""

    namespace: str
    service: str
    name: str
    kind: SpanKind

    @property
    def qualified_service(self) -> str:
        """NAMESPACE/SERVICE, or SERVICE where it has no namespace."""
        return f"{self.namespace}/{self.service}" if self.namespace else self.service


class Operations:
    """The table of operations."""

    def __init__(self, most: int = MOST, per_service: int = PER_SERVICE, max_services: int = MAX_SERVICES) -> None:
        self._per_service = per_service
        self._of_namespace: HolderShares[str] = HolderShares(most)
        self._services: HolderShares[str] = HolderShares(max_services)  # by namespace, too
        self._numbers: dict[SpanOperation, int] = {}
        self._known: list[SpanOperation] = []
        self._of_service: dict[tuple[str, str], int] = {}
        self._reserved: set[tuple[str, str, str]] = set()
        self.overflowed = 0  # spans that were counted under OTHER

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, number: int) -> SpanOperation:
        return self._known[number]

    @property
    def known(self) -> Sequence[SpanOperation]:
        """By number."""
        return self._known

    def reserve(self, namespace: str, service: str, name: str) -> None:
        """Number this service, and this operation where it is named, beyond the bounds: an objective is about it."""
        self._reserved.add((namespace, service, name))
        self._reserved.add((namespace, service, ""))

    def number(self, batch: SpanBatch, *, is_proven: bool = True) -> NDArray[np.int32]:
        """The operation of each span of a batch. `is_proven`: of a sender that is believed."""
        columns = batch.columns
        keys = (columns.source.astype(np.int64) * len(batch.names) + columns.name) * _KINDS + columns.kind
        distinct, of_row, counts = np.unique(keys, return_inverse=True, return_counts=True)
        numbers = np.empty(distinct.size, np.int32)
        for index, key in enumerate(distinct.tolist()):
            rest, kind = divmod(key, _KINDS)
            source, name = divmod(rest, len(batch.names))
            numbers[index] = self._number(
                batch.sources[source], batch.names[name], SpanKind(kind), int(counts[index]), is_proven
            )
        return numbers[of_row]

    def _number(self, source: SpanSource, name: str, kind: SpanKind, spans: int, is_proven: bool) -> int:
        wanted = SpanOperation(source.namespace, source.service, name, kind)
        number = self._numbers.get(wanted)
        if number is not None:
            return number
        service = (source.namespace, source.service)
        of_service = self._of_service.get(service, 0)
        has_room = of_service < self._per_service and self._of_namespace.has_room(source.namespace, is_proven=is_proven)
        if (has_room and self._has_room_for(service, is_proven)) or (*service, name) in self._reserved:
            self._know(service)
            self._of_service[service] += 1
            return self._add(wanted)
        self.overflowed += spans
        if self._has_room_for(service, is_proven):
            self._know(service)
            return self._add(SpanOperation(*service, OTHER, kind))
        return self._add(SpanOperation("", OTHER, OTHER, kind))

    def _has_room_for(self, service: tuple[str, str], is_proven: bool) -> bool:
        is_known = service in self._of_service or (*service, "") in self._reserved
        return is_known or self._services.has_room(service[0], is_proven=is_proven)

    def _know(self, service: tuple[str, str]) -> None:
        if service not in self._of_service:
            self._of_service[service] = 0
            self._services.take(service[0])

    def _add(self, operation: SpanOperation) -> int:
        number = self._numbers.get(operation)
        if number is None:
            number = self._numbers[operation] = len(self._known)
            self._known.append(operation)
            self._of_namespace.take(operation.namespace)
        return number
