"""The file of `--load-aware`: thresholds, percentiles, estimates and expiry, under the names that Koordinator's users
know.

A misspelt threshold that is skipped leaves nodes to be overfilled. LoadAwareSchedulingArgs as YAML or JSON, every key
checked, an unknown one refused by name; an absent key has Koordinator's default. Additions of ours: `forecast` and
`scoreWeight`.
Limits: CPU and memory only; percentiles of the score and of the filter are one block, as in Koordinator.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cotenant.model.document import read_struct
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, parse_amount
from cotenant.policy.placement.load_aware.custom import percentiles, shares
from cotenant.policy.placement.load_aware.forecast import LoadForecast
from cotenant.policy.placement.load_aware.settings import UNASKED, LoadAwareSettings

KIND = "LoadAwareSchedulingArgs"
_DEFAULT = LoadAwareSettings()


class _Forecast(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    quantile_percent: int = 95
    half_life_seconds: float = 600.0
    margin_percent: int = 0


class _File(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    filter_expired_node_metrics: bool = True
    node_metric_expiration_seconds: int = 180
    enable_schedule_when_node_metrics_expired: bool = False
    usage_thresholds: dict[str, int] | None = None
    prod_usage_thresholds: dict[str, int] | None = None
    aggregated: dict[str, object] | None = None
    score_according_prod_usage: bool = False
    estimator: str = ""
    estimated_scaling_factors: dict[str, int] | None = None
    estimated_seconds_after_pod_scheduled: float = 0.0
    resource_weights: dict[str, int] | None = None
    dominant_resource_weight: int = 0
    forecast: _Forecast | None = None
    score_weight: float = _DEFAULT.score_weight
    default_requests: dict[str, str | int] | None = None


def read_settings(path: Path) -> LoadAwareSettings:
    """The settings of a file. Raises `InvalidInput` with the option, or the file's field."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput("--load-aware", str(path), "a file that can be read", error.strerror or "") from None
    try:
        return parse_settings(text, str(path))
    except InvalidInput as error:
        raise error.of("--load-aware") from None


def parse_settings(text: bytes, where: str) -> LoadAwareSettings:
    """The settings in YAML or JSON; defaults where nothing is written. Raises `InvalidInput`."""
    given = read_struct(_File, text, where, "load-aware settings", may_be_empty=True)
    if given.kind not in ("", KIND):
        raise InvalidInput(f"{where}: kind", given.kind, KIND, "or no kind")
    if given.api_version and not given.api_version.startswith("kubescheduler.config.k8s.io/"):
        raise InvalidInput(f"{where}: apiVersion", given.api_version, "kubescheduler.config.k8s.io/..., or none")
    forecast = given.forecast
    defaults = given.default_requests or {}
    return LoadAwareSettings(
        thresholds=_DEFAULT.thresholds
        if given.usage_thresholds is None
        else shares(_known(given.usage_thresholds, f"{where}: usageThresholds"), f"{where}: usageThresholds"),
        prod_thresholds=shares(
            _known(given.prod_usage_thresholds or {}, f"{where}: prodUsageThresholds"), f"{where}: prodUsageThresholds"
        ),
        percentiles=percentiles(given.aggregated, f"{where}: aggregated"),
        forecast=None
        if forecast is None
        else LoadForecast(forecast.quantile_percent, forecast.half_life_seconds, forecast.margin_percent),
        expires_s=float(given.node_metric_expiration_seconds),
        filters_expired=given.filter_expired_node_metrics,
        schedule_when_expired=given.enable_schedule_when_node_metrics_expired,
        scaling=_pair(given.estimated_scaling_factors, _DEFAULT.scaling, f"{where}: estimatedScalingFactors"),
        unasked=Use(
            *(
                parse_amount(name, defaults[name], f"{where}: defaultRequests.{name}") if name in defaults else usual
                for name, usual in zip((CPU_NAME, MEMORY_NAME), UNASKED, strict=True)
            )
        ),
        expects_s=given.estimated_seconds_after_pod_scheduled,
        weights=_pair(
            given.resource_weights,
            (0, 0) if given.dominant_resource_weight else _DEFAULT.weights,
            f"{where}: resourceWeights",
            absent=0,
        ),
        dominant_weight=given.dominant_resource_weight,
        scores_by_prod=given.score_according_prod_usage,
        score_weight=given.score_weight,
    )


def _known(given: dict[str, int], where: str) -> dict[str, int]:
    for name in given:
        if name not in (CPU_NAME, MEMORY_NAME):
            raise InvalidInput(f"{where}.{name}", given[name], f"{CPU_NAME} and {MEMORY_NAME} only")
    return given


def _pair(
    given: dict[str, int] | None, usual: tuple[int, int], where: str, absent: int | None = None
) -> tuple[int, int]:
    """One number each of CPU and memory; `absent` for one that the mapping leaves out, None = the usual one."""
    if given is None:
        return usual
    _known(given, where)
    cpu, memory = (
        given.get(name, default if absent is None else absent)
        for name, default in zip((CPU_NAME, MEMORY_NAME), usual, strict=True)
    )
    return cpu, memory
