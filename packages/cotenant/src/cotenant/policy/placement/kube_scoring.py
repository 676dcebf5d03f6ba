"""What a kube-scheduler profile says of scores, as values; nothing is loaded or computed here, so that a command line
can read a configuration (policy/placement/scores/kube_configured.py computes them).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_SHAPE_SCORE = 10  # of a point of `shape`; scores of nodes go to 100


class FitStrategy(StrEnum):
    """Of NodeResourcesFit."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


@dataclass(frozen=True, slots=True)
class ScoreWeights:
    """Of each plugin's score; 0 = not scored."""

    fit: int = 1
    balanced: int = 1
    taints: int = 3
    node_affinity: int = 2
    spread: int = 2
    pod_affinity: int = 2
    images: int = 1


@dataclass(frozen=True, slots=True)
class KubeScoring:
    """The scores of one profile. The defaults are kube-scheduler's."""

    weights: ScoreWeights = ScoreWeights()
    strategy: FitStrategy = FitStrategy.LEAST_ALLOCATED
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))  # of the strategy, with their weights
    shape: tuple[tuple[int, int], ...] = ()  # utilization in percent, score 0 to 10; ascending
    balanced_resources: tuple[str, ...] = ("cpu", "memory")
    hard_pod_affinity_weight: int = 1  # of required affinity terms of residents
    ignores_preferences_of_residents: bool = False  # for pods that have no terms of their own


USUAL = KubeScoring()
