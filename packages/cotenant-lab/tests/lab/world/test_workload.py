"""The founding workload compared with its calibration, over many seeds."""

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant_lab.workloads.colocation import generate
from cotenant_lab.world.accounting import jain
from cotenant_lab.world.config import WorldConfig

SEEDS = range(20)


@pytest.fixture(scope="module")
def drawn():
    config = WorldConfig()
    return config, [generate(config, seed, 0.77) for seed in SEEDS]


def mean_of(drawn, figure):
    return float(np.mean([figure(truth, offer) for truth, offer in drawn[1]]))


@pytest.mark.slow
def test_there_are_exactly_twenty_thousand_pods_services_first(drawn):
    for truth, offer in drawn[1]:
        assert len(truth.cpu_milli) == len(offer.shape) == 20_000
        assert (np.diff((truth.service < 0).astype(int)) >= 0).all()
        assert (offer.first_pod[1:] == offer.first_pod[:-1] + offer.pods[:-1]).all()
        assert (offer.shape == np.repeat(np.arange(len(offer.pods)), offer.pods)).all()


def test_services_fill_their_share_seed_by_seed(drawn):
    capacity = drawn[0].nodes * drawn[0].node_cores * 1000
    for truth, _ in drawn[1]:
        assert truth.cpu_milli[truth.service >= 0].sum() / capacity == pytest.approx(0.384, abs=0.001)


def test_services_are_as_calibrated(drawn):
    nodes, memory = drawn[0].nodes, drawn[0].node_memory_bytes
    assert mean_of(drawn, lambda t, _: (t.service >= 0).sum()) == pytest.approx(1737, rel=0.10)
    assert mean_of(drawn, lambda t, _: len(t.service_cores)) == pytest.approx(293, rel=0.18)
    assert mean_of(drawn, lambda t, _: t.memory_bytes[t.service >= 0].sum() / nodes / memory) == pytest.approx(
        0.445, abs=0.02
    )
    peak = mean_of(drawn, lambda t, _: t.service_peak[t.service[t.service >= 0]].sum() / nodes / 96)
    assert peak == pytest.approx(0.185, abs=0.01)
    for quantile, tolerance in ((0.05, 1.29), (0.5, 1.55), (0.95, 2.03)):
        assert mean_of(drawn, lambda _, o, q=quantile: np.quantile(o.est_tolerance[o.is_service], q)) == pytest.approx(
            tolerance, abs=0.05
        )


def test_batch_is_as_calibrated(drawn):
    def batch(figure):
        return mean_of(drawn, lambda t, o: figure(t, o, t.service < 0))

    assert batch(lambda t, o, b: b.sum()) == pytest.approx(18_280, rel=0.02)
    assert batch(lambda t, o, b: len(t.job_stages)) == pytest.approx(3260, rel=0.05)
    assert batch(lambda t, o, b: t.cpu_milli[b].mean() / 1000) == pytest.approx(4.1, abs=0.2)
    assert batch(lambda t, o, b: np.median(t.cpu_milli[b]) / 1000) == 2.0
    assert batch(lambda t, o, b: np.quantile(t.cpu_milli[b], 0.99) / 1000) == pytest.approx(32.0)
    assert batch(lambda t, o, b: t.duration_s[b].mean() / 60) == pytest.approx(47, abs=3)
    assert batch(lambda t, o, b: np.median(t.duration_s[b]) / 60) == pytest.approx(34, abs=3)
    assert batch(lambda t, o, b: np.quantile(t.duration_s[b], 0.9) / 60) == pytest.approx(98, abs=10)
    assert batch(lambda t, o, b: (t.use_cores[b] / t.cpu_milli[b] * 1000).mean()) == pytest.approx(0.74, abs=0.02)
    assert batch(lambda t, o, b: (t.use_memory_bytes[b] / t.memory_bytes[b]).mean()) == pytest.approx(0.38, abs=0.02)
    assert batch(lambda t, o, b: (t.use_memory_bytes[b] > t.memory_bytes[b]).mean()) == pytest.approx(0.026, abs=0.01)


def test_the_stretch_against_real_instances_is_as_reported(drawn):
    assert mean_of(drawn, lambda t, _: t.duration_s[t.service < 0].mean()) / 35.4 == pytest.approx(79, abs=5)


def test_plans_are_drawn_from_the_traces_atoms(drawn):
    config = drawn[0]
    atoms = {round(1000 * w * p) for w in config.width for p in config.plan_cores}
    for truth, _ in drawn[1][:3]:
        assert set(truth.cpu_milli[truth.service < 0].tolist()) == atoms


def test_granting_everything_gives_the_founding_dominant_share_fairness(drawn):
    """Time-mean dominant shares if every pod ran alone at once: determined by the tenants' sizes."""
    config = drawn[0]

    def fairness(truth, _):
        weight = np.where(truth.service >= 0, config.horizon_s, np.where(truth.service < 0, truth.duration_s, 0.0))
        share = [
            np.bincount(truth.tenant, weight * c / cap)
            for c, cap in ((truth.cpu_milli, 96_000), (truth.memory_bytes, config.node_memory_bytes))
        ]
        return jain(np.maximum(*share))

    assert mean_of(drawn, fairness) == pytest.approx(0.134, abs=0.02)


