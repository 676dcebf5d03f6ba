"""Settings of attribution.

Which signals a node has, and how certain an answer must be before a pod is limited for it, differ between nodes. The
list of signals and every threshold is a setting; a signal that the node does not have is skipped.
Limits: the weights of the signals are our own, by how directly each measures cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import InvalidInput

SECOND_US = 1_000_000
MAX_SAMPLES = 240


class EvidenceSignal(StrEnum):
    """A source of evidence. All levels are in millionths and grow with the service's trouble."""

    SELF_TIME = (
        "self-time"  # p99 of its own time on critical paths over its objective: calls to other services are not in it
    )
    LATENCY = "latency"  # p99 of its requests over its objective
    CPI = "cpi"  # cycles per instruction: needs a hardware counter
    RUN_DELAY = "run-delay"  # time waited for a CPU per CPU time used
    STALL = "stall"  # PSI: share of time in which some task waited for a CPU
    IO_STALL = "io-stall"  # PSI: share of time in which some task waited for a disk
    BLAME = "blame"  # which groups ran on the CPU that it waited for: needs the eBPF probe


# Direct measurements of who ran meanwhile weigh more than correlations; latency has many causes.
WEIGHTS = {
    EvidenceSignal.BLAME: 3.0,
    EvidenceSignal.CPI: 1.5,
    EvidenceSignal.RUN_DELAY: 1.0,
    EvidenceSignal.STALL: 1.0,
    EvidenceSignal.IO_STALL: 1.0,
    EvidenceSignal.SELF_TIME: 1.0,
    EvidenceSignal.LATENCY: 1.0,
}
# A service alone on its node hardly waits, so that any wait would exceed its usual level; and one within its objective
# is not in trouble.
FLOORS_PPM = {
    EvidenceSignal.SELF_TIME: 1_000_000,
    EvidenceSignal.LATENCY: 1_000_000,
    EvidenceSignal.CPI: 1,
    EvidenceSignal.RUN_DELAY: 100_000,
    EvidenceSignal.STALL: 20_000,
    EvidenceSignal.IO_STALL: 50_000,
}


@dataclass(frozen=True, slots=True)
class AttributionSettings:
    """Raises `InvalidInput`. Times in microseconds, shares in millionths (ppm)."""

    signals: tuple[EvidenceSignal, ...] = tuple(
        EvidenceSignal
    )  # in the order in which one of them decides whether a service is in trouble
    window_us: int = 60 * SECOND_US  # how far back evidence is taken from
    # The end of a longer trouble, which is asked about by itself where the whole of it names nobody: what caused its
    # beginning may be gone.
    recent_us: int = 10 * SECOND_US
    health_age_us: int = 15 * SECOND_US  # an older latency report is not used
    min_requests: int = 20  # in a latency window; with fewer its p99 is used only where most of them were late
    budget_ppm: int = (
        10_000  # requests that may miss an objective that a service reports itself: of the 99th percentile
    )
    trouble_samples: int = 3  # a service is in trouble where this many samples exceed the threshold ...
    trouble_of: int = 5  # ... of this many
    sigmas: int = 3  # threshold of a signal without an objective: its usual mean and this many deviations
    usual_samples: int = 10  # before the usual level of such a signal is known
    min_calm: int = 3  # samples below the threshold, for a comparison of before and during
    own_throttled_ppm: int = 100_000  # of its CFS periods: above, its own quota is the cause
    own_growth_ppm: int = (
        200_000  # growth of its requests (of its CPU use, where unknown) from which its own load is a candidate
    )
    own_time_ppm: int = (
        500_000  # least share of the excess latency that is its own time, else a service that it calls is the cause
    )
    min_waited_ppm: int = 20_000  # of elapsed time: a service without an objective that waited less did not wait
    min_waiting_ppm: int = 50_000  # excess waiting per CPU time below which blame shows nothing
    min_rise_ppm: int = 200_000  # growth of a suspect's activity, where its blame alone is not conclusive
    max_absent_ppm: int = 300_000  # ... and share of the bad samples in which it may have been inactive
    min_switches: int = 5  # of a suspect between active and inactive, where no signal but latency rose
    min_suspect_cpu_m: int = 20  # a pod that used less in the bad samples is no suspect
    min_own_cpu_m: int = 250  # the agent's own pods are no suspects below this use in the bad samples
    held_ppm: int = 700_000  # a quota below this part of what was used before it holds; above, it hardly changes a use
    held_us: int = 5 * SECOND_US  # for so long trouble may outlast its cause: requests that wait are late, too
    min_suspect_disk_bps: int = (
        1 << 20
    )  # bytes per second; a pod that read and wrote less is no suspect by its disk use
    # rise of the machine's waiting for disks from which it is evidence, where the service's own is not known
    min_disk_pressure_ppm: int = 100_000
    min_suspect_card_permille: int = 50  # of a card's time; a pod that took less is no suspect on the card
    min_suspect_pcie_bps: int = 100 << 20  # bytes per second
    # use of a card from which it counts as full, and its rise, where a pod is named by its part of it the first time
    min_card_full_permille: int = 900
    min_card_rise_permille: int = 100
    max_suspects: int = 16  # the most active ones
    min_confidence_ppm: int = 600_000  # of the first candidate, to be named
    min_lead_ppm: int = 200_000  # over the second one

    def __post_init__(self) -> None:
        if not self.signals or len(set(self.signals)) < len(self.signals):
            raise InvalidInput("attribution.signals", ", ".join(self.signals), "at least one, each once")
        if self.signals == (EvidenceSignal.BLAME,):
            raise InvalidInput(
                "attribution.signals", EvidenceSignal.BLAME.value, "a signal that shows trouble, in addition to blame"
            )
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and value < 0:
                raise InvalidInput(f"attribution.{name}", value, "0 or more")
        for name in ("window_us", "trouble_samples", "min_calm", "max_suspects", "usual_samples"):
            if getattr(self, name) == 0:
                raise InvalidInput(f"attribution.{name}", 0, "more than 0")
        if self.trouble_samples > self.trouble_of:
            raise InvalidInput("attribution.trouble_samples", self.trouble_samples, f"at most {self.trouble_of}")
        if self.min_confidence_ppm > 1_000_000:
            raise InvalidInput("attribution.min_confidence_ppm", self.min_confidence_ppm, "at most 1000000")
