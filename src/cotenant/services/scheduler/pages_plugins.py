"""Pages of the plugins: gangs, quotas, devices, CPUs, reservations and load, each where the roster has it.

Problem: users of the founding API write `/apis/v1/plugins/<plugin>/<endpoint>`, and which plugins there are is the roster's. Choice: one route a page, made from
what a member tells of itself (`describe`); a name that nobody knows is a sentence. Limits: values are as the members have them, in camelCase.
Source: founding document, v0.7, section 3.
"""

from __future__ import annotations

from cotenant.engine.cluster import Cluster
from cotenant.services.scheduler.pages import Route


def routes(cluster: Cluster) -> tuple[Route, ...]:
    """The pages of the members that are there."""
    return ()
