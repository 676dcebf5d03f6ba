"""Which pages the plugins's members have: what each would tell of itself, under the names that users of the founding API write.

Problem: gangs, quotas, devices, CPUs, reservations and load each keep books of their own, and a page for one that is not there would be a lie. Choice: one
list of pages, each for a member by its name in the plugins; a page is there exactly where the plugins has the member, switched on. A page answers with a frozen value,
None for a name that nobody knows. Limits: members are asked, nothing is computed here.
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
    """One page of one member."""

    member: str  # field of the plugins
    plugin: str  # in the path, as in Koordinator
    endpoint: str  # names begin with a colon
    what: str  # of a thing that is asked for by name; empty = the page is about all of them
    tell: Callable[[Any, Sequence[str]], object | None]

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
)


def pages(plugins: PluginRegistry) -> Iterator[tuple[MemberPage, Any]]:
    """The pages of the members that are there, each with its member."""
    for each in PAGES:
        member = getattr(plugins, each.member, None)
        if member is not None and getattr(member, "is_on", True):
            yield each, member


def _each(member: Any, names: Sequence[str]) -> tuple[object, ...]:
    return tuple(told for told in (member.describe(name) for name in names) if told is not None)
