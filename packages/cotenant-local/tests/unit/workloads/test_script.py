from typing import Any

import msgspec
import pytest

from cotenant.model.cluster.annotations import ESTIMATE, OBJECTIVE_P99_MS, SIMULATED
from cotenant.model.cluster.pod import PodEstimate
from cotenant.model.errors import InvalidInput
from cotenant_local.apiserver.schema.builtin import builtin_schema
from cotenant_local.nodes.behaviour import SimulatedBehaviour
from cotenant_local.nodes.fleet import NodeSize
from cotenant_local.workloads.script import job_manifest, names, script


def notes(manifest: dict[str, Any]) -> dict[str, str]:
    return dict(manifest["spec"]["template"]["metadata"]["annotations"])


@pytest.mark.parametrize("workload", names())
def test_services_and_jobs_carry_the_annotations_for_schedulers_and_nodes(workload: str) -> None:
    made = script(workload, 50, NodeSize(), seed=3)
    assert made.services
    assert made.jobs
    for service in made.services:
        said = notes(service)
        assert float(said[OBJECTIVE_P99_MS]) > 0
        truth = msgspec.json.decode(said[SIMULATED], type=SimulatedBehaviour)
        assert truth.service.startswith(f"{workload}/")
        assert truth.replicas == service["spec"]["replicas"]
        assert msgspec.json.decode(said[ESTIMATE], type=PodEstimate).allowance >= 0
    stage = made.jobs[0].stages[0]
    job = job_manifest(stage, workload, "cotenant", 1_800_000_000.0, speed=60.0)
    estimate = msgspec.json.decode(notes(job)[ESTIMATE], type=PodEstimate)
    assert estimate.duration_s < 0.2 * stage.truth.duration_s  # in real seconds
    assert msgspec.json.decode(notes(job)[SIMULATED], type=SimulatedBehaviour).service == ""


def test_jobs_may_request_what_a_manager_lends_in_place_of_cpu_and_memory() -> None:
    stage = script("founding", 20, NodeSize(), 1).jobs[0].stages[0]
    job = job_manifest(stage, "founding", "cotenant", 1_800_000_000.0, 60.0, is_lent=True)
    resources = job["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["requests"] == {
        "kubernetes.io/batch-cpu": str(stage.cpu_milli),
        "kubernetes.io/batch-memory": str(stage.memory_bytes),
    }


def test_equal_arguments_give_equal_scripts_and_days_differ_in_their_jobs_only() -> None:
    first, again = script("colocation", 20, NodeSize(), 1), script("colocation", 20, NodeSize(), 1)
    assert first == again
    tomorrow = script("colocation", 20, NodeSize(), 1, day=1)
    assert tomorrow.services == ()
    names = {s.name for j in first.jobs for s in j.stages}
    assert names.isdisjoint(s.name for j in tomorrow.jobs for s in j.stages)


@pytest.mark.parametrize("nodes", [3, 10, 200])
def test_the_workload_fits_the_nodes_of_every_cluster_size(nodes: int) -> None:
    made = script("colocation", nodes, NodeSize(), 1)
    assert all(s.cpu_milli <= 32_000 for j in made.jobs for s in j.stages)
    asked = sum(int(s["spec"]["replicas"]) for s in made.services)
    assert asked > 0
    assert [j.arrival_s for j in made.jobs] == sorted(j.arrival_s for j in made.jobs)


def test_the_manifests_are_valid() -> None:
    made = script("colocation", 10, NodeSize(), 1)
    stage = made.jobs[0].stages[0]
    for manifest in (made.services[0], job_manifest(stage, "x", "cotenant", 1_800_000_000.0, 60.0)):
        group, _, version = manifest["apiVersion"].rpartition("/")
        schema = builtin_schema(group, version, manifest["kind"])
        assert schema.unknown_fields(manifest) == []


def test_an_unknown_workload_is_refused_with_the_known_names() -> None:
    with pytest.raises(InvalidInput, match="founding, colocation"):
        script("web", 10, NodeSize(), 1)
