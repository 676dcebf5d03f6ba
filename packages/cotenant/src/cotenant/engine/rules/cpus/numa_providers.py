"""NUMA hints from other node rules, collected for the CPU rule, which hosts the NUMA alignment.

The host judges ten thousand rows per pod and must not query every provider (engine/framework/node_rules.py) for each of
them. The marks of the providers say which rows may have new hints, and their kinds say which pods have equal hints;
hints are computed only when a row is judged.
Limits: resource names must be unique across providers.
"""

from __future__ import annotations

from collections.abc import Hashable

from cotenant.engine.framework.node_rules import NumaProvider
from cotenant.model.arrays import Int
from cotenant.policy.placement.numa import Hint, Hints, Provider, no_hints

Kind = tuple[Hashable, ...]  # one entry per provider, None where it has nothing for the pod; () = no provider has


class NumaProviders:
    """The providers registered with the host."""

    def __init__(self, providers: tuple[NumaProvider, ...] = ()) -> None:
        self._providers = providers

    def __bool__(self) -> bool:
        return bool(self._providers)

    def kind(self, number: int) -> Kind:
        """Equal for pods with equal hints."""
        kinds = tuple(provider.numa_kind(number) for provider in self._providers)
        return () if all(kind is None for kind in kinds) else kinds

    def marks(self, kind: Kind) -> tuple[Int, ...]:
        """`int64[N]` of each provider that has something for such pods."""
        pairs = zip(self._providers, kind, strict=False)
        return tuple(pair.numa_marks() for pair, own in pairs if own is not None)

    def of(self, number: int, kind: Kind, row: int, without: frozenset[int] = frozenset()) -> Provider:
        """The combined hints for a pod on one row, `without` some residents."""
        if not kind:
            return no_hints
        asked = [provider for provider, own in zip(self._providers, kind, strict=True) if own is not None]

        def hints(numa_nodes: tuple[int, ...]) -> Hints:
            found: dict[str, tuple[Hint, ...] | None] = {}
            for numa_provider in asked:
                found |= numa_provider.numa_hints(number, row, numa_nodes, without)
            return found

        return hints
