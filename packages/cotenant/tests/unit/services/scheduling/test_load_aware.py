"""The file of load thresholds."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import Statistic, Use
from cotenant.policy.placement.load_aware.forecast import LoadForecast
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings, LoadShares, Percentile, Percentiles
from cotenant.services.scheduling.load_aware import parse_settings, read_settings

WHOLE = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: LoadAwareSchedulingArgs
filterExpiredNodeMetrics: true
nodeMetricExpirationSeconds: 300
enableScheduleWhenNodeMetricsExpired: true
usageThresholds: {cpu: 70}
prodUsageThresholds: {cpu: 50, memory: 60}
aggregated:
  usageThresholds: {cpu: 80}
  usageAggregationType: p95
  usageAggregatedDuration: 5m
  scoreAggregationType: p50
scoreAccordingProdUsage: true
estimatedScalingFactors: {cpu: 80, memory: 60}
estimatedSecondsAfterPodScheduled: 30
resourceWeights: {cpu: 2}
dominantResourceWeight: 3
scoreWeight: 0.5
defaultRequests: {cpu: 100m}
"""


def test_an_empty_file_is_the_defaults() -> None:
    assert parse_settings(b"", "f") == LoadAwareSettings()
    assert parse_settings(b"{}", "f") == LoadAwareSettings()


def test_every_key() -> None:
    assert parse_settings(WHOLE, "f") == LoadAwareSettings(
        thresholds=LoadShares(70, 0),
        prod_thresholds=LoadShares(50, 60),
        percentiles=Percentiles(LoadShares(80, 0), Percentile(Statistic.P95, 300), Percentile(Statistic.P50, 0)),
        expires_s=300.0,
        schedule_when_expired=True,
        scaling=(80, 60),
        unasked=Use(100, 200 << 20),
        expects_s=30.0,
        weights=(2, 0),
        dominant_weight=3,
        scores_by_prod=True,
        score_weight=0.5,
    )


def test_a_forecast() -> None:
    found = parse_settings(b"forecast: {quantilePercent: 90, halfLifeSeconds: 300, marginPercent: 5}", "f")
    assert found.forecast == LoadForecast(90, 300.0, 5)


def test_a_dominant_weight_alone_leaves_no_others() -> None:
    assert parse_settings(b"dominantResourceWeight: 1", "f").weights == (0, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"usageTresholds: {cpu: 70}", "usageTresholds"),
        (b"usageThresholds: {cpu: 170}", "threshold of cpu"),
        (b"usageThresholds: {gpu: 70}", "usageThresholds.gpu"),
        (b"estimatedScalingFactors: {disk: 70}", "estimatedScalingFactors.disk"),
        (b"aggregated: {usageThresholds: {cpu: 60}}", "usageAggregationType"),
        (b"aggregated: {usageAggregationType: p42}", "p42"),
        (b"aggregated: {scoreAggregationType: p50, scoreAggregatedDuration: soon}", "soon"),
        (b"forecast: {quantilePercent: 0}", "quantile"),
        (b"forecast: {}\naggregated: {usageThresholds: {cpu: 60}, usageAggregationType: p95}", "forecast"),
        (b"nodeMetricExpirationSeconds: -1", "expires_s"),
        (b"scoreWeight: .inf", "score_weight"),
        (b"kind: DeschedulerConfiguration", "expected LoadAwareSchedulingArgs"),
        (b"apiVersion: v1", "apiVersion"),
        (b"- a list", "load-aware"),
        (b"{", "load-aware"),
    ],
)
def test_errors_name_the_field(text: bytes, said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        parse_settings(text, "f")
    assert said in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as error:
        read_settings(tmp_path / "none.yaml")
    assert error.value.field == "--load-aware"
