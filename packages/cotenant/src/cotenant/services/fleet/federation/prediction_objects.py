"""A joined cluster's predictions: what its manager learned is read each period, and what others learned is written."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cotenant.drivers.kube.kinds.shared_predictions import OTHERS, OthersUse, PredictionsMap, read_learned
from cotenant.model.prediction.shared_use import UseEvidence

_KEPT_SHARE = 0.5  # of the time that stands is gone: it is written anew, also where it is the same


class JoinedPredictions:
    """Of one joiner."""

    def __init__(self, stored: PredictionsMap) -> None:
        self._stored = stored
        self._written: tuple[tuple[UseEvidence, ...], float] | None = None  # and until when it counts

    async def learned(self) -> tuple[UseEvidence, ...]:
        """Raises `CotenantError`."""
        return read_learned(await self._stored.read())

    async def write(self, in_force: Mapping[str, UseEvidence], now_s: float, lasts_s: float) -> bool:
        """What others learned, for so long; nothing where there is none. Whether it was written. Raises
        `CotenantError`.
        """
        found = tuple(in_force.values())
        if not found:
            if self._written is None or self._written[0]:
                await self._stored.write(OTHERS, None)
                self._written = (), 0.0
            return False
        known = self._written
        if known is not None and known[0] == found and now_s < known[1] - _KEPT_SHARE * lasts_s:
            return False
        until_s = now_s + lasts_s
        await self._stored.write(OTHERS, msgspec.json.encode(OthersUse(until_s, found)).decode())
        self._written = found, until_s
        return True
