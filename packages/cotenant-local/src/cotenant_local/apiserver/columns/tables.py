"""Tables: the response that `kubectl get` prints, computed by the server.

Clients print kinds that they do not know, so the server decides columns and cells. The columns of a resource are values
(contract.Column) that read the plain object; a row carries the object's metadata, the object, or nothing, as
`includeObject` asks.
Source: Kubernetes API concepts, Table responses.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.columns.builtin import DEFAULT, columns_of
from cotenant_local.apiserver.contract import Resource


class TableBuilder:
    """Builds the rows and the Table document of one resource."""

    def __init__(self, resource: Resource, include: str = "Metadata", version: str = "v1") -> None:
        self._columns = resource.columns or columns_of(resource.group, resource.kind) or DEFAULT
        self._include = include or "Metadata"
        self._api_version = f"meta.k8s.io/{version}"

    def definitions(self) -> list[Manifest]:
        """The column definitions."""
        return [
            {
                "name": column.name,
                "type": column.type,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            }
            for column in self._columns
        ]

    def row(self, obj: Manifest, now: float) -> Manifest:
        """The row of an object. `now` in Unix seconds."""
        row: Manifest = {"cells": [column.value(obj, now) for column in self._columns]}
        if self._include == "Object":
            row["object"] = obj
        elif self._include != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": self._api_version,
                "metadata": obj.get("metadata", {}),
            }
        return row

    def document(self, rows: list[Manifest], metadata: Manifest, *, has_definitions: bool = True) -> Manifest:
        """A Table document. On a watch only the first event has the definitions. `rows` is the last key."""
        return {
            "kind": "Table",
            "apiVersion": self._api_version,
            "metadata": metadata,
            "columnDefinitions": self.definitions() if has_definitions else [],
            "rows": rows,
        }
