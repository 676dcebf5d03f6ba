"""Sums of a cluster by tenant, and what it has left; the files that commands read."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.elastic_quota import ElasticQuota, read_quota
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import NAME
from cotenant.model.resources import Amounts
from cotenant.policy.federation.where import JobNeeds
from cotenant.services.fleet.federation.asking import read_job
from cotenant.services.fleet.federation.members import read_members
from cotenant.services.fleet.federation.own_statement import ReadCluster, summed

GIB = 1 << 30


def quota(name: str, annotations: dict[str, str] | None = None) -> ElasticQuota:
    meta = {"name": name, "namespace": "ns", "uid": "u", "resourceVersion": "3", "annotations": annotations or {}}
    return msgspec.convert({"metadata": meta, "spec": {"min": {"cpu": "4"}, "max": {"cpu": "40"}}}, ElasticQuota)


def pod(name: str, cpu_milli: int, node: str = "n1", of: str = "a") -> ObservedPod:
    requests = Amounts.of({"cpu": cpu_milli, "memory": GIB})
    return ObservedPod(Pod(name, requests=requests, labels=Labels.of({NAME: of})), name, "s", 0.0, node)


def read(*pods: ObservedPod, is_clamped: bool = False) -> ReadCluster:
    raw = [
        quota("a", {"cotenant.io/credit": "300"}),
        quota("b", {"quota.scheduling.koordinator.sh/shared-weight": "{"}),
    ]
    nodes = [Node(name, Amounts.of({"cpu": 16_000, "memory": 64 * GIB})) for name in ("n1", "n2")]
    return summed([(read_quota(one), one) for one in raw], nodes, pods, 7, (3, 1), is_clamped=is_clamped)


def test_sums_by_tenant_and_room() -> None:
    found = read(pod("p", 3000), pod("q", 500, "n2"), pod("w", 9000, ""), pod("o", 1000, of=""))
    (sums,) = [one for one in found.tenants if one.tenant == "a"]
    assert (sums.used, sums.guaranteed, sums.credit) == ((3500, 2048, 0), (4000, 0, 0), 300)
    assert sums.violations == 1  # one waits, and less than the guarantee is used
    assert found.room.capacity == (32_000, 131_072, 0)
    assert found.room.free == (27_500, 128_000, 0)
    assert found.room.largest_free[0] == 15_500
    assert (found.room.price_micro, found.room.objectives, found.room.objectives_missed) == (7, 3, 1)


def test_large_pods_are_clamped_where_there_is_noise() -> None:
    exact, clamped = read(pod("p", 9000)), read(pod("p", 9000), is_clamped=True)
    assert [one.used[0] for one in exact.tenants if one.tenant == "a"] == [9000]
    assert [one.used[0] for one in clamped.tenants if one.tenant == "a"] == [4000]
    assert exact.room == clamped.room


def test_a_quota_that_cannot_be_read_is_not_weighed() -> None:
    assert [one.tenant for one in read().quotas] == ["a"]


def test_names_of_pods_are_not_stated() -> None:
    found = read(pod("secret-pod", 3000))
    assert b"secret-pod" not in msgspec.json.encode((found.room, found.tenants))


def job(tmp_path: Path, text: str) -> JobNeeds:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    return read_job(file)


_POD = "{containers: [{name: c, resources: {requests: {cpu: 2, memory: 1Gi}}}]}"


def test_jobs(tmp_path: Path) -> None:
    assert job(tmp_path, f"spec: {_POD}") == JobNeeds((2000, 1024, 0))
    text = f"spec: {{parallelism: 9, completions: 4, template: {{spec: {_POD}}}}}"
    assert job(tmp_path, text) == JobNeeds((2000, 1024, 0), 4)
    lent = _POD.replace("cpu: 2, memory: 1Gi", "kubernetes.io/batch-cpu: 1500")
    assert job(tmp_path, f"spec: {lent}") == JobNeeds((1500, 0, 0), 1, True)
    card = _POD.replace("cpu: 2, memory: 1Gi", "kubernetes.io/batch-cpu: 1500, nvidia.com/gpu: 1")
    assert job(tmp_path, f"spec: {card}") == JobNeeds((1500, 0, 0), 1, True, (0, 0, 1))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "spec: {}", "spec: {template: 3}", f"spec: {{replicas: -1, template: {{spec: {_POD}}}}}",
     "spec: {containers: [{name: c, resources: {requests: {cpu: -2}}}]}", "spec: {containers: 3}", "\0"],
)  # fmt: skip
def test_what_is_no_job(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput):
        job(tmp_path, text)


@pytest.mark.parametrize(
    "text", ["", "clusters: {}", "clusters: {a: {key: U1, cpu: 1, memory: 1}}", "clusters: {A: 3}"]
)
def test_what_is_no_file_of_members(tmp_path: Path, text: str) -> None:
    pytest.importorskip("nkeys", reason="nkeys is not installed")
    file = tmp_path / "members.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput):
        read_members(file)


def test_a_key_belongs_to_one_cluster(tmp_path: Path) -> None:
    pytest.importorskip("nkeys", reason="nkeys is not installed")
    from cotenant.drivers.nats.keys import made_seed, public_key

    key = public_key(made_seed())
    file = tmp_path / "members.yaml"
    file.write_text(f"clusters: {{a: {{key: {key}, cpu: 1, memory: 1Gi}}, b: {{key: {key}, cpu: 1, memory: 1Gi}}}}")
    with pytest.raises(InvalidInput, match="a has it too"):
        read_members(file)
    file.write_text(f"clusters: {{a: {{key: {key}, cpu: 2, memory: 1Gi}}}}")
    assert read_members(file)["a"].capacity == (2000, 1024, 0)
