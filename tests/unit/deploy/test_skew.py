"""An upgrade keeps what the version before relies on: fields of stored objects, versions, and the Leases that both
compete for.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.deploy.objects import DEPLOY, everything, read
from tests.unit.deploy.promised import FILE, fields, kinds, required

PROMISED: dict[str, Any] = json.loads(FILE.read_text())["kinds"]
NOW = kinds(path.read_text() for path in sorted((DEPLOY / "chart/crds").glob("*.yaml")))


def missing(promised: dict[str, str], now: dict[str, str]) -> list[str]:
    """Fields that are pruned or have another type now; a field below one that keeps everything stays."""
    lost = []
    for path, kind in promised.items():
        if now.get(path) in (kind, "any"):
            continue
        if path.endswith(".?") or not any(f"{path[:i]}.?" in now for i, letter in enumerate(path) if letter == "."):
            lost.append(path)
    return lost


@pytest.mark.parametrize("name", PROMISED)
def test_objects_of_the_version_before_keep_their_fields_and_stay_valid(name: str) -> None:
    before, now = PROMISED[name], NOW[name]
    assert now["scope"] == before["scope"]
    assert now["stored"] == before["stored"]  # another one needs a conversion of stored objects
    for version, promised in before["versions"].items():
        assert missing(promised["fields"], now["versions"][version]["fields"]) == []
        had = set(promised["fields"])
        new = set(now["versions"][version]["required"]) - set(promised["required"])
        assert [path for path in new if path in had or path.rpartition(".")[0] in {*had, ""}] == []
        assert set(promised["subresources"]) <= set(now["versions"][version]["subresources"])


def test_a_field_that_is_removed_or_newly_required_is_found() -> None:
    before = {"properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
    now = {"properties": {"spec": {"type": "object", "required": ["b"], "properties": {"b": {"type": "integer"}}}}}
    assert missing(fields(before), fields(now)) == [".spec.a"]
    assert required(now) - required(before) == {".spec.b"}
    kept = {"properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    assert missing(fields(before), fields(kept)) == []
    assert missing(fields(kept), fields(before)) == [".spec.?"]


def test_replicas_of_both_versions_compete_for_the_same_leases() -> None:
    """Two leaders would act at once during a rolling update if a name changed."""
    leases = {
        (entry["metadata"]["namespace"], name)
        for entry in everything()
        if entry["kind"] == "Role"
        for rule in entry["rules"]
        if "leases" in rule["resources"]
        for name in rule.get("resourceNames", ())
    }
    names = ("scheduler", "manager", "webhook", "rebalancer", "extended", "credit")
    promised = {("cotenant-system", f"cotenant-{entry}") for entry in names}
    assert promised <= leases


def test_labels_by_which_deployments_select_their_pods_stay() -> None:
    """A selector cannot be changed: the upgrade would be refused."""
    for path in sorted(DEPLOY.glob("*/*.yaml")):
        for entry in read(path) if path.parent.name != "images" else ():
            if entry.get("kind") in ("Deployment", "DaemonSet"):
                assert entry["spec"]["selector"] == {"matchLabels": {"app": entry["metadata"]["name"]}}
