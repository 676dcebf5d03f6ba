"""A node's load in words and as a value for people.

Choice: what counts, of how many pods, against which threshold, in whole per cent as the filter rounds. Limits: per cent of what the node has, so two figures of
one sentence may differ by one from their sum.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import CPU_NAME
from cotenant.policy.placement.load_aware.filtering import percent
from cotenant.policy.placement.load_aware.standing import Side, Source, Standing
from cotenant.policy.placement.load_aware.usage import Basis

_BASIS = {
    Basis.LAST: "",
    Basis.PERCENTILE: " by its percentile",
    Basis.FORECAST: " by its forecast",
    Basis.PRODUCTION: " for production",
    Basis.ESTIMATES: " by its pods' estimates",
}


@dataclass(frozen=True, slots=True)
class SideView:
    """How pods of one sort are judged: in production or not."""

    basis: str  # last, percentile, forecast, production, estimates
    use: Use
    expected: Use  # of pods that the figures do not know yet, or know too little
    counted: int  # of them
    cpu_threshold_pct: int  # 0 = not looked at
    memory_threshold_pct: int
    cpu_pct: int  # used and expected, of what the node has
    memory_pct: int


@dataclass(frozen=True, slots=True)
class LoadView:
    """How a node stands."""

    node: str
    source: str  # NodeMetric, report, expired NodeMetric, nobody
    age_s: float  # of the figures, NaN for none
    size: Use
    residents: int
    takes_pods: bool  # False: nobody knows what it uses, and the settings say to wait
    usual: SideView
    prod: SideView

    def sentence(self) -> str:
        """One line."""
        if not self.takes_pods:
            return f"{self.node} has not said what it uses for {self.age_s:.0f} s: no pod is placed there until it does"
        if self.source == Source.NOBODY:
            return f"nobody has said what {self.node} uses: its load is not looked at"
        side = self.usual
        return (
            f"{self.node} uses {percent(side.use.cpu_m, self.size.cpu_m)} % of CPU and {percent(side.use.memory_bytes, self.size.memory_bytes)} % of memory, "
            f"{percent(side.expected.cpu_m, self.size.cpu_m)} % and {percent(side.expected.memory_bytes, self.size.memory_bytes)} % more are expected of "
            f"{side.counted} pods; thresholds {_threshold(side.cpu_threshold_pct)} and {_threshold(side.memory_threshold_pct)} "
            f"({self.source}, {self.age_s:.0f} s old)"
        )


def view(node: str, told: Standing, residents: int) -> LoadView:
    """A node's standing as a value for people."""
    return LoadView(
        node=node,
        source=told.source.value,
        age_s=told.age_s,
        size=told.size,
        residents=residents,
        takes_pods=not told.is_closed,
        usual=_side(told.size, told.usual),
        prod=_side(told.size, told.prod),
    )


def figures(node: str, told: Standing, side: Side, asked: Use, resource: str) -> str:
    """Why a node takes no pod that is expected to use so much of a resource."""
    at = 0 if resource == CPU_NAME else 1
    name = "CPU" if at == 0 else "memory"
    has, load = told.size[at], side.load
    threshold = side.rule.thresholds.cpu if at == 0 else side.rule.thresholds.memory
    more = (
        f" and {percent(load.expected[at], has)} % more is expected of {load.counted} pods just placed"
        if load.counted
        else ""
    )
    return (
        f"node {node} uses {percent(load.use[at], has)} % of {name}{_BASIS[load.basis]}{more}, "
        f"this pod adds {percent(asked[at], has)} %; threshold {threshold} %"
    )


def _side(size: Use, side: Side) -> SideView:
    total = side.load.total
    return SideView(
        basis=side.load.basis.value,
        use=side.load.use,
        expected=side.load.expected,
        counted=side.load.counted,
        cpu_threshold_pct=side.rule.thresholds.cpu,
        memory_threshold_pct=side.rule.thresholds.memory,
        cpu_pct=percent(total.cpu_m, size.cpu_m),
        memory_pct=percent(total.memory_bytes, size.memory_bytes),
    )


def _threshold(pct: int) -> str:
    return f"{pct} %" if pct else "none"
