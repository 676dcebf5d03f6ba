"""ControlZones on an API server: listed by an agent, run by its keeper, with a status a node that agents do not
take from one another.
"""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any, cast

from tests.kube.definitions import collection, installed
from tests.unit.services.zones.test_cluster_objects import SPEC, Keeper

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.services.zones.client import ZoneClient
from cotenant.services.zones.cluster_objects import LiveZones


def test_a_control_zone_runs_on_its_nodes_and_has_a_status_for_each(kube: Any, tmp_path: Path) -> None:
    name = f"case-{uuid.uuid4().hex[:8]}"
    path = collection("controlzones", "")

    async def scenario() -> None:
        keepers = {node: Keeper(tmp_path / node) for node in ("a", "b")}
        async with Client(load_access(kube.kubeconfig), qps=1000, burst=1000, in_flight=4) as client:
            agents = {
                node: LiveZones(client, node, cast(ZoneClient, keeper), keeper.folder, None)
                for node, keeper in keepers.items()
            }

            async def status() -> Any:
                for agent in agents.values():
                    await agent.follow()
                found = await asyncio.to_thread(kube.get, f"{path}/{name}")
                return found.get("status", {}).get("nodes")

            made = {"apiVersion": "slo.cotenant.io/v1alpha1", "kind": "ControlZone", "metadata": {"name": name}}
            await asyncio.to_thread(kube.create, path, {**made, "spec": SPEC})
            both = await status()
            assert {node: entry["state"] for node, entry in both.items()} == {"a": "active", "b": "active"}
            assert name in keepers["a"].running
            changed = {**SPEC, "nodes": ["b"], "backend": "sub"}
            await asyncio.to_thread(kube.patch, f"{path}/{name}", {"spec": changed})
            one = await status()
            assert {node: entry["state"] for node, entry in one.items()} == {"a": "refused", "b": "refused"}
            await asyncio.to_thread(kube.patch, f"{path}/{name}", {"spec": {"backend": "weights"}})
            one = await status()
            assert list(one) == ["b"]
            assert one["b"]["state"] == "active"
            assert "message" not in one["b"]
            await asyncio.to_thread(kube.delete, f"{path}/{name}")
            for agent in agents.values():
                await agent.follow()
            assert not keepers["a"].running | keepers["b"].running

    with installed(kube):
        asyncio.run(scenario())
