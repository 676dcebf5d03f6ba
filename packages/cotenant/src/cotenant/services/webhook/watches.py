"""The webhook's watches: what reviews must know of the cluster, and the one question that is asked when it is needed.

A review may not wait for lists, and a webhook must be small. Profiles, namespaces, priority classes and quotas are
watched; pods only where quotas are limited at creation. Whether a quota has pods is asked of the API server, with a
limit of one, when a quota's change depends on it.
Limits: a profile whose patch cannot be a pod's is not used.
"""

from __future__ import annotations

from functools import partial

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.colocation_profile import (
    COLOCATION_PROFILES,
    ColocationProfileObject,
    read_colocation_profile,
)
from cotenant.drivers.kube.kinds.custom.elastic_quota import ELASTIC_QUOTAS, X_ELASTIC_QUOTAS, x_key
from cotenant.drivers.kube.kinds.namespace import NAMESPACES, read_namespace
from cotenant.drivers.kube.kinds.pod.quota_member import QUOTA_MEMBERS, QuotaMember, read_member_request
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.kube.kinds.priority_class import PRIORITY_CLASSES, read_priority_class
from cotenant.model.cluster.colocation_profile import ColocationProfile
from cotenant.model.groups.quota import NAME, Quota
from cotenant.services.kube_process.watches import ObjectHandler, Watches
from cotenant.services.reviewing.facts import QuotaCountedPod, WebhookFacts
from cotenant.services.reviewing.merging import checked_patch
from cotenant.services.reviewing.quotas import known_quota
from cotenant.services.reviewing.rules import ReviewRules

_ALIVE = "status.phase!=Succeeded,status.phase!=Failed"


def add_watches(watches: Watches, facts: WebhookFacts, rules: ReviewRules) -> None:
    """Watch what reviews need."""
    watches.handle(NAMESPACES, ObjectHandler(read_namespace, facts.namespace_seen, facts.namespace_gone))
    watches.handle(PRIORITY_CLASSES, ObjectHandler(read_priority_class, facts.class_seen, facts.class_gone))
    watches.handle(COLOCATION_PROFILES, ObjectHandler(_profile, facts.profile_seen, facts.profile_gone), optional=True)
    for kind, is_x in ((ELASTIC_QUOTAS, False), (X_ELASTIC_QUOTAS, True)):
        gone = (lambda key: facts.quota_gone(x_key(key))) if is_x else facts.quota_gone
        watches.handle(kind, ObjectHandler(partial(known_quota, is_x=is_x), facts.quota_seen, gone), optional=True)
    if rules.limits_quotas:
        uids: dict[str, str] = {}

        def seen(pod: tuple[str, QuotaCountedPod]) -> None:
            uids[pod[0]] = pod[1].uid
            facts.member_seen(pod[1])

        def gone_pod(key: str) -> None:
            facts.member_gone(uids.pop(key, ""))

        watches.handle(QUOTA_MEMBERS, ObjectHandler(_member, seen, gone_pod), field_selector=_ALIVE)


async def node_of(client: Client, namespace: str, name: str) -> str | None:
    """The node of a pod; "" = not bound, None = no such pod. Raises `CotenantError`."""
    try:
        pod = await client.get(PODS, namespace, name)
    except NotFound:
        return None
    return (pod.spec.node_name if pod.spec is not None else None) or ""


async def has_pods(client: Client, quota: Quota) -> bool:
    """Whether any pod belongs to a quota, by its label or its namespace. Raises `CotenantError`."""
    if await client.has_any(PODS, "", labels=f"{NAME}={quota.name}", fields=_ALIVE):
        return True
    for namespace in (quota.name, *quota.namespaces):
        if await client.has_any(PODS, namespace, labels=f"!{NAME}", fields=_ALIVE):
            return True
    return False


def _profile(obj: ColocationProfileObject) -> ColocationProfile:
    profile = read_colocation_profile(obj)
    if profile.patch:
        checked_patch(profile.patch)
    return profile


def _member(pod: QuotaMember) -> tuple[str, QuotaCountedPod]:
    meta = pod.metadata
    label = (meta.labels or {}).get(NAME, "")
    namespace = meta.namespace or ""
    return f"{namespace}/{meta.name}", QuotaCountedPod(meta.uid or "", namespace, label, read_member_request(pod))
