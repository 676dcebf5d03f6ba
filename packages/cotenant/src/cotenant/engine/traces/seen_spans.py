"""Which spans were counted already.

OTLP delivers at least once: an exporter whose answer was lost sends its batch again, minutes later or to the next
process, and the same requests would count twice. 64-bit prints of trace id, span id and kind (client and server of a
Zipkin call share their ids) in two generations of an open table. The newer one takes prints until it is `GENERATION_S`
old or full; then the older one is dropped. The last prints can be saved over a restart.
Limits: a repeat is known for one to two generations, at 20,000 spans a second for two minutes or more; 64 MB at most. A
print is looked for in `_MAX_PROBES` places, so ids that are chosen to meet cost no more than others: they are then
counted each time.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from cotenant.model.compiled import njit
from cotenant.model.traces.spans import SpanColumns, SpanSource

GENERATION_S = 600.0
MAX_PRINTS = 1 << 21  # of a generation
MAX_SAVED = 1 << 18
_FIRST_SLOTS = 1 << 12
_MAX_PROBES = 64
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of splitmix64
_SHIFT_1, _SHIFT_2 = np.uint64(30), np.uint64(27)

Prints = NDArray[np.uint64]


class SeenSpans:
    """The prints of the spans that were counted. Times are Unix seconds."""

    def __init__(self, now_s: float, max_prints: int = MAX_PRINTS) -> None:
        self._max_prints = max_prints
        self._newer, self._older = _table(_FIRST_SLOTS), _table(_FIRST_SLOTS)
        self._held = 0  # of the newer one
        self._begun_s = now_s
        self._last: Prints = np.zeros(0, np.uint64)  # a ring, made when it is filled first
        self._at = 0

    def repeated(self, spans: SpanColumns, now_s: float, sources: tuple[SpanSource, ...] = ()) -> NDArray[np.bool_]:
        """Which of these were seen before, here or above in the same batch; the others are seen now. The ids of one
        proven sender are not those of another: who copies a span's ids before its owner sends it cannot make it a
        repeat.
        """
        if self._held + spans.span_id.size > self._max_prints or not 0.0 <= now_s - self._begun_s < GENERATION_S:
            self._older, self._newer, self._held, self._begun_s = self._newer, _table(_FIRST_SLOTS), 0, now_s
        prints = _prints(spans.trace_high, spans.trace_low, spans.span_id, spans.kind)
        if any(source.sender for source in sources):
            of_source = np.array([_sender_print(source.sender) for source in sources], np.uint64)
            prints = np.maximum(prints ^ of_source[spans.source], np.uint64(1))  # 0 is a free slot
        return self._enter(prints)

    def saved(self) -> bytes:
        """The last prints, as `restore` takes them."""
        return np.concatenate([self._last[self._at :], self._last[: self._at]]).tobytes()

    def restore(self, saved: bytes) -> None:
        """Know these prints, too."""
        if len(saved) % 8 == 0:
            self._enter(np.frombuffer(saved, np.uint64)[-MAX_SAVED:])

    def _enter(self, prints: Prints) -> NDArray[np.bool_]:
        slots = self._newer.size
        while slots < 2 * (self._held + prints.size):
            slots *= 2
        if slots > self._newer.size:
            grown = _table(slots)
            _enter(self._newer[self._newer > 0], grown, _table(1))
            self._newer = grown
        repeated = _enter(prints, self._newer, self._older)
        fresh = prints[~repeated]
        self._held += fresh.size
        self._remember(fresh[-MAX_SAVED:])
        return repeated

    def _remember(self, prints: Prints) -> None:
        if self._last.size < MAX_SAVED:
            self._last = np.concatenate([self._last, prints])[-MAX_SAVED:]
            return
        places = (self._at + np.arange(prints.size)) % MAX_SAVED
        self._last[places] = prints
        self._at = (self._at + prints.size) % MAX_SAVED


@lru_cache(4096)
def _sender_print(sender: str) -> int:
    """The same in the next process, too."""
    return int.from_bytes(blake2b(sender.encode(), digest_size=8).digest(), "little") if sender else 0


def _table(slots: int) -> Prints:
    return np.zeros(slots, np.uint64)


@njit
def _mixed(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> _SHIFT_1)) * _MIX_1
    value = (value ^ (value >> _SHIFT_2)) * _MIX_2
    return value ^ (value >> np.uint64(31))


@njit
def _prints(high: Prints, low: Prints, span: Prints, kind: NDArray[np.uint8]) -> Prints:
    found = np.empty(span.size, np.uint64)
    for row in range(span.size):
        mixed = _mixed(_mixed(_mixed(high[row] + np.uint64(kind[row])) ^ low[row]) ^ span[row])
        found[row] = mixed if mixed else np.uint64(1)  # 0 is a free slot
    return found


@njit
def _enter(prints: Prints, newer: Prints, older: Prints) -> NDArray[np.bool_]:
    """Which prints one of the tables has; the others are put into the newer one."""
    repeated = np.zeros(prints.size, np.bool_)
    older_mask, mask = np.uint64(older.size - 1), np.uint64(newer.size - 1)
    for index in range(prints.size):
        wanted = prints[index]
        slot = wanted & older_mask
        for _ in range(_MAX_PROBES):
            if older[slot] == wanted:
                repeated[index] = True
            if older[slot] == wanted or older[slot] == 0:
                break
            slot = (slot + np.uint64(1)) & older_mask
        if repeated[index]:
            continue
        slot = wanted & mask
        for _ in range(_MAX_PROBES):
            if newer[slot] == wanted:
                repeated[index] = True
                break
            if newer[slot] == 0:
                newer[slot] = wanted
                break
            slot = (slot + np.uint64(1)) & mask
    return repeated
