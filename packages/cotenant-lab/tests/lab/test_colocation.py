"""The co-located scenarios end to end, on a small cluster: the same engine, reproducible runs, correct explanations."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.profiles import PROFILES, PlacementProfile
from cotenant_lab.bridge import Bridge
from cotenant_lab.contract import RunSpec
from cotenant_lab.lending import lending_of
from cotenant_lab.registry import scenario
from cotenant_lab.scenarios.competitors import COMPETITORS, competitor
from cotenant_lab.workloads.colocation import generate
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.world import World

pytestmark = pytest.mark.slow
POLICIES = [e.info.name for e in COMPETITORS if e.info.role in ("ours", "rival") or e.lends is not None]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> RunSpec:
    """Twelve nodes for two hours."""
    path: Path = tmp_path_factory.mktemp("workload") / "small.yaml"
    path.write_text("base: founding\nnodes: 12\nhorizon_h: 2\n")
    return RunSpec("founding", "cotenant", 3, 0.8, file=path)


def bridge(policy: str, seed: int = 3, load: float = 0.8, watched: int = -1) -> Bridge:
    config = WorldConfig(nodes=12, pods=600, horizon_s=7200.0)
    truth, offer = generate(config, seed, load)
    chosen = competitor(policy)
    lending = lending_of(chosen.lends, offer, config)
    rng = np.random.default_rng(seed)
    return Bridge(World(truth, config, seed), offer, config, chosen.build(), rng, watched, lending)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_runs_and_its_engine_adds_up(policy: str) -> None:
    run = bridge(policy)
    decide = run._decide

    def decide_and_validate(now_s: float) -> None:
        decide(now_s)
        run.engine.validate()

    run._decide = decide_and_validate  # type: ignore[method-assign]
    run.run()
    account = run.world.account()
    assert 0.0 <= account.violation <= 1.0
    assert account.unfinished < 6  # a packer may evict one pod for memory until the run ends
    assert run.timing.rounds > 50


def test_the_lab_builds_the_engine_of_every_service_from_the_same_policy_objects() -> None:
    run = bridge("cotenant")
    assert type(run.engine) is Cluster
    for candidate in COMPETITORS:
        made = candidate.make()
        if isinstance(made, PlacementProfile) and candidate.info.role in ("ours", "rival"):
            assert any(made is own for own in PROFILES)


def test_equal_specifications_give_equal_runs_and_seeds_differ(small: RunSpec) -> None:
    founding = scenario("founding")
    first, again, other = (founding.run(spec).measures for spec in (small, small, replace(small, seed=4)))

    def without_times(measures):
        return [measures.success, measures.violation, measures.utilisation, measures.slowdown_p99, measures.preemptions]

    assert without_times(first) == without_times(again)
    assert without_times(first) != without_times(other)


def test_explaining_a_task_changes_no_decision_and_names_the_node_it_went_to(small: RunSpec) -> None:
    founding = scenario("founding")
    plain, watched = bridge("cotenant"), bridge("cotenant", watched=400)
    plain.run()
    watched.run()
    np.testing.assert_array_equal(plain.world.account().slowdown, watched.world.account().slowdown)
    record = watched.record
    assert record.node in [c.node for c in record.candidates]
    told = founding.explain(small, "400")
    assert told.outcome.startswith("placed on node")
    score = {node: value for node, value, _ in told.candidates}
    parts = {node: sum(v for _, v in p) for node, _, p in told.candidates}
    assert all(abs(score[n] - parts[n]) < 1e-9 for n in score)
    assert max(score.values()) == pytest.approx(score[told.outcome.removeprefix("placed on ")])


@pytest.mark.parametrize("policy", ["kube-lent", "cotenant-lent"])
def test_batch_requests_what_nodes_lend_and_fits_by_it(policy: str) -> None:
    run = bridge(policy, load=0.95)
    columns = {"kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"}
    for template, service in zip(run._offered.templates, run.offer.is_service.tolist(), strict=True):
        assert bool(columns & set(template.requests.names())) is not service
    decide, most = run._decide, []

    def decide_and_compare(now_s: float) -> None:
        before = requested(run).copy()
        decide(now_s)
        nodes = run.engine._components.assignments.ledger.nodes
        grown = (requested(run) > before)[:, 3:]
        over = (nodes.requested > nodes.capacity)[:, 3:]
        assert not (grown & over).any()
        most.append(float(nodes.requested[:, 3].sum() / nodes.capacity[:, 3].sum().clip(1)))

    run._decide = decide_and_compare  # type: ignore[method-assign]
    run.run()
    assert run._lending is not None
    assert run._lending.writes > 12
    assert max(most) > 0.5


def requested(run: Bridge) -> np.ndarray:
    """What pods on nodes request, by row of the engine."""
    assignments = run.engine._components.assignments
    assignments.write()
    return assignments.ledger.nodes.requested


@pytest.mark.parametrize("task", ["x", "-1", "999999", ""])
def test_a_task_that_does_not_exist_is_refused(small: RunSpec, task: str) -> None:
    with pytest.raises(InvalidInput, match="TASK"):
        scenario("founding").explain(small, task)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"load": float("nan")}, "--load"),
        ({"load": 0.2}, "--load"),
        ({"load": 9.0}, "--load"),
        ({"policy": "nobody"}, "--policies"),
        ({"overrides": (("no_such", 1.0),)}, "knob"),
        ({"policy": "tetris", "overrides": (("use_limit", 1.0),)}, "knob"),
        ({"overrides": (("use_limit", float("inf")),)}, "use_limit"),
    ],
)
def test_what_cannot_run_is_refused_before_it_runs(small: RunSpec, change: dict, field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        scenario("founding").check(replace(small, **change))


def test_without_interference_and_failures_services_hold_and_more_interference_hurts(small: RunSpec) -> None:
    founding = scenario("founding")
    calm = replace(small, failures=False, interference=0.0)
    none, much = (founding.run(replace(calm, interference=x)).measures for x in (0.0, 2.0))
    assert none.violation_service < 0.005
    assert much.violation > none.violation


def test_the_true_values_policy_gets_an_offer_without_error(small: RunSpec) -> None:
    assert competitor("cotenant-true").true_values
    truth, offer = generate(WorldConfig(nodes=12, pods=600, horizon_s=7200.0), 3, 0.8, 0.0)
    batch = ~offer.is_service
    first = offer.first_pod[batch]
    np.testing.assert_allclose(offer.est_use_cores[batch], truth.use_cores[first])


def test_the_bound_never_holds_more_than_the_cluster(small: RunSpec) -> None:
    result = scenario("founding").run(replace(small, policy="bound", load=1.1))
    assert result.measures.utilisation <= 1.0 + 1e-9
    assert dict(result.by_class)["largest share of the demand that can be held, worst time"] < 1.0
    assert np.isnan(result.measures.success)
