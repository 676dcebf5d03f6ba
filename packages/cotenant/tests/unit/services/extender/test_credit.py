"""The extender considers the debt of a pod's quota as the scheduler does: bounded, switchable, and nothing but the
violation term.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.quota_world import node, quota
from tests.fakes.servers.extender_forms import GIB, NOW, report

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.plugins.quotas.credit import MAX_SURCHARGE, SURCHARGE_LEVELS, surcharge, surcharge_level
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import NAME
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.services.extender.extender_arguments import ExtenderSettings, check
from cotenant.services.extender.founding_judge import FoundingJudge
from cotenant.services.extender.judge import demand_of
from cotenant.services.extender.mirror import Mirror
from cotenant.services.extender.pod_reader import PodDemandReader
from cotenant.services.extender.standings import QuotaStandings


def mirror(violation: float) -> Mirror:
    made = Mirror()
    made.report_received(report("calm", 6.0, 16 * GIB, violation=0.0, dominant_share=0.6))
    made.report_received(report("bad", 4.0, 16 * GIB, violation=violation, dominant_share=0.6))
    return made


def scores(judge: FoundingJudge, known: Mirror, debt: int) -> list[int]:
    rows = np.array([known.rows["calm"], known.rows["bad"]])
    ask = demand_of(Pod("p", requests=Amounts.of({"cpu": 1000, "memory": GIB})), debt)
    return [int(score) for score in judge.scores(ask, rows, NOW)]


@settings(max_examples=30, deadline=None)
@given(st.floats(0.0, 1.0), st.integers(0, SURCHARGE_LEVELS))
def test_debt_changes_the_violation_term_by_its_level_and_nothing_else(violation: float, debt: int) -> None:
    known = mirror(violation)
    plain = scores(FoundingJudge(known), known, debt)
    known = mirror(violation)
    calm, bad = scores(FoundingJudge(known, levels=SURCHARGE_LEVELS), known, debt)
    assert calm == plain[0]
    more = violation * 20.0 * MAX_SURCHARGE * debt / SURCHARGE_LEVELS
    assert plain[1] - more - 1 <= bad <= plain[1]


def test_levels_of_debt_are_bounded_and_credit_has_none() -> None:
    assert [surcharge_level(number) for number in (-5000, -1000, -999, -250, -249, 0, 1000)] == [4, 4, 3, 1, 0, 0, 0]
    assert [surcharge(number) for number in (-1000, -500, 0, 1000)] == [0.5, 0.25, 0.0, 0.0]


def test_a_pods_quota_is_found_by_its_label_and_a_new_standing_applies_at_once() -> None:
    standings = QuotaStandings()
    reader = PodDemandReader(standings)
    body = {"metadata": {"name": "p", "namespace": "work", "labels": {NAME: "team"}}, "spec": {"containers": []}}
    raw = msgspec.json.encode(body)
    assert reader.read(raw).debt == 0
    debtor = replace(quota("team", 1, 10), standing=-1000)
    standings.quota_seen(debtor)
    assert reader.read(raw).debt == SURCHARGE_LEVELS
    standings.quota_seen(replace(debtor, standing=-500))
    assert reader.read(raw).debt == SURCHARGE_LEVELS // 2
    standings.quota_gone(debtor.key)
    assert reader.read(raw).debt == 0
    assert PodDemandReader().read(raw).debt == 0


def test_credit_needs_a_cluster_and_the_founding_profile() -> None:
    with pytest.raises(InvalidInput, match="--credit"):
        check(ExtenderSettings(credit=True))
    with pytest.raises(InvalidInput, match="violation term"):
        check(ExtenderSettings(credit=True, cluster=True, profile="cotenant"))
    check(ExtenderSettings(credit=True, cluster=True))


@pytest.mark.parametrize(
    ("on", "chosen"), [(True, {"debtor": "calm", "lender": "bad"}), (False, {"debtor": "bad", "lender": "bad"})]
)
def test_the_scheduler_and_the_extender_choose_alike(on: bool, chosen: dict[str, str]) -> None:
    quotas, standings, known = Quotas(QuotaSettings(credit=on)), QuotaStandings(), mirror(0.2)
    cluster = Cluster(profile("founding"), np.random.default_rng(1), plugins=PluginRegistry(quotas=quotas))
    for node_report in (
        report("calm", 6.0, 16 * GIB, dominant_share=0.6),
        report("bad", 4.0, 16 * GIB, violation=0.2, dominant_share=0.6),
    ):
        cluster.node_seen(node(node_report.node, 8))
        cluster.report(node_report.node, node_report.row())
    for name, value in (("debtor", -1000), ("lender", 1000)):
        written = replace(quota(name, 1, 100), standing=value)
        quotas.quota_seen(written, NOW)
        standings.quota_seen(written)
    judge = FoundingJudge(known, levels=SURCHARGE_LEVELS if on else 0)
    for name in chosen:
        asking = Pod(f"of-{name}", "work", Amounts.of({"cpu": 1000}), labels=Labels.of({NAME: name}))
        calm, bad = scores(judge, known, standings.debt_of(asking))
        assert ("calm" if calm > bad else "bad") == chosen[name]
        cluster.pod_seen(ObservedPod(asking, f"uid-{name}", "cotenant", created_s=NOW), NOW)
    bound = {instruction.uid: instruction.node for instruction in cluster.decide(NOW) if isinstance(instruction, Bind)}
    assert bound == {f"uid-{name}": where for name, where in chosen.items()}
    cluster.validate()
