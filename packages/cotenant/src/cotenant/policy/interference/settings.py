"""Settings of the search for antagonists, with the published values as defaults.

The published rule was tuned for cycles per instruction in a large cluster; a node without counters has other signals
and fewer tasks. Every number is a setting.
Limits: a window holds at most `MAX_SLICES` samples, so that memory stays small.

Source: Zhang et al., CPI2: CPU performance isolation for shared compute clusters, EuroSys'13, table of parameters.
Departures: the victim's signal (run delay instead of CPI), floors under the threshold of such signals, and one task,
not five, is enough for a service's usual values, as a node seldom has more.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import InvalidInput

SECOND_US = 1_000_000
MAX_SLICES = 120


class VictimSignal(StrEnum):
    """How a service's suffering is measured. All are in millionths, and grow with the suffering."""

    CPI = "cpi"  # cycles per instruction: needs a hardware counter
    RUN_DELAY = "run-delay"  # time waited for a CPU per CPU time used
    STALL = "stall"  # PSI: share of time in which some task waited for a CPU
    LATENCY = "latency"  # p99 of its requests over its objective


class SuspectSignal(StrEnum):
    """How a suspect's activity is measured."""

    CPU = "cpu"  # CPU time used
    IO = "io"  # bytes read and written
    BLAME = "blame"  # how long it ran on a CPU that the victim waited for: needs the eBPF probe


# A service alone on its node hardly waits at all, so that mean and deviation are near 0 and any wait would be an
# outlier; and a service within its objective is fast enough, whatever its usual values.
FLOORS_PPM = {
    VictimSignal.CPI: 1,
    VictimSignal.RUN_DELAY: 100_000,
    VictimSignal.STALL: 20_000,
    VictimSignal.LATENCY: 1_000_000,
}


@dataclass(frozen=True, slots=True)
class InterferenceSettings:
    """One search. Times in microseconds, shares in millionths (ppm)."""

    victim_signal: VictimSignal = VictimSignal.RUN_DELAY
    suspect_signal: SuspectSignal = SuspectSignal.CPU
    every_us: int = 60 * SECOND_US  # period of samples
    sample_us: int = 10 * SECOND_US  # duration of a sample
    window_us: int = 600 * SECOND_US  # how far a search looks back
    outliers: int = 3  # number of samples above the threshold ...
    outlier_window_us: int = 300 * SECOND_US  # ... within this time that make an anomaly
    sigmas: int = 2  # the threshold: a service's mean plus this many deviations
    threshold_ppm: int | None = None  # a fixed threshold instead; None: from the service's usual values
    min_threshold_ppm: int | None = None  # floor of the threshold from usual values; None: `FLOORS_PPM`
    min_victim_cpu_m: int = 250  # a victim's sample with less use is ignored
    own_throttled_ppm: int = 100_000  # and so is one in which its own quota throttled it in more of its periods
    suspect_ppm: int = 350_000  # minimum correlation, or minimum share of the blame
    search_gap_us: int = SECOND_US  # between two searches on this machine
    cap_us: int = 300 * SECOND_US
    cap_cpu_m: int = 100  # of batch work
    cap_lowest_cpu_m: int = 10  # of the lowest priority class
    helped_ppm: int = 100_000  # a cap helped if it lowered the victim's signal by at least this share
    spare_us: int = 600 * SECOND_US  # a suspect whose cap did not help the victim is exempt for it for this long
    offences: int = 3  # number of caps that helped ...
    offence_window_us: int = 3600 * SECOND_US  # ... within this time after which the pod is evicted
    usual_tasks: int = 1  # minimum number of tasks for a service's usual values ...
    usual_samples: int = 100  # ... with this many samples each
    refresh_us: int = 86_400 * SECOND_US  # period after which they are recomputed
    age_ppm: int = 900_000  # weight of the earlier sums then

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and value < 0:
                raise InvalidInput(f"interference.{name}", value, "0 or more")
        if not 0 < self.sample_us <= self.every_us <= self.window_us:
            raise InvalidInput(
                "interference.sample_us", self.sample_us, "above 0, at most every_us, which is at most window_us"
            )
        if self.window_us // self.every_us > MAX_SLICES:
            raise InvalidInput(
                "interference.window_us",
                self.window_us,
                f"at most {MAX_SLICES} samples, {MAX_SLICES * self.every_us} us",
            )
        if self.threshold_ppm == 0 or self.min_threshold_ppm == 0:
            raise InvalidInput("interference.threshold_ppm", 0, "above 0, or None")
        if self.outliers < 1 or self.cap_us < 1 or self.cap_lowest_cpu_m < 10 or self.cap_cpu_m < 10:
            raise InvalidInput("interference", self, "at least one outlier, a cap of some time and of 10 mCPU or more")

    @property
    def floor_ppm(self) -> int:
        """The smallest threshold that usual values can give."""
        return FLOORS_PPM[self.victim_signal] if self.min_threshold_ppm is None else self.min_threshold_ppm

    @property
    def direct(self) -> bool:
        """Whether suspects are ranked by direct blame rather than by correlation."""
        return self.suspect_signal is SuspectSignal.BLAME
