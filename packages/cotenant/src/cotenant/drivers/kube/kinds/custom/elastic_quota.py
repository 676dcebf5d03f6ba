"""ElasticQuota, with the labels and annotations that Koordinator's users write, as the model's values, and what is
written back.

Half of a quota is text in labels and annotations written by people, and one that cannot be read must neither count as
another nor be ignored: its pods would be unlimited. Whatever cannot be read becomes a sentence, and the quota is known
and not used. A maximum beyond what an amount may be (upstream's defaults are the largest integer, divided) is no limit.
What schedulers write as results is not read.
Limits: two requests for a status whose annotations and `used` both changed: a server ignores the one where the other is
written.

An ElasticQuota of scheduling.x-k8s.io (scheduler-plugins since 0.24) without Koordinator's labels is that of its
namespace, and has its name: scheduler-plugins knows no others. Its key ends with the API group, since both groups may
have a quota of one name.

Source: scheduler-plugins, apis/scheduling/v1alpha1 (ElasticQuota) and pkg/capacityscheduling; Koordinator,
apis/extension/elastic_quota.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from msgspec import field

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Quantities, Strings
from cotenant.model.errors import InvalidInput
from cotenant.model.groups import quota as names
from cotenant.model.groups.gang import SIGS_GROUP, X_GROUP
from cotenant.model.groups.quota import NO_LIMIT, Levels, Quota, QuotaObject
from cotenant.model.json_object import json_object
from cotenant.model.quantities import NANO, parse_quantity
from cotenant.model.resources import CPU_NAME, NOTHING, Amounts, format_amount, parse_amount


class QuotaAnnotations(ApiStruct, frozen=True):
    """The annotations that people write, and the standing of credit; other results are left out, so that writing
    them changes nothing that is read.
    """

    shared_weight: str | None = field(default=None, name=names.SHARED_WEIGHT)
    namespaces: str | None = field(default=None, name=names.NAMESPACES)
    total_resource: str | None = field(default=None, name=names.TOTAL_RESOURCE)
    admission: str | None = field(default=None, name=names.ADMISSION)
    standing: str | None = field(default=None, name=names.STANDING)
    federation: str | None = field(default=None, name=names.FEDERATION)


class QuotaMeta(ApiStruct, frozen=True):
    """ObjectMeta with a quota's annotations."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: Strings = None
    annotations: QuotaAnnotations | None = None


class ElasticQuotaSpec(ApiStruct, frozen=True):
    """What is owed, and what it may grow to."""

    min: Quantities = None
    max: Quantities = None


class ElasticQuota(ApiStruct, frozen=True):
    """An ElasticQuota, without its status: that is written, never read."""

    metadata: QuotaMeta = QuotaMeta()
    spec: ElasticQuotaSpec | None = None


ELASTIC_QUOTAS = Kind("ElasticQuota", SIGS_GROUP, "v1alpha1", "elasticquotas", True, ElasticQuota)
X_ELASTIC_QUOTAS = Kind("ElasticQuota", X_GROUP, "v1alpha1", "elasticquotas", True, ElasticQuota)

_OF_X_GROUP = f" ({X_GROUP})"


def x_key(key: str) -> str:
    """The engine's key of a quota of scheduling.x-k8s.io."""
    return key + _OF_X_GROUP


def place_of(key: str) -> tuple[Kind[ElasticQuota], str, str]:
    """Kind, namespace and name of the quota with this key."""
    namespace, _, name = key.removesuffix(_OF_X_GROUP).partition("/")
    return (X_ELASTIC_QUOTAS if key.endswith(_OF_X_GROUP) else ELASTIC_QUOTAS), namespace, name


def read_x_quota(obj: ElasticQuota) -> QuotaObject:
    """A quota of scheduling.x-k8s.io; what of it cannot be read is in `wrong`. `InvalidInput` only where it has no
    name.
    """
    read = read_quota(obj)
    if has_koordinator_labels(obj):
        return replace(read, key=x_key(read.key))
    return replace(read, key=x_key(read.key), quota=replace(read.quota, name=obj.metadata.namespace or "default"))


def read_quota(obj: ElasticQuota) -> QuotaObject:
    """A quota; what of it cannot be read is in `wrong`. `InvalidInput` only where it has no name."""
    meta, spec = obj.metadata, obj.spec or ElasticQuotaSpec()
    labels, written = meta.labels or {}, meta.annotations or QuotaAnnotations()
    wrong: list[str] = []
    total = _amounts_of(written.total_resource, names.TOTAL_RESOURCE, wrong)
    quota = Quota(
        name=meta.name or "",
        maximum=_maximum(spec.max or {}, "spec.max", wrong),
        minimum=_amounts(spec.min or {}, "spec.min", wrong),
        parent=labels.get(names.PARENT) or names.ROOT_QUOTA,
        is_parent=labels.get(names.IS_PARENT) == "true",
        shared_weight=_amounts_of(written.shared_weight, names.SHARED_WEIGHT, wrong) or NOTHING,
        lends=labels.get(names.ALLOW_LENT_RESOURCE) != "false",
        tree_id=labels.get(names.TREE_ID) or "",
        is_tree_root=labels.get(names.IS_ROOT) == "true",
        allows_force_update=labels.get(names.ALLOW_FORCE_UPDATE) == "true",
        namespaces=_namespaces(written.namespaces, wrong),
    )
    return QuotaObject(
        key=f"{meta.namespace or 'default'}/{quota.name}",
        uid=meta.uid or "",
        quota=quota,
        total=total,
        keeps_out=labels.get(names.IGNORE_DEFAULT_TREE) != "true",
        wrong=tuple(wrong),
        standing=_standing(written.standing),
    )


