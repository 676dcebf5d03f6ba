"""What this manager learned of nodes with a shared name, for its cluster's joiner, and what other clusters learned.

A look once a minute: every replica takes the others', so one that begins to lead begins with them too; the leader
writes. Others' figures that expired, or that cannot be read, count no more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cotenant.drivers.kube.kinds.shared_predictions import LEARNED, PredictionsMap, evidence_text, read_others
from cotenant.engine.manager.predicting import NodePrediction
from cotenant.model.errors import CotenantError

_LOOK_S = 60.0
_log = logging.getLogger(__name__)


class SharedPredictions:
    """Of one manager."""

    def __init__(
        self,
        stored: PredictionsMap,
        prediction: NodePrediction,
        leads: Callable[[], bool],
        now: Callable[[], float],
    ) -> None:
        self._stored = stored
        self._prediction = prediction
        self._leads = leads
        self._now = now
        self._said = ""  # the last trouble that was logged

    async def look(self) -> None:
        """Take what others learned; write what was learned here where it is another."""
        try:
            data = await self._stored.read()
            others = read_others(data)
            is_on = self._now() < others.until_s
            self._prediction.begin_with(others.predictions if is_on else ())
            learned = self._prediction.learned()
            text = evidence_text(learned) if learned else None
            if self._leads() and text != data.get(LEARNED):
                await self._stored.write(LEARNED, text)
        except CotenantError as error:
            self._prediction.begin_with(())
            if str(error) != self._said:
                _log.warning("shared predictions: %s", error)
            self._said = str(error)
        else:
            self._said = ""

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_S)
