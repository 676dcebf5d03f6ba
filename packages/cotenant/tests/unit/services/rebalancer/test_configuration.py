"""The file of `cotenant rebalancer --config`: what is read, and that errors name field, value and what is expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.engine.rebalancer.settings import ActingSettings, Defragmentation, Packing, PodScope
from cotenant.model.cluster.labels import Labels
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.migration import EvictPolicy, JobMode
from cotenant.policy.rebalance.loads.detector import AnomalyCondition
from cotenant.policy.rebalance.migration.evictable import EvictionGate
from cotenant.policy.rebalance.migration.object_limiter import ObjectLimit
from cotenant.policy.rebalance.migration.workload_limits import ReplicaShare
from cotenant.policy.rebalance.violations.contract import ViolationRule
from cotenant.services.rebalancer.configuration import parse_settings, read_settings

EXAMPLE = Path(__file__).parents[6] / "deploy" / "rebalancer" / "descheduler.yaml"
TOP = "lowThresholds: {cpu: 45}, highThresholds: {cpu: 65}"


def text(load: str = TOP, migration: str = "", head: str = "", balance: str = "[{name: LowNodeLoad}]") -> bytes:
    return f"""
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
{head}
profiles:
- name: koord-descheduler
  plugins: {{balance: {{enabled: {balance}}}, evict: {{enabled: [{{name: MigrationController}}]}}}}
  pluginConfig:
  - name: LowNodeLoad
    args: {{{load}}}
  - name: MigrationController
    args: {{{migration}}}
