"""The further sources of the agent's samples, one entry each.

What a machine can report beside its own counters and those of its groups differs, and a new figure should be one entry.
A `SampleCollector` for each source that works when the agent starts, in the order in which they are read.
Limits: a source that does not work then is not tried again.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack

from cotenant.drivers.cgroup.sensor import SampleCollector
from cotenant.drivers.gpu.live import live_gpus
from cotenant.model.errors import CotenantError
from cotenant.services.agent.actions.hardware_classes import Uplink, quietly

_log = logging.getLogger(__name__)


def collectors(stack: AsyncExitStack, uplink: Uplink | None = None) -> tuple[SampleCollector, ...]:
    """Every source that works here; `stack` closes them. `uplink`: where best-effort traffic has a class of its own."""
    return (
        *_accelerators(stack),
        *(() if uplink is None else (SampleCollector("best-effort traffic", uplink.collect),)),
    )


def _accelerators(stack: AsyncExitStack) -> tuple[SampleCollector, ...]:
    try:
        gpus = live_gpus()
    except CotenantError as error:
        _log.info("no accelerators: %s", error)
        return ()
    stack.callback(quietly(gpus.close))
    if gpus.is_asked:
        _log.warning("the GPU driver does not answer; accelerators are read once it does")
    return (SampleCollector("accelerators", gpus.collect, gpus.gaps),)
