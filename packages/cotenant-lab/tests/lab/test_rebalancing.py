"""A cluster's rebalancer in the simulated world: it sees what the scheduler sees, its moves end where they were
simulated, and its limits hold.
"""

from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.groups.migration import JobPhase, JobStep
from cotenant_lab.bridge import Bridge
from cotenant_lab.contract import RunSpec
from cotenant_lab.rebalancing import LabRebalancer
from cotenant_lab.scenarios.colocation import CoLocation
from cotenant_lab.scenarios.competitors import competitor
from cotenant_lab.scenarios.takeover import AT_S, PACKED_BY, again

pytestmark = pytest.mark.slow
POLICY = "cotenant-learned-rebalanced"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> RunSpec:
    path: Path = tmp_path_factory.mktemp("workload") / "small.yaml"
    path.write_text("base: colocation\nnodes: 16\nhorizon_h: 4\n")
    return RunSpec("takeover", POLICY, 3, 0.85, pressure_law="mixed", declared_profiles=False, file=path)


@pytest.fixture(scope="module")
def bridge(spec: RunSpec) -> Bridge:
    made, _ = CoLocation("takeover", "", 0.85, (), ()).built(spec, packed_by=PACKED_BY)
    assert made.rebalancer is None, "the first scheduler has none"
    made.run(AT_S)
    ours = competitor(POLICY)
    made.take_over(ours.build(), np.random.default_rng(0), ours.rebalances)
    made.run(AT_S + 3600.0)
    return made


@pytest.fixture(scope="module")
def rebalancer(bridge: Bridge) -> LabRebalancer:
    assert bridge.rebalancer is not None
    return bridge.rebalancer


def test_both_engines_know_the_same_pods_on_the_same_nodes(bridge: Bridge, rebalancer: LabRebalancer) -> None:
    assert bridge.engine.assigned() == rebalancer.cluster.assigned()
    assert {pod_info.seen.uid for pod_info in bridge.engine.every_pod()} == {
        pod_info.seen.uid for pod_info in rebalancer.cluster.every_pod()
    }
    rebalancer.cluster.validate()


def test_moves_are_jobs_whose_replacements_are_where_they_were_simulated(
    bridge: Bridge, rebalancer: LabRebalancer
) -> None:
    done = [job for job in rebalancer.migrations.jobs.values() if job.phase is JobPhase.SUCCEEDED]
    assert done
    for job in done:
        assert job.new_pod is not None
        assert job.note is not None
        assert job.has(JobStep.POD_READY)
        replacement = rebalancer.cluster.find(job.new_pod.key)
        assert replacement is None or replacement.node == job.note.target != job.node
    assert any(rebalancer.cluster.find(job.new_pod.key) for job in done if job.new_pod is not None)
    evicted = [job.pod.uid for job in rebalancer.migrations.jobs.values() if job.has(JobStep.EVICTION)]
    assert sorted(uid for _, uid in rebalancer.moved) == sorted(evicted)
    assert len(bridge.moves) == len(rebalancer.moved), "moves of every pod count, and nothing else moves"


def test_a_replica_moves_once_an_hour_and_a_workload_once_in_five_minutes(bridge: Bridge) -> None:
    assert again(bridge.moves) == 0
    by_shape = defaultdict(list)
    for at_s, pod in bridge.moves:
        by_shape[int(bridge.offer.shape[pod])].append(at_s)
    gaps = [after - before for times in by_shape.values() for before, after in pairwise(times)]
    # the token of a workload is refilled within five minutes, sooner for more replicas at a time
    assert all(gap >= 100.0 for gap in gaps)


def test_round_policies_have_no_rebalancer(spec: RunSpec, bridge: Bridge) -> None:
    ours, tetris = competitor(POLICY), competitor("tetris")
    with pytest.raises(InvalidInput, match="a rebalancer simulates single placements"):
        Bridge(
            bridge.world,
            bridge.offer,
            bridge.config,
            tetris.build(),
            np.random.default_rng(0),
            rebalancing=ours.rebalances,
        )
