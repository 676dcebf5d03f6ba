"""The result of every node policy.

Several policies, from more than one folder, set the same knobs at the same time, and a policy that stops setting one
must leave nothing behind. A policy returns its complete desired state each time (`PolicyVerdict.knobs`), not a
change; the engine holds those values as leases, resolves conflicts (the most restrictive value wins) and restores
knobs that no policy wants any more. State between calls is a frozen value that the policy takes and returns:
`decide(state, config, memory) -> (PolicyVerdict, memory)`.
Limits: evictions are requests too; the engine paces them.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.machine.knob import SetKnob
from cotenant.model.machine.node_decision import EvictPod, Reason


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """The desired state and the reasons for it; always with a reason, even where nothing is desired."""

    reasons: tuple[Reason, ...]
    knobs: tuple[SetKnob, ...] = ()
    evictions: tuple[EvictPod, ...] = ()  # in the order of eviction
