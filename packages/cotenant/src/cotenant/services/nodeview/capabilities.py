"""What an agent can measure and write on this machine, and what is required for the rest.

"it does nothing on my nodes" is mostly a controller that is not mounted or a kernel option, which is hard to find in a
log. One list, obtained from the drivers themselves, so that it reports what they would report.
Limits: knobs are not tested by writing them; the eBPF program is loaded for a moment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.schedstat import RunDelayReader
from cotenant.drivers.ebpf.runqueue import RunQueue
from cotenant.drivers.nri.state_file import HANGS, read_state
from cotenant.drivers.nri.state_file import PATH as HOOK_STATE
from cotenant.model.errors import Unsupported
from cotenant.model.machine.knob import Knob, KnobScope
from cotenant.model.machine.run_queue import BLAME

MEASURE, WRITE = "measure", "turn"
_BLAME = f"{BLAME}, by eBPF"


@dataclass(frozen=True, slots=True)
class AgentCapability:
    """One capability of an agent. `needs` is empty where this machine has it."""

    kind: str  # MEASURE or WRITE
    what: str
    needs: str = ""

    @property
    def is_there(self) -> bool:
        """Whether this machine has it."""
        return not self.needs


def capabilities(layout: CgroupLayout, hook: Path = HOOK_STATE) -> tuple[AgentCapability, ...]:
    """All capabilities, in display order. `hook`: the state file of this node's runtime hook."""
    return (*_measured(layout), *_written(layout), _first_values(hook))


def of_agent(found: Sequence[AgentCapability], gaps: Mapping[str, str]) -> tuple[AgentCapability, ...]:
    """The capabilities of the agent that runs here, whose gaps these are: its keeper may count what this process
    may not.
    """
    return tuple(replace(one, needs=gaps.get(BLAME, "")) if one.what == _BLAME else one for one in found)


def _measured(layout: CgroupLayout) -> list[AgentCapability]:
    with CgroupReader(layout) as reader:
        reader.read(("",))
        lacking = reader.gaps()
    found = [AgentCapability(MEASURE, "CPU, memory, I/O and tasks of groups")] if not lacking else []
    found += [AgentCapability(MEASURE, gap.what, gap.needs) for gap in lacking]
    has_pressure = os.access("/proc/pressure/cpu", os.R_OK)
    found.append(
        AgentCapability(
            MEASURE, "pressure (PSI)", "" if has_pressure else "a kernel with CONFIG_PSI, and psi=1 at boot"
        )
    )
    try:
        RunDelayReader(layout).close()
        found.append(AgentCapability(MEASURE, "run delay by schedstat"))
    except Unsupported as error:
        found.append(AgentCapability(MEASURE, "run delay by schedstat", error.needs))
    found.append(run_queue(layout))
    counter = Path("/sys/bus/event_source/devices/cpu").exists()
    found.append(
        AgentCapability(MEASURE, "cycles and instructions (CPI)", "" if counter else "a hardware performance counter")
    )
    gpus = any(Path("/dev").glob("nvidia[0-9]*"))
    found.append(AgentCapability(MEASURE, "NVIDIA accelerators", "" if gpus else "an NVIDIA driver with its devices"))
    return found


def run_queue(layout: CgroupLayout) -> AgentCapability:
    """Whether the probe of run-queue waits can be loaded."""
    what = _BLAME
    tree = layout.by_controller.get("cpu") or layout.unified
    if tree is None:
        return AgentCapability(MEASURE, what, "the cpu controller")
    if os.geteuid() != 0:
        return AgentCapability(MEASURE, what, "root, or CAP_BPF and CAP_PERFMON")
    try:
        # Only the kernel can tell whether it accepts the program; it is unloaded at once.
        RunQueue(tree.path, tree.version).close()
    except Unsupported as error:
        return AgentCapability(MEASURE, what, error.needs)
    return AgentCapability(MEASURE, what)


def _first_values(hook: Path) -> AgentCapability:
    """Whether new containers start with our values, or get them from the agent's next decision."""
    what = "first values of new containers, by a runtime hook"
    state = read_state(hook)
    if state is None:
        needs = "`cotenant nri` beside a runtime with NRI; without it new containers are limited within one period"
    elif not state.runtime:
        needs = "a runtime that accepts the hook, which runs; until then new containers are limited within one period"
    elif state.hangs:
        needs = f"{HANGS}; new containers are limited within one period"
    elif not state.acts:
        needs = f"mode act, for the hook that {state.runtime} has"
    else:
        needs = ""
    return AgentCapability(WRITE, what, needs)


def _written(layout: CgroupLayout) -> list[AgentCapability]:
    with CgroupKnobs(layout) as knobs:
        found = []
        for knob in Knob:
            if knob.scope is KnobScope.CGROUP:
                gap = knobs.supported(knob)
                found.append(AgentCapability(WRITE, knob.value, gap.needs if gap else ""))
    has_resctrl = Path("/sys/fs/resctrl/schemata").exists()
    found.append(
        AgentCapability(
            WRITE, "cache and memory bandwidth", "" if has_resctrl else "resctrl mounted, on a CPU that has it"
        )
    )
    return found
