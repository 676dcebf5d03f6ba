"""Bundles: gangs that are evaluated as one because they name one another, directly or through others.

Gangs that belong together name one another in lists, and lists written by hand differ: one may name another that does
not name it back. Gangs that reach each other through their lists are one *bundle*, evaluated in one transaction; a gang
that is only named must be satisfied by itself first.
Limits: recomputed after every change of a spec, for each gang that names others. So a gang names `MAX_NAMED` others,
and of those that it reaches through them the `MAX_REACHED` nearest count: who names more is placed without the rest.
"""

from __future__ import annotations

from collections.abc import Mapping

MAX_NAMED = 16  # by one gang, itself included
MAX_REACHED = 32


def bundle(key: str, groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The gangs that are evaluated together with `key`, itself included, sorted. `groups`: each gang's own list,
    empty = itself.
    """
    mine = reach(key, groups)
    return tuple(sorted(other for other in mine if key in reach(other, groups)))


def reach(key: str, groups: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """Every gang that must be satisfied with `key`, itself included; the nearest where there are many."""
    found, ahead = {key}, [key]
    for one in ahead:
        for other in groups.get(one, ()):
            if other not in found:
                if len(found) == MAX_REACHED:
                    return frozenset(found)
                found.add(other)
                ahead.append(other)
    return frozenset(found)
