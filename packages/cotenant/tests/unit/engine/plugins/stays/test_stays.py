"""How long an owner's pods stay."""

from __future__ import annotations

from cotenant.engine.plugins.stays.stays import MAX_OWNERS, MAX_SAMPLES, Stays, owner_of
from cotenant.model.cluster.observed import ObservedPod, OwnedBy
from cotenant.model.cluster.pod import Pod


def test_three_of_four_pods_stay_no_longer() -> None:
    stays = Stays()
    for stay_s in (10.0, 20.0, 30.0, 4000.0):
        stays.ended("ns/Job/a", stay_s)
    assert stays.expected_s("ns/Job/a") == 30.0


def test_a_new_owner_is_taken_for_its_namespace_and_that_for_all() -> None:
    stays = Stays()
    assert stays.expected_s("ns/Job/a") is None
    for stay_s in (1.0, 2.0, 3.0):
        stays.ended("ns/Job/a", stay_s)
    assert stays.expected_s("ns/Job/other") == 3.0
    assert stays.expected_s("elsewhere/Job/other") == 3.0


def test_what_is_kept_is_bounded() -> None:
    stays = Stays()
    for number in range(MAX_OWNERS + 500):
        stays.ended(f"ns/Job/{number}", 1.0)
    for _ in range(100):
        stays.ended("ns/Job/a", 1.0)
    assert len(stays.of) <= MAX_OWNERS
    assert len(stays.of["ns/Job/a"]) == MAX_SAMPLES


def test_each_run_of_a_cron_job_and_each_template_of_a_deployment_is_the_same_owner() -> None:
    def seen(kind: str, name: str) -> str:
        owner = OwnedBy("v1", kind, name, "u", controller=True)
        return owner_of(ObservedPod(Pod("p", namespace="ns"), "uid", "cotenant", 0.0, owned_by=(owner,)))

    assert seen("Job", "report-29012345") == seen("Job", "report-29012405") == "ns/Job/report"
    assert seen("ReplicaSet", "web-7c9d8f6b5") == "ns/ReplicaSet/web"
    assert seen("Job", "report-2") == "ns/Job/report-2"
