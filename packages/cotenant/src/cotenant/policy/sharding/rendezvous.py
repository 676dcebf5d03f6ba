"""The slot that owns a key: the one of the highest weight (rendezvous hashing).

A joining slot takes its part from all others alike and a leaving one's part goes to all others alike; no key moves
between two slots that stay. The weight is a hash of the key mixed with the slot, so that one digest serves all slots.
Source: Thaler, Ravishankar, "Using name-based mappings to increase hit rates", IEEE/ACM ToN 6(1), 1998; the mixing is
the finalizer of SplitMix64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

_WORD = 0xFFFF_FFFF_FFFF_FFFF
_STEP = 0x9E37_79B9_7F4A_7C15


def digest(key: str) -> int:
    """64 bits of a key."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little")


def weight(of_key: int, slot: int) -> int:
    """The weight of a slot for a key's digest."""
    mixed = (of_key + (slot + 1) * _STEP) & _WORD
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58_476D_1CE4_E5B9) & _WORD
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D0_49BB_1331_11EB) & _WORD
    return mixed ^ (mixed >> 31)


def owner(key: str, slots: Sequence[int]) -> int:
    """The slot that owns a key; -1 where there is none."""
    if len(slots) < 2:
        return slots[0] if slots else -1
    of_key = digest(key)
    return max(slots, key=lambda slot: (weight(of_key, slot), slot))


def is_owned_in_all(key: str, slot: int, rings: Iterable[Sequence[int]]) -> bool:
    """Whether a slot owns a key in each of these rings; False without a ring."""
    of_key, found = -1, False
    for slots in rings:
        if slot not in slots:
            return False
        found = True
        if len(slots) > 1:
            of_key = of_key if of_key >= 0 else digest(key)
            own = weight(of_key, slot), slot
            if any((weight(of_key, other), other) > own for other in slots if other != slot):
                return False
    return found
