"""How much of a GPU's idle part is lent, and how fast it comes back."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.errors import InvalidInput
from cotenant.policy.nodeqos.guard.config import GuardConfig

_PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLendingSettings:
    """`risk`: the share of card-hours in which what the holders use and what is lent may exceed the card."""

    risk: float = 0.01
    return_s: int = 30  # in which a borrower that is told to leave has left: the model server's tolerance
    headroom_percent: int = 10  # of a card, kept beside what the holders are expected to use
    step_percent: int = 10  # offers are multiples of it, and grow by one a measurement
    measured_every_s: int = 60
    starting_s: int = 300  # in which a holder without a process on its card counts by its request
    busy_s: int = 5  # for which multiprocessors may be short before a borrower leaves; memory may not
    pause_s: int = 600  # without an offer after a holder missed its objective beside a borrower
    beside_percent: int = 0  # of multiprocessors, beside holders that say how they serve; 0: what their kernels leave
    spent_percent: int = 95  # of their error budget, from which on nobody runs beside them
    spent_s: int = 86_400  # half-life of requests and misses in that
    patience_s: int = 3600  # for which a borrower is suspended before it leaves
    guard: GuardConfig = field(default_factory=GuardConfig)  # of the part beside them

    def __post_init__(self) -> None:
        if not 0 < self.risk < 1:
            raise InvalidInput("risk", self.risk, "a share of card-hours between 0 and 1")
        if not 1 <= self.return_s <= 3600:
            raise InvalidInput("return_s", self.return_s, "1 to 3600")
        if not 0 <= self.headroom_percent < _PERCENT:
            raise InvalidInput("headroom_percent", self.headroom_percent, "0 to 99")
        if not 1 <= self.step_percent <= _PERCENT:
            raise InvalidInput("step_percent", self.step_percent, "1 to 100")
        if not 10 <= self.measured_every_s <= 3600:
            raise InvalidInput("measured_every_s", self.measured_every_s, "10 to 3600")
        if not 0 <= self.beside_percent < _PERCENT:
            raise InvalidInput("beside_percent", self.beside_percent, "0 to 99")
        if not 1 <= self.spent_percent <= _PERCENT:
            raise InvalidInput("spent_percent", self.spent_percent, "1 to 100")
        if not 60 <= self.spent_s <= 2_592_000:
            raise InvalidInput("spent_s", self.spent_s, "60 to 2592000")
        for name in ("starting_s", "busy_s", "pause_s", "patience_s"):
            if not 0 <= getattr(self, name) <= 86_400:
                raise InvalidInput(name, getattr(self, name), "0 to 86400")
