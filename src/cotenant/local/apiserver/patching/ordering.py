"""The order of a merged list.

Problem: the writer gives its own elements in an order, the object has others among them. Choice: elements that the writer names come in its order,
placed where the first of them stood; those it does not name keep their place between the ones around them. Merging twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def interleave(present: Sequence[Hashable], wanted: Sequence[Hashable]) -> list[Hashable]:
    """All of `present` and `wanted`, each once. Both are without doubles."""
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
