"""No two processes listen on one port by default, so that all of them run beside each other on a machine.

Left out: the fleet's agent takes OTLP where programs send it unless they are told otherwise, as `cotenant traces` does,
and only where its function `forwarding` is on.
"""

from __future__ import annotations

import re
from collections import defaultdict

from tests.unit.test_help import ALL, page_of

from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.services.agent_settings.config import AgentConfig

_LISTENS = re.compile(r"--(?:[a-z]+-)?(?:listen|http|grpc)\s.*?\[default: \S*?:(\d{4,5})\]")


def test_default_ports_are_unique() -> None:
    holders: dict[str, set[str]] = defaultdict(set)
    for words in ALL:
        for option in re.split(r" (?=--[a-z])", page_of(words)):
            if found := _LISTENS.match(option):
                holders[found[1]].add(f"{' '.join(words)} {option.split()[0]}")
    fleet = AgentConfiguration()
    for name, address in {"agent": AgentConfig().listen, "exporter": fleet.exporter, "gateway": fleet.gateway}.items():
        holders[address.rpartition(":")[2]].add(name)
    assert len(holders) >= 12
    assert {port: names for port, names in holders.items() if len(names) > 1} == {}
