"""The file of `cotenant rebalancer --config`: what is read, and that errors name field, value and what is expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.model.cluster.labels import Labels
from cotenant.model.errors import InvalidInput
from cotenant.policy.rebalance.loads.detector import AnomalyCondition
from cotenant.policy.rebalance.migration.evictable import Gate
from cotenant.policy.rebalance.migration.workload_limits import Share
from cotenant.services.rebalancer.configuration import parse_settings, read_settings

EXAMPLE = Path(__file__).parents[4] / "deploy" / "rebalancer" / "descheduler.yaml"
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
    assert settings.pools[0].percentages.high == {"cpu": 65.0, "memory": 85.0}


def test_everything_that_is_applied() -> None:
    settings = parse_settings(
        text(
            "lowThresholds: {cpu: 30}, highThresholds: {cpu: 60}, numberOfNodes: 2, nodeMetricExpirationSeconds: 300, nodeFit: false, "
            "evictableNamespaces: {exclude: [kube-system]}, podSelectors: [{selector: {matchLabels: {app: a}}}], "
            "anomalyCondition: {consecutiveAbnormalities: 2, timeout: 90s}, resourceWeights: {cpu: 2}, "
            "nodePools: [{name: big, nodeSelector: {matchLabels: {size: big}}, highThresholds: {cpu: 80}}]",
            "evictLocalStoragePods: true, priorityThreshold: {value: 9000}, maxMigratingPerWorkload: '20%', maxUnavailablePerWorkload: 2, "
            "maxMigratingGlobally: 5, maxMigratingPerNode: 1, skipEvictionGates: [PVC], labelSelector: {matchExpressions: [{key: x, operator: Exists}]}",
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
    assert (settings.filter.max_moving, settings.filter.max_unavailable) == (Share(20, True), Share(2))
    assert settings.filter.skip == {Gate.PVC}
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
        (text("lowThresholds: {cpu: 70}, highThresholds: {cpu: 65}"), "args.lowThresholds.cpu: 70.0: expected at most highThresholds.cpu, 65"),
        (text("lowThresholds: {cpu: -1}, highThresholds: {cpu: 65}"), "lowThresholds.cpu: -1.0: expected 0 to 100 percent"),
        (text("highThresholds: {cpu: 165}"), "highThresholds.cpu: 165.0: expected 0 to 100 percent"),
        (text("lowThresholds: {cpu: 5}"), "lowThresholds.cpu: 5.0: expected highThresholds.cpu too"),
        (text("lowTresholds: {cpu: 5}"), "did you mean lowThresholds?"),
        (text(f"{TOP}, podSelectors: [{{selector: {{matchExpressions: [{{key: a, operator: 5}}]}}}}]"), "podSelectors[0].selector.matchExpressions[0].operator"),
        (text(f"{TOP}, podSelectors: [{{selector: {{matchExpressions: [{{key: a, operator: Inn}}]}}}}]"), "operator: Inn: expected In or"),
        (text("nodePools: [{name: a}]"), "nodePools[0]: a: expected lowThresholds and highThresholds"),
        (text(f"{TOP}, nodePools: [{{name: a}}, {{name: a}}]"), "nodePools[1].name: a: expected a name, each once"),
        (text(""), "without thresholds"),
        (text(f"{TOP}, paused: true"), "paused: True: expected false"),
        (text(f"{TOP}, numberOfNodes: -1"), "numberOfNodes: -1: expected 0 or more"),
        (text(f"{TOP}, evictableNamespaces: {{include: [a], exclude: [b]}}"), "evictableNamespaces: include and exclude: expected one of them"),
        (text(f"{TOP}, anomalyCondition: {{timeout: 5}}"), "anomalyCondition.timeout"),
        (text(migration="skipEvictionGates: [Everything]"), "skipEvictionGates[0]: Everything: expected MaxUnavailablePerWorkload or"),
        (text(migration="maxMigratingPerWorkload: many"), "maxMigratingPerWorkload: many: expected a number, or a percentage"),
        (text(migration="priorityThreshold: {name: high}"), "priorityThreshold.name: high: expected value"),
        (text(balance="[{name: HighNodeUtilization}]"), "balance.enabled[0].name: HighNodeUtilization: expected LowNodeLoad: no other plugin is built"),
        (text(balance="[]"), "f: profiles: 0 of 1 enable LowNodeLoad"),
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
