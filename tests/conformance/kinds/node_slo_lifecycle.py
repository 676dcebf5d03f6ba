"""Life of a NodeSLO: it follows its node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.reading import Unreadable
from tests.fakes.processes.managed_world import World

from cotenant.engine.manager.instructions import NodeObjectKind

EVENTS = ("create-node", "delete-node", "config-map-created", "reconcile", "reconcile-unknown-node")


def node_slo_lifecycle(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Whether the object exists after each event."""
    world = World()
    exists = []
    for event in case.given.get("events", ()):
        if event not in EVENTS:
            raise Unreadable(f"the event {event!r} is not one of {', '.join(EVENTS)}")
        if event == "create-node":
            world.node()
        elif event == "delete-node":
            world.gone()
        elif event == "config-map-created":
            world.configure({})
        else:
            world.step()
        exists.append((NodeObjectKind.NODE_SLO, "n") in world.specs)
    yield "exists_after", case.expect["exists_after"], exists


KINDS = {"node_slo_lifecycle": node_slo_lifecycle}
