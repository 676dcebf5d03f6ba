"""Pages about the state of plugins and node rules, under the paths of the founding API.

Gangs, quotas, devices, CPUs, reservations and load each have their own state, and a page about one that is not enabled
would be wrong. One list of pages, each for a member of the plugin registry by name; a page exists only if the registry
has that member, enabled. A page answers with a frozen value, None for an unknown name.
Limits: members describe themselves, nothing is computed here.
Source: founding document, v0.7, section 3; later plugins' endpoints as in Koordinator's scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant.engine.registry import PluginRegistry

NODE = ":nodeName"


@dataclass(frozen=True, slots=True)
class MemberPage:
    """One page about one member of the registry."""

    member: str  # attribute of the plugin registry
    plugin: str  # in the path, as in Koordinator
    endpoint: str  # names begin with a colon
    what: str  # the kind of object, if the page is about one by name; empty = all of them
    read: Callable[[Any, Sequence[str]], object | None]

    @property
    def pattern(self) -> str:
        """The path."""
        return f"/apis/v1/plugins/{self.plugin}/{self.endpoint}"


PAGES = (
    MemberPage(
        "gangs", "Coscheduling", "gang/:namespace/:name", "gang", lambda of, names: of.describe("/".join(names))
    ),
    MemberPage("gangs", "Coscheduling", "gangs", "", lambda of, names: of.describe_all()),
    MemberPage("quotas", "ElasticQuota", "quota/:name", "quota", lambda of, names: of.describe(names[0])),
    MemberPage("quotas", "ElasticQuota", "quotas", "", lambda of, names: _each(of, of.names())),
    MemberPage("devices", "DeviceShare", "nodeDeviceSummaries", "", lambda of, names: tuple(of.summaries())),
    MemberPage(
        "devices", "DeviceShare", "nodeDeviceSummaries/:name", "Device of node", lambda of, names: of.describe(names[0])
    ),
    MemberPage(
        "cpus", "NodeNUMAResource", f"availableCPUs/{NODE}", "topology of node", lambda of, names: of.describe(names[0])
    ),
    MemberPage(
        "cpus",
        "NodeNUMAResource",
        f"cpuTopologyOptions/{NODE}",
        "topology of node",
        lambda of, names: of.describe(names[0]),
    ),
    MemberPage("reservations", "Reservation", f"nodeReservations/{NODE}", "", lambda of, names: of.on_node(names[0])),
    MemberPage(
        "load_aware", "LoadAwareScheduling", f"node/{NODE}", "load of node", lambda of, names: of.describe(names[0])
    ),
    MemberPage(
        "predicted_use",
        "PredictedUse",
        f"node/{NODE}",
        "predicted use of node",
        lambda of, names: of.describe(names[0]),
    ),
)


def pages(plugins: PluginRegistry) -> Iterator[tuple[MemberPage, object]]:
    """The pages of enabled members, each with its member."""
    for page in PAGES:
        member = getattr(plugins, page.member, None)
        if member is not None and getattr(member, "is_on", True):
            yield page, member


def _each(member: Any, names: Sequence[str]) -> tuple[object, ...]:
    return tuple(found for found in (member.describe(name) for name in names) if found is not None)
