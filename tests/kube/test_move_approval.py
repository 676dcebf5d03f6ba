"""A suggested move at an API server: stored paused, approved once, by the version that was read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.custom.definitions import manifests
from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.migration.instructions import CreateJob
from cotenant.engine.rebalancer.permitting import MovePermits
from cotenant.model.autonomy.autonomy import MoveMode
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.migration import MigrationJob, MoveNote, PodRef
from cotenant.services.autonomy.moves import MoveReceipts
from cotenant.services.rebalancer.writing import carry_out

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOBS = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"


@pytest.fixture
def job_kind(kube: Any) -> Iterator[None]:
    made = kube.request("GET", f"{CRDS}/podmigrationjobs.scheduling.koordinator.sh").code == 404
    if made:
        kube.create(CRDS, yaml.safe_load(dict(manifests())["podmigrationjobs"]))
        kube.eventually(JOBS, lambda answer: answer.get("kind") == "PodMigrationJobList")
    yield
    kube.request("DELETE", f"{JOBS}/moves-web")
    if made:
        kube.request("DELETE", f"{CRDS}/podmigrationjobs.scheduling.koordinator.sh")
        kube.eventually(JOBS, lambda answer: "items" not in answer)


@pytest.mark.slow  # a definition takes a moment to be served
@pytest.mark.usefixtures("job_kind")
def test_a_suggestion_is_stored_paused_and_approved_once(kube: Any, namespace: str) -> None:
    note = MoveNote("k", "old", "new", "cpu", burning=("shop/fast",))
    planned = MigrationJob("moves-web", "", PodRef(namespace, "web", "u"), ttl_s=300.0, is_ours=True, note=note)
    leave = MovePermits(Permissions(), lambda: (), MoveMode.EARNED).leave(namespace, 0.0)

    async def create() -> None:
        async with Client(load_access(Path(kube.kubeconfig)), qps=100.0, burst=10, in_flight=2) as client:
            await carry_out(client, CreateJob(leave.job_of(planned)), 0.0)

    asyncio.run(create())
    receipts = MoveReceipts(Path(kube.kubeconfig))
    (stored,) = receipts.all(namespace)
    assert (stored.paused, stored.suggested, stored.allowed_by) == (True, True, "")
    assert stored.note == note
    receipts.approve("moves-web", "ada")
    (approved,) = receipts.all(namespace)
    assert (approved.paused, approved.suggested, approved.allowed_by) == (False, True, "ada")
    with pytest.raises(InvalidInput, match="waits for approval"):
        receipts.approve("moves-web", "eve")
    assert receipts.all("elsewhere") == []
