"""Back-off: the delay before a failed operation is tried again, doubled each time up to a maximum.

Source: kube-scheduler's podInitialBackoffSeconds (1) and podMaxBackoffSeconds (10). Limits: no jitter, because the
queue belongs to one process.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Backoff:
    """`first_s`, doubled by every further failure, never above `max_s`."""

    first_s: float = 1.0
    max_s: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.max_s:
            raise InvalidInput(
                "back-off", f"{self.first_s} s to {self.max_s} s", "seconds above 0, the first not above the most"
            )

    def rest_s(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row; 0 after none."""
        if failures <= 0:
            return 0.0
        return min(self.max_s, self.first_s * 2.0 ** min(failures - 1, 60))
