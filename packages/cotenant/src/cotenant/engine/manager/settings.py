"""What may be set of the manager apart from the ConfigMap."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.hysteresis import HysteresisBand
from cotenant.policy.overcommit.peak import PeakSettings


@dataclass(frozen=True, slots=True)
class ManagerSettings:
    """Settings of the engine. Raises `InvalidInput`."""

    band: HysteresisBand = field(default_factory=HysteresisBand)  # of amounts by the peak policy
    peak: PeakSettings = field(default_factory=PeakSettings)  # its risk is overridden by the strategy's peakRiskPercent
    learns_use: bool = False  # by the hour, on nodes with `peak` too: `predicted` then begins with a history
    confirm_s: float = 30.0  # a write that the watch has not shown by then is issued again
    settle_s: float = 1.0  # pods that change within this time are counted together
    first_look_s: float = (
        150.0  # a measurement that is too old when first seen withdraws nothing before it was watched for so long
    )

    def __post_init__(self) -> None:
        if not (self.confirm_s > 0 and self.settle_s >= 0 and self.first_look_s >= 0):
            raise InvalidInput("manager settings", f"{self.confirm_s}, {self.settle_s}", "seconds above 0")
