"""Whether shares of this node's GPUs are held, from what the agent and the runtime hook saw.

The hook knows containers and the MPS daemon, the agent the cards. The hook says what it saw in its state file, which is
locked while it lives, so that of a process that was killed nothing is left.
Limits: a hook that hangs counts as none after `HANGS_AFTER_S`; the file is read at every use.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.drivers.nri.state_file import read_state
from cotenant.engine.node.gpu_limits import ShareVerdict, shares_held
from cotenant.model.machine.counters import GpuCounters
from cotenant.services.agent_settings.runtime_hook import RuntimeHook


def shares_of_node(settings: RuntimeHook, gpus: Sequence[GpuCounters]) -> ShareVerdict:
    """The verdict now."""
    state = read_state(settings.state_file)
    acts = state is not None and state.acts and not state.hangs and bool(state.runtime)
    return shares_held(gpus, state.shares if state is not None and acts else None, asked=settings.mps_pipe is not None)