@pytest.mark.parametrize("load", [0.5, 0.77, 0.95, 1.2])
def test_load_is_an_input_to_a_point_seed_by_seed(load):
    """Run alone, each job's residence stretched by 1.12, requested CPU between one hour and the horizon."""
    config = WorldConfig()
    for seed in range(3):
        truth, _ = generate(config, seed, load)
        begin = np.empty(len(truth.stage_job))
        batch = truth.service < 0
        longest = np.maximum.reduceat(truth.duration_s[batch], truth.stage_first_pod - truth.stage_first_pod[0])
        for job in range(len(truth.job_stages)):
            at = truth.job_arrival_s[job]
            for stage in range(truth.job_first_stage[job], truth.job_first_stage[job] + truth.job_stages[job]):
                begin[stage] = at
                at += 1.12 * longest[stage]
        start = begin[truth.stage[batch]]
        inside = np.minimum(start + 1.12 * truth.duration_s[batch], config.horizon_s) - np.maximum(start, 3600.0)
        asked = (truth.cpu_milli[batch] * np.maximum(inside, 0)).sum() / (config.horizon_s - 3600.0)
        asked += truth.cpu_milli[~batch].sum()
        assert asked / (config.nodes * 96_000) == pytest.approx(load, abs=0.01)


def test_equal_seeds_give_equal_workloads_and_errors_leave_the_truth_alone():
    config = WorldConfig(nodes=25, pods=2000)
    one, again, noisy, other = (generate(config, s, 0.77, e) for s, e in ((4, 0.0), (4, 0.0), (4, 0.5), (5, 0.0)))
    for a, b in zip(one[0] + one[1], again[0] + again[1], strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(one[0], noisy[0], strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one[0].duration_s[-500:], other[0].duration_s[-500:])


def test_no_error_offers_the_truth_and_more_error_deviates_more():
    config = WorldConfig(nodes=25, pods=2000)
    truth, exact = generate(config, 1, 0.77, estimate_error=0.0)
    first = exact.first_pod
    np.testing.assert_allclose(exact.est_sensitivity, truth.sensitivity[first])
    np.testing.assert_allclose(exact.est_pressure, truth.pressure[first])
    batch = ~exact.is_service
    np.testing.assert_allclose(exact.est_use_cores[batch], truth.use_cores[first][batch])
    np.testing.assert_allclose(exact.est_use_cores[~batch], truth.service_peak)
    for error in (0.2, 0.5):
        _, offer = generate(config, 1, 0.77, estimate_error=error)
        for name in ("est_sensitivity", "est_pressure", "est_use_cores", "est_use_memory_bytes"):
            assert np.std(np.log(getattr(offer, name) / getattr(exact, name))) == pytest.approx(error, rel=0.1)
        ratio = np.log(offer.est_duration_s[batch] / exact.est_duration_s[batch])
        assert np.std(ratio) == pytest.approx(1.5 * error, rel=0.1)
        excess = np.log((offer.est_tolerance - 1) / (exact.est_tolerance - 1))[~batch]
        assert np.std(excess) == pytest.approx(error, rel=0.4)
    _, given = generate(config, 1, 0.77, estimate_error=0.0, duration_error=1.0)
    np.testing.assert_array_equal(given.est_use_cores, exact.est_use_cores)
    assert np.std(np.log(given.est_duration_s[batch] / exact.est_duration_s[batch])) == pytest.approx(1.0, rel=0.1)


def test_nothing_in_an_offer_is_a_view_of_the_truth_or_equals_what_is_hidden(drawn):
    truth, offer = drawn[1][0]
    arrays = [getattr(offer, name) for name in offer._fields if name != "tenants"]
    for name in truth._fields:
        if name == "tenants":
            continue
        assert not any(np.shares_memory(a, getattr(truth, name)) for a in arrays), name
    first = offer.first_pod
    for hidden, shown in (
        (truth.sensitivity, offer.est_sensitivity),
        (truth.pressure, offer.est_pressure),
        (truth.use_memory_bytes, offer.est_use_memory_bytes),
        (truth.duration_s, offer.est_duration_s),
    ):
        finite = np.isfinite(shown)
        assert not (hidden[first][finite] == shown[finite]).any()


def test_sensitivity_is_offered_as_it_acts_in_this_world():
    plain = generate(WorldConfig(nodes=25, pods=2000), 1, 0.77)[1]
    off = generate(WorldConfig(nodes=25, pods=2000, interference=0.0), 1, 0.77)[1]
    twice = generate(WorldConfig(nodes=25, pods=2000, interference=2.0), 1, 0.77)[1]
    assert not off.est_sensitivity.any()
    np.testing.assert_allclose(twice.est_sensitivity, 2 * plain.est_sensitivity)


@pytest.mark.parametrize("load", [float("nan"), 0.0, 0.384, 1.51, -1.0, float("inf")])
def test_absurd_loads_are_refused(load):
    with pytest.raises(InvalidInput, match="load"):
        generate(WorldConfig(), 0, load)


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"node_cores": 16}, "cpu_milli"), ({"pods": 100}, "pods"), ({"pods": 1700, "seed": 0}, "pods")],
)
def test_clusters_that_cannot_hold_the_workload_are_refused(changes, field):
    seed = changes.pop("seed", 0)
    with pytest.raises(InvalidInput, match=field):
        generate(WorldConfig(**changes), seed, 0.77)


@pytest.mark.parametrize(
    "errors", [{"estimate_error": float("nan")}, {"estimate_error": -0.1}, {"duration_error": -1.0}]
)
def test_impossible_errors_are_refused(errors):
    with pytest.raises(InvalidInput, match="_error"):
        generate(WorldConfig(nodes=25, pods=2000), 0, 0.77, **errors)
