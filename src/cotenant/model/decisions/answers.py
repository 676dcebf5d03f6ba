"""Answers to "why": of one pod, for people and scripts.

Problem: why a pod waits, or sits where it sits, is known in a dozen places, and each has figures that must not get lost on the way to a person.
Choice: frozen values that the engine fills in, the scheduler's process sends as JSON, and the command line reads back; every sentence stands beside
its figures. Limits: lists of nodes and victims are cut, and say how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.model.decisions.reasons import Rejection
from cotenant.model.decisions.record import Candidate, DecisionRecord
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import CPU_NAME, EPHEMERAL_STORAGE, MEMORY_NAME, NOTHING, Amounts, parse_amount

_PLAIN = (CPU_NAME, MEMORY_NAME, EPHEMERAL_STORAGE)
_MOST_PRIORITY = 2**31


@dataclass(frozen=True, slots=True)
class Supposed:
    """What a question supposes of a pod instead of what is so: amounts of some resources, a priority, and which node is asked about."""

    requests: Amounts = NOTHING
    priority: int | None = None
    node: str = ""

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Supposed:
        """From `cpu=500m`, `memory=1Gi`, `nvidia.com/gpu=1`, `priority=1000`, `node=NAME`, several in one text with commas. Raises `InvalidInput`."""
        requests: dict[str, int] = {}
        priority: int | None = None
        node = ""
        given: set[str] = set()
        for text in (each.strip() for whole in texts for each in whole.split(",")):
            name, equals, value = text.partition("=")
            if not equals or not value:
                raise InvalidInput(
                    "--if", text, "NAME=VALUE", "such as cpu=500m, memory=1Gi, priority=1000 or node=NAME"
                )
            if name in given:
                raise InvalidInput("--if", text, f"{name} once")
            given.add(name)
            if name == "node":
                node = value
            elif name == "priority":
                priority = _whole(value)
            elif name in _PLAIN or "/" in name or name.startswith("hugepages-"):
                requests[name] = parse_amount(name, value, f"--if {name}")
            else:
                expected = "cpu, memory, ephemeral-storage, a resource with a slash in its name, priority or node"
                raise InvalidInput("--if", text, expected)
        return cls(Amounts.of(requests), priority, node)

    @property
    def changes(self) -> bool:
        """Whether anything of the pod is other than it is; to ask about a node changes nothing."""
        return bool(self.requests) or self.priority is not None

    def words(self) -> str:
        """For a headline; empty where nothing is supposed."""
        told = [str(self.requests)] if self.requests else []
        if self.priority is not None:
            told.append(f"priority {self.priority}")
        return ", ".join(told)


NOTHING_SUPPOSED = Supposed()


def _whole(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10 and abs(int(text)) <= _MOST_PRIORITY):
        raise InvalidInput("--if priority", text, "a whole number of at most 32 bits")
    return int(text)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One filter's no to one node, with what it lacks where that is an amount."""

    plugin: str
    reason: str
    missing: str = ""  # such as "200m cpu"


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """One node asked about: every filter that refuses it, and its place among the nodes that pass."""

    node: str
    refusals: tuple[Refusal, ...] = ()
    candidate: Candidate | None = None  # None = it is refused
    place: int = 0  # 1 = the best of those that pass
    of: int = 0  # how many pass


@dataclass(frozen=True, slots=True)
class Help:
    """Something that would let the pod be placed, computed as the cluster stands."""

    what: str  # request | label | taint | node | priority | other
    words: str
    nodes: int = 0  # that would take it then


@dataclass(frozen=True, slots=True)
class Preempted:
    """Pods that were told to go so that another, or a quota, has room."""

    at_s: float
    rule: str  # by which it was done
    victims: tuple[str, ...]  # namespace/name
    preemptor: str = ""  # namespace/name; empty = nobody in particular
    node: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class Concern:
    """A quota, gang, reservation or keeper that has a say about the pod."""

    kind: str  # quota | gang | reservation | cpus | devices | load | gates
    name: str
    holds: bool  # whether the pod waits because of it
    words: str
    lines: tuple[str, ...] = ()  # further figures, a line each


@dataclass(frozen=True, slots=True)
class Retry:
    """When a waiting pod is judged again."""

    standing: str  # active | backoff | unschedulable | gated | blocked | held
    words: str
    at_s: float | None = None  # at the latest; None = only when something happens


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a pod waits, judged now: which filters refuse how many nodes, what came nearest, what would help."""

    because: str
    nodes: int
    held: bool = False  # by its gates, a quota, a gang or the like, whatever the nodes say
    rejections: tuple[Rejection, ...] = ()
    nearest: tuple[str, ...] = ()
    passing: int = 0  # nodes that refuse nothing
    helps: tuple[Help, ...] = ()
    preemption: str = ""  # why nobody is evicted for it, or who is going
    retry: Retry | None = None


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """All that is known of why one pod is where it is."""

    pod: str
    uid: str
    at_s: float
    state: str
    headline: str
    priority: int
    requests: tuple[tuple[str, str], ...]  # resource, amount as Kubernetes writes it
    node: str = ""
    promised: str = ""  # the node that it is nominated for
    supposed: str = ""  # what was supposed of it; empty = as it is
    leads: bool = True  # whether the scheduler that answers is the one that decides
    waiting: Waiting | None = None
    record: DecisionRecord | None = None  # of its placement, as it was decided
    candidates: tuple[Candidate, ...] = ()  # the best nodes now, without the pod itself, with parts of their scores
    asked_about: NodeVerdict | None = None
    concerns: tuple[Concern, ...] = ()
    preemptions: tuple[Preempted, ...] = ()
    story: tuple[tuple[float, str], ...] = ()  # Unix seconds, what happened; oldest first


@dataclass(frozen=True, slots=True)
class NodeAmount:
    """One resource of a node, as Kubernetes writes amounts."""

    resource: str
    allocatable: str
    requested: str
    free: str  # never below nothing


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod that counts on a node."""

    pod: str
    uid: str
    state: str
    priority: int
    requests: tuple[tuple[str, str], ...]
    scheduler: str
    terminating: bool = False
    cpus: str = ""  # of its own, as a list of ranges
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeReported:
    """What a node said of itself last; None = never."""

    age_s: float | None = None
    cpu_used: float | None = None  # fractions of allocatable
    memory_used: float | None = None
    latency_p99_ms: float | None = None
    violation: float | None = None


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What the scheduler believes of a node."""

    node: str
    ready: bool
    unschedulable: bool
    labels: tuple[tuple[str, str], ...]
    taints: tuple[str, ...]
    amounts: tuple[NodeAmount, ...]
    pods: tuple[NodePod, ...]
    promised: tuple[str, ...]  # pods that wait for room here
    report: NodeReported | None = None
    tried_again: bool = False  # changed since groups were last woken
