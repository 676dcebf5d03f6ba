"""A node's load as text and as a value for display.

The figures used, the number of pods in them and the thresholds, in whole per cent, rounded as the filter rounds.
Limits: per cent of the node's size, so two figures of one sentence may differ by one from their sum.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import CPU_NAME
from cotenant.policy.placement.load_aware.filtering import percent
from cotenant.policy.placement.load_aware.standing import LoadSource, LoadStanding, Side
from cotenant.policy.placement.load_aware.usage import UsageBasis

_BASIS = {
    UsageBasis.LAST: "",
    UsageBasis.PERCENTILE: " by its percentile",
    UsageBasis.FORECAST: " by its forecast",
    UsageBasis.PRODUCTION: " for production",
    UsageBasis.ESTIMATES: " by its pods' estimates",
}


@dataclass(frozen=True, slots=True)
class SideView:
    """How one class of pods is judged: production or other."""

    basis: str  # last, percentile, forecast, production, estimates
    use: Use
    expected: Use  # of pods that the figures do not cover yet, or cover only partly
    counted: int  # number of such pods
    cpu_threshold_pct: int  # 0 = not checked
    memory_threshold_pct: int
    cpu_pct: int  # used and expected, of the node's size
    memory_pct: int


@dataclass(frozen=True, slots=True)
class LoadView:
    """The load of a node."""

    node: str
    source: str  # NodeMetric, report, expired NodeMetric, nobody
    age_s: float  # of the figures, NaN for none
    size: Use
    residents: int
    takes_pods: bool  # False: its use is unknown, and the settings say to wait
    usual: SideView
    prod: SideView

    def sentence(self) -> str:
        """One line."""
        if not self.takes_pods:
            return f"{self.node} has reported no use for {self.age_s:.0f} s: no pod is placed there until it does"
        if self.source == LoadSource.NOBODY:
            return f"no use of {self.node} was ever reported: its load is not checked"
        side = self.usual
        return (
            f"{self.node} uses {percent(side.use.cpu_m, self.size.cpu_m)} % of CPU and "
            f"{percent(side.use.memory_bytes, self.size.memory_bytes)} % of memory, "
            f"{percent(side.expected.cpu_m, self.size.cpu_m)} % and "
            f"{percent(side.expected.memory_bytes, self.size.memory_bytes)} % more are expected of "
            f"{side.counted} pods; thresholds {_threshold(side.cpu_threshold_pct)} and "
            f"{_threshold(side.memory_threshold_pct)} "
            f"({self.source}, {self.age_s:.0f} s old)"
        )


def view(node: str, standing: LoadStanding, residents: int) -> LoadView:
    """A node's standing as a value for display."""
    return LoadView(
        node=node,
        source=standing.source.value,
        age_s=standing.age_s,
        size=standing.size,
        residents=residents,
        takes_pods=not standing.is_closed,
        usual=_side(standing.size, standing.usual),
        prod=_side(standing.size, standing.prod),
    )


def figures(node: str, standing: LoadStanding, side: Side, asked: Use, resource: str) -> str:
    """Why a node cannot take a pod with this expected use of a resource."""
    at = 0 if resource == CPU_NAME else 1
    name = "CPU" if at == 0 else "memory"
    has, load = standing.size[at], side.load
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
