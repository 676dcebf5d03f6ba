"""What a pod needs beside CPU and memory that lies on NUMA nodes too, as the keeper of CPUs asks about it.

Problem: the host of the alignment judges ten thousand rows and must not ask every provider (engine/framework/node_rules.py) for each of them again. Choice: the
providers' marks tell which rows may have other hints, and their kinds which pods have equal ones; hints are asked for when a row is judged.
Limits: two providers that name a resource alike would be taken for one.
"""

from __future__ import annotations

from collections.abc import Hashable

from cotenant.engine.framework.node_rules import NumaProvider
from cotenant.model.arrays import Int
from cotenant.policy.placement.numa import Hint, Hints, Provider, nobody

Kind = tuple[Hashable, ...]  # one a provider, None for one who has nothing for the pod; () = none has


class Beside:
    """The providers."""

    def __init__(self, providers: tuple[NumaProvider, ...] = ()) -> None:
        self._providers = providers

    def __bool__(self) -> bool:
        return bool(self._providers)

    def kind(self, number: int) -> Kind:
        """Equal for pods with equal hints."""
        kinds = tuple(each.numa_kind(number) for each in self._providers)
        return () if all(kind is None for kind in kinds) else kinds

    def marks(self, kind: Kind) -> tuple[Int, ...]:
        """`int64[N]` of each provider that has something for such pods."""
        pairs = zip(self._providers, kind, strict=False)
        return tuple(each.numa_marks() for each, own in pairs if own is not None)

    def of(self, number: int, kind: Kind, row: int) -> Provider:
        """Their hints for a pod on one row."""
        if not kind:
            return nobody
        asked = [each for each, own in zip(self._providers, kind, strict=True) if own is not None]

        def hints(numa_nodes: tuple[int, ...]) -> Hints:
            found: dict[str, tuple[Hint, ...] | None] = {}
            for each in asked:
                found |= each.numa_hints(number, row, numa_nodes)
            return found

        return hints
