"""The order of a merged list.

Problem: the patch lists its elements in an order, and the object has other elements among them. Choice: elements named by the patch come in
its order, starting at the position of the first one present; other elements keep their position among their neighbours. Merging twice
changes nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def interleave(present: Sequence[Hashable], wanted: Sequence[Hashable]) -> list[Hashable]:
    """The elements of `present` and `wanted`, each once. Neither may contain duplicates."""
    named = set(wanted)
    result: list[Hashable] = []
    next_wanted = 0
    emitted: set[Hashable] = set()
    for each in present:
        if each not in named:
            result.append(each)
            continue
        while each not in emitted:
            result.append(wanted[next_wanted])
            emitted.add(wanted[next_wanted])
            next_wanted += 1
    result.extend(wanted[next_wanted:])
    return result
