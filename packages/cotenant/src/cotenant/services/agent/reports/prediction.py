"""Trains the prediction of reclaimable requests each minute, and keeps its histories in a file.

A prediction needs a day of measurements, and an agent is restarted more often than that. One observation a minute from
the agent's own averages; the histories are written to a file every ten minutes and at the end, beside their place and
renamed, and read at the start. A file that cannot be read is set aside in a log line and training starts anew; one that
cannot be written is logged once, and prediction goes on.
Limits: time in which no agent runs is not observed, and a pod that was restarted as another pod begins anew.
Source: Koordinator, koordlet's predict server (training interval 1 min, checkpoints every 10 min).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cotenant.engine.node.prediction import KeptHistories, ProdPrediction
from cotenant.engine.node.report import NodeUsage
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import Use
from cotenant.model.machine.node_pod import NodePod
from cotenant.policy.overcommit.reclaimable import Reclaimable

TRAIN_EVERY_S = 60.0
KEEP_EVERY_S = 600.0
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Prediction:
    """The loop around `ProdPrediction`. `file`: None keeps nothing."""

    engine: ProdPrediction
    file: Path | None
    usage: Callable[[Sequence[int]], NodeUsage | None]
    pods: Callable[[], Sequence[NodePod]]
    allocatable: Callable[[], Use | None]
    monotonic: Callable[[], float]
    trained_s: float | None = None  # when it was trained last; monotonic
    write_problem: str = ""

    def reclaimable(self) -> Reclaimable | None:
        """The current prediction; None where nothing has been measured yet."""
        allocatable = self.allocatable()
        return None if allocatable is None else self.engine.current(self.pods(), allocatable)

    async def run(self) -> None:
        """Train and keep, until cancelled."""
        self.load()
        kept_s = self.monotonic()
        try:
            while True:
                await asyncio.sleep(TRAIN_EVERY_S)
                self.train()
                if self.monotonic() - kept_s >= KEEP_EVERY_S:
                    kept_s = self.monotonic()
                    self.save()
        finally:
            self.save()

    def train(self) -> None:
        """One observation of the last minute."""
        usage = self.usage((round(TRAIN_EVERY_S * 1e6),))
        now_s = self.monotonic()
        # A suspended machine or a late loop observed no more than two periods.
        elapsed_s = TRAIN_EVERY_S if self.trained_s is None else min(now_s - self.trained_s, 2 * TRAIN_EVERY_S)
        self.trained_s = now_s
        if usage is not None and usage.cpu_m is not None:
            self.engine.measured(usage, elapsed_s)

    def load(self) -> None:
        """Continue with the histories of the file, where there is one."""
        if self.file is None:
            return
        try:
            self.engine.restore(msgspec.json.decode(self.file.read_bytes(), type=KeptHistories))
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError, InvalidInput) as error:
            _log.warning("%s cannot be continued, the prediction starts anew: %s", self.file, error)
        else:
            _log.info("prediction continues with histories of %d pods", len(self.engine.histories.pods))

    def save(self) -> None:
        """Write the histories. A failure is logged once."""
        if self.file is None or self.engine.histories.together is None:
            return
        beside = self.file.with_name(self.file.name + ".new")
        try:
            beside.write_bytes(msgspec.json.encode(self.engine.kept()))
            os.replace(beside, self.file)
        except OSError as error:
            with suppress(OSError):
                beside.unlink()
            if not self.write_problem:
                _log.warning("histories of the prediction are not kept: %s", error)
            self.write_problem = str(error)
        else:
            self.write_problem = ""
