"""Which gangs each gang names, and which need it.

Every event of a gang may open or close those that need it, and one tenant may make thousands that name each other. Who
names a gang is kept beside whom it names, so that an event looks at those that lead to it alone.
Limits: a gang that very many name costs as much as there are of them.
"""

from __future__ import annotations

from cotenant.policy.placement.gangs.bundles import MAX_REACHED, reach


class GangLinks:
    """`named`: each gang's own list, for gangs that have one; read only."""

    def __init__(self) -> None:
        self.named: dict[str, tuple[str, ...]] = {}
        self._naming: dict[str, dict[str, None]] = {}

    def __bool__(self) -> bool:
        return bool(self.named)

    def put(self, key: str, names: tuple[str, ...]) -> None:
        """What a gang names from now on; empty: nothing."""
        for name in self.named.pop(key, ()):
            self._naming[name].pop(key, None)
            if not self._naming[name]:
                del self._naming[name]
        if names:
            self.named[key] = names = tuple(dict.fromkeys(names))
            for name in names:
                self._naming.setdefault(name, {})[key] = None

    def needing(self, key: str) -> list[str]:
        """Other gangs that need this one, as `reach` says, the nearest first."""
        found, ahead = {key: None}, [key]
        for _ in range(MAX_REACHED):  # each step of a way takes one gang of those that `reach` counts
            nearer = dict.fromkeys(other for one in ahead for other in self._naming.get(one, ()))
            ahead = [other for other in nearer if other not in found]
            if not ahead:
                break
            found.update(dict.fromkeys(ahead))
        return [other for other in found if other != key and key in reach(other, self.named)]
