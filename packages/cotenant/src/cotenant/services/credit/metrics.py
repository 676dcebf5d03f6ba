"""Metrics of the credit process, read when a scrape asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from cotenant.drivers.metrics.registry import MetricsRegistry, Sample
from cotenant.policy.credit.entries import account_of
from cotenant.services.credit.booking import Booking


def register(
    registry: MetricsRegistry, booking: Booking, incidents: Mapping[str, int], *, leads: Callable[[], bool]
) -> None:
    """Add the metrics."""

    def balances() -> Iterator[Sample]:
        for name in booking.accounts.tenants():
            yield (name,), booking.accounts.balances[account_of(name)] / 1000.0

    def standings() -> Iterator[Sample]:
        for name in booking.accounts.tenants():
            yield (name,), booking.accounts.standing_of(name) / 1000.0

    gauge, counter = GaugeMetricFamily, CounterMetricFamily
    registry.read(gauge, "cotenant_credit_leading", "1 while this replica leads.", (), lambda: [((), float(leads()))])
    registry.read(gauge, "cotenant_credit_balance", "Credits by tenant, in core-hours.", ("tenant",), balances)
    registry.read(gauge, "cotenant_credit_standing", "Standing by tenant, -1 to 1.", ("tenant",), standings)
    registry.read(
        counter,
        "cotenant_credit_postings",
        "Postings stored by this replica.",
        (),
        lambda: [((), float(booking.postings))],
    )
    registry.read(
        counter,
        "cotenant_credit_store_failures",
        "Loads and postings that failed.",
        (),
        lambda: [((), float(booking.failures))],
    )
    registry.read(
        counter,
        "cotenant_credit_incidents",
        "Reports of interference by outcome: booked, reversed, nothing to book, refused, failed (to be sent again).",
        ("outcome",),
        lambda: [((outcome,), float(count)) for outcome, count in incidents.items()],
    )
