"""Which quota, gang, reservation or keeper has a say about a pod, in their own words.

Problem: a pod that every node would take may still wait for its quota or its gang, and each of them keeps its own books. Choice: each member of the
roster is asked for what it would tell of itself (`describe`), and this file says which of it is about the pod. Limits: nothing is decided here.
"""

from __future__ import annotations

from cotenant.engine.podstate import Entry
from cotenant.engine.roster import Roster
from cotenant.model.answers import Concern
from cotenant.model.pod import Pod


def concerns(roster: Roster, entry: Entry, pod: Pod, now_s: float) -> tuple[Concern, ...]:
    """What the roster's members say about the pod, those that hold it first. `pod` may ask for other amounts than it does."""
    return ()
