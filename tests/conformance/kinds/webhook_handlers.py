"""Kinds of the webhook's handlers: which requests they judge, and what is not an object."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

from cotenant.model.cluster.colocation_profile import ColocationProfile
from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.groups.quota import Quota
from cotenant.services.webhook.facts import Facts
from cotenant.services.webhook.review import Outcome, ResourceName, ReviewRequest
from cotenant.services.webhook.reviewer import Reviewer, Rules


async def _no_pods(quota: Quota) -> bool:
    return False


def _asked(facts: Facts, path: str, request: ReviewRequest) -> Outcome:
    return asyncio.run(Reviewer(facts, Rules(), _no_pods, Random(0)).review(path, request))


def _compared(case: Any, outcome: Outcome) -> Iterator[tuple[str, Any, Any]]:
    yield "allowed", case.expect["allowed"], outcome.is_allowed
    if "code" in case.expect:
        yield "code", case.expect["code"], outcome.code


def pod_handler(case: Any) -> Iterator[tuple[str, Any, Any]]:
    facts = Facts(lambda: 0.0)
    for each in case.given["profiles"]:
        spec = each["spec"]
        labels = tuple(sorted(spec["labels"].items()))
        facts.profile_seen(
            ColocationProfile(each["name"], pods=LabelSelector.of(spec["selector"]["match_labels"]), labels=labels)
        )
    request = ReviewRequest(
        "u",
        operation=case.given["operation"].upper(),
        resource=ResourceName("", "v1", case.given["resource"]),
        object=case.given.get("object"),
    )
    yield from _compared(case, _asked(facts, "/mutate-pod", request))


def quota_handler(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given.get("object")
    request = ReviewRequest(
        "u",
        operation=case.given["operation"].upper(),
        resource=ResourceName("scheduling.sigs.k8s.io", "v1alpha1", case.given["resource"]),
        sub_resource=case.given.get("subresource"),
        object=given and {"metadata": given},
    )
    path = "/mutate-quota" if case.given["webhook"] == "mutating" else "/validate-quota"
    yield from _compared(case, _asked(Facts(lambda: 0.0), path, request))


KINDS = {"pod_handler": pod_handler, "quota_handler": quota_handler}
