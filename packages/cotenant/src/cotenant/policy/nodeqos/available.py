"""Filter desired knobs by what the machine supports, with one reason per unsupported knob.

A desired knob that the machine lacks would be rejected again at every tick. It is left out, and the policy reports it
once per knob.
Limits: whether the group exists is not checked here.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.model.machine.knob import SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_state import NodeState


def available(
    state: NodeState, rule: str, desired: Iterable[SetKnob]
) -> tuple[tuple[SetKnob, ...], tuple[Reason, ...]]:
    """The desired values of supported knobs, and a reason for each unsupported knob."""
    kept: list[SetKnob] = []
    lacking: dict[str, int] = {}
    for wish in desired:
        knob = wish.target.knob
        if knob in state.supported:
            kept.append(wish)
        else:
            lacking[knob] = lacking.get(knob, 0) + 1
    return tuple(kept), tuple(
        Reason(rule, f"{knob} is desired for {count} groups, but this machine does not support it")
        for knob, count in sorted(lacking.items())
    )
