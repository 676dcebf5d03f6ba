"""The configurations in deploy/ are those that the webhook makes, and its own namespace is exempt in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant.model.errors import InvalidInput
from cotenant.services.reviewing.rules import ReviewRules
from cotenant.services.webhook.configurations import configurations
from cotenant.services.webhook.webhook_arguments import WebhookSettings, check

DEPLOY = Path(__file__).parents[6] / "deploy/webhook"


def test_the_manifests_are_what_the_webhook_makes() -> None:
    client = {"service": {"namespace": "cotenant-system", "name": "cotenant-webhook", "port": 443}}
    agents = "system:serviceaccount:cotenant-node:cotenant-node"
    rules = ReviewRules(exempt=frozenset({"kube-system", "cotenant-system", "cotenant-node"}), agents=agents)
    made = [configuration for _, configuration in configurations(rules, client, "")]
    assert list(yaml.safe_load_all((DEPLOY / "configuration.yaml").read_text())) == made


def test_all_webhooks_ignore_failures_and_leave_exempt_namespaces() -> None:
    rules = ReviewRules(exempt=frozenset({"kube-system", "own"}), reservations=True, amplifies_nodes=True)
    made: list[Any] = [
        webhook
        for _, configuration in configurations(rules, {"url": "https://h:1/"}, "Qg==")
        for webhook in configuration["webhooks"]
    ]
    assert len(made) == 6
    for webhook in made:
        assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Ignore", "None")
        assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", "own"]
        path = webhook["name"].partition(".")[0]
        assert webhook["clientConfig"] == {"url": f"https://h:1/{path}", "caBundle": "Qg=="}


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"listen": "x"}, "--listen"),
        ({"tls_cert": Path("c")}, "--tls-cert"),
        ({"ca_file": Path("c")}, "--ca-file"),
        ({"failure_policy": "Maybe"}, "--failure-policy"),
        ({"url": "https://h"}, "--url"),
        ({"url": "http://h", "register": True}, "--url"),
        ({"register": True, "tls_cert": Path("c"), "tls_key": Path("k")}, "--register"),
    ],
)
def test_arguments_that_do_not_fit(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        check(WebhookSettings(**settings))
    assert raised.value.field.startswith(field)
