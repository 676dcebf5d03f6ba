"""What extenders are asked about a pod, and what they answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

KIND = "Extender"


@dataclass(frozen=True, slots=True)
class AskExtenders:
    """Ask these extenders, by their positions, about a pod on these nodes: filters one after the other, scores of what
    is left. Report with `Extenders.answered` or `Extenders.failed`, with the number.
    """

    uid: str
    key: str  # namespace/name
    number: int  # of the question; answers to others are late
    nodes: tuple[str, ...]
    extenders: tuple[int, ...]
    kind: str = KIND


@dataclass(frozen=True, slots=True)
class ExtenderAnswer:
    """What the extenders left of the nodes. `points`: what they add to the score of a node, weights included."""

    nodes: frozenset[str]
    points: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)  # node -> why, where one said


@dataclass(frozen=True, slots=True)
class ExtenderQuestion:
    """How a question about a pod stands."""

    number: int
    whom: tuple[int, ...]  # extenders
    nodes: frozenset[str]
    expires_s: float  # an answer that has not come by then is not waited for
    answer: ExtenderAnswer | None = None
    answered_s: float = 0.0
    error: str = ""  # of an extender that may not be ignored
    retry_s: float = 0.0  # it is asked again then
    is_judged: bool = False  # nodes were looked at with the answer
    is_used: bool = False  # the pod was judged by it: it is asked again
    blocked: frozenset[str] = frozenset()  # nodes that the answer does not allow, as the pod is judged

    @property
    def is_open(self) -> bool:
        """Whether neither an answer nor an error has come."""
        return self.answer is None and not self.error
