"""Settings of CPU burst, for the node and per pod.

A node's operator sets defaults, a pod's owner overrides some by annotation. A pod's settings omit what it does not
override; merging takes the node's there.
Limits: with an invalid annotation the node's settings apply, and the reason says so.

Source: Koordinator's NodeSLO (CPUBurstStrategy) and annotation `koordinator.sh/cpuBurst`; defaults and field names are
its own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object

ANNOTATION = "koordinator.sh/cpuBurst"


class BurstPolicy(StrEnum):
    """Which mechanisms are used."""

    NONE = "none"
    STATIC = "cpuBurstOnly"  # unused quota may be kept for later
    QUOTA = "cfsQuotaBurstOnly"  # the quota itself is raised while the container is throttled
    AUTO = "auto"  # both


@dataclass(frozen=True, slots=True)
class BurstConfig:
    """The node's settings. Raises `InvalidInput`."""

    policy: BurstPolicy = BurstPolicy.NONE
    burst_percent: int = 1000  # of the limit: how much unused quota may be kept
    quota_burst_percent: int = 300  # of the limit: the maximum quota
    quota_burst_period_s: int = -1  # how long a container may run at the maximum quota; -1 = no limit
    pool_threshold_percent: int = 50  # of the shared CPUs in use: above it quotas are lowered
    period_us: int = 100_000  # of the quotas
    ratio_milli: int = (
        1000  # CPU normalisation: speed of this machine, in thousandths of the reference; quotas are divided by it
    )

    def __post_init__(self) -> None:
        if not 0 <= self.burst_percent <= 10_000:
            raise InvalidInput("cpuBurstPercent", self.burst_percent, "0 to 10000")
        if self.quota_burst_percent < 0:
            raise InvalidInput("cfsQuotaBurstPercent", self.quota_burst_percent, "0 or more")
        if self.quota_burst_period_s < -1:
            raise InvalidInput("cfsQuotaBurstPeriodSeconds", self.quota_burst_period_s, "-1 or more")
        if not 0 <= self.pool_threshold_percent <= 100:
            raise InvalidInput("sharePoolThresholdPercent", self.pool_threshold_percent, "0 to 100")
        if not 1000 <= self.period_us <= 1_000_000:
            raise InvalidInput("period_us", self.period_us, "1000 to 1000000 microseconds")
        if not 100 <= self.ratio_milli <= 10_000:
            raise InvalidInput("ratio_milli", self.ratio_milli, "100 to 10000")


@dataclass(frozen=True, slots=True)
class PodBurst:
    """A pod's own settings; None = the node's."""

    policy: BurstPolicy | None = None
    burst_percent: int | None = None
    quota_burst_percent: int | None = None
    quota_burst_period_s: int | None = None


def merged(node: BurstConfig, pod: PodBurst | None) -> BurstConfig:
    """The node's settings overridden by the pod's. Raises `InvalidInput` where the combination is invalid."""
    if pod is None:
        return node
    own = {field.name: getattr(pod, field.name) for field in fields(pod) if getattr(pod, field.name) is not None}
    return replace(node, **own)


def read_annotation(text: str | None) -> PodBurst | None:
    """Parse the annotation; None where it is absent. Unknown fields are ignored. Raises `InvalidInput`."""
    if text is None or not text.strip():
        return None
    data = json_object(ANNOTATION, text)
    policy = data.get("policy")
    if policy is not None and policy not in list(BurstPolicy):
        raise InvalidInput(f"{ANNOTATION} policy", policy, "one of " + ", ".join(BurstPolicy))
    return PodBurst(
        policy=None if policy is None else BurstPolicy(policy),
        burst_percent=_integer(data.get("cpuBurstPercent"), "cpuBurstPercent"),
        quota_burst_percent=_integer(data.get("cfsQuotaBurstPercent"), "cfsQuotaBurstPercent"),
        quota_burst_period_s=_integer(data.get("cfsQuotaBurstPeriodSeconds"), "cfsQuotaBurstPeriodSeconds"),
    )


def _integer(value: object, name: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise InvalidInput(f"{ANNOTATION} {name}", value, "an integer")
