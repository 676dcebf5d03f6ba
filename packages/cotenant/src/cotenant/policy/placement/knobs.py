"""The parameters of a profile, as one array that compiled kernels read.

A kernel compiled once must serve many profiles and every tuning trial. All knobs are fields of one frozen value, passed
to the kernels as a float array indexed by `column`.
Limits: a knob that a score does not read has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import TYPE_CHECKING

from cotenant.model.errors import InvalidInput

if TYPE_CHECKING:
    from cotenant.model.arrays import Float


@dataclass(frozen=True, slots=True)
class Knobs:
    """Defaults are those of the `cotenant` profile, the best of 30 trials on seeds that are not reported
    (bench/tuning.py). Weights multiply terms in units of cores (see scores/interference.py).
    """

    # fit by predicted use (overcommit): services always fit by requests
    use_limit: float = 0.76  # largest predicted CPU use of a node, fraction
    memory_limit: float = 0.88  # largest predicted memory use of a node, fraction
    request_cap: float = 1.57  # largest requested CPU of a node, fraction
    caution: float = 0.25  # posterior standard deviations added to the predicted use of shapes not yet measured
    # interference
    service_weight: float = 1.6  # damage to the services already there
    own_weight: float = 2.15  # slowdown of the incoming pod, relative to what it tolerates
    batch_weight: float = 0.42  # damage to batch already there, relative to what it tolerates
    linear_weight: float = 1.4  # plain slowdown, in cores
    strand_weight: float = 0.15  # change of |cpu fraction - memory fraction|, in nodes
    packing_weight: float = 0.29  # preference for fuller nodes for small pods, in cores
    spread_weight: float = 0.2  # change of (service cores)^2 / capacity
    anticipate_pressure: float = 0.5  # pressure per unit of utilisation of the batch that is expected to fill a node
    anticipate_use: float = 0.5  # utilisation that batch is expected to fill a node to
    # assumptions about a node, from published measurements; never a simulated world's own parameters
    # (packages/cotenant-lab/tests/unit/world/test_laws.py)
    smt_loss: float = (
        0.33  # speed lost by a thread whose sibling is busy: two busy siblings run at 0.6-0.7 of full speed each
    )
    # fraction of a node that services and batch together may use under node QoS: suppression starts at 65 to 75 % in
    # practice
    batch_budget: float = 0.70
    pressure_factor: float = (
        0.85  # batch pressure left after the node's cache partition: a mask of 30 to 100 % of the cache leaves 0.7 to 1
    )
    # moves of replicas that miss their objective
    move_windows: float = 2.0  # clear misses of the objective before a replica may move (policy/rebalance/misses.py)
    move_noise: float = 0.06  # relative error of a window's p99 besides that of its sample
    move_share: float = 0.004  # of all replicas, at most, per minute; 0 = never
    # of all replicas, at most, within an hour while few miss (policy/rebalance/victims.py); 60 = each every minute: no
    # limit
    move_hour_share: float = 60.0
    move_rest_s: float = 1800.0  # back-off of a moved replica
    move_gain: float = 1.6  # minimum gain of score, in cores, for a move
    # queue
    slack_margin: float = 1.17  # factor on the estimated path when slack is computed
    hopeless_penalty_s: float = 1e5  # jobs that cannot meet their deadline wait behind all others, with aging
    # weights of the founding score, as published (see scores/founding.py)
    founding_base: float = 35.0  # base by priority; moves a score only where it is clamped to 0..100
    founding_capacity: float = 40.0
    founding_fairness: float = 15.0
    founding_latency: float = 20.0
    founding_dominant: float = 15.0  # subtracted
    founding_violations: float = 20.0  # subtracted

    def array(self) -> Float:
        """The knobs as `float64[number of knobs]`, in the order of the fields."""
        import numpy as np  # a command line that only names profiles needs none

        return np.array([getattr(self, f.name) for f in fields(self)], dtype=np.float64)

    def with_values(self, overrides: tuple[tuple[str, float], ...]) -> Knobs:
        """A copy with some knobs changed. Raises `InvalidInput` for an unknown name or a value that is not finite."""
        known = {f.name for f in fields(self)}
        for name, value in overrides:
            if name not in known:
                raise InvalidInput("knob", name, f"one of {', '.join(sorted(known))}")
            if not isfinite(value):
                raise InvalidInput(f"knob {name}", value, "a finite number")
        return replace(self, **dict(overrides))


_COLUMNS = {f.name: i for i, f in enumerate(fields(Knobs))}


def column(name: str) -> int:
    """The index of a knob in `Knobs.array()`; kernels read it as a constant."""
    return _COLUMNS[name]
