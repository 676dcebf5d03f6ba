"""What every node policy answers with.

Problem: several policies, of more than one folder, want the same knobs at the same time, and one that stops wanting must leave nothing
behind. Choice: a policy says each time everything that it wants to stand (`Verdict.knobs`), not what to change; the engine keeps those as
leases, settles conflicts (the most restrictive wish wins) and gives back what nobody wants any more. What a policy has to remember between
calls is a frozen value that it takes and returns: `decide(state, config, memory) -> (Verdict, memory)`. Limits: evictions are wishes too; the engine paces them.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.machine.knob import SetKnob
from cotenant.model.machine.node_decision import EvictPod, Reason


@dataclass(frozen=True, slots=True)
class Verdict:
    """All that a policy wants, and why; never without a reason, also where it wants nothing."""

    reasons: tuple[Reason, ...]
    knobs: tuple[SetKnob, ...] = ()
    evictions: tuple[EvictPod, ...] = ()  # in the order in which they should leave
