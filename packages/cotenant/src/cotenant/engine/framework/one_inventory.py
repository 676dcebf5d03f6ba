"""Devices that two rules know: a GPU of a Device object that a driver offers in a ResourceSlice too is one GPU.

Each side names a device by node and identity (a UUID or a PCI address, in lower case), tells which of them are in use
with it, and is told which are with the other. Neither knows the other.
"""

from __future__ import annotations

from collections.abc import Callable, Set

InUse = Callable[[str, frozenset[str]], None]  # node, identities


class OneInventory:
    """One side's view: `told` is what the other side calls, `tell` what this one calls."""

    def __init__(self) -> None:
        self.tell: InUse = _nobody
        self.elsewhere: dict[str, frozenset[str]] = {}  # node -> in use with the other side
        self.changed: Callable[[str], None] = lambda node: None

    def told(self, node: str, identities: Set[str]) -> None:
        """What is in use with the other side on a node."""
        found = frozenset(identities)
        if self.elsewhere.get(node, frozenset()) == found:
            return
        if found:
            self.elsewhere[node] = found
        else:
            del self.elsewhere[node]
        self.changed(node)


def connect(one: OneInventory, other: OneInventory) -> None:
    """Let each side hear of the other."""
    one.tell, other.tell = other.told, one.told


def _nobody(node: str, identities: frozenset[str]) -> None:
    pass
