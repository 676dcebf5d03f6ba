"""What the cards that the recovery ladder may limit cannot do, by asking their drivers for what stands.

Nothing is set, so a refusal that comes only with a write, such as that of a lock of clocks, shows when it is tried.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cotenant.drivers.gpu.time_slices import PROGRAM
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.engine.node.recovery.stages import RecoveryRung
from cotenant.model.errors import CotenantError
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.services.knobs.host import knobs_of_cards

RUNGS = {
    RecoveryRung.POWER: Knob.GPU_POWER,
    RecoveryRung.CLOCKS: Knob.GPU_CLOCKS,
    RecoveryRung.TIMESLICE: Knob.GPU_TIMESLICE,
}


def unable(
    recovery: RecoverySettings | None, kubelet: Path, library: Any = None, program: str = PROGRAM
) -> tuple[str, ...]:
    """A sentence for each knob of a named card that it has not. `kubelet`: its folder; `library`, `program`: NVML and
    nvidia-smi, or substitutes.
    """
    if recovery is None or not recovery.cards:
        return ()
    found = []
    with knobs_of_cards(kubelet, library, program) as knobs:
        for uuid in recovery.cards:
            for knob in (RUNGS[rung] for rung in recovery.rungs if rung in RUNGS):
                try:
                    knobs.read(KnobTarget(uuid, knob))
                except CotenantError as error:
                    found.append(str(error))
    return tuple(found)
