"""Kinds of the webhook's handlers: which requests they judge, and what is not an object."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.conformance.kinds.pod_admission import read_profile
from tests.conformance.reading import one_of, plain

from cotenant.model.groups.quota import Quota
from cotenant.services.reviewing.facts import WebhookFacts
from cotenant.services.reviewing.review import ResourceName, ReviewOutcome, ReviewRequest
from cotenant.services.reviewing.reviewer import Reviewer
from cotenant.services.reviewing.rules import ReviewRules


async def _no_pods(quota: Quota) -> bool:
    return False


def _asked(facts: WebhookFacts, path: str, request: ReviewRequest) -> ReviewOutcome:
    return asyncio.run(Reviewer(facts, ReviewRules(), _no_pods, Random(0)).review(path, request))


def _compared(case: Any, outcome: ReviewOutcome) -> Iterator[tuple[str, Any, Any]]:
    yield "allowed", case.expect["allowed"], outcome.is_allowed
    yield "code", case.expect["code"], outcome.code
    yield "patched", case.expect["patched"], bool(outcome.patch)


def _request(given: Any, group: str, version: str, is_metadata: bool) -> ReviewRequest:
    """Objects are whole documents, or, for quotas, the metadata alone."""
    one_of(given, "operation", ("create", "update", "delete", "connect"))

    def document(written: Any) -> Any:
        raw = plain(written)
        return {"metadata": raw} if raw and is_metadata and "metadata" not in raw else raw

    return ReviewRequest(
        "u",
        operation=given["operation"].upper(),
        resource=ResourceName(group, version, given["resource"]),
        sub_resource=given["subresource"],
        namespace=given["namespace"],
        object=document(given["object"]),
        old_object=document(given["old_object"]),
    )


def pod_handler(case: Any) -> Iterator[tuple[str, Any, Any]]:
    facts = WebhookFacts(lambda: 0.0)
    for entry in case.given.get("profiles", ()):
        facts.profile_seen(read_profile(entry))
    yield from _compared(case, _asked(facts, "/mutate-pod", _request(case.given, "", "v1", False)))


def quota_handler(case: Any) -> Iterator[tuple[str, Any, Any]]:
    request = _request(case.given, "scheduling.sigs.k8s.io", "v1alpha1", True)
    is_mutating = one_of(case.given, "webhook", ("mutating", "validating")) == "mutating"
    path = "/mutate-quota" if is_mutating else "/validate-quota"
    yield from _compared(case, _asked(WebhookFacts(lambda: 0.0), path, request))


KINDS = {"pod_handler": pod_handler, "quota_handler": quota_handler}