""".encode()


def test_the_example_is_read() -> None:
    settings = read_settings(EXAMPLE)
    assert [pool.name for pool in settings.pools] == ["__default_node_pool__"]
    assert settings.pools[0].percentages.high == {"cpu": 75.0, "memory": 85.0}


def test_everything_that_is_applied() -> None:
    settings = parse_settings(
        text(
            "lowThresholds: {cpu: 30}, highThresholds: {cpu: 60}, numberOfNodes: 2, nodeMetricExpirationSeconds: 300, "
            "nodeFit: false, "
            "evictableNamespaces: {exclude: [kube-system]}, podSelectors: [{selector: {matchLabels: {app: a}}}], "
            "anomalyCondition: {consecutiveAbnormalities: 2, timeout: 90s}, resourceWeights: {cpu: 2}, "
            "nodePools: [{name: big, nodeSelector: {matchLabels: {size: big}}, highThresholds: {cpu: 80}}]",
            "evictLocalStoragePods: true, priorityThreshold: {value: 9000}, maxMigratingPerWorkload: '20%', "
            "maxUnavailablePerWorkload: 2, "
            "maxMigratingGlobally: 5, maxMigratingPerNode: 1, skipEvictionGates: [PVC], labelSelector: "
            "{matchExpressions: [{key: x, operator: Exists}]}",
            "maxNoOfPodsToEvictTotal: 7\nnodeSelector: {matchLabels: {zone: a}}",
        ),
        "f",
    )
    top, big = settings.pools
    assert top.selector is None
    assert (big.name, dict(big.percentages.low), dict(big.percentages.high)) == ("big", {"cpu": 30}, {"cpu": 80})
    assert big.selector is not None
    assert big.selector.matches(Labels.of({"size": "big"}))
    assert top.anomaly == big.anomaly == AnomalyCondition(2, 3, 90.0)
    assert (settings.number_of_nodes, settings.expires_s, settings.node_fit) == (2, 300.0, False)
    assert settings.exclude == ("kube-system",)
    assert settings.pod_selectors[0].matches(Labels.of({"app": "a"}))
    assert settings.node_selector is not None
    assert settings.filter.evicts_local_storage
    assert settings.filter.priority_threshold == 9000
    assert (settings.filter.max_moving, settings.filter.max_unavailable) == (ReplicaShare(20, True), ReplicaShare(2))
    assert settings.filter.skip == {EvictionGate.PVC}
    assert (settings.limits.globally, settings.limits.per_node, settings.limits.round_total) == (5, 1, 7)


def test_a_pool_needs_no_thresholds_at_the_top_level() -> None:
    settings = parse_settings(text("nodePools: [{name: a, lowThresholds: {cpu: 1}, highThresholds: {cpu: 2}}]"), "f")
    assert [pool.name for pool in settings.pools] == ["a"]


def test_what_matters_only_where_moves_are_carried_out_is_listed() -> None:
    settings = parse_settings(text(migration="evictQPS: 10, defaultJobTTL: 5m", head="dryRun: false"), "f")
    assert settings.not_applied == ("dryRun", "MigrationController.defaultJobTTL", "MigrationController.evictQPS")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (text("lowThresholds: {cpu: 70}, highThresholds: {cpu: 65}"), "args.lowThresholds.cpu: 70.0: expected at most "
            "highThresholds.cpu, 65"),
        (text("lowThresholds: {cpu: -1}, highThresholds: {cpu: 65}"), "lowThresholds.cpu: -1.0: expected 0 to 100 "
            "percent"),
        (text("highThresholds: {cpu: 165}"), "highThresholds.cpu: 165.0: expected 0 to 100 percent"),
        (text("lowThresholds: {cpu: 5}"), "lowThresholds.cpu: 5.0: expected highThresholds.cpu too"),
        (text("lowTresholds: {cpu: 5}"), "did you mean lowThresholds?"),
        (text(f"{TOP}, podSelectors: [{{selector: {{matchExpressions: [{{key: a, operator: 5}}]}}}}]"),
            "podSelectors[0].selector.matchExpressions[0].operator"),
        (text(f"{TOP}, podSelectors: [{{selector: {{matchExpressions: [{{key: a, operator: Inn}}]}}}}]"),
            "operator: Inn: "
            "expected In or"),
        (text("nodePools: [{name: a}]"), "nodePools[0]: a: expected lowThresholds and highThresholds"),
        (text(f"{TOP}, nodePools: [{{name: a}}, {{name: a}}]"), "nodePools[1].name: a: expected a name, each once"),
        (text(""), "without thresholds"),
        (text(f"{TOP}, paused: true"), "paused: True: expected false"),
        (text(f"{TOP}, numberOfNodes: -1"), "numberOfNodes: -1: expected 0 or more"),
        (text(f"{TOP}, evictableNamespaces: {{include: [a], exclude: [b]}}"), "evictableNamespaces: include and "
            "exclude: expected one of them"),
        (text(f"{TOP}, anomalyCondition: {{timeout: 5}}"), "anomalyCondition.timeout"),
        (text(migration="skipEvictionGates: [Everything]"), "skipEvictionGates[0]: Everything: expected "
            "MaxUnavailablePerWorkload or"),
        (text(migration="maxMigratingPerWorkload: many"), "maxMigratingPerWorkload: many: expected a number, or a "
            "percentage"),
        (text(migration="priorityThreshold: {name: high}"), "priorityThreshold.name: high: expected value"),
        (text(balance="[{name: LowNodeUtilization}]"), "balance.enabled[0].name: LowNodeUtilization: expected "
            "LowNodeLoad or RemovePodsViolatingTopologySpreadConstraint or HighNodeUtilization or Defragmentation"),
        (text(balance="[{name: HighNodeUtilization}]"), "HighNodeUtilization.thresholds: {}: expected percentages of "
            "requests"),
        (text(balance="[]"), "f: profiles: 0 of 1 enable a plugin that moves pods"),
        (text(head="maxNoOfPodsToEvictTotal: -2"), "maxNoOfPodsToEvictTotal: -2: expected 0 or more"),
        (b"kind: Pod", "f: kind: Pod: expected DeschedulerConfiguration"),
        (b"[", "f: "),
    ],
)  # fmt: skip
def test_errors_name_the_field(given: bytes, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_settings(given, "f")
    assert said in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--config"):
        read_settings(tmp_path / "absent.yaml")


def test_how_moves_are_carried_out() -> None:
    given = text(
        migration="defaultJobMode: EvictDirectly, defaultJobTTL: 10m, evictQPS: '2.5', evictBurst: 3, evictionPolicy: "
        "Delete, maxEvictionsPerMinute: 0, "
        "defaultDeleteOptions: {gracePeriodSeconds: 7}, schedulerNames: [x], "
        "objectLimiters: {workload: {duration: 1m, maxMigrating: 2, burst: 4}, namespace: {duration: 1m}}",
        head="dryRun: false\ndeschedulingInterval: 30s\n",
    )
    acting = parse_settings(given, "f").acting
    assert (acting.acts, acting.interval_s, acting.mode, acting.ttl_s) == (True, 30.0, JobMode.EVICT_DIRECTLY, 600.0)
    assert (acting.evictions_per_s, acting.burst, acting.grace_s) == (2.5, 3, 7)
    assert acting.migration.policy is EvictPolicy.DELETE
    assert acting.migration.per_minute == 0
    assert acting.migration.per_workload == ObjectLimit(60.0, ReplicaShare(2), 4)
    assert acting.ignored == ("MigrationController.objectLimiters.namespace", "MigrationController.schedulerNames")


def test_a_new_installation_is_a_dry_run_and_either_dry_run_counts() -> None:
    assert parse_settings(text(), "f").acting == ActingSettings()
    assert ActingSettings().acts is None
    assert parse_settings(text(migration="dryRun: true", head="dryRun: false\n"), "f").acting.acts is False


@pytest.mark.parametrize(
    ("migration", "said"),
    [
        ("defaultJobMode: Never", "defaultJobMode"),
        ("evictionPolicy: Never", "evictionPolicy"),
        ("evictQPS: fast", "evictQPS"),
        ("evictQPS: 0", "evictQPS"),
        ("evictBurst: 0", "evictBurst"),
        ("defaultJobTTL: soon", "defaultJobTTL"),
        ("maxEvictionsPerMinute: -1", "maxEvictionsPerMinute"),
        ("defaultDeleteOptions: {gracePeriodSeconds: -1}", "gracePeriodSeconds"),
        ("objectLimiters: {workload: 3}", "objectLimiters.workload"),
        ("objectLimiters: {workload: {durations: 1m}}", "objectLimiters.workload.durations"),
    ],
)
def test_errors_in_how_moves_are_carried_out(migration: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        parse_settings(text(migration=migration), "f")


KINDS = """
profiles:
- plugins:
    deschedule:
      enabled:
      - {name: RemovePodsViolatingNodeAffinity}
      - {name: RemovePodsViolatingNodeTaints}
      - {name: RemovePodsViolatingInterPodAntiAffinity}
      - {name: MissedObjectives}
    balance:
      enabled:
      - {name: RemovePodsViolatingTopologySpreadConstraint}
      - {name: Defragmentation}
      - {name: HighNodeUtilization}
  pluginConfig:
  - name: RemovePodsViolatingNodeTaints
    args: {excludedTaints: [dedicated, team=x], namespaces: {exclude: [kube-system]}}
  - {name: RemovePodsViolatingInterPodAntiAffinity, args: {labelSelector: {matchLabels: {app: web}}}}
  - {name: HighNodeUtilization, args: {thresholds: {cpu: 20}, numberOfNodes: 1, evictableNamespaces: {exclude: [a]}}}
  - {name: Defragmentation, args: {waitsSeconds: 30, maxPodsMoved: 2}}
  - {name: MissedObjectives, args: {windows: 5, minGain: 0.3, maxPercentPerHour: 0.2}}
