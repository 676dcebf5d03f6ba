"""What is recommended for a container, with what set it and what it would have cost."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.sizes.container import ContainerSize


@dataclass(frozen=True, slots=True)
class SizeBackTest:
    """Sizes of earlier days, each by what was known then, against the day that followed."""

    days: int
    steps: int  # replica-steps with known use
    exceeded: int  # of those, above the size of their day

    @property
    def risk(self) -> float | None:
        """The share of time above the size; None where nothing was tried."""
        return self.exceeded / self.steps if self.steps else None


@dataclass(frozen=True, slots=True)
class SizeBasis:
    """How the amount of one resource was found."""

    amount: float  # milli-CPU or MiB that use stays below at the stated risk; before bounds and rounding
    rule: str  # predictor, in words
    highest: float  # of any replica, mean over a step
    set_by: str  # hours and days
    trial: SizeBackTest
    left_out: int  # values above what the node has, or counters that jumped


@dataclass(frozen=True, slots=True)
class PastWeek:
    """The last week (or as much as is known) with the recommended sizes: replica-minutes."""

    minutes: float  # with known use
    squeezed: float  # CPU above the request: there only if neighbours leave it
    throttled: float  # CPU above the limit
    evictable: float  # memory above the request: first to go when the node runs short
    killed: float  # memory above the limit

    @property
    def squeezed_share(self) -> float:
        """Of the time that is known."""
        return self.squeezed / self.minutes if self.minutes > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One container of one workload. `after` is None where nothing is recommended; `why` then says why."""

    workload: str  # NAMESPACE/KIND/NAME
    container: str
    replicas: int
    before: ContainerSize
    after: ContainerSize | None
    why: tuple[str, ...]  # sentences: what kept, raised or capped an amount
    cpu: SizeBasis | None = None
    memory: SizeBasis | None = None
    week: PastWeek | None = None
    money_week: float | None = None  # saved in a week by all replicas, in the prices' currency; None = no prices

    @property
    def differs(self) -> bool:
        """Whether anything would change."""
        return self.after is not None and self.after != self.before
