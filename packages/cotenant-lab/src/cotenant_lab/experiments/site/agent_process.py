"""The agent in an experiment: the real `cotenant agent`, one process, on plain groups.

The measured agent must be what a user gets, not knobs that the experiment writes. The command itself with a
configuration file written for the experiment's groups, a Unix socket in the scratch folder, on the load's core; latency
is reported to it as a service would.
Limits: one agent at a time; it starts before the block's loads, so a block measures regulation, not the agent's start.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.services.clients.agent import AgentClient
from cotenant_lab.experiments.site.site import OWN, Site, SiteProcess

_UP_S = 20.0
# Beyond the groups the agent has its defaults, except the allowance from the node's use. That is a rule about the whole
# machine, most of which is not the experiment's, so other work on it would decide how much the batch work gets.
POLICIES: Mapping[str, object] = {"best_effort_cpu": {"suppress": {"enabled": False}}}


@dataclass(slots=True)
class SiteAgent:
    """A running agent."""

    site: Site
    child: SiteProcess
    client: AgentClient

    def report(self, service: str, live: Mapping[str, int | None]) -> None:
        """Report a service's latency over the last second."""
        if live["requests"]:
            self.client.post(
                "/v1/latency",
                {"workload": pod_name(service), "window_s": 1.0, "over_objective": live["over"]}
                | {"requests": live["requests"], "p99_us": live["p99_us"]},
            )

    def record(self) -> JsonObject:
        """Its held knobs and last decisions, to be stored with the raw data."""
        decided = self.client.get("/v1/decisions")["decisions"]
        return {"holds": self.client.get("/v1/holds")["holds"], "decisions": decided[-200:]}

    def stop(self) -> None:
        """A clean stop: all its leases are given back."""
        self.site.stop(self.child)


def pod_name(service: str) -> str:
    """The agent's name for an experiment's group."""
    return f"experiment/{service.rpartition('/')[2]}"


def start(
    site: Site,
    services: Mapping[str, float | None],
    batch: Sequence[str],
    settings: JsonMapping | None = None,
    amounts: Mapping[str, JsonMapping] | None = None,
    group: str = OWN,
) -> SiteAgent:
    """Start it and wait until it is up.

    `services`: group to its p99 objective in milliseconds, where it has one; `batch`: best-effort groups; `amounts`:
    requests and limits by group; `settings`: further fields of the
    agent's configuration; `group`: where the agent itself runs.
    """
    groups: list[JsonObject] = []
    for name, objective_ms in services.items():
        groups.append({"group": site.cgroups.path(name), "name": pod_name(name), "qos": "LS"})
        if objective_ms is not None:
            groups[-1]["objective_p99_ms"] = objective_ms
    groups += [{"group": site.cgroups.path(name), "name": pod_name(name), "qos": "BE"} for name in batch]
    for entry, name in zip(groups, (*services, *batch), strict=True):
        entry.update((amounts or {}).get(name, {}))
    path, state = site.scratch / "agent.sock", site.scratch / "agent-state"
    path.unlink(missing_ok=True)
    state.mkdir(exist_ok=True)
    config = {
        "node": "experiment",
        "mode": "act",
        "writable": [site.cgroups.top],
        "groups": groups,
        "listen": f"unix:{path}",
        "state_dir": str(state),
        "policies": POLICIES,
        **(settings or {}),
    }
    file = site.scratch / "agent.yaml"
    file.write_bytes(msgspec.yaml.encode(config))
    command = [sys.executable, "-m", "cotenant", "agent", "--single", "--config", str(file)]
    agent = SiteAgent(site, site.start(group, command, "agent"), AgentClient(f"unix:{path}"))
    site.wait_for("the agent", agent.client.is_healthy, _UP_S)
    return agent
