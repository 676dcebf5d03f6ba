"""Who competes in the co-located world: ours, the rivals, better-informed variants, and ablations of ours.

Every policy is told the same estimates, except those whose name ends in `-true`: they are told the true values, to show what better
estimates alone would give. Round policies are built when they run, so a listing needs no solver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from cotenant.lab.contract import PolicyInfo
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.compiled import Fit
from cotenant.policy.placement.contract import RoundPolicy
from cotenant.policy.placement.order import Order
from cotenant.policy.placement.profiles import PlacementProfile, profile

Maker = Callable[[], "PlacementProfile | RoundPolicy"]


@dataclass(frozen=True, slots=True)
class Entrant:
    """A policy that can run, and whether it is told the truth."""

    info: PolicyInfo
    make: Maker
    told_truth: bool = False
    knobs: tuple[str, ...] = ()  # fields of a round policy that may be turned; a profile has `Knobs`

    def build(self, overrides: tuple[tuple[str, float], ...] = ()) -> PlacementProfile | RoundPolicy:
        """The policy, with some knobs turned. Raises `InvalidInput` for a knob it has not."""
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


BOUND = "bound"  # not a policy: the scenario computes what any policy could hold


def _nobody() -> PlacementProfile:
    return profile("first-fit")


def _drf() -> RoundPolicy:
    from cotenant.policy.baselines.drf import DominantResourceFairness

    return DominantResourceFairness()


def _mesos() -> RoundPolicy:
    from cotenant.policy.baselines.mesos import MesosOffers

    return MesosOffers()


def _tetris() -> RoundPolicy:
    from cotenant.policy.baselines.tetris import Tetris

    return Tetris()


def _firmament(model: str) -> Maker:
    def make() -> RoundPolicy:
        from cotenant.policy.baselines.firmament.scheduler import Firmament

        if model == "load-spreading":
            from cotenant.policy.baselines.firmament.load_spreading import LoadSpreading

            return Firmament(LoadSpreading())
        if model == "coco":
            from cotenant.policy.baselines.firmament.coco import CoCo

            return Firmament(CoCo())
        from cotenant.policy.baselines.firmament.quincy import Quincy

        return Firmament(Quincy())

    return make


def _row_local(name: str, role: str) -> Entrant:
    return Entrant(PolicyInfo(name, profile(name).summary, role), lambda: profile(name))


def _ours(name: str, summary: str, **changes: object) -> Entrant:
    """An ablation: fields of the profile, or of its knobs, changed."""

    def make() -> PlacementProfile:
        base = profile("cotenant")
        own = {f.name for f in fields(PlacementProfile)}
        knobs = {k: v for k, v in changes.items() if k not in own}
        kept = {k: v for k, v in changes.items() if k in own}
        return replace(base, name=name, knobs=replace(base.knobs, **knobs), **kept)  # type: ignore[arg-type]

    return Entrant(PolicyInfo(name, summary, "ablation"), make)


def _told(name: str) -> Entrant:
    info = PolicyInfo(f"{name}-true", f"{name}, told the true values", "variant")
    return Entrant(info, lambda: replace(profile(name), name=f"{name}-true"), told_truth=True)


ENTRANTS: tuple[Entrant, ...] = (
    _row_local("cotenant", "ours"),
    *(_row_local(name, "rival") for name in ("random", "first-fit", "best-fit", "kube-default")),
    Entrant(PolicyInfo("drf-best-fit", "DRF: the tenant with the least dominant share, best-fit", "rival"), _drf),
    Entrant(PolicyInfo("mesos-offers", "DRF by Mesos offers of whole nodes", "rival"), _mesos),
    Entrant(
        PolicyInfo("tetris", "Tetris: machines choose by alignment and remaining work, f = 0.25", "rival"),
        _tetris,
        knobs=("fairness",),
    ),
    Entrant(PolicyInfo("firmament-quincy", "min-cost flow, Quincy's costs", "rival"), _firmament("quincy")),
    Entrant(
        PolicyInfo("firmament-load-spreading", "min-cost flow, fewest tasks a node", "rival"),
        _firmament("load-spreading"),
    ),
    Entrant(
        PolicyInfo("firmament-coco", "min-cost flow, CoCo: fit and interference classes", "rival"), _firmament("coco")
    ),
    *(_row_local(name, "rival") for name in ("founding", "founding-ledger", "edf-best-fit", "edf-least-allocated")),
    _row_local("edf-paragon", "rival"),
    _row_local("edf-paragon-overcommit", "rival"),
    _row_local("edf-paragon-measured", "rival"),
    *(_row_local(name, "variant") for name in ("least-allocated", "balance")),
    _told("edf-paragon"),
    _told("cotenant"),
    Entrant(
        PolicyInfo(BOUND, "no policy: the most that any could hold at once, by a linear programme", "bound"), _nobody
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
    _ours("cotenant-requests", "ours fitting batch by requests instead of predicted use", fit=Fit.REQUESTS),
    _ours("cotenant-no-balance", "ours without balance and packing terms", strand_weight=0.0, packing_weight=0.0),
    _ours("cotenant-no-measurement", "ours believing its estimates of use", measures_use=False),
    _ours(
        "cotenant-no-tolerance",
        "ours in plain slowdown, not in units of what each tolerates",
        own_weight=0.0,
        batch_weight=0.0,
    ),
)


def entrant(name: str) -> Entrant:
    """The entrant called `name`. Raises `InvalidInput`."""
    for candidate in ENTRANTS:
        if candidate.info.name == name:
            return candidate
    raise InvalidInput("--policies", name, f"one of {', '.join(e.info.name for e in ENTRANTS)}")
