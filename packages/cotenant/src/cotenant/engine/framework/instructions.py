"""What the engine requests from its process: values only; the process carries them out and reports the result.

A pod of the same name may be created again while an instruction is carried out. Every instruction names the pod by UID,
so a later pod is never affected.
Limits: an instruction that is not carried out is repeated only where its docstring says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cotenant.model.cluster.demands import NO_HOLDINGS, Holdings
from cotenant.model.cluster.observed import ClaimBinding
from cotenant.model.decisions.record import DecisionRecord


@dataclass(frozen=True, slots=True)
class ClaimChoice:
    """How one claim of the pod is to be satisfied: bind `volume` to it, or have it made on the pod's node (`volume`
    empty).
    """

    claim: str  # namespace/name
    binding: ClaimBinding
    volume: str = ""


@dataclass(frozen=True, slots=True)
class Bind:
    """Put the pod on the node. Answer with `Cluster.sending`, then `bound` or `bind_failed`, with its `number`: the pod
    may have been given another node meanwhile.
    """

    uid: str
    key: str  # namespace/name
    node: str
    record: DecisionRecord
    claims: tuple[ClaimChoice, ...] = ()  # WaitForFirstConsumer claims, to be settled before the pod is bound
    waited_s: float = 0.0  # since the pod could first be judged
    attempts: int = 1
    holds: Holdings = NO_HOLDINGS  # what was chosen for it on the node, to be written with the bind
    written: tuple[str, ...] = ()  # annotations about holdings that it has already: not written by us
    settled: tuple[tuple[str, str], ...] = ()  # class, quota and tenant by which it was judged
    number: int = 0  # no other bind of this engine has it; 0 = of none


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod to be evicted with the grace it asks for."""

    uid: str
    key: str
    node: str  # where it runs; the preemptor's is elsewhere where a whole gang has to go


@dataclass(frozen=True, slots=True)
class Preempt:
    """Nominate the pod for the node and evict the victims. Answer with `preempt_failed` where any of it cannot be
    done, and with `eviction_withdrawn` for a victim that may stay after all.
    """

    uid: str
    key: str
    node: str
    victims: tuple[Victim, ...]
    breaks_budgets: int = 0  # victims beyond what their disruption budgets allow
    rule: str = "lower priority"  # by which these are the ones to go


@dataclass(frozen=True, slots=True)
class ClearNomination:
    """The pod's `status.nominatedNodeName` no longer holds."""

    uid: str
    key: str


UNSCHEDULABLE = "Unschedulable"  # no node is feasible: autoscalers add nodes for such a pod
HELD = "AwaitsAdmission"  # quota, gang, or another rule of ours holds it: no autoscaler reads this


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """Tell the pod's owner why it waits: the PodScheduled condition and an event. Given only when the words have
    changed.
    """

    uid: str
    key: str
    reason: str  # of the condition: `UNSCHEDULABLE` or `HELD`
    message: str
    record: DecisionRecord
    nominated: str = (
        ""  # the node that it is nominated for by now: written with the condition, so that none sees only it
    )


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a pod, with the grace it asks for, within its disruption budgets. Nothing answers: a pod that stays is
    named again later.
    """

    victim: Victim
    reason: str  # of the event, such as QuotaOverused
    message: str


class ObjectStatus(Protocol):
    """What an object of a custom kind is to be told; a later one of the same kind and key replaces one that is not
    written yet.
    """

    @property
    def kind(self) -> str:
        """Such as PodGroup."""
        ...

    @property
    def key(self) -> str:
        """namespace/name, or the name."""
        ...

    @property
    def uid(self) -> str:
        """Of the object."""
        ...


Instruction = Bind | Preempt | ClearNomination | Unschedulable | Evict | ObjectStatus
