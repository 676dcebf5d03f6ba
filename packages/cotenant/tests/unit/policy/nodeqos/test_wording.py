"""How amounts read."""

from __future__ import annotations

import pytest

from cotenant.policy.nodeqos.wording import cpu, percent, rate, seconds, size


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (cpu(3200), "3.2 CPU"),
        (cpu(10_000), "10 CPU"),
        (cpu(1), "0.001 CPU"),
        (cpu(-500), "-0.5 CPU"),
        (size(999), "999 B"),
        (size(25_200_000_000), "25.2 GB"),
        (size(-1_500), "-1.5 kB"),
        (size(3 * 10**12), "3.0 TB"),
        (rate(750_000_000), "750.0 Mbit/s"),
        (rate(8), "8 bit/s"),
        (percent(95_000), "9.5 %"),
        (seconds(1_500_000), "1.5 s"),
    ],
)
def test_amounts(written: str, wanted: str) -> None:
    assert written == wanted
