"""Answers to "why" queries about one pod or node, for users and scripts.

The reasons why a pod waits, or runs where it runs, are spread over many components, each with figures that must reach
the user intact. Frozen values that the engine fills in, the scheduler process sends as JSON, and the command line reads
back; every sentence comes with its figures.
Limits: lists of nodes and victims are truncated and state the full count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.model.decisions.reasons import Rejection
from cotenant.model.decisions.record import CandidateNode, DecisionRecord
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import CPU_NAME, EPHEMERAL_STORAGE, MEMORY_NAME, NOTHING, Amounts, parse_amount

_PLAIN = (CPU_NAME, MEMORY_NAME, EPHEMERAL_STORAGE)
_MAX_PRIORITY = 2**31
_SELECTOR = "selector."


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What a query assumes of a pod instead of its spec: amounts of some resources, a priority, pairs of its
    nodeSelector (None = dropped), and the node asked about.
    """

    requests: Amounts = NOTHING
    priority: int | None = None
    node: str = ""
    selector: tuple[tuple[str, str | None], ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> WhatIf:
        """Parse `cpu=500m`, `memory=1Gi`, `nvidia.com/gpu=1`, `priority=1000`, `selector.KEY=VALUE`,
        `selector.KEY=-`, `node=NAME`, separated by commas. Raises `InvalidInput`.
        """
        requests: dict[str, int] = {}
        selector: dict[str, str | None] = {}
        priority: int | None = None
        node = ""
        given: set[str] = set()
        for text in (entry.strip() for whole in texts for entry in whole.split(",")):
            name, equals, value = text.partition("=")
            if not equals or not value:
                raise InvalidInput(
                    "--if",
                    text,
                    "NAME=VALUE",
                    "such as cpu=500m, memory=1Gi, priority=1000, selector.disk=ssd or node=NAME",
                )
            if name in given:
                raise InvalidInput("--if", text, f"{name} once")
            given.add(name)
            if name == "node":
                node = value
            elif name == "priority":
                priority = _whole(value)
            elif name.startswith(_SELECTOR) and name != _SELECTOR:
                selector[name.removeprefix(_SELECTOR)] = None if value == "-" else value
            elif name in _PLAIN or "/" in name or name.startswith("hugepages-"):
                requests[name] = parse_amount(name, value, f"--if {name}")
            else:
                expected = (
                    "cpu, memory, ephemeral-storage, a resource with a slash in its name, priority, "
                    "selector.KEY or node"
                )
                raise InvalidInput("--if", text, expected)
        return cls(Amounts.of(requests), priority, node, tuple(sorted(selector.items())))

    @property
    def changes(self) -> bool:
        """Whether the pod itself is changed; asking about a node changes nothing."""
        return bool(self.requests) or self.priority is not None or bool(self.selector)

    def words(self) -> str:
        """For a headline; empty where nothing is assumed."""
        words = [str(self.requests)] if self.requests else []
        if self.priority is not None:
            words.append(f"priority {self.priority}")
        words += [
            f"no node selector {key}" if value is None else f"node selector {key}={value}"
            for key, value in self.selector
        ]
        return ", ".join(words)


NO_WHAT_IF = WhatIf()


def _whole(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10 and abs(int(text)) <= _MAX_PRIORITY):
        raise InvalidInput("--if priority", text, "a whole number of at most 32 bits")
    return int(text)


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """One filter that rejects one node, with the missing amount where there is one."""

    plugin: str
    reason: str
    missing: str = ""  # such as "200m cpu"


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """The result for one node: every filter that rejects it, or its rank among the feasible nodes."""

    node: str
    refusals: tuple[NodeRefusal, ...] = ()
    candidate: CandidateNode | None = None  # None = rejected
    place: int = 0  # rank, 1 = the best feasible node
    of: int = 0  # number of feasible nodes
    alone: bool = (
        False  # no filter rejects it, and yet the pod would not be placed: its gang, its quota or pods before it decide
    )


@dataclass(frozen=True, slots=True)
class Help:
    """A change with which the pod, and its gang as a whole, is placed: each was tried in a copy of the engine."""

    what: str  # request | label | selector | taint | node | priority
    words: str
    nodes: int = 0  # that would become feasible


@dataclass(frozen=True, slots=True)
class PreemptedPods:
    """Pods that were evicted for another pod or for a quota."""

    at_s: float
    rule: str  # the rule that selected them
    victims: tuple[str, ...]  # namespace/name
    preemptor: str = ""  # namespace/name; empty = no single pod
    node: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class Concern:
    """A quota, gang, reservation or node rule that applies to the pod."""

    kind: (
        str  # quota | gang | reservation | cpus | devices | GPU neighbours | load | gates | profile | kueue | extender
    )
    name: str
    holds: bool  # whether the pod waits because of it
    words: str
    lines: tuple[str, ...] = ()  # further figures, a line each


@dataclass(frozen=True, slots=True)
class PodRetry:
    """When a waiting pod is tried again."""

    standing: str  # active | backoff | unschedulable | gated | blocked | held
    words: str
    at_s: float | None = None  # at the latest; None = only after an event


@dataclass(frozen=True, slots=True)
class WaitExplanation:
    """Why a pod waits, evaluated now: rejected nodes by filter, the nearest misses, and what would help."""

    because: str
    nodes: int
    held: bool = False  # by its gates, a quota, a gang or the like, whatever the nodes
    rejections: tuple[Rejection, ...] = ()
    nearest: tuple[str, ...] = ()
    passing: int = 0  # nodes that no filter rejects for the pod alone
    notes: tuple[
        str, ...
    ] = ()  # what reasons do not name: reservations, affinity rules and their pods, resources that no node has
    helps: tuple[Help, ...] = ()
    preemption: str = ""  # why no pod is preempted for it, or which pods are
    retry: PodRetry | None = None


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """The full explanation for one pod."""

    pod: str
    uid: str
    at_s: float
    state: str
    headline: str
    priority: int
    requests: tuple[tuple[str, str], ...]  # resource, amount as Kubernetes writes it
    node: str = ""
    promised: str = ""  # the nominated node
    supposed: str = ""  # the assumptions of the query; empty = none
    leads: bool = True  # whether the answering scheduler may act
    standing: str = ""  # why not
    unread: tuple[str, ...] = ()  # what of its API server the scheduler does not read
    waiting: WaitExplanation | None = None
    record: DecisionRecord | None = None  # of its placement, as it was decided
    # The best nodes now, without the pod itself, with the terms of their scores; none where it would not be placed.
    candidates: tuple[CandidateNode, ...] = ()
    asked_about: NodeVerdict | None = None
    concerns: tuple[Concern, ...] = ()
    preemptions: tuple[PreemptedPods, ...] = ()
    story: tuple[tuple[float, str], ...] = ()  # Unix seconds, what happened; oldest first


@dataclass(frozen=True, slots=True)
class NodeAmount:
    """One resource of a node, in Kubernetes notation."""

    resource: str
    allocatable: str
    requested: str
    free: str  # at least 0


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod counted on a node."""

    pod: str
    uid: str
    state: str
    priority: int
    requests: tuple[tuple[str, str], ...]
    scheduler: str
    terminating: bool = False
    cpus: str = ""  # its exclusive CPUs, as a list of ranges
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeReported:
    """A node's last report; None = never reported."""

    age_s: float | None = None
    cpu_used: float | None = None  # fractions of allocatable
    memory_used: float | None = None
    latency_p99_ms: float | None = None
    violation: float | None = None


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """The scheduler's view of a node."""

    node: str
    ready: bool
    unschedulable: bool
    labels: tuple[tuple[str, str], ...]
    taints: tuple[str, ...]
    amounts: tuple[NodeAmount, ...]
    pods: tuple[AssignedPod, ...]
    promised: tuple[str, ...]  # pods nominated for this node
    report: NodeReported | None = None
    tried_again: bool = False  # changed since waiting groups were last moved to the active queue
