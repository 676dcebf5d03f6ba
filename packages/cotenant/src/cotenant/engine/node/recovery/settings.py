"""Settings of the recovery ladder.

How long an action lasts, when it counts as proven, and how strong it may be differ between nodes. Each is a setting;
off unless configured.
Limits: an objective's own `maxAction` replaces `max_action` for its replicas; one that does not allow the guard to act
only observes.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.engine.node.recovery.stages import USUAL, RecoveryRung
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.replica_signal import MaxAction
from cotenant.policy.interference.attribution.settings import SECOND_US, AttributionSettings

_PERCENT = 100
DEFAULT_ATTRIBUTION = AttributionSettings()


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """Raises `InvalidInput`. Times in microseconds, shares in millionths (ppm)."""

    attribution: AttributionSettings = DEFAULT_ATTRIBUTION
    rungs: tuple[RecoveryRung, ...] = USUAL
    max_action: MaxAction = MaxAction.IDLE  # for services without an objective measured from spans
    tighten_ppm: int = 500_000  # share of best-effort use that the first rung leaves
    cap_ppm: int = 300_000  # share of the culprit's use that a cap leaves
    min_cap_m: int = 100  # no cap is below
    disk_ppm: int = 300_000  # share of the culprit's disk use that its limit leaves
    min_disk_bps: int = 1 << 20  # no limit is below; bytes per second
    cards: tuple[str, ...] = ()  # UUIDs of the GPUs that may be limited; the keeper has to grant them, too
    power_ppm: int = 500_000  # share of what such a card draws that its limit leaves; never below what the card takes
    clocks_ppm: int = 500_000  # share of the clock at which such a card runs that its lock leaves
    threads_percent: int = 0  # of each MPS client that starts after an eviction, at the daemon of offline work; 0: none
    idle_cap_m: int = 100  # cap beside the idle class
    settle_us: int = SECOND_US  # after an action, before samples count as its effect
    proof_samples: int = 3  # samples that prove an action ...
    proof_us: int = 15 * SECOND_US  # ... within this time, else it has no effect
    helped_ppm: int = 200_000  # reduction of the signal that counts as an improvement
    lease_us: int = 60 * SECOND_US  # of a proven action; doubles with each recurrence
    longest_lease_us: int = 600 * SECOND_US
    after_us: int = 10 * SECOND_US  # without trouble after a lease: recovered
    recurrences: int = 3  # leases that helped, after which the next rung is used
    freeze_memory_ppm: int = 100_000  # share of the node's memory that is available, below which nothing is frozen
    freeze_card_memory_ppm: int = 50_000  # the same of the memory of each GPU that the service shares with it
    longest_gap_us: int = 10 * SECOND_US  # between two attributions of one incident, which costs milliseconds
    cleared_us: int = 600 * SECOND_US  # a culprit whose limits did not help is not named for the service for this long
    leave_us: int = 60 * SECOND_US  # for an eviction to be done
    move_us: int = 360 * SECOND_US  # for a move to be done: room is reserved first

    def __post_init__(self) -> None:
        if len(set(self.rungs)) < len(self.rungs) or list(self.rungs) != sorted(
            self.rungs, key=list(RecoveryRung).index
        ):
            raise InvalidInput(
                "recovery.rungs", ", ".join(self.rungs), f"each once, in the order {', '.join(RecoveryRung)}"
            )
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and value < 0:
                raise InvalidInput(f"recovery.{name}", value, "0 or more")
        for name in (
            "proof_samples",
            "proof_us",
            "lease_us",
            "recurrences",
            "min_cap_m",
            "idle_cap_m",
            "clocks_ppm",
            "min_disk_bps",
            "leave_us",
            "move_us",
        ):
            if getattr(self, name) == 0:
                raise InvalidInput(f"recovery.{name}", 0, "more than 0")
        if self.longest_lease_us < self.lease_us:
            raise InvalidInput("recovery.longest_lease_us", self.longest_lease_us, f"at least {self.lease_us}")
        if len(set(self.cards)) < len(self.cards) or not all(self.cards):
            raise InvalidInput("recovery.cards", ", ".join(self.cards), "UUIDs of GPUs, each once")
        if self.threads_percent > _PERCENT:
            raise InvalidInput("recovery.threads_percent", self.threads_percent, "1 to 100, or 0 for no limit")
        for name in (
            "tighten_ppm",
            "cap_ppm",
            "disk_ppm",
            "power_ppm",
            "clocks_ppm",
            "freeze_memory_ppm",
            "freeze_card_memory_ppm",
        ):
            if getattr(self, name) > 1_000_000:
                raise InvalidInput(f"recovery.{name}", getattr(self, name), "at most 1000000")
