"""The takeover scenario on a small cluster: the second engine knows what an API server has, moves repair, and the
figures are of the stated hours.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import InvalidInput
from cotenant_lab.contract import RunSpec
from cotenant_lab.registry import scenario
from cotenant_lab.scenarios.colocation import CoLocation
from cotenant_lab.scenarios.competitors import competitor
from cotenant_lab.scenarios.takeover import AT_S, PACKED_BY, again

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> RunSpec:
    path: Path = tmp_path_factory.mktemp("workload") / "small.yaml"
    path.write_text("base: colocation\nnodes: 16\nhorizon_h: 4\n")
    return RunSpec("takeover", "cotenant", 3, 0.85, pressure_law="mixed", file=path)


def test_moves_repair_what_the_first_scheduler_packed_badly(spec: RunSpec) -> None:
    ours, without = (
        scenario("takeover").run(replace(spec, policy=name)).measures for name in ("cotenant", "cotenant-no-moves")
    )
    assert ours.violation_before == without.violation_before > 0.0
    assert ours.violation_recovered < without.violation_recovered
    assert 0.0 < ours.moved_recovery < 1.0
    assert without.moved_recovery == without.moved_hourly == 0.0
    assert ours.violation_fresh < ours.violation_before


def test_the_second_engine_has_every_pod_of_the_first_where_it_runs(spec: RunSpec) -> None:
    bridge, _ = CoLocation("takeover", "", 0.85, (), ()).built(spec, packed_by=PACKED_BY)
    bridge.run(AT_S)
    first = bridge.engine
    bridge.take_over(competitor("cotenant").build(), np.random.default_rng(0))
    assert bridge.engine is not first

    def known(engine: Cluster) -> dict[str, Pod]:
        return {pod_info.seen.uid: pod_info.seen.pod for pod_info in engine.every_pod()}

    assert known(bridge.engine) == known(first)
    pods = np.array(sorted(bridge._pod.values()))
    rows, _ = bridge.world.assigned(pods)
    bridge.engine.decide(AT_S)
    at = {bridge._pod[pod_info.seen.uid]: pod_info.row for pod_info in bridge.engine.every_pod()}
    assert [at[pod] for pod in pods[rows >= 0].tolist()] == rows[rows >= 0].tolist()
    bridge.engine.validate()


def test_moves_of_one_replica_within_an_hour_are_counted() -> None:
    assert again([(0.0, 1), (1800.0, 2), (3599.0, 1), (7300.0, 1), (1800.0, 3)]) == 1
    assert again([]) == 0


def test_what_cannot_run_is_refused(spec: RunSpec) -> None:
    for policy in ("bound", "kube-lent", "nobody"):
        with pytest.raises(InvalidInput, match="--policies"):
            scenario("takeover").check(replace(spec, policy=policy))
    with pytest.raises(InvalidInput, match="colocation"):
        scenario("takeover").explain(spec, "1")
    assert spec.file is not None
    short = spec.file.with_name("short.yaml")
    short.write_text("base: takeover\nnodes: 16\nhorizon_h: 3\n")
    with pytest.raises(InvalidInput, match=r"horizon_h: 3\.0: expected at least 3\.5 hours"):
        scenario("takeover").check(replace(spec, file=short))
