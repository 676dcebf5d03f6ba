"""Strategic merge patches by the schema that a resource is served with."""

from __future__ import annotations

from cotenant.drivers.kube.manifests import strategic
from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.drivers.kube.manifests.tree import DEDUCED
from cotenant_local.apiserver.contract import Schema


def strategic_merge(obj: Manifest, body: bytes | Manifest, schema: Schema | None) -> Manifest:
    """As the product's merge; a schema without a tree (a custom resource's) replaces lists."""
    return strategic.strategic_merge(obj, body, getattr(schema, "tree", DEDUCED))
