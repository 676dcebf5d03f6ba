"""Bundles: gangs that are evaluated as one because they name one another, directly or through others.

Gangs that belong together name one another in lists, and lists written by hand differ: one may name another that does
not name it back. Gangs that reach each other through their lists are one *bundle*, evaluated in one transaction; a gang
that is only named must be satisfied by itself first.
Limits: few gangs each; recomputed after every change of a spec.
"""

from __future__ import annotations

from collections.abc import Mapping


def bundle(key: str, groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The gangs that are evaluated together with `key`, itself included, sorted. `groups`: each gang's own list,
    empty = itself.
    """
    mine = reach(key, groups)
    return tuple(sorted(other for other in mine if key in reach(other, groups)))


def reach(key: str, groups: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """Every gang that must be satisfied with `key`, itself included."""
    found, ahead = {key}, [key]
    while ahead:
        for other in groups.get(ahead.pop(), ()):
            if other not in found:
                found.add(other)
                ahead.append(other)
    return frozenset(found)
