"""Wishes that this machine can fulfil, and one reason for those that it cannot.

Problem: a wish for a knob that the machine lacks would be refused again at every tick. Choice: it is left out, and the policy says so once a knob. Limits:
whether the group in question exists is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.model.machine.knob import SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_state import NodeState


def available(state: NodeState, rule: str, wishes: Iterable[SetKnob]) -> tuple[tuple[SetKnob, ...], tuple[Reason, ...]]:
    """The wishes for knobs that there are, and a reason for each knob that there is not."""
    kept: list[SetKnob] = []
    lacking: dict[str, int] = {}
    for wish in wishes:
        knob = wish.target.knob
        if knob in state.supported:
            kept.append(wish)
        else:
            lacking[knob] = lacking.get(knob, 0) + 1
    return tuple(kept), tuple(
        Reason(rule, f"{knob} is wanted for {count} groups, and this machine has no such knob")
        for knob, count in sorted(lacking.items())
    )
