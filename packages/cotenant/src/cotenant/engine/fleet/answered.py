"""Answers by idempotency key, so that a repeated command acts once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")
MAX_KEPT = 1024
KEPT_S = 600.0


class Answered(Generic[T]):
    """The answers of the last ten minutes, bounded by number; the oldest go first."""

    def __init__(self, max_kept: int = MAX_KEPT, kept_s: float = KEPT_S) -> None:
        self._kept: OrderedDict[str, tuple[float, T]] = OrderedDict()
        self._max_kept = max_kept
        self._kept_s = kept_s

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: str, now_s: float) -> T | None:
        """The answer that was given to this key."""
        self._forget(now_s)
        found = self._kept.get(key)
        return found[1] if found is not None else None

    def put(self, key: str, answer: T, now_s: float) -> None:
        """Keep an answer."""
        self._kept[key] = (now_s, answer)
        self._kept.move_to_end(key)
        self._forget(now_s)

    def _forget(self, now_s: float) -> None:
        while self._kept:
            key, (given_s, _) = next(iter(self._kept.items()))
            if len(self._kept) <= self._max_kept and now_s - given_s <= self._kept_s:
                return
            del self._kept[key]
