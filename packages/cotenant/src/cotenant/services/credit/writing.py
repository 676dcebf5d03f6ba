"""The write of a tenant's standing: an annotation of its quota object, which schedulers read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.drivers.kube.client.client import MERGE_PATCH, Client
from cotenant.drivers.kube.kinds.custom.elastic_quota import place_of
from cotenant.model.groups.quota import STANDING
from cotenant.services.kube_process.statuses import Writer


@dataclass(frozen=True, slots=True)
class WriteStanding:
    """Set the standing on a quota object; 0 removes the annotation."""

    key: str
    uid: str
    standing: int


async def write_standing(client: Client, write: WriteStanding) -> None:
    """Patch the annotation; `Conflict` where the name has another object."""
    kind, namespace, name = place_of(write.key)
    annotations = {STANDING: str(write.standing) if write.standing else None}
    body = {"metadata": {"uid": write.uid, "annotations": annotations}}
    await client.patch(kind, namespace, name, body, content_type=MERGE_PATCH)


WRITERS: Mapping[type, Writer] = {WriteStanding: write_standing}
