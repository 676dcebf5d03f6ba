"""A ResourceQuota: how much of each resource the objects of a namespace may request together, and how much they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NamespaceQuota:
    """Amounts in billionths of a unit, by the quota's own names (`pods`, `requests.cpu`, `limits.memory` ...).

    `scoped`: it counts some pods of the namespace only.
    """

    namespace: str
    name: str
    hard_nano: Mapping[str, int]
    used_nano: Mapping[str, int]
    scoped: bool = False
