"""What Prometheus is to scrape: the exporters of all hosts whose agents are there, as HTTP service discovery has them.

Source: Prometheus, "HTTP SD".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict

from cotenant.engine.fleet.registry import RegisteredHost
from cotenant.model.fleet.states import AgentState


class TargetGroup(TypedDict):
    """One host's exporters."""

    targets: list[str]
    labels: dict[str, str]


@dataclass(frozen=True, slots=True)
class Targets:
    """In a stable order."""

    groups: tuple[TargetGroup, ...]


def targets(hosts: Iterable[RegisteredHost]) -> Targets:
    """Of hosts that are away, none: whether they are is a figure of the gateway's own."""
    groups: list[TargetGroup] = []
    for host in hosts:
        exporters = host.beat.exporters if host.beat is not None and host.state is not AgentState.AWAY else ()
        if not exporters:
            continue
        said = host.registration
        labels = {
            "guid": said.guid,
            "host": said.hostname,
            "role": said.role,
            "platform": said.platform,
            "region": said.region,
            "namespace": said.namespace,
            "__meta_cotenant_tags": "," + ",".join(said.tags) + ",",
        }
        groups.append({"targets": sorted(exporters), "labels": {name: text for name, text in labels.items() if text}})
    return Targets(tuple(sorted(groups, key=lambda group: group["labels"]["guid"])))
