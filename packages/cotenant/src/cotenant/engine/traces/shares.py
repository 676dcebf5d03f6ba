"""Room that many share, of which nobody takes the rest.

Tables and buffers are bounded, and the first that sends without end fills them for everybody. Dynamic thresholds: one
holder may have at most `FAVOUR` times what is free afterwards, so one alone has three quarters, and there is always
some for the next. A part can be kept from holders of whom nothing is proven, since one that invents holders takes what
there is.

Source: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

FAVOUR = 3
_RESERVED = 4  # one part of so many is for proven holders

T = TypeVar("T", bound=Hashable)


class HolderShares(Generic[T]):
    """How much each holder has of `most`."""

    def __init__(self, most: int, favour: int = FAVOUR) -> None:
        self.most, self._favour = most, favour
        self.for_unproven = most - most // _RESERVED
        self.held = 0
        self._of: dict[T, int] = {}

    def of(self, holder: T) -> int:
        """What a holder has."""
        return self._of.get(holder, 0)

    def has_room(self, holder: T, size: int = 1, *, is_proven: bool = True) -> bool:
        """Whether a holder may have so much more; an unproven one leaves the reserve free."""
        free = (self.most if is_proven else self.for_unproven) - self.held - size
        return free >= 0 and self.of(holder) + size <= self._favour * (free + 1)

    def take(self, holder: T, size: int = 1) -> None:
        """Give a holder so much, whether there is room or not."""
        self.held += size
        self._of[holder] = self.of(holder) + size

    def give_back(self, holder: T, size: int = 1) -> None:
        """A holder has so much less."""
        self.held -= size
        left = self.of(holder) - size
        if left > 0:
            self._of[holder] = left
        else:
            self._of.pop(holder, None)
