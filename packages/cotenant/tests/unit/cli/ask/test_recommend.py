"""`cotenant profile recommend` on a copy: what it prints, what it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml  # type: ignore[import-untyped]

from cotenant.cli.main import main
from cotenant.drivers.kube.snapshot.archive import write_archive
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot, KindRead, KindReading
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory

START_S = 1_767_571_200.0  # a Monday
PODS, NODES, SETS = "v1/pods", "v1/nodes", "apps/v1/replicasets"


def owner(kind: str, name: str) -> list[dict[str, object]]:
    return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}]


def written(path: Path, hours: int = 8 * 24) -> Path:
    """A copy with one Deployment of two pods; each works from 9 to 11."""
    resources = {"requests": {"cpu": "3", "memory": "4Gi"}, "limits": {"memory": "8Gi"}}
    pods = [
        {
            "metadata": {"name": name, "namespace": "shop", "uid": name, "ownerReferences": owner("ReplicaSet", "c-1")},
            "spec": {"nodeName": "n1", "containers": [{"name": "app", "resources": resources}]},
            "status": {"phase": "Running"},
        }
        for name in ("a", "b")
    ]
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    node = {"metadata": {"name": "n1", "uid": "n"}, "status": {"capacity": amounts, "allocatable": amounts}}
    above = {
        "metadata": {"name": "c-1", "namespace": "shop", "uid": "r", "ownerReferences": owner("Deployment", "cart")}
    }
    objects = {
        PODS: [json.dumps(pod).encode() for pod in pods],
        NODES: [json.dumps(node).encode()],
        SETS: [json.dumps(above).encode()],
    }
    hour = np.arange(hours) % 24
    cpu = np.where((hour >= 9) & (hour < 12), 900.0, 200.0).astype(np.float32)
    memory = np.full(hours, 1000.0, np.float32)
    use = AssessedHistory(
        START_S, 3600.0, ("shop/a", "shop/b"), np.stack([cpu, cpu * 0.9]), np.stack([memory, memory]), "From a test."
    )
    unknown = np.full(2, np.nan, np.float32)
    history = ClusterHistory(PodHistory(use, ("n1", "n1"), ("shop/Deployment/cart",) * 2, unknown, unknown), use)
    kinds = tuple(KindRead(key, KindReading.READ) for key in objects)
    write_archive(path, ClusterSnapshot(START_S + hours * 3600.0, objects, kinds), history)
    return path


def test_a_table_of_a_hundred_columns_with_the_reasons_below(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\notherwise: {cpuPerHour: 0.03, memoryGiBPerHour: 0.004}\n")
    file = written(tmp_path / "d.zip")
    status = main(["profile", "recommend", "shop/cart", "--file", str(file), "--prices", str(prices)])
    said = capsys.readouterr().out
    assert status == 3  # a copy does not know everything
    assert max(map(len, said.splitlines())) <= 100
    flat = " ".join(said.split())
    assert "shop/Deployment/cart app 2 3/-" in flat
    assert "set by Mon 9-11h, Tue 9-11h, Wed 9-11h, Thu 9-11h and 3 more days" in flat
    assert "memory is not lowered: the copy has no arguments and environment" in flat
    assert "saves" in flat
    assert "EUR a week" in flat
    assert "the copy has no LimitRanges" in flat


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["profile", "recommend", "--all", "--file", str(written(tmp_path / "d.zip")), "--json"])
    (found,) = json.loads(capsys.readouterr().out)["recommendations"]
    assert found["before"]["cpu_request_m"] == 3000
    assert 900 <= found["after"]["cpu_request_m"] <= 960
    assert found["cpu"]["trial"]["exceeded"] == 0
    assert found["week"]["squeezed"] == 0.0


def test_a_document_to_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["profile", "recommend", "--all", "--file", str(written(tmp_path / "d.zip")), "--form", "yaml"])
    (document,) = [found for found in yaml.safe_load_all(capsys.readouterr().out) if found]
    assert document["metadata"] == {"name": "cart", "namespace": "shop"}


def test_an_hour_of_history_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "recommend", "--all", "--file", str(written(tmp_path / "d.zip", hours=1))]) == 3
    assert "1 h of its use are known, a size needs 24 h" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "one workload, or --all"),
        (["shop/cart", "--all", "--watch", "10m"], "one workload, or --all"),
        (["cart", "--watch", "10m"], "NAMESPACE/NAME or NAMESPACE/KIND/NAME"),
        (["--all"], "--prometheus URL, --watch 10m, or --file DUMP.zip"),
        (["--all", "--file", "/nowhere/d.zip"], "/nowhere/d.zip"),
        (["shop/other", "--file", "FILE"], "a workload with running pods"),
    ],
)
def test_what_is_refused(words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(written(tmp_path / "d.zip"))
    assert main(["profile", "recommend", *(file if word == "FILE" else word for word in words)]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert (printed.out, printed.err.count("\n")) == ("", 1)
