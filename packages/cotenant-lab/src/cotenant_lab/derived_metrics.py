"""Figures that follow from a sweep over loads, so they are no fields of `Measures`."""

from __future__ import annotations

from cotenant_lab.metric import Metric

SUSTAINED_LOAD = Metric(
    "sustained_load",
    "Sustained load",
    "sustained",
    "fraction",
    "higher",
    "policy",
    "Largest load at which V_LS <= 1 % and V_BE <= 1 %, by linear interpolation between the swept loads, seed "
    "by seed. Where even the lowest swept load fails it is given as '< lowest'; where the highest still holds, "
    "as '>= highest'.",
)

"""Derived from a sweep over loads, so not a field of `Measures`."""

USED_AT_OBJECTIVE = Metric(
    "used_at_objective",
    "Used CPU at objective",
    "used at obj",
    "fraction",
    "higher",
    "policy",
    "Used CPU (`utilisation_used`) at the sustained load, by linear interpolation between the swept loads, seed"
    " by seed: the largest mean use of the cluster at which services and batch each violate at most 1 %. A "
    "bound where the sustained load is one.",
)

DERIVED: tuple[Metric, ...] = (SUSTAINED_LOAD, USED_AT_OBJECTIVE)
