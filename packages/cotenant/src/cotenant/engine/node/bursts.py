"""When best-effort work, or the service beside it, begins or ends between two samples.

A sample of all groups is taken each second; whoever begins right after one is met by the next only. A look at the CPU
time of best-effort work alone costs a few microseconds, so it is taken several times between samples: use that differs
from its mean of the last second asks for a sample at once. A rise is best-effort work that begins, a fall a service
that takes its CPU back. Samples that are asked for are bounded: a few in a row, as the first may come too early to show
harm, and then one for each `regain_us`, or fewer where a sample takes so much CPU time that they would cost more than
a share of a core.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput

SECOND_US = 1_000_000
_PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class BurstSettings:
    """Raises `InvalidInput`."""

    look_us: int = 200_000  # between two looks; 0: none are taken
    change_m: int = 200  # milli-CPU that best-effort work uses more or less than in the second before ...
    change_ppm: int = 20_000  # ... and of the machine's CPUs
    in_a_row: int = 4  # samples that are asked for at most
    regain_us: int = 2 * SECOND_US  # after which one more may be asked for
    max_cost_ppm: int = 5_000  # of a core, that such samples take in the long run

    def __post_init__(self) -> None:
        if self.look_us and not 20_000 <= self.look_us <= SECOND_US:
            raise InvalidInput("look_us", self.look_us, "0, or 20000 to 1000000 microseconds")
        for name in ("change_m", "change_ppm", "in_a_row", "regain_us", "max_cost_ppm"):
            if getattr(self, name) <= 0:
                raise InvalidInput(name, getattr(self, name), "more than 0")


class Bursts:
    """Whether a look asks for a sample. Times in microseconds of a monotonic clock."""

    def __init__(self, settings: BurstSettings, cpus: int) -> None:
        self._change_m = max(settings.change_m, cpus * 1000 * settings.change_ppm // _PPM)
        self._in_a_row, self._regain_us = settings.in_a_row, settings.regain_us
        self._settings = settings
        self._uses_m: deque[int] = deque(maxlen=max(1, SECOND_US // max(1, settings.look_us)))
        self._last: tuple[int, Mapping[str, int]] | None = None
        self._left = settings.in_a_row
        self._regained_us: int | None = None

    def looked(self, at_us: int, cpu_us: Mapping[str, int]) -> bool:
        """CPU time of best-effort groups, by group. Groups that were not there at the look before do not count."""
        last, self._last = self._last, (at_us, dict(cpu_us))
        self._regain(at_us)
        if last is None or at_us <= last[0]:
            return False
        used_us = sum(max(0, now_us - last[1][group]) for group, now_us in cpu_us.items() if group in last[1])
        used_m = used_us * 1000 // (at_us - last[0])
        usual_m = sum(self._uses_m) // len(self._uses_m) if self._uses_m else None
        self._uses_m.append(used_m)
        if usual_m is None or abs(used_m - usual_m) < self._change_m or not self._left:
            return False
        self._left -= 1
        return True

    def acted(self) -> None:
        """A limit was changed: what best-effort work used before is no measure of what it uses now."""
        self._uses_m.clear()

    def sampled(self, cpu_us: int) -> None:
        """What a sample that was asked for took of a core: the next ones are so far apart as that costs."""
        afforded_us = cpu_us * _PPM // self._settings.max_cost_ppm
        self._regain_us = max(self._settings.regain_us, (self._regain_us + afforded_us) // 2)

    def _regain(self, at_us: int) -> None:
        if self._regained_us is None or at_us < self._regained_us:  # the first look, or a clock that went back
            self._regained_us = at_us
        gained = min(self._in_a_row - self._left, (at_us - self._regained_us) // self._regain_us)
        self._left += gained
        self._regained_us = at_us if self._left == self._in_a_row else self._regained_us + gained * self._regain_us
