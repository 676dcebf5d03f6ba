"""What is watched for reviews, what reaches them, and when it is gone."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.servers.told_watches import ToldWatches

from cotenant.drivers.kube.kinds.custom.colocation_profile import COLOCATION_PROFILES
from cotenant.drivers.kube.kinds.custom.elastic_quota import ELASTIC_QUOTAS, X_ELASTIC_QUOTAS
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.namespace import NAMESPACES
from cotenant.drivers.kube.kinds.pod.quota_member import QUOTA_MEMBERS
from cotenant.drivers.kube.kinds.priority_class import PRIORITY_CLASSES
from cotenant.model.groups.quota import NAME
from cotenant.model.resources import Amounts
from cotenant.services.reviewing.facts import WebhookFacts
from cotenant.services.reviewing.rules import ReviewRules
from cotenant.services.webhook.watches import add_watches


def told(**rules: Any) -> tuple[ToldWatches, WebhookFacts]:
    watches, facts = ToldWatches(), WebhookFacts(lambda: 0.0)
    add_watches(watches, facts, ReviewRules(**rules))
    return watches, facts


def pod(name: str, cpu: str) -> dict[str, Any]:
    requests = {"resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"namespace": "n", "name": name, "uid": f"u-{name}", "labels": {NAME: "q"}},
        "spec": {"containers": [{"name": "c", **requests}]},
    }


@pytest.mark.parametrize(
    ("kind", "document", "key", "known"),
    [
        (PRIORITY_CLASSES, {"metadata": {"name": "c"}, "value": 5}, "c", lambda facts: facts.classes),
        (COLOCATION_PROFILES, {"metadata": {"name": "p"}, "spec": {}}, "p", lambda facts: facts.profiles),
        (NAMESPACES, {"metadata": {"name": "n"}}, "n", lambda facts: facts.namespace_labels("n") is not None),
        (
            ELASTIC_QUOTAS,
            {"metadata": {"namespace": "n", "name": "q"}, "spec": {"max": {"cpu": "1"}}},
            "n/q",
            lambda facts: facts.quotas_by_name(),
        ),
        (
            X_ELASTIC_QUOTAS,
            {"metadata": {"namespace": "n", "name": "q"}, "spec": {"max": {"cpu": "1"}}},
            "n/q",
            lambda facts: facts.quotas(),
        ),
    ],
    ids=["priority class", "profile", "namespace", "quota", "quota of scheduler-plugins"],
)
def test_an_object_is_known_while_it_is_there(kind: Kind[Any], document: Any, key: str, known: Any) -> None:
    watches, facts = told()
    assert not known(facts)
    watches.seen(kind, document)
    assert known(facts)
    watches.gone(kind, key)
    assert not known(facts)


def test_pods_are_watched_only_where_quotas_are_limited_and_only_those_that_have_not_ended() -> None:
    assert QUOTA_MEMBERS.name not in told()[0].selectors
    watches, facts = told(limits_quotas=True)
    assert watches.selectors[QUOTA_MEMBERS.name] == ("", "status.phase!=Succeeded,status.phase!=Failed")
    watches.seen(ELASTIC_QUOTAS, {"metadata": {"namespace": "n", "name": "q"}, "spec": {"max": {"cpu": "9"}}})
    watches.seen(QUOTA_MEMBERS, pod("a", "2"))
    watches.seen(QUOTA_MEMBERS, pod("b", "1"))
    assert facts.requested("q") == Amounts.of({"cpu": 3000})
    watches.gone(QUOTA_MEMBERS, "n/a")
    assert facts.requested("q") == Amounts.of({"cpu": 1000})
