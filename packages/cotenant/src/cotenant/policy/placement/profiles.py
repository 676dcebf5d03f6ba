"""Placement profiles: an order, a fit, a score and a rule for ties. Every profile that is compared with ours uses the
same estimates.

Knobs of rivals are the best of as many trials as ours had, on seeds that are not reported (bench/tuning.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cotenant.policy.placement.codes import Fit, Order, Score
from cotenant.policy.placement.knobs import Knobs
from cotenant.policy.placement.kube_scoring import KubeScoring


@dataclass(frozen=True, slots=True)
class PlacementProfile:
    """A row-local placement policy; the engine runs it."""

    name: str
    summary: str
    order: Order = Order.ARRIVAL
    fit: Fit = Fit.REQUESTS
    score: Score = Score.NONE
    random_ties: bool = True
    samples_nodes: bool = False  # like kube-scheduler: score only some of the feasible nodes
    measures_use: bool = False  # predicted use is corrected by the agents' measurements
    weighs_slack: bool = False  # batch is weighted by its remaining slack
    default_spread: bool = False  # kube-scheduler's system defaults of topology spread, for pods without constraints
    learns_interference: bool = False  # sensitivity and pressure are learned from windows of measurements
    moves_victims: bool = False  # replicas that repeatedly miss their objective are moved
    sample_pct: int = 0  # of the nodes, where `samples_nodes`; 0 = as many as kube-scheduler takes for that size
    kube: KubeScoring | None = None  # of a kube-scheduler's configuration: scored by these, besides `score`
    knobs: Knobs = field(default_factory=Knobs)

    @property
    def reads_metrics(self) -> bool:
        """Whether estimates follow what agents measure of pods."""
        return self.measures_use or self.learns_interference

    def with_values(self, overrides: tuple[tuple[str, float], ...]) -> PlacementProfile:
        """A copy with some knobs changed (ablation, tuning)."""
        return replace(self, knobs=self.knobs.with_values(overrides))


_MEASURED_RIVAL = Knobs(
    smt_loss=0.21,
    batch_budget=0.51,
    pressure_factor=0.63,
    use_limit=0.83,
    memory_limit=0.94,
    request_cap=1.95,
    caution=0.70,
)

PROFILES: tuple[PlacementProfile, ...] = (
    PlacementProfile("random", "any node that fits, uniformly"),
    PlacementProfile("first-fit", "the lowest-numbered node that fits", random_ties=False),
    PlacementProfile("best-fit", "the node with least CPU and memory left over", score=Score.BEST_FIT),
    PlacementProfile("least-allocated", "the node with most CPU and memory left over", score=Score.LEAST_ALLOCATED),
    PlacementProfile("balance", "least gap between requested CPU and memory", score=Score.BALANCE),
    PlacementProfile(
        "kube-default",
        "kube-scheduler to v1.35: least-allocated + balanced, integers, sampled nodes, random ties",
        score=Score.KUBE_DEFAULT,
        samples_nodes=True,
        default_spread=True,
    ),
    PlacementProfile(
        "kube-1.36",
        "kube-scheduler from v1.36: kube-default, by how much a pod changes the balance",
        score=Score.KUBE_1_36,
        samples_nodes=True,
        default_spread=True,
    ),
    PlacementProfile("founding", "the founding score on reported use", score=Score.FOUNDING),
    PlacementProfile("founding-ledger", "the founding score, capacity from the ledger", score=Score.FOUNDING_LEDGER),
    PlacementProfile("edf-best-fit", "earliest deadline first, best-fit", order=Order.DEADLINE, score=Score.BEST_FIT),
    PlacementProfile(
        "edf-least-allocated",
        "earliest deadline first, least-allocated",
        order=Order.DEADLINE,
        score=Score.LEAST_ALLOCATED,
    ),
    PlacementProfile(
        "edf-paragon",
        "earliest deadline first, least total slowdown by estimate",
        order=Order.DEADLINE,
        score=Score.PARAGON_LIKE,
        knobs=Knobs(smt_loss=0.33, batch_budget=0.73, pressure_factor=0.97),
    ),
    PlacementProfile(
        "edf-paragon-overcommit",
        "edf-paragon that fits batch by predicted use",
        order=Order.DEADLINE,
        score=Score.PARAGON_LIKE,
        fit=Fit.PREDICTED_USE,
        knobs=Knobs(
            smt_loss=0.24,
            batch_budget=0.54,
            pressure_factor=0.49,
            use_limit=0.74,
            memory_limit=0.87,
            request_cap=1.78,
        ),
    ),
    PlacementProfile(
        "edf-paragon-measured",
        "edf-paragon-overcommit, predicted use corrected by measurement as ours is",
        order=Order.DEADLINE,
        score=Score.PARAGON_LIKE,
        fit=Fit.PREDICTED_USE,
        measures_use=True,
        knobs=_MEASURED_RIVAL,
    ),
    PlacementProfile(
        "edf-paragon-learned",
        "edf-paragon-measured with the interference that cotenant-learned learns",
        order=Order.DEADLINE,
        score=Score.PARAGON_LIKE,
        fit=Fit.PREDICTED_USE,
        measures_use=True,
        learns_interference=True,
        knobs=_MEASURED_RIVAL,
    ),
    PlacementProfile(
        "cotenant",
        "least slack first; damage in units of what each tolerates; fits by measured use, moves replicas that miss",
        order=Order.SLACK,
        fit=Fit.PREDICTED_USE,
        score=Score.INTERFERENCE,
        measures_use=True,
        weighs_slack=True,
        moves_victims=True,
    ),
    PlacementProfile(
        "cotenant-learned",
        "cotenant with sensitivity, pressure and tolerance learned from measurements; declared profiles are priors",
        order=Order.SLACK,
        fit=Fit.PREDICTED_USE,
        score=Score.INTERFERENCE,
        measures_use=True,
        weighs_slack=True,
        learns_interference=True,
        moves_victims=True,
    ),
    PlacementProfile(
        "cotenant-requests",
        "cotenant for clusters whose kubelets refuse what requests exceed: same order and damage, but requests must "
        "fit",
        order=Order.SLACK,
        score=Score.INTERFERENCE,
        measures_use=True,
        weighs_slack=True,
        moves_victims=True,
    ),
)


def profile(name: str) -> PlacementProfile:
    """The profile called `name`. Raises KeyError."""
    for candidate in PROFILES:
        if candidate.name == name:
            return candidate
    raise KeyError(name)
