"""Reviews of ElasticQuotas: what a new or changed quota becomes, and which rules of its tree it breaks.

One inconsistent quota makes the shares of its whole tree wrong, and quotas are written one by one. Defaults are written
into the document (parent, tree, one weight for each resource of the maximum), then the rules of
policy/quota/admission.py judge the quota among the others. A quota of scheduling.x-k8s.io without Koordinator's labels
belongs to no tree: nothing is written into it, and only its own amounts are judged.
Limits: guarantees of use are not judged.

Source: Koordinator, pkg/webhook/elasticquota. Upstream writes defaults at creation only, so that a resource added to
the maximum later has no weight.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from cotenant.drivers.kube.kinds.custom.elastic_quota import (
    X_ELASTIC_QUOTAS,
    ElasticQuota,
    has_koordinator_labels,
    read_admission,
    read_quota,
    read_x_quota,
)
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import PARENT, ROOT_QUOTA, SHARED_WEIGHT, TREE_ID, Quota
from cotenant.model.json_object import JsonObject, json_object
from cotenant.policy.admission.documents import Document, annotations_of, copied, labels_of, mapping, section
from cotenant.policy.quota.admission import QuotaViolation, check, check_alone, check_delete
from cotenant.policy.quota.usable import defaulted
from cotenant.services.reviewing.facts import KnownQuota

HasPods = Callable[[Quota], Awaitable[bool]]  # whether any pod belongs to a quota


def known_quota(obj: ElasticQuota, *, is_x: bool) -> KnownQuota:
    """A quota. Raises `InvalidInput` with the first thing that cannot be read."""
    read = read_x_quota(obj) if is_x else read_quota(obj)
    if read.wrong:
        raise InvalidInput(f"ElasticQuota {read.key}", read.wrong[0], "a quota that can be read")
    return KnownQuota(read.key, read.quota, read_admission(obj))


def decoded(document: Document, namespace: str) -> ElasticQuota:
    """A document as the kind's struct. Raises `InvalidInput`."""
    try:
        found = msgspec.convert(document, ElasticQuota)
    except msgspec.ValidationError as error:
        raise InvalidInput("object", "ElasticQuota", "fields with the types of an ElasticQuota", str(error)) from None
    if found.metadata.namespace is None and namespace:
        found = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, namespace=namespace))
    return found


def is_of_tree(document: Document, group: str) -> bool:
    """Whether a quota takes part in Koordinator's trees."""
    return group != X_ELASTIC_QUOTAS.group or has_koordinator_labels(decoded(document, ""))


def default_quota(document: Document, others: Mapping[str, Quota]) -> tuple[Document, list[QuotaViolation]]:
    """The document with its defaults written in, and why it cannot have them. Raises `InvalidInput`."""
    made: Document = copied(document)
    name = str(mapping(document, "metadata").get("name") or "")
    labels = labels_of(document)
    parent = labels.get(PARENT) or ROOT_QUOTA
    written = section(section(made, "metadata"), "labels")
    written[PARENT] = parent
    if parent != ROOT_QUOTA and parent != name:
        above = others.get(parent)
        if above is None:
            return made, [QuotaViolation(name, "unknown-parent", f"there is no quota {parent}")]
        tree = (
            labels.get(TREE_ID)
            or defaulted([above, *(quota for quota in others.values() if quota is not above)])[0].tree_id
        )
        if tree:
            written[TREE_ID] = tree
    maximum = mapping(mapping(document, "spec"), "max", "spec")
    text = annotations_of(document).get(SHARED_WEIGHT)
    weights: JsonObject = json_object(f"annotation {SHARED_WEIGHT}", text) if text else {}
    aligned = {resource: weights.get(resource, amount) for resource, amount in maximum.items()}
    if aligned and aligned != weights:
        notes = section(section(made, "metadata"), "annotations")
        notes[SHARED_WEIGHT] = msgspec.json.encode(aligned, order="sorted").decode()
    return made, []


async def check_written(
    quota: Quota, old: Quota | None, others: Sequence[Quota], has_pods: HasPods
) -> tuple[QuotaViolation, ...]:
    """The rules that writing a quota breaks. `old`: what it replaces, None for a new one."""
    everything = defaulted([quota, *(other for other in others if other.name != quota.name)])
    made = everything[0]
    twins = [other for other in others if other.name == quota.name]
    before = None if old is None else defaulted([old, *everything[1:]])[0]
    if before == made:
        return ()
    holding = [
        entry.name for entry in (made, *everything[1:]) if _pods_matter(entry, made, before) and await has_pods(entry)
    ]
    return check(made, [*everything[1:], *(twins if old is None else ())], before, holding)


def check_by_itself(quota: Quota) -> tuple[QuotaViolation, ...]:
    """The rules about a quota that belongs to no tree."""
    return tuple(check_alone(quota))


async def check_deleted(quota: Quota, others: Sequence[Quota], has_pods: HasPods) -> tuple[QuotaViolation, ...]:
    """Reasons against deleting a quota."""
    return check_delete(quota, others, [quota.name] if await has_pods(quota) else ())


def _pods_matter(quota: Quota, made: Quota, old: Quota | None) -> bool:
    """Whether the rules ask if a quota has pods."""
    if quota is made:
        return made.is_parent or (old is not None and (made.is_parent, made.parent) != (old.is_parent, old.parent))
    return quota.name == made.parent and (old is None or old.parent != made.parent)
