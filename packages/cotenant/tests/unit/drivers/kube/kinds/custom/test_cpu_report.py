"""NUMA zones as the manager reads them: sizes and what is lent; none where one of them cannot be used."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.cpu_report import CPU_REPORTS, read_cpu_report, read_node_zones
from cotenant.model.machine.node_metric import Use
from cotenant.model.machine.zones import LentZone, NodeZones


def zone(name: str, type_: str = "Node", **amounts: Any) -> dict[str, Any]:
    names = {"batch": "kubernetes.io/batch-cpu"}
    resources = [{"name": names.get(key, key), "allocatable": text} for key, text in amounts.items()]
    return {"name": name, "type": type_, "resources": resources, "costs": [{"name": name, "value": 10}]}


def read(*zones: dict[str, Any], **annotations: str) -> NodeZones:
    names = {"lent": "cotenant.io/lent"}
    meta = {"name": "n", "annotations": {names[key]: text for key, text in annotations.items()}}
    obj = msgspec.json.decode(json.dumps({"metadata": meta, "zones": zones}), type=CPU_REPORTS.form)
    assert read_cpu_report(obj) == ("n", None)
    return read_node_zones(obj)


def test_zones_are_sorted_by_number_with_what_is_lent_in_them() -> None:
    found = read(
        zone("node-10", cpu="2", memory="1Gi"), zone("node-2", cpu="1500m", memory="1Ki", batch="700"), lent="x"
    )
    assert found.written == "x"
    assert found.zones == (
        LentZone("node-2", 2, Use(1500, 1024), {"batch-cpu": 700}),
        LentZone("node-10", 10, Use(2000, 1 << 30), {}),
    )


@pytest.mark.parametrize(
    "bad",
    [
        zone("node-1", cpu="2"),
        zone("node-1", memory="1Gi"),
        zone("node-1", cpu="much", memory="1Gi"),
        zone("node-1", cpu="2", memory="1Gi", batch="-1"),
        zone("node-0", cpu="2", memory="1Gi"),
    ],
)
def test_no_zone_is_used_where_one_cannot_be(bad: dict[str, Any]) -> None:
    assert read(zone("node-0", cpu="2", memory="1Gi"), bad).zones == ()


def test_zones_of_other_kinds_are_left_out() -> None:
    others = (zone("node-x", cpu="2", memory="1Gi"), zone("socket-0", cpu="2"), zone("node-0", "Socket", cpu="2"))
    assert read(*others, zone("node-0", cpu="2", memory="1Gi")).zones == (LentZone("node-0", 0, Use(2000, 1 << 30)),)
