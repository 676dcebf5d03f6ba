"""What nodes used by the hour, stored as hours end and learned again at the next start.

Every replica learns and stores for itself, so one that begins to lead has a history. What cannot be stored is tried
again and logged; lending goes on by what is in memory.
Limits: of the hour in which a process ends, only what its successor sees is stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from cotenant.drivers.parquet.use_history import UseHistoryFile
from cotenant.engine.manager.predicting import MAX_UNSTORED, NodePrediction
from cotenant.model.prediction.hour import HourOfUse

_LOOK_S = 30.0
_log = logging.getLogger(__name__)


class KeptUse:
    """Of one manager."""

    def __init__(self, history: UseHistoryFile | None, prediction: NodePrediction) -> None:
        self._history, self._prediction = history, prediction
        self._unstored: deque[HourOfUse] = deque(maxlen=MAX_UNSTORED)

    @property
    def is_on(self) -> bool:
        """Whether there is a folder."""
        return self._history is not None

    def replay(self, now_s: float) -> int:
        """Learn what is stored; how many hours."""
        if self._history is None:
            return 0
        count = self._prediction.use.replay(self._history.hours(int(now_s // 3600)))
        for name, why in self._history.unreadable.items():
            _log.warning("history of use: %s is left out: %s", name, why)
        _log.info("history of use: %d hours of %d series", count, len(self._prediction.use))
        return count

    def store(self) -> None:
        """Store the hours that are over."""
        self._unstored.extend(self._prediction.finished())
        while self._history is not None and self._unstored:
            try:
                self._history.store(self._unstored[0])
            except OSError as error:
                _log.warning("history of use: hour %d is not stored yet: %s", self._unstored[0].hour, error)
                return
            self._unstored.popleft()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            self.store()