"""


def test_the_other_kinds_of_moves() -> None:
    settings = parse_settings(KINDS.encode(), "f")
    kinds = settings.kinds
    assert settings.pools == ()
    assert set(kinds.repairs) == set(ViolationRule)
    assert kinds.repairs[ViolationRule.NODE_TAINTS].exclude == ("kube-system",)
    assert kinds.excluded_taints == ("dedicated", "team=x")
    selector = kinds.repairs[ViolationRule.ANTI_AFFINITY].selector
    assert selector is not None
    assert selector.matches(Labels.of({"app": "web"}))
    assert kinds.packing == Packing({"cpu": 20}, 1, scope=PodScope(exclude=("a",)))
    assert kinds.defragmentation == Defragmentation(30.0, 2)
    assert kinds.objectives is not None
    assert (kinds.objectives.misses.windows, kinds.objectives.misses.min_gain) == (5.0, 0.3)
    assert kinds.objectives.hour_share == 0.002
    assert not parse_settings(text(), "f").kinds


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("windows: 5", "windows: 0", "pluginConfig[4].args.windows: 0: expected 1 or more"),
        ("waitsSeconds: 30", "waitsSeconds: -1", "waitsSeconds: -1.0: expected 0 or more seconds"),
        ("thresholds: {cpu: 20}", "thresholds: {cpu: 120}", "thresholds.cpu: 120"),
        ("excludedTaints: [dedicated, team=x]", "includePreferNoSchedule: true", "includePreferNoSchedule: True: "
            "expected false"),
        ("maxPercentPerHour: 0.2", "maxPercentPerHour: 0", "maxPercentPerHour: 0.0: expected more than 0, at most 100 "
            "percent"),
        ("maxPodsMoved", "maxPodMoved", "did you mean maxPodsMoved?"),
        ("{name: MissedObjectives}", "{name: PodLifeTime}", "deschedule.enabled[3].name: PodLifeTime: expected "
            "RemovePodsViolatingNodeAffinity or"),
    ],
)  # fmt: skip
def test_errors_of_the_other_kinds(before: str, after: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_settings(KINDS.replace(before, after, 1).encode(), "f")
    assert words in str(caught.value)
