"""The manager's engine: what is written when, what survives errors, restarts and clocks, and what is explained."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.fakes.processes.managed_world import GI, World, config, metric, node

from cotenant.engine.manager.instructions import NodeObjectKind, WriteAmounts, WriteSpec, merge_patch
from cotenant.model.autonomy.autonomy import Autonomy, Freeze
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import PodPhase
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.node_metric import NodeMetric, Use

SLO, METRIC = NodeObjectKind.NODE_SLO, NodeObjectKind.NODE_METRIC


def _lending(**strategy: object) -> World:
    """A node with one measured prod pod: 60 % of 100 cores less 20 are lent."""
    world = World(**strategy)
    world.node()
    world.pod("a", cores=40)
    world.measure(a=20_000)
    world.step()
    return world


def test_amounts_and_their_terms_are_written_together() -> None:
    world = _lending()
    assert world.lent()["batch-cpu"] == 40_000
    written = json.loads(world.nodes["n"].written)
    assert written["strategy"] == "cluster"
    amount = written["amounts"]["batch-cpu"]
    assert sum(term for _, term in amount["terms"]) == amount["value"] == 40_000


def test_a_small_change_is_not_written_and_a_large_one_is() -> None:
    world = _lending()
    writes = world.writes
    world.measure(a=21_000)
    world.step(60)
    assert world.writes == writes
    world.measure(a=25_000)
    world.step(60)
    assert world.lent()["batch-cpu"] == 35_000
    assert world.writes == writes + 1


def test_equal_amounts_are_never_written_again_and_small_drifts_after_a_while() -> None:
    world = _lending()
    writes = world.writes
    for _ in range(20):
        world.measure(a=20_000)
        world.step(60)
    assert world.writes == writes
    world.measure(a=20_500)
    world.step(1)
    assert world.lent()["batch-cpu"] == 39_500


def test_a_small_drift_is_written_when_it_is_due_without_another_event() -> None:
    world = _lending()
    written_s, writes = world.now_s, world.writes
    world.measure(a=20_500)
    world.step(60)
    world.step(written_s + 299 - world.now_s)
    assert (world.writes, world.lent()["batch-cpu"]) == (writes, 40_000)

    world.step(3)

    assert (world.writes, world.lent()["batch-cpu"]) == (writes + 1, 39_500)


@pytest.mark.parametrize(("after_s", "again"), [(29.0, 0), (31.0, 1)])
def test_a_lost_write_is_issued_again_after_the_time_to_confirm_and_no_sooner(after_s: float, again: int) -> None:
    world = _lending()
    world.measure(a=10_000)
    world.loses = 1
    world.step()
    writes = world.writes
    assert world.lent()["batch-cpu"] == 40_000

    world.step(after_s)

    assert world.writes == writes + again
    assert world.lent()["batch-cpu"] == (50_000 if again else 40_000)


def test_a_pod_counts_on_one_node_at_a_time() -> None:
    world = _lending()
    world.node("m", uid="v")
    world.pod("b", cores=30)
    world.measure(name="m", use_m=1_000)
    world.step()
    assert world.lent()["batch-cpu"] == 10_000
    world.pod("b", cores=30, node="m")  # nobody said that it left n
    world.step()
    assert world.lent()["batch-cpu"] == 40_000


def test_a_new_prod_pod_counts_before_it_is_measured() -> None:
    world = _lending()
    world.pod("b", cores=30)
    world.step()
    assert world.lent()["batch-cpu"] == 10_000


@pytest.mark.parametrize(
    ("fields", "lent"),
    [
        ({"qos": QoSClass.BE, "priority_class": PriorityClass.BATCH}, 40_000),
        ({"phase": PodPhase.SUCCEEDED}, 40_000),
        ({"node": ""}, 40_000),
        ({"qos": QoSClass.NONE, "priority_class": PriorityClass.NONE}, 10_000),
        ({"qos": QoSClass.NONE, "priority_class": PriorityClass.NONE, "cores": 0}, 40_000),
    ],
)
def test_only_high_priority_pods_that_run_here_count(fields: dict[str, object], lent: int) -> None:
    world = _lending()
    world.pod("b", **{"cores": 30, **fields})
    world.step()
    assert world.lent()["batch-cpu"] == lent


def test_stale_measurements_withdraw_after_the_degrade_time_and_not_before() -> None:
    world = _lending(degradeTimeMinutes=5)
    world.step(295)
    assert world.lent()["batch-cpu"] == 40_000
    world.step(5)
    assert world.lent() == {}
    assert world.nodes["n"].written == ""
    world.measure(a=20_000)
    world.step()
    assert world.lent()["batch-cpu"] == 40_000


def test_withdrawal_needs_no_event() -> None:
    world = _lending(degradeTimeMinutes=5)
    world.step()
    world.step()
    assert world.now_s < world.manager.next_s() <= world.now_s + 301


@pytest.mark.parametrize("skew_s", [-7200.0, 7200.0])
def test_an_agent_whose_clock_is_off_is_not_stale_while_it_reports(skew_s: float) -> None:
    world = _lending()
    for _ in range(30):
        world.measure(a=20_000, skew_s=skew_s)
        world.step(60)
        assert world.lent()["batch-cpu"] == 40_000
    world.step(1000)
    assert world.lent() == {}


@pytest.mark.parametrize("skew_s", [-86_400.0, -1200.0, 0.0, 1200.0])
def test_a_restart_withdraws_nothing_whatever_the_agents_clock(skew_s: float) -> None:
    world = _lending()
    world.measure(a=20_000, skew_s=skew_s)
    world.step()
    before = world.lent()
    writes = world.writes
    assert before["batch-cpu"] == 40_000
    world.now_s += 30.0
    world.restart()
    for _ in range(20):
        world.step(3.0)
        assert world.lent() == before
    world.measure(a=20_000, skew_s=skew_s)
    world.step(1000.0 if skew_s == 0.0 else 300.0)
    assert world.lent() == ({} if skew_s == 0.0 else before)
    assert world.writes <= writes + 1


def test_a_measurement_that_stays_old_after_a_restart_withdraws_once_it_was_watched() -> None:
    world = _lending(degradeTimeMinutes=5)
    world.now_s += 3600.0  # no manager runs, and the agent is gone
    world.restart()
    world.step(1.0)
    assert world.lent()["batch-cpu"] == 40_000
    assert "first seen" in world.manager.explain("n", world.now_s).computed.reason  # type: ignore[union-attr]
    at = world.manager.next_s()
    assert world.now_s < at <= world.now_s + 150.0
    world.step(at - world.now_s)
    assert world.lent() == {}


def test_the_same_measurement_seen_again_does_not_become_fresh() -> None:
    world = _lending(degradeTimeMinutes=5)
    seen = world.metrics["n"]
    for _ in range(6):
        world.manager.metric_seen(replace(seen, age_s=0.0), world.now_s)
        world.step(60)
    assert world.lent() == {}


def test_a_config_with_an_error_leaves_the_last_good_one_in_force() -> None:
    world = _lending()
    world.configure({"colocation-config": '{"enable": true, "cpuReclaimThresholdPercent": 700}'})
    world.step()
    assert world.lent()["batch-cpu"] == 40_000
    explained = world.manager.explain("n", world.now_s)
    assert explained is not None
    assert "cpuReclaimThresholdPercent: 700" in explained.config_error
    world.configure(config(cpuReclaimThresholdPercent=70))
    world.step()
    assert world.lent()["batch-cpu"] == 50_000


def test_a_manager_that_starts_with_a_bad_config_changes_no_amounts() -> None:
    world = _lending()
    world.data = {"colocation-config": "{"}
    world.restart()
    world.step()
    world.step(3600)
    assert world.lent()["batch-cpu"] == 40_000


def test_switching_colocation_off_withdraws_everything() -> None:
    world = _lending()
    world.configure({"colocation-config": '{"enable": false}'})
    world.step()
    assert world.lent() == {}


def test_an_annotation_that_cannot_be_read_keeps_the_amounts() -> None:
    world = _lending()
    world.node(normalization="fast", lent=world.lent())
    world.pod("b", cores=30)
    world.step()
    assert world.lent()["batch-cpu"] == 40_000
    explained = world.manager.explain("n", world.now_s)
    assert explained is not None
    assert "CPU normalization ratio: fast" in explained.computed.reason


def test_a_restart_writes_nothing_that_stands() -> None:
    world = _lending()
    writes = world.writes
    world.restart()
    world.step()
    assert world.writes == writes


@pytest.mark.parametrize("lost", range(1, 4))
def test_lost_writes_are_issued_again(lost: int) -> None:
    world = World()
    world.node()
    world.measure(a=20_000)
    world.loses = 3 * lost  # amounts, NodeSLO, NodeMetric
    for _ in range(10):
        world.measure(a=20_000)
        world.step(31)
    assert world.lent()["batch-cpu"] == 40_000
    assert (SLO, "n") in world.specs


def test_a_write_under_way_is_not_doubled() -> None:
    world = World()
    world.node()
    world.loses = 10
    world.measure(a=20_000)
    world.step()
    world.measure(a=20_000)
    assert not world.step(1)


def test_another_node_of_the_same_name_is_not_written_by_an_older_decision() -> None:
    world = _lending()
    world.measure(a=50_000)
    (old,) = [
        write_amounts for write_amounts in world.manager.decide(world.now_s) if isinstance(write_amounts, WriteAmounts)
    ]
    world.node(uid="other")
    world._carry_out(old)
    assert world.lent() == {}
    world.step()
    assert world.lent()["batch-cpu"] == 10_000


def test_objects_of_a_node_that_leaves_are_deleted() -> None:
    world = _lending()
    assert {(SLO, "n"), (METRIC, "n")} <= world.specs.keys()
    world.gone()
    for _ in range(3):
        world.step(31)
    assert world.specs == {}
    world.manager.pod_gone("uid-a", world.now_s)
    world.step()
    world.step()
    assert world.manager.nodes() == ()
    assert world.manager._nodes == {}


def test_node_slo_follows_the_config_and_the_node() -> None:
    world = World()
    world.data = {
        **config(),
        "resource-threshold-config": json.dumps(
            {
                "clusterStrategy": {"enable": True, "cpuSuppressThresholdPercent": 60},
                "nodeStrategies": [
                    {"nodeSelector": {"matchLabels": {"big": "yes"}}, "cpuSuppressThresholdPercent": 80}
                ],
            }
        ),
    }
    world.configure(world.data)
    world.node()
    world.step()
    assert world.specs[SLO, "n"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 60
    world.node(labels=Labels.of({"big": "yes"}))
    world.step()
    assert world.specs[SLO, "n"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 80


def test_extensions_that_others_wrote_to_a_node_slo_stay() -> None:
    world = _lending()
    world.specs[SLO, "n"] = {**world.specs[SLO, "n"], "extensions": {"theirs": {"x": 1}}}
    world.manager.spec_seen(SLO, "n", world.specs[SLO, "n"])
    world.configure({**config(), "cpu-burst-config": '{"clusterStrategy": {"policy": "auto"}}'})
    world.step()
    assert world.specs[SLO, "n"]["cpuBurstStrategy"]["policy"] == "auto"
    assert world.specs[SLO, "n"]["extensions"] == {"theirs": {"x": 1}}


def test_a_changed_node_slo_is_put_right() -> None:
    world = _lending()
    world.specs[SLO, "n"] = {**world.specs[SLO, "n"], "cpuBurstStrategy": {"policy": "auto", "extra": 1}}
    world.manager.spec_seen(SLO, "n", world.specs[SLO, "n"])
    world.step()
    assert world.specs[SLO, "n"]["cpuBurstStrategy"]["policy"] == "none"
    assert "extra" not in world.specs[SLO, "n"]["cpuBurstStrategy"]


def test_the_collect_policy_is_the_strategys_where_colocation_is_on() -> None:
    world = _lending(metricReportIntervalSeconds=20)
    assert world.specs[METRIC, "n"]["reportIntervalSeconds"] == 20
    world.configure({"colocation-config": '{"enable": false, "metricReportIntervalSeconds": 20}'})
    world.step()
    assert world.specs[METRIC, "n"]["reportIntervalSeconds"] == 60


def test_merge_patch_makes_the_new_of_the_old() -> None:
    old = {"a": 1, "b": {"c": 2, "d": [1]}, "e": 3}
    new = {"a": 1, "b": {"c": 4}, "f": None}
    assert merge_patch(old, new) == {"b": {"c": 4, "d": None}, "e": None, "f": None}
    assert merge_patch(old, old) == {}


def test_without_a_config_map_nothing_is_lent() -> None:
    world = World()
    world.configure(None)
    world.node()
    world.measure(a=20_000)
    found = world.step()
    assert world.lent() == {}
    assert {type(write_amounts) for write_amounts in found} == {WriteSpec}


def test_a_node_that_was_gone_and_comes_back_is_lent_on_again() -> None:
    world = _lending()
    world.manager.node_gone("n")
    world.step()
    world.manager.node_seen(world.nodes["n"])
    world.manager.metric_seen(metric(world.now_s, a=20_000), world.now_s)
    world.step()
    assert world.lent()["batch-cpu"] == 40_000


def test_mid_pods_count_by_their_mid_resources_until_measured() -> None:
    world = _lending()
    observed = world.pods["a"]
    requests = type(observed.pod.requests).of({"kubernetes.io/mid-cpu": 30_000})
    mid = replace(observed.pod, name="m", requests=requests, priority_class=PriorityClass.MID)
    world.manager.pod_seen(replace(observed, pod=mid, uid="uid-m"), world.now_s)
    world.step()
    assert world.lent()["batch-cpu"] == 10_000


def test_reserved_amounts_use_the_raw_allocatable() -> None:
    world = World()
    world.nodes["n"] = replace(node(), allocatable=Use(70_000, 100 * GI))
    world.manager.node_seen(world.nodes["n"])
    world.measure(use_m=0)
    world.step()
    assert world.lent()["batch-cpu"] == 30_000


def _peak(minutes: int = 90, **strategy: object) -> World:
    world = World(cpuCalculatePolicy="peak", **strategy)
    world.node()
    world.pod("a", cores=40)
    for i in range(minutes):
        world.measure(a=20_000 + 1_000 * (i % 2))
        world.step(60)
    return world


def test_the_peak_policy_lends_more_than_the_formula_and_writes_rarely() -> None:
    world = _peak()
    assert world.lent()["batch-cpu"] > 70_000
    assert world.writes <= 4
    explained = world.manager.explain("n", world.now_s)
    assert explained is not None
    (cpu,) = [amount for amount in explained.computed.amounts if amount.resource == "batch-cpu"]
    assert "reserve against rises at 1 % risk" in [term.name for term in cpu.terms]


def test_the_peak_policy_starts_by_requests() -> None:
    world = _peak(minutes=2)
    assert world.lent()["batch-cpu"] <= 60_000


def test_a_restart_under_the_peak_policy_keeps_the_amount() -> None:
    world = _peak()
    before, writes = world.lent()["batch-cpu"], world.writes
    world.restart()
    world.step()
    for i in range(10):
        world.measure(a=20_000 + 1_000 * (i % 2))
        world.step(60)
    assert world.lent()["batch-cpu"] == before
    assert world.writes == writes


def test_the_stated_risk_is_read_from_the_config() -> None:
    world = _peak(peakRiskPercent=5)
    explained = world.manager.explain("n", world.now_s)
    assert explained is not None
    assert any("at 5 % risk" in term.name for amount in explained.computed.amounts for term in amount.terms)


def test_a_node_that_returns_under_its_name_has_no_history() -> None:
    world = _peak()
    world.gone()
    world.node(uid="other")
    record = world.manager._nodes["n"]
    assert record.history == {}


def test_a_server_that_drops_fields_is_not_written_to_without_end() -> None:
    world = _lending()
    world.configure({**config(), "cpu-burst-config": '{"clusterStrategy": {"unknown": 1}}'})
    writes = 0
    for _ in range(120):
        for write_amounts in world.manager.decide(world.now_s):
            if (
                isinstance(write_amounts, WriteSpec) and write_amounts.kind is SLO
            ):  # the server stores all but the field that it does not know
                writes += 1
        world.now_s += 30
    assert 2 <= writes <= 8
    world.configure(config())
    world.step()
    assert "unknown" not in world.specs[SLO, "n"]["cpuBurstStrategy"]


def test_a_metric_that_no_agent_has_written_yet_lends_nothing_and_harms_nothing() -> None:
    world = World()
    world.node()
    world.manager.metric_seen(NodeMetric("n"), world.now_s)
    world.step()
    found = world.manager.explain("n", world.now_s)
    assert found is not None
    assert found.computed.state == "withdrawn"
    assert found.computed.reason.startswith("its agent has written no measurement yet")
    world.measure(a=0)
    world.step(1)
    assert world.lent()["batch-cpu"] == 60_000


def test_frozen_an_amount_falls_and_does_not_rise() -> None:
    world = _lending()
    world.manager.autonomy_seen(Autonomy("freeze", freeze=Freeze("outage", "ada")))
    world.measure(a=5_000)
    world.step(400)
    assert world.lent()["batch-cpu"] == 40_000
    world.measure(a=30_000)
    world.step(400)
    assert world.lent()["batch-cpu"] == 30_000
    written = json.loads(world.nodes["n"].written)["amounts"]["batch-cpu"]
    assert sum(term for _, term in written["terms"]) == written["value"] == 30_000
    world.manager.autonomy_gone("freeze")
    world.measure(a=5_000)
    world.step(400)
    assert world.lent()["batch-cpu"] == 55_000


def test_frozen_a_node_that_lends_nothing_begins_with_nothing() -> None:
    world = World()
    world.manager.autonomy_seen(Autonomy("freeze", freeze=Freeze("outage")))
    world.node()
    world.measure(a=20_000)
    world.step()
    assert world.lent().get("batch-cpu", 0) == 0


def test_a_write_that_waited_while_a_freeze_came_is_not_sent() -> None:
    world = World()
    world.node()
    world.measure(a=20_000)
    (write,) = [found for found in world.manager.decide(world.now_s + 2) if isinstance(found, WriteAmounts)]
    assert world.manager.may_write(write, world.now_s)
    world.manager.autonomy_seen(Autonomy("freeze", freeze=Freeze("outage")))
    assert not world.manager.may_write(write, world.now_s)
    assert world.manager.may_write(replace(write, amounts=dict.fromkeys(write.amounts)), world.now_s)
    world.step(40)
    assert world.lent().get("batch-cpu", 0) == 0


def test_a_freeze_of_a_namespace_is_not_about_lending() -> None:
    world = _lending()
    found = Autonomy("freeze", namespaces=frozenset({"shop"}), freeze=Freeze("outage"))
    world.manager.autonomy_seen(found)
    world.measure(a=5_000)
    world.step(400)
    assert world.lent()["batch-cpu"] == 55_000


def test_a_pod_that_somebody_resizes_in_place_counts_with_what_it_requests_now() -> None:
    world = _lending(memoryCalculatePolicy="request")
    before = world.lent()
    world.pod("a", cores=50)
    world.step()
    assert before["batch-memory"] - world.lent()["batch-memory"] == 10 * GI
    assert world.lent()["batch-cpu"] == before["batch-cpu"]  # by what it uses
    world.pod("a", cores=5)
    world.step()
    assert world.lent()["batch-memory"] - before["batch-memory"] == 35 * GI