def read_admission(obj: ElasticQuota) -> Amounts | None:
    """The limits at creation that a quota's annotation gives instead of its maximum; None where there are none.
    Raises `InvalidInput`.
    """
    wrong: list[str] = []
    text = obj.metadata.annotations.admission if obj.metadata.annotations else None
    amounts = _amounts_of(text, names.ADMISSION, wrong)
    if wrong:
        raise InvalidInput(f"annotation {names.ADMISSION}", text, "a JSON object of quantities")
    return amounts


def amounts_of_weight(text: str) -> Amounts | None:
    """The amounts of a weight's text; None where not all of it can be read."""
    wrong: list[str] = []
    amounts = _amounts_of(text, names.SHARED_WEIGHT, wrong)
    return None if wrong else amounts


def weight_text(amounts: Amounts) -> str:
    """A weight as the annotation has it."""
    return _text(amounts.items)


def has_koordinator_labels(obj: ElasticQuota) -> bool:
    """Whether it has a label of Koordinator's quotas; without one, a quota of scheduling.x-k8s.io is that of its
    namespace.
    """
    return any(label.startswith(names.PREFIX) for label in obj.metadata.labels or ())


def written_annotations(
    runtime: Levels,
    request: Levels,
    child_request: Levels,
    allocated: Levels | None,
    guaranteed: Levels | None,
    problem: str,
) -> dict[str, str | None]:
    """The annotations of a quota that a scheduler writes; None = there must be none."""
    return {
        names.RUNTIME: _text(runtime) if runtime else None,
        names.REQUEST: _text(request) if request else None,
        names.CHILD_REQUEST: _text(child_request) if child_request else None,
        names.ALLOCATED: _text(allocated) if allocated is not None else None,
        names.GUARANTEED: _text(guaranteed) if guaranteed is not None else None,
        names.PROBLEM: problem or None,
    }


def written_levels(levels: Levels) -> dict[str, str]:
    """Amounts as quantities."""
    return {resource: format_amount(resource, amount) for resource, amount in levels}


def _standing(text: str | None) -> int:
    try:
        return max(-1000, min(1000, int(text or "0")))
    except ValueError:
        return 0


def _text(levels: Levels) -> str:
    return json.dumps(written_levels(levels), separators=(",", ":"))


def _amounts(written: Mapping[str, str | int | float], where: str, wrong: list[str]) -> Amounts:
    found = {}
    for name, text in written.items():
        try:
            found[name] = parse_amount(name, text, f"{where}.{name}")
        except InvalidInput as error:
            wrong.append(str(error))
    return Amounts.of(found)


def _maximum(written: Mapping[str, str | int | float], where: str, wrong: list[str]) -> Amounts:
    bounded: dict[str, str | int | float] = {}
    beyond: list[str] = []
    for name, text in written.items():
        try:
            nano = parse_quantity(text, f"{where}.{name}").nano
        except InvalidInput as error:
            wrong.append(str(error))
            continue
        amount = nano * 1000 // NANO if name == CPU_NAME else nano // NANO
        if amount >= NO_LIMIT:
            beyond.append(name)
        else:
            bounded[name] = text
    return _amounts(bounded, where, wrong).replaced(Amounts.of(dict.fromkeys(beyond, NO_LIMIT)))


def _amounts_of(text: str | None, annotation: str, wrong: list[str]) -> Amounts | None:
    if not text:
        return None
    where, expected = f"annotation {annotation}", 'a JSON object of quantities such as {"cpu":"40","memory":"80Gi"}'
    try:
        parsed = json_object(where, text, expected)
    except InvalidInput as error:
        wrong.append(str(error))
        return None
    good = {name: amount for name, amount in parsed.items() if isinstance(amount, str | int | float)}
    if len(good) < len(parsed):
        wrong.append(str(InvalidInput(where, text, expected)))
    return _maximum(good, where, wrong)


def _namespaces(text: str | None, wrong: list[str]) -> tuple[str, ...]:
    if not text:
        return ()
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, list) or not all(isinstance(entry, str) and entry for entry in parsed):
        wrong.append(str(InvalidInput(f"annotation {names.NAMESPACES}", text, 'a JSON list such as ["team-a"]')))
        return ()
    return tuple(dict.fromkeys(parsed))
