"""The policies compared in the co-located world: ours, rivals, better-informed variants, and ablations of ours.

A comparison is fair only if all policies get the same information. Every policy gets the same estimates, except those
whose name ends in `-true`: they get the true values, to show the effect of better estimates alone.
Limits: round policies are built when they run, so listing needs no solver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from cotenant.engine.rebalancer.settings import MissedObjectives, MoveKinds, RebalancerSettings
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.strategy import ColocationStrategy
from cotenant.policy.placement.codes import Fit, Order
from cotenant.policy.placement.contract import RoundPolicy
from cotenant.policy.placement.profiles import PlacementProfile, profile
from cotenant_lab.contract import PolicyInfo
from cotenant_lab.lending import BY_FORMULA, BY_PEAK

Maker = Callable[[], "PlacementProfile | RoundPolicy"]


@dataclass(frozen=True, slots=True)
class Competitor:
    """A policy that can run, and whether it gets the true values instead of estimates."""

    info: PolicyInfo
    make: Maker
    true_values: bool = False
    knobs: tuple[str, ...] = ()  # fields of a round policy that may be set; a profile has `Knobs`
    lends: ColocationStrategy | None = None  # of a manager, whose resources batch requests; None = there is no manager
    rebalances: RebalancerSettings | None = None  # of a rebalancer beside the scheduler; None = there is none

    def build(self, overrides: tuple[tuple[str, float], ...] = ()) -> PlacementProfile | RoundPolicy:
        """The policy, with some knobs set. Raises `InvalidInput` for a knob that it does not have."""
        policy = self.make()
        if not overrides:
            return policy
        if isinstance(policy, PlacementProfile):
            return policy.with_values(overrides)
        for name, _ in overrides:
            if name not in self.knobs:
                has = f"one of {', '.join(self.knobs)}" if self.knobs else "nothing: this policy has no knobs"
                raise InvalidInput("knob", name, has)
        return replace(policy, **dict(overrides))  # type: ignore[type-var]


BOUND = "bound"  # not a policy: the scenario computes an upper bound for all policies


def _placeholder() -> PlacementProfile:
    return profile("first-fit")


def _drf() -> RoundPolicy:
    from cotenant_lab.baselines.drf import DominantResourceFairness

    return DominantResourceFairness()


def _mesos() -> RoundPolicy:
    from cotenant_lab.baselines.mesos import MesosOffers

    return MesosOffers()


def _tetris() -> RoundPolicy:
    from cotenant_lab.baselines.tetris import Tetris

    return Tetris()


def _firmament(model: str) -> Maker:
    def make() -> RoundPolicy:
        from cotenant_lab.baselines.firmament.scheduler import Firmament

        if model == "load-spreading":
            from cotenant_lab.baselines.firmament.load_spreading import LoadSpreading

            return Firmament(LoadSpreading())
        if model == "coco":
            from cotenant_lab.baselines.firmament.coco import CoCo

            return Firmament(CoCo())
        from cotenant_lab.baselines.firmament.quincy import Quincy

        return Firmament(Quincy())

    return make


def _row_local(name: str, role: str) -> Competitor:
    return Competitor(PolicyInfo(name, profile(name).summary, role), lambda: profile(name))


def _ours(name: str, summary: str, of: str = "cotenant", **changes: object) -> Competitor:
    """An ablation of the profile `of`: fields of it, or of its knobs, changed."""

    def make() -> PlacementProfile:
        base = profile(of)
        own = {f.name for f in fields(PlacementProfile)}
        knobs = {k: v for k, v in changes.items() if k not in own}
        kept = {k: v for k, v in changes.items() if k in own}
        return replace(base, name=name, knobs=replace(base.knobs, **knobs), **kept)  # type: ignore[arg-type]

    return Competitor(PolicyInfo(name, summary, "ablation"), make)


def _with_true_values(name: str) -> Competitor:
    info = PolicyInfo(f"{name}-true", f"{name}, with the true values", "variant")
    return Competitor(info, lambda: replace(profile(name), name=f"{name}-true"), true_values=True)


def _koordinator() -> RoundPolicy:
    from cotenant_lab.baselines.koordinator import Koordinator

    return Koordinator()


_LENT = (
    Competitor(
        PolicyInfo(
            "kube-lent",
            "kube-default and load-aware as Koordinator's default, batch on resources lent by its formula",
            "rival",
        ),
        _koordinator,
        lends=BY_FORMULA,
    ),
    Competitor(
        PolicyInfo("kube-lent-peak", "kube-lent with amounts by our peak policy", "variant"),
        _koordinator,
        lends=BY_PEAK,
    ),
    Competitor(
        PolicyInfo("cotenant-lent", "ours, batch on resources lent by the peak policy", "variant"),
        lambda: replace(profile("cotenant"), name="cotenant-lent"),
        lends=BY_PEAK,
    ),
)


def _rebalanced(name: str, summary: str, objectives: MissedObjectives) -> Competitor:
    """cotenant-learned beside a cluster's rebalancer, which moves pods instead of the scheduler, with the limits
    that it has by default.
    """
    return Competitor(
        PolicyInfo(name, summary, "variant"),
        lambda: replace(profile("cotenant-learned"), name=name, moves_victims=False),
        rebalances=RebalancerSettings(pools=(), kinds=MoveKinds(objectives=objectives)),
    )


_REBALANCED = (
    _rebalanced(
        "cotenant-learned-rebalanced",
        "cotenant-learned whose pods are moved by a cluster's rebalancer with MissedObjectives instead",
        MissedObjectives(),
    ),
    _rebalanced(
        "cotenant-learned-rebalanced-few",
        "the same with moves of at most 0.2 % of the replicas an hour, saved for up to a day",
        MissedObjectives(hour_share=0.002),
    ),
)


COMPETITORS: tuple[Competitor, ...] = (
    _row_local("cotenant", "ours"),
    *(_row_local(name, "rival") for name in ("random", "first-fit", "best-fit", "kube-default")),
    Competitor(PolicyInfo("drf-best-fit", "DRF: the tenant with the least dominant share, best-fit", "rival"), _drf),
    Competitor(PolicyInfo("mesos-offers", "DRF by Mesos offers of whole nodes", "rival"), _mesos),
    Competitor(
        PolicyInfo("tetris", "Tetris: machines choose by alignment and remaining work, f = 0.25", "rival"),
        _tetris,
        knobs=("fairness",),
    ),
    Competitor(PolicyInfo("firmament-quincy", "min-cost flow, Quincy's costs", "rival"), _firmament("quincy")),
    Competitor(
        PolicyInfo("firmament-load-spreading", "min-cost flow, fewest tasks a node", "rival"),
        _firmament("load-spreading"),
    ),
    Competitor(
        PolicyInfo("firmament-coco", "min-cost flow, CoCo: fit and interference classes", "rival"), _firmament("coco")
    ),
    *(_row_local(name, "rival") for name in ("founding", "founding-ledger", "edf-best-fit", "edf-least-allocated")),
    _row_local("edf-paragon", "rival"),
    _row_local("edf-paragon-overcommit", "rival"),
    _row_local("edf-paragon-measured", "rival"),
    *(_row_local(name, "variant") for name in ("edf-paragon-learned", "least-allocated", "balance")),
    _row_local("cotenant-learned", "variant"),
    *_LENT,
    _with_true_values("edf-paragon"),
    _with_true_values("cotenant"),
    Competitor(
        PolicyInfo(BOUND, "no policy: an upper bound on what any could hold at once, by linear programming", "bound"),
        _placeholder,
    ),
    _ours("cotenant-arrival", "ours, batch in order of arrival", order=Order.ARRIVAL),
    _ours("cotenant-deadline", "ours, batch by earliest deadline", order=Order.DEADLINE),
    _ours(
        "cotenant-blind",
        "ours without any interference term",
        service_weight=0.0,
        own_weight=0.0,
        batch_weight=0.0,
        linear_weight=0.0,
    ),
    _ours("cotenant-no-moves", "ours without moving replicas that miss their objective", move_share=0.0),
    _ours(
        "cotenant-learned-no-moves",
        "cotenant-learned without moving replicas that miss their objective",
        of="cotenant-learned",
        move_share=0.0,
    ),
    _ours(
        "cotenant-learned-few-moves",
        "cotenant-learned with at most 0.2 % of replicas moved an hour, none twice in an hour, and 4.5 % once after a "
        "takeover",
        of="cotenant-learned",
        move_hour_share=0.002,
        move_rest_s=3600.0,
    ),
    *_REBALANCED,
    _ours("cotenant-requests", "ours fitting batch by requests instead of predicted use", fit=Fit.REQUESTS),
    _ours("cotenant-no-balance", "ours without balance and packing terms", strand_weight=0.0, packing_weight=0.0),
    _ours("cotenant-no-measurement", "ours without correcting its estimates of use", measures_use=False),
    _ours(
        "cotenant-no-tolerance",
        "ours by plain slowdown, not relative to each pod's tolerance",
        own_weight=0.0,
        batch_weight=0.0,
    ),
)


def competitor(name: str) -> Competitor:
    """The policy of this name. Raises `InvalidInput`."""
    for candidate in COMPETITORS:
        if candidate.info.name == name:
            return candidate
    raise InvalidInput("--policies", name, f"one of {', '.join(e.info.name for e in COMPETITORS)}")
