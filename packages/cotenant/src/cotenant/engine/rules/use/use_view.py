"""Predicted use and lent resources of a node, as values for display.

Every sentence has the figures that the filter compares, and says how many pods count by their requests and why.
Limits: of the holders of lent resources the largest are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isnan

from cotenant.engine.rules.use.facts import CountedPod
from cotenant.model.cluster.annotations import LENT_TERMS
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object
from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, Amounts, format_amount
from cotenant.policy.overcommit.predicted_use import LENT

_SHOWN = 8
_MIB = 1 << 20


def amount_text(name: str, amount: int) -> str:
    """An amount for a sentence; predicted memory is rounded up to MiB."""
    return format_amount(name, -(-amount // _MIB) * _MIB if name == MEMORY_NAME else amount)


@dataclass(frozen=True, slots=True)
class LentHolder:
    """A pod and what it holds of a node's lent resources."""

    pod: str  # namespace/name
    lent: Amounts


def holders_of(pods: Iterable[CountedPod]) -> tuple[LentHolder, ...]:
    """Who of a node's pods holds lent resources, by name."""
    found = [
        LentHolder(pod.key, Amounts.of({name: pod.lent.get(name) for name in LENT if name in pod.lent}))
        for pod in pods
        if pod.lent is not None
    ]
    return tuple(sorted(found, key=lambda holder: holder.pod))


@dataclass(frozen=True, slots=True)
class PodUseView:
    """What a pod counts with on its node."""

    request: Use
    predicted: Use
    samples: int  # measurements of it
    is_fresh: bool  # whether its node's measurement is not stale
    has_lent: bool

    def sentence(self) -> str:
        """One line."""
        cpu, memory = (
            f"{amount_text(name, self.predicted[at])} {name} (requested {amount_text(name, self.request[at])})"
            for at, name in ((0, CPU_NAME), (1, MEMORY_NAME))
        )
        if not self.samples:
            why = "by its request: it has not been measured yet"
        elif not self.is_fresh:
            why = "the larger of its request and its last prediction: its node's measurement is stale"
        else:
            times = "1 measurement" if self.samples == 1 else f"{self.samples} measurements"
            why = f"by {times} and its request"
        return f"it counts as {cpu} and {memory}, {why}"


@dataclass(frozen=True, slots=True)
class UseView:
    """The predicted use of a node, and who holds its lent resources."""

    node: str
    size: Use
    system: Use
    predicted: Use
    pods: int
    by_request: int  # of these, how many count by their requests
    measured_age_s: float  # NaN = never measured
    is_fresh: bool
    risk: float
    offered: Amounts
    holders: tuple[LentHolder, ...]
    written: str  # the node's annotation by our manager, empty without one

    def source(self) -> str:
        """What the prediction is made from."""
        if isnan(self.measured_age_s):
            return "by requests, since the node was never measured"
        if not self.is_fresh:
            return f"by requests, since the node's measurement is {self.measured_age_s:.0f} s old"
        if self.by_request:
            return f"{self.by_request} of them by request, not measured yet"
        return f"measured {self.measured_age_s:.0f} s ago"

    def sentence(self) -> str:
        """One line."""
        parts = []
        for at, name in ((0, CPU_NAME), (1, MEMORY_NAME)):
            system = f" and {amount_text(name, self.system[at])} for the system" if self.system[at] else ""
            parts.append(
                f"{amount_text(name, self.predicted[at])}{system} of {amount_text(name, self.size[at])} {name}"
            )
        pods = "1 pod" if self.pods == 1 else f"{self.pods} pods"
        return (
            f"{pods} on {self.node} are predicted to use {' and '.join(parts)} at {self.risk * 100:g} % risk, "
            f"{self.source()}"
        )

    def shortage(self, asked: int, at: int, resource: str) -> str:
        """Why a pod that asks for so much of a resource (`at`: its column) has no room here."""
        beside = f" and {amount_text(resource, self.system[at])} for the system" if self.system[at] else ""
        return (
            f"node {self.node}: {amount_text(resource, self.predicted[at])} of {amount_text(resource, self.size[at])} "
            f"{resource} predicted for {self.pods} pods{beside}, {self.source()}; "
            f"this pod adds {amount_text(resource, asked)}"
        )

    def lent(self, resource: str) -> str:
        """How much of a lent resource is offered and held."""
        held = sum(holder.lent.get(resource) for holder in self.holders)
        pods = sum(holder.lent.get(resource) > 0 for holder in self.holders)
        offered = format_amount(resource, self.offered.get(resource))
        by = "1 pod holds" if pods == 1 else f"{pods} pods hold"
        return f"{self.node} offers {offered} {resource}, {by} {format_amount(resource, held)}"

    def lender(self, resource: str) -> str:
        """Who offers a lent resource of the node."""
        if not self.written:
            return "lent by another manager, or by hand: the node has no terms of the amounts"
        try:
            found = json_object(LENT_TERMS, self.written)
            policy = str(found["amounts"][resource.partition("/")[2]]["policy"])
            strategy = str(found.get("strategy", ""))
        except (InvalidInput, KeyError, TypeError, AttributeError):
            return "lent by cotenant manager: the terms of the amounts cannot be read"
        by = f", strategy: {strategy}" if strategy else ""
        return f"lent by cotenant manager, by {policy}{by}; `cotenant explain node {self.node}` has the terms"

    def largest(self, resource: str) -> Iterator[str]:
        """The pods that hold most of a lent resource."""
        holding = sorted(
            ((holder.lent.get(resource), holder.pod) for holder in self.holders if holder.lent.get(resource) > 0),
            key=lambda pair: (-pair[0], pair[1]),
        )
        for amount, pod in holding[:_SHOWN]:
            yield f"{format_amount(resource, amount)} {pod}"
        if len(holding) > _SHOWN:
            yield f"and {len(holding) - _SHOWN} more"
