"""Pages of `/v1/zones`, as agents answer them: of the agent's own types, so a field renamed there fails here."""

from __future__ import annotations

from typing import Any

import msgspec

from cotenant.services.zones.agent_zones import (
    BackFigures,
    FrontFigures,
    MachineLimits,
    MachinesTogether,
    ZoneFigures,
    ZonesPage,
)


def machine_zone(zone: str) -> ZoneFigures:
    """A zone with a machine whose services are pressed."""
    front = FrontFigures(3, 0.4664, 0.25, None, 0.081, 0.5, 0.004)
    back = BackFigures(0.2, 0.579, 0.02, 0.01, 0.0, None, 1234.5, 3.0, 411.5)
    limits = MachineLimits(512, 2, 1500, 2048, 96 << 20)
    return ZoneFigures(zone, "active", "root/latency", 16.68, 2.5, 0.25, 0.97, limits, front, back)


def zones_page(node: str, *zones: ZoneFigures) -> Any:
    """The answer of this node's agent."""
    return msgspec.to_builtins(ZonesPage(node, zones, MachinesTogether(1024, 4096, 3, 16, 2048, 8192)))
