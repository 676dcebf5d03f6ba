"""An extender of a scheduler: another process that filters and scores nodes over HTTP, as kube-scheduler's
configuration names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MAX_PRIORITY = 10  # an extender's score of a node goes from 0 to this
USUAL_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class ExtenderTls:
    """How its certificate is checked, and ours shown. PEM as bytes; empty = not given."""

    is_insecure: bool = False
    server_name: str = ""
    certificate: bytes = b""
    key: bytes = b""
    authorities: bytes = b""


@dataclass(frozen=True, slots=True)
class Extender:
    """One extender. A verb is the last part of its URL; an empty one is not called."""

    url: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    is_ignorable: bool = False  # pods are scheduled without it where it fails
    caches_nodes: bool = False  # it is sent names of nodes rather than nodes
    managed: frozenset[str] = frozenset()  # extended resources: it is asked about pods that request one; empty = all
    timeout_s: float = USUAL_TIMEOUT_S
    tls: ExtenderTls | None = None  # None = plain HTTP

    def is_interested(self, resources: Iterable[str]) -> bool:
        """Whether it is asked about a pod that requests these."""
        return not self.managed or any(name in self.managed for name in resources)

    def address(self, verb: str) -> str:
        """The URL of a verb."""
        return f"{self.url.rstrip('/')}/{verb}"
