"""The workload has the statistics of its sources, and the scenario separates the policies."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.resources import GPU_CORE
from cotenant.policy.quota.usable import select_usable
from cotenant_lab.contract import RunSpec
from cotenant_lab.experiment import check_result
from cotenant_lab.scenarios.training import POLICIES, Training
from cotenant_lab.workloads import training as workload

LOAD = 0.3


def test_sizes_and_durations_are_those_of_the_sources() -> None:
    many = [job for seed in range(4) for job in workload.jobs(0.95, seed)]
    gpus = np.array([job.gpus for job in many])
    assert np.mean(gpus <= 1) == pytest.approx(0.70, abs=0.02)
    assert np.mean(gpus == 2) == pytest.approx(0.10, abs=0.02)
    shared = np.mean([job.gpu_percent < 100 for job in many if job.gpus <= 1])
    assert shared == pytest.approx(37.8 / 85.8, abs=0.03)
    minutes = np.array([job.duration_s for job in many]) / 60 * workload.TIME_SCALE
    assert 10**1.5 <= minutes.min() < minutes.max() <= 10**4
    assert np.mean(minutes >= 1000) == pytest.approx(0.2, abs=0.02)
    assert {job.pods for job in many} >= {1, 2, 4, 8, 16, 32, 64}


def test_load_is_exact_but_for_one_job_and_seeds_differ() -> None:
    jobs = workload.jobs(0.95, 3)
    work = sum(job.work for job in jobs) / (workload.NODES * workload.GPUS_A_NODE * workload.HORIZON_S)
    assert 0.93 < work <= 0.95
    assert [job.arrival_s for job in jobs] == sorted(job.arrival_s for job in jobs)
    assert jobs == workload.jobs(0.95, 3)
    assert jobs != workload.jobs(0.95, 4)


def test_organisations_alternate_in_having_a_peak() -> None:
    jobs = [job for seed in range(4) for job in workload.jobs(0.95, seed)]
    for at, name in enumerate(workload.ORGANISATIONS):
        inside = Counter(
            workload.TEAMS[job.team].organisation for job in jobs if job.arrival_s // workload.PHASE_S == at
        )
        outside = Counter(
            workload.TEAMS[job.team].organisation for job in jobs if job.arrival_s // workload.PHASE_S == (at + 1) % 3
        )
        assert inside[name] / inside.total() > 1.3 * outside[name] / outside.total()


def test_guarantees_sum_to_the_cluster_and_the_tree_is_valid() -> None:
    quotas = workload.quotas()
    kept, broken = select_usable(quotas)
    assert (len(kept), broken) == (len(quotas), ())
    leaves = [quota for quota in quotas if not quota.is_parent]
    assert sum(quota.minimum.get(GPU_CORE) for quota in leaves) == workload.NODES * workload.GPUS_A_NODE * 100
    assert {quota.parent for quota in leaves} == set(workload.ORGANISATIONS)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [policy.info.name for policy in POLICIES])
def test_a_run_of_every_policy_keeps_the_contract(policy: str) -> None:
    spec = RunSpec("training", policy, 1, 0.15)
    scenario = Training()
    scenario.check(spec)
    result = scenario.run(spec)
    check_result(result, spec)
    assert result.measures.success == 1.0
    assert 0 < result.measures.utilisation_used <= result.measures.utilisation < 0.3


@pytest.mark.slow
def test_equal_specifications_give_equal_results() -> None:
    spec = RunSpec("training", "kube-default", 2, 0.1)
    first, second = Training().run(spec), Training().run(spec)
    assert first.by_class == second.by_class
    assert first.measures.completion_mean_s == second.measures.completion_mean_s


@pytest.mark.slow
def test_a_job_is_explained() -> None:
    reported = Training().explain(RunSpec("training", "cotenant", 1, 0.05), "0")
    assert reported.outcome.startswith("ran first after")
    assert any("is bound to" in line for line in reported.lines)
    assert reported.lines[-1].endswith("ends")


def test_what_cannot_run_is_refused() -> None:
    scenario = Training()
    for spec in (
        RunSpec("training", "nobody", 0, 0.5),
        RunSpec("training", "cotenant", 0, 3.0),
        RunSpec("training", "cotenant", 0, 0.5, overrides=(("knob", 1.0),)),
    ):
        with pytest.raises(InvalidInput):
            scenario.check(spec)
