"""What a cluster learned of use, for tests that change a part of it."""

from __future__ import annotations

from cotenant.model.prediction.shared_use import PPM, QUANTILE_SHARES, HorizonEvidence, UseEvidence


def horizon_evidence(
    hours: int = 1,
    forecasts: int = 500,
    carry_ppm: int = PPM // 2,
    excess_ppm: int = 20_000,
    error_ppm: int = 10_000,
    size_ppm: int = 15_000,
    quantiles_ppm: tuple[int, ...] = tuple(range(-PPM, PPM * (len(QUANTILE_SHARES) - 1), PPM)),
) -> HorizonEvidence:
    """Errors of up to nine sizes."""
    return HorizonEvidence(hours, forecasts, carry_ppm, excess_ppm, error_ppm, size_ppm, quantiles_ppm)


def use_evidence(name: str = "web.cpu", hours: int = 1000, day_ppm: int = 100_000) -> UseEvidence:
    """A day of two halves, and weeks of days that are alike."""
    day = (day_ppm,) * 12 + (-day_ppm,) * 12
    return UseEvidence(name, hours, day, (0,) * 168, PPM, tuple(horizon_evidence(hours) for hours in (1, 4, 24)))
