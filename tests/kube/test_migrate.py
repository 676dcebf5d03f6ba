"""`cotenant migrate koordinator` against an API server: it only reads, and names what it may not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.kube.claims.upstream import upstream, why_not
from tests.kube.definitions import collection, installed
from tests.kube.test_shadow import Local, run

from cotenant.cli.main import main
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.config_map import CONFIG_MAPS
from cotenant.drivers.kube.kinds.namespace import NAMESPACES
from cotenant.services.migrate.installed import from_cluster
from cotenant.services.migrate.koordinator_pieces import judge
from cotenant.services.migrate.protocol import MigrationVerdict

pytestmark = pytest.mark.slow  # a server


def test_a_cluster_is_read_in_pages_and_nothing_is_written(tmp_path: Path) -> None:
    async def scenario(cluster: Local) -> None:
        await cluster.node("a", **{"node.koordinator.sh/cpu-bind-policy": "FullPCPUsOnly"})
        await cluster.client.create(NAMESPACES, "", {"metadata": {"name": "koordinator-system"}})
        data = {"colocation-config": '{"enable": true}', "new-config": "{}"}
        await cluster.client.create(
            CONFIG_MAPS, "koordinator-system", {"metadata": {"name": "slo-controller-config"}, "data": data}
        )
        for i in range(510):  # more than a page
            await cluster.pod(f"p{i}", labels={"koordinator.sh/qosClass": "LS"}, schedulerName="koord-scheduler")
        async with Client(
            cluster.access, qps=float("inf"), burst=10, in_flight=2, user_agent="cotenant-migrate", read_only=True
        ) as client:
            found = judge(await from_cluster(client))
        pieces = {piece.what: piece for piece in found.pieces}
        assert pieces["koordinator.sh/qosClass"].found == 510
        assert pieces["node.koordinator.sh/cpu-bind-policy"].found == 1
        assert pieces["slo-controller-config: new-config"].verdict is MigrationVerdict.UNKNOWN
        assert found.scheduler_names == ("koord-scheduler",)
        assert found.unread == ()
        made = cluster.requests("cotenant-migrate")
        assert {verb for verb, _ in made} <= {"get", "list"}

    run(tmp_path, scenario)


FILE = """
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: ConfigMap
    metadata: {name: slo-controller-config, namespace: koordinator-system}
    data: {colocation-config: '{"enable": true, "cpuReclaimThresholdPercent": 60}', of-ours: "{}"}
"""


def test_the_command_writes_files_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, out = tmp_path / "all.yaml", tmp_path / "out"
    given.write_text(FILE)
    assert main(["migrate", "koordinator", "-f", str(given), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    assert "of-ours" in text
    assert {path.name for path in out.iterdir()} == {"STEPS.md", "values.yaml", "values-shadow.yaml"}
    assert main(["migrate", "koordinator", "-f", str(given), "--out", str(out)]) == 2  # it is not empty any more
    assert main(["migrate", "koordinator", "-f", str(tmp_path / "none.yaml")]) == 2
    capsys.readouterr()
    assert main(["migrate", "koordinator", "-f", str(given), "--json"]) == 0
    answer = msgspec.json.decode(capsys.readouterr().out)
    assert {piece["verdict"] for piece in answer["judged"]["pieces"]} == {"differs", "unknown"}
    assert "values.yaml" in answer["files"]


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_koordinators_objects_on_kube_apiserver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = "kind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: koord-scheduler}]\n"
    maps = {
        "slo-controller-config": {"colocation-config": '{"enable": true}', "gpu-sharing-config": "{}"},
        "koord-scheduler-config": {"koord-scheduler-config": scheduler},
    }
    with upstream(tmp_path) as server:
        kube = server.client()
        with installed(kube):
            kube.create("/api/v1/namespaces", {"metadata": {"name": "koordinator-system"}})
            for name, data in maps.items():
                kube.create(
                    "/api/v1/namespaces/koordinator-system/configmaps", {"metadata": {"name": name}, "data": data}
                )
            amounts = {"min": {"cpu": "1"}, "max": {"cpu": "4"}}
            kube.create(
                collection("elasticquotas", "default"),
                {**kind_of("elasticquotas"), "metadata": {"name": "team"}, "spec": amounts},
            )
            labels = {"koordinator.sh/qosClass": "BE", "quota.scheduling.koordinator.sh/name": "team"}
            container = {"name": "main", "image": "app:1"}
            spec = {
                "schedulerName": "koord-scheduler",
                "containers": [container],
                "automountServiceAccountToken": False,
            }
            kube.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "p", "labels": labels}, "spec": spec})
            assert main(["migrate", "koordinator", "--kubeconfig", str(server.kubeconfig), "--json"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out)["judged"]
    verdicts = {piece["what"]: (piece["verdict"], piece["found"]) for piece in found["pieces"]}
    assert verdicts["ElasticQuota objects"] == ("supported", 1)
    assert verdicts["koordinator.sh/qosClass"] == ("supported", 1)
    assert verdicts["slo-controller-config: colocation-config"] == ("differs", 1)
    assert verdicts["slo-controller-config: gpu-sharing-config"] == ("unknown", 1)
    assert found["scheduler_names"] == ["koord-scheduler"]
    assert found["unread"] == []


def kind_of(plural: str) -> dict[str, str]:
    """The type of a kind's objects, as its definition has it."""
    path = collection(plural).split("/")
    return {"apiVersion": "/".join(path[2:4]), "kind": "ElasticQuota"}
