"""Which imports between rooms are worth an arrow, and which room stands above which.

Sixty rooms import one another in more than three hundred ways, too many to draw, and some of them import one another in
circles.

The heaviest imports first, each import becomes a forward edge unless it closes a circle; then it is a backward edge. Of
the forward edges those are left out that a longer chain implies (the transitive reduction). Levels are longest paths
over forward edges.

Limits: an edge that is left out may still be an import of its own. With equal weights, the names decide which edge of a
circle is the backward one.
"""

from collections.abc import Iterable, Mapping

Edge = tuple[str, str]


def split(imports: Mapping[Edge, int]) -> tuple[list[Edge], list[Edge]]:
    """(forward, backward) edges, each sorted; the forward ones have no circle."""
    direct: dict[str, set[str]] = {}
    backward = []
    for source, target in sorted(imports, key=lambda edge: (-imports[edge], edge)):
        if source in _reachable(target, direct):
            backward.append((source, target))
        else:
            direct.setdefault(source, set()).add(target)
    return sorted((source, target) for source in direct for target in direct[source]), sorted(backward)


def reduced(edges: Iterable[Edge]) -> list[Edge]:
    """The edges of a graph without circles, less those that a chain of others implies."""
    direct = _by_source(edges)
    return [
        (source, target)
        for source in sorted(direct)
        for target in sorted(direct[source])
        if not any(target in _reachable(other, direct) for other in direct[source] - {target})
    ]


def levels(nodes: Iterable[str], edges: Iterable[Edge]) -> dict[str, int]:
    """For each node of a graph without circles its level: 0 where nothing leads to it, else one more than the
    largest level that does.
    """
    level = dict.fromkeys(sorted(nodes), 0)
    inner = [edge for edge in edges if level.keys() >= set(edge)]
    for _ in level:
        for source, target in inner:
            level[target] = max(level[target], level[source] + 1)
    return level


def _by_source(edges: Iterable[Edge]) -> dict[str, set[str]]:
    direct: dict[str, set[str]] = {}
    for source, target in edges:
        direct.setdefault(source, set()).add(target)
    return direct


def _reachable(start: str, direct: Mapping[str, set[str]]) -> set[str]:
    seen = {start}
    todo = [start]
    while todo:
        for target in direct.get(todo.pop(), set()) - seen:
            seen.add(target)
            todo.append(target)
    return seen
