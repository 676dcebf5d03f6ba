"""The order of a merged list.

The patch lists its elements in an order, and the object has other elements among them. Elements named by the patch come
in its order, starting at the position of the first one present; other elements keep their position among their
neighbours. Merging twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def interleave(present: Sequence[Hashable], desired: Sequence[Hashable]) -> list[Hashable]:
    """The elements of `present` and `desired`, each once. Neither may contain duplicates."""
    named = set(desired)
    result: list[Hashable] = []
    next_wanted = 0
    emitted: set[Hashable] = set()
    for hashable in present:
        if hashable not in named:
            result.append(hashable)
            continue
        while hashable not in emitted:
            result.append(desired[next_wanted])
            emitted.add(desired[next_wanted])
            next_wanted += 1
    result.extend(desired[next_wanted:])
    return result
