"""A webhook that is a pod of the cluster must not stand in the way of its own start; one reached by a URL is none."""

from __future__ import annotations

import pytest

from cotenant.drivers.http.address import Address
from cotenant.services.webhook.webhook_process import WebhookSettings, judged_rules


@pytest.mark.parametrize(
    ("settings", "host", "exempt"),
    [
        (WebhookSettings(), "0.0.0.0", True),
        (WebhookSettings(), "127.0.0.1", True),  # not registered by itself: who registers it names the Service
        (WebhookSettings(register=True), "0.0.0.0", True),
        (WebhookSettings(register=True), "127.0.0.1", False),
        (WebhookSettings(url="https://host:9443"), "0.0.0.0", False),
    ],
)
def test_its_own_namespace_is_exempt_where_it_is_reached_by_its_service(
    settings: WebhookSettings, host: str, exempt: bool
) -> None:
    before = settings.rules.exempt
    rules = judged_rules(settings, "webhooks", Address(host, 9443))
    assert rules.exempt == (before | {"webhooks"} if exempt else before)
