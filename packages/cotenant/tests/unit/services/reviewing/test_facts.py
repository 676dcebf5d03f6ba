"""What the webhook knows: what is gone is forgotten, and what a review admitted counts until the watch shows it or
some seconds have passed.
"""

from __future__ import annotations

import pytest

from cotenant.model.cluster.colocation_profile import ColocationProfile, PriorityClassValue
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import NamespaceFacts
from cotenant.model.groups.quota import Quota
from cotenant.model.resources import NOTHING, Amounts
from cotenant.services.reviewing.facts import PROVISIONAL_S, KnownQuota, QuotaCountedPod, WebhookFacts


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def facts(clock: Clock) -> WebhookFacts:
    return WebhookFacts(clock)


def cpu(milli: int) -> Amounts:
    return Amounts.of({"cpu": milli})


def known(name: str, namespace: str = "quotas", most: int = 1000, **more: object) -> KnownQuota:
    return KnownQuota(f"{namespace}/{name}", Quota(name, cpu(most), **more))  # type: ignore[arg-type]


def test_classes_profiles_and_namespaces_are_as_they_were_seen_last_and_gone_when_they_are(facts: WebhookFacts) -> None:
    facts.class_seen(PriorityClassValue("c", 1, ""))
    facts.class_seen(PriorityClassValue("c", 2, ""))
    facts.profile_seen(ColocationProfile("p"))
    facts.namespace_seen(NamespaceFacts("n", Labels.of({"team": "a"})))
    assert facts.classes == {"c": PriorityClassValue("c", 2, "")}
    assert set(facts.profiles) == {"p"}
    assert facts.namespace_labels("n") == Labels.of({"team": "a"})
    for _ in range(2):  # a deletion may be delivered twice
        facts.class_gone("c")
        facts.profile_gone("p")
        facts.namespace_gone("n")
    assert (facts.classes, facts.profiles, facts.namespace_labels("n")) == ({}, {}, None)


def test_a_quota_that_was_admitted_counts_until_it_is_seen_or_its_time_is_over(
    facts: WebhookFacts, clock: Clock
) -> None:
    facts.quota_admitted(known("a", most=1))
    assert facts.quotas_by_name()["a"].maximum == cpu(1)
    clock.now_s = PROVISIONAL_S
    assert set(facts.quotas_by_name()) == {"a"}
    clock.now_s += 0.1
    assert (facts.quotas_by_name(), facts.known_quota("a"), facts.home_of("a")) == ({}, None, "")


def test_the_watch_has_the_last_word_on_a_quota(facts: WebhookFacts, clock: Clock) -> None:
    facts.quota_seen(known("a", most=1))
    facts.quota_admitted(known("a", most=2))
    assert facts.quotas_by_name()["a"].maximum == cpu(2)
    facts.quota_seen(known("a", most=3))
    assert facts.quotas_by_name()["a"].maximum == cpu(3)
    facts.quota_admitted(known("a", most=4))
    facts.quota_gone("quotas/a")
    assert (facts.quotas(), facts.quotas_by_name()) == ({}, {})


def test_a_quota_admitted_over_a_stored_one_gives_way_to_it_after_its_time(facts: WebhookFacts, clock: Clock) -> None:
    facts.quota_seen(known("a", most=1))
    facts.quota_admitted(known("a", most=2))
    assert facts.quotas_by_name()["a"].maximum == cpu(2)
    clock.now_s = PROVISIONAL_S + 1
    assert facts.quotas_by_name()["a"].maximum == cpu(1)


def test_of_two_quotas_with_one_name_the_first_by_key_counts(facts: WebhookFacts) -> None:
    facts.quota_seen(known("a", "z", most=2))
    facts.quota_seen(known("a", "b", most=1))
    assert facts.quotas_by_name()["a"].maximum == cpu(1)
    assert (facts.home_of("a"), facts.home_of("none")) == ("b", "")
    facts.quota_gone("b/a")
    assert facts.home_of("a") == "z"


def member(uid: str, milli: int, label: str = "a", namespace: str = "n") -> QuotaCountedPod:
    return QuotaCountedPod(uid, namespace, label, cpu(milli))


def test_what_a_quota_requests_is_the_sum_of_its_pods(facts: WebhookFacts) -> None:
    facts.quota_seen(known("a"))
    facts.quota_seen(known("b", namespaces=("home",)))
    facts.member_seen(member("1", 100))
    facts.member_seen(member("2", 20))
    facts.member_seen(member("3", 5000, "b"))
    facts.member_seen(member("4", 7, "", "home"))  # by its namespace
    assert (facts.requested("a"), facts.requested("b")) == (cpu(120), cpu(5007))
    assert (facts.requested("a", but="2"), facts.requested("a", but="3")) == (cpu(100), cpu(120))
    facts.member_seen(member("1", 300))
    assert facts.requested("a") == cpu(320)
    facts.member_seen(member("1", 300, "b"))
    assert (facts.requested("a"), facts.requested("b")) == (cpu(20), cpu(5307))
    for _ in range(2):
        facts.member_gone("2")
    assert facts.requested("a").get("cpu") == 0
    assert facts.requested("ghost") == NOTHING


def test_a_pod_that_was_admitted_counts_once_until_it_is_seen_or_gone_or_its_time_is_over(
    facts: WebhookFacts, clock: Clock
) -> None:
    facts.quota_seen(known("a"))
    facts.member_admitted(member("1", 100))
    assert (facts.requested("a"), facts.requested("a", but="1")) == (cpu(100), NOTHING)
    facts.member_seen(member("1", 100))
    assert facts.requested("a") == cpu(100)
    facts.member_admitted(member("1", 100))  # an update of a stored pod
    assert facts.requested("a") == cpu(100)
    facts.member_admitted(member("2", 20))
    facts.member_admitted(member("3", 3, "b"))
    facts.member_gone("2")
    assert facts.requested("a") == cpu(100)
    facts.member_admitted(member("4", 4))
    clock.now_s = PROVISIONAL_S
    assert facts.requested("a") == cpu(104)
    clock.now_s += 0.1
    assert facts.requested("a") == cpu(100)
