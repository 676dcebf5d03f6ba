"""ElasticQuotaProfile, and ElasticQuota and Node as the controller of profiles reads them.

The controller compares all labels and annotations that it sets, and any resource that a profile names, where other
readers take a part. Structs of its own, read into the model's values; a node whose amounts cannot be read counts with
those that can.
Limits: of a profile, spec only; its status has no fields.
Source: Koordinator, apis/quota/v1alpha1/elastic_quota_profile_types.go.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation

from cotenant.drivers.kube.kinds.custom.elastic_quota import ElasticQuota as ReadQuota
from cotenant.drivers.kube.kinds.custom.elastic_quota import ElasticQuotaSpec, read_quota
from cotenant.drivers.kube.kinds.custom.elastic_quota import QuotaMeta as ReadMeta
from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Strings, Text
from cotenant.drivers.kube.kinds.node import NodeObject, NodeSpec, NodeStatus
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.drivers.kube.kinds.selectors import Selector, read_label_selector
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.gang import SIGS_GROUP
from cotenant.model.groups.quota import TREE_ID
from cotenant.model.groups.quota_profile import (
    RESOURCE_KEYS,
    USUAL_KEYS,
    ProfileNode,
    QuotaProfile,
    StoredQuota,
)
from cotenant.model.resources import Amounts, parse_amount

PROFILE_GROUP = "quota.koordinator.sh"


class QuotaProfileSpec(ApiStruct, frozen=True):
    """ElasticQuotaProfileSpec."""

    quota_name: Text = None
    quota_labels: Strings = None
    resource_ratio: Text = None
    node_selector: Selector | None = None


class QuotaProfileObject(ApiStruct, frozen=True):
    """quota.koordinator.sh/v1alpha1 ElasticQuotaProfile."""

    metadata: ObjectMeta = ObjectMeta()
    spec: QuotaProfileSpec | None = None


class StoredQuotaObject(ApiStruct, frozen=True):
    """ElasticQuota with all its annotations."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticQuotaSpec | None = None


QUOTA_PROFILES = Kind(
    "ElasticQuotaProfile", PROFILE_GROUP, "v1alpha1", "elasticquotaprofiles", True, QuotaProfileObject
)
STORED_QUOTAS = Kind("ElasticQuota", SIGS_GROUP, "v1alpha1", "elasticquotas", True, StoredQuotaObject)


def read_quota_profile(obj: QuotaProfileObject) -> QuotaProfile:
    """A profile; what of it cannot be read is in `wrong`."""
    meta, spec = obj.metadata, obj.spec or QuotaProfileSpec()
    wrong: list[str] = []
    selector: LabelSelector | None = None
    ratio = Decimal(1)
    keys: tuple[str, ...] = USUAL_KEYS
    try:
        selector = read_label_selector(spec.node_selector, "spec.nodeSelector")
    except InvalidInput as error:
        wrong.append(str(error))
    if not spec.quota_name:
        wrong.append(str(InvalidInput("spec.quotaName", "", "the name of a quota")))
    try:
        ratio = _ratio(spec.resource_ratio)
        keys = _keys((meta.annotations or {}).get(RESOURCE_KEYS))
    except InvalidInput as error:
        wrong.append(str(error))
    return QuotaProfile(
        key=f"{meta.namespace or 'default'}/{meta.name or ''}",
        quota_name=spec.quota_name or "",
        uid=meta.uid or "",
        tree_id=(meta.labels or {}).get(TREE_ID) or "",
        selector=selector,
        quota_labels=spec.quota_labels or {},
        ratio=ratio,
        resource_keys=keys,
        wrong=tuple(wrong),
    )


def read_stored_quota(obj: StoredQuotaObject) -> StoredQuota:
    """A quota as stored."""
    meta = obj.metadata
    read = read_quota(ReadQuota(ReadMeta(name=meta.name, namespace=meta.namespace), obj.spec))
    return StoredQuota(
        key=read.key,
        uid=meta.uid or "",
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        minimum=None if read.wrong else read.quota.minimum,
        maximum=None if read.wrong else read.quota.maximum,
    )


def read_profile_node(obj: NodeObject) -> ProfileNode:
    """A node as it counts for profiles."""
    meta, spec, status = obj.metadata, obj.spec or NodeSpec(), obj.status or NodeStatus()
    amounts = {}
    for name, text in (status.allocatable or {}).items():
        try:
            amounts[name] = parse_amount(name, text)
        except InvalidInput:
            continue
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions or ())
    return ProfileNode(
        meta.name or "", Amounts.of(amounts), Labels.of(meta.labels or {}), ready and not spec.unschedulable
    )


def _ratio(text: str | None) -> Decimal:
    if text is None or not text.strip():
        return Decimal(1)
    try:
        found = Decimal(text.strip())
    except InvalidOperation:
        found = Decimal("NaN")
    if not (found.is_finite() and 0 < found <= 1):
        raise InvalidInput("spec.resourceRatio", text, "a decimal above 0, at most 1")
    return found


def _keys(text: str | None) -> tuple[str, ...]:
    if text is None or not text.strip():
        return USUAL_KEYS
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(name, str) and name for name in found):
        raise InvalidInput(
            f"annotation {RESOURCE_KEYS}", text, 'a JSON list of resource names such as ["cpu","memory"]'
        )
    return tuple(dict.fromkeys(found))
