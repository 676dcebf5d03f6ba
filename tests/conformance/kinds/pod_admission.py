"""Kinds of pod admission: colocation profiles, the record of extended resources, reservations, validation, devices,
and a pod's quota.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.conformance.reading import no_matter, one_of, plain, switches

from cotenant.model.cluster.annotations import EXTENDED_SPEC
from cotenant.model.cluster.colocation_profile import SKIP_UPDATE_RESOURCES, ColocationProfile, PriorityClassValue
from cotenant.model.cluster.labels import PRIORITY_CLASS, QOS_CLASS, SUB_PRIORITY, Labels, LabelSelector
from cotenant.model.cluster.qos import PriorityClass, qos_of_label
from cotenant.model.groups.quota import Quota
from cotenant.model.resources import (
    CPU_NAME,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    Amounts,
    format_amount,
    kubernetes_name,
    parse_amount,
)
from cotenant.policy.admission.devices import check_devices, default_devices
from cotenant.policy.admission.documents import Document
from cotenant.policy.admission.pods import check_pod
from cotenant.policy.admission.profiles import Mutation, mutate_pod, mutate_reservation
from cotenant.policy.admission.translation import record
from cotenant.policy.overcommit.selection import read_selector
from cotenant.policy.quota.pods import check_pod_quota, exceeded, quota_of_pod, unknown
from cotenant.services.reviewing.merging import merge_pod, merge_reservation

Compared = Iterator[tuple[str, Any, Any]]

_GPU = {"gpu": GPU, "gpu.shared": GPU_SHARED, "npu-core": "huawei.com/npu-core"}
_SHORT = {kubernetes_name(name): name for name in ("batch-cpu", "batch-memory", "mid-cpu", "mid-memory")} | {
    GPU: "gpu",
    GPU_SHARED: "gpu.shared",
    GPU_CORE: "gpu-core",
    GPU_MEMORY: "gpu-memory",
    GPU_MEMORY_RATIO: "gpu-memory-ratio",
}


def _written(amounts: Mapping[str, int] | None) -> dict[str, str]:
    found = {}
    for key, amount in (amounts or {}).items():
        if amount is None:
            continue
        if key == "cpu_m":
            found[CPU_NAME] = f"{amount}m"
        elif key == "cpu_micro":
            found[CPU_NAME] = f"{amount}u"
        else:
            name = _GPU.get(key, kubernetes_name(key))
            found[name] = format_amount(name, amount)
    return found


def _read(written: Mapping[str, str]) -> dict[str, int]:
    return {
        _SHORT.get(name, "cpu_m" if name == CPU_NAME else name): parse_amount(name, text)
        for name, text in written.items()
    }


def _container(given: Mapping[str, Any]) -> Document:
    return {
        "name": given.get("name", "main"),
        "resources": {kind: _written(given[kind]) for kind in ("requests", "limits") if given[kind] is not None},
    }


_TEXTS = {
    "scheduler_name": "schedulerName",
    "priority_class_name": "priorityClassName",
    "priority": "priority",
    "preemption_policy": "preemptionPolicy",
}


def _spec(given: Mapping[str, Any]) -> Document:
    spec: Document = {key: given[name] for name, key in _TEXTS.items() if given[name] is not None}
    for name, key in (("init_containers", "initContainers"), ("containers", "containers")):
        if given[name] is not None:
            spec[key] = [_container(entry) for entry in given[name]]
    if given["overhead"] is not None:
        spec["overhead"] = _written(given["overhead"])
    return spec


def _metadata(given: Mapping[str, Any], *keys: str) -> Document:
    """Annotations may be given decoded."""
    found: Document = {key: plain(given[key]) for key in keys if given[key] is not None}
    notes = found.get("annotations", {})
    for name, value in notes.items():
        notes[name] = value if isinstance(value, str) else json.dumps(value)
    return found


def _pod(given: Mapping[str, Any]) -> Document:
    return {"metadata": _metadata(given, "namespace", "name", "labels", "annotations"), "spec": _spec(given)}


def _back(spec: Document) -> dict[str, Any]:
    found: dict[str, Any] = {name: spec[key] for name, key in _TEXTS.items() if key in spec}
    for name, key in (("init_containers", "initContainers"), ("containers", "containers")):
        if key in spec:
            found[name] = [
                {"name": entry["name"]}
                | {kind: _read(entry["resources"].get(kind) or {}) for kind in ("requests", "limits")}
                for entry in spec[key]
            ]
    if "overhead" in spec:
        found["overhead"] = _read(spec["overhead"])
    return found


def _without_absent(pod: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in pod.items() if value is not None and value != {}}


def _selector(given: Mapping[str, Any] | None) -> LabelSelector | None:
    if given is None:
        return None
    parts = {"matchLabels": plain(given["match_labels"]), "matchExpressions": plain(given["match_expressions"])}
    return read_selector(parts, "selector")


def read_profile(given: Mapping[str, Any]) -> ColocationProfile:
    spec = given["spec"]
    share = spec["probability"]
    if isinstance(share, str):
        share = int(share.removesuffix("%"))
    no_matter(given, "labels")  # the profile's own: for the controller of pods that exist

    def pairs(key: str) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(spec.get(key, {}).items()))

    return ColocationProfile(
        name=given["name"],
        namespaces=_selector(spec["namespace_selector"]),
        pods=_selector(spec["selector"]),
        probability=share,
        labels=pairs("labels"),
        annotations=pairs("annotations"),
        label_keys=pairs("label_keys_mapping"),
        annotation_keys=pairs("annotation_keys_mapping"),
        label_suffixes=pairs("label_suffixes"),
        scheduler_name=spec.get("scheduler_name", ""),
        qos=qos_of_label(spec["qos_class"]),
        priority_class=spec.get("priority_class_name", ""),
        sub_priority=spec["koordinator_priority"],
        patch=json.dumps(plain(spec["patch"])) if spec["patch"] else "",
        keeps_resources=given.get("annotations", {}).get(SKIP_UPDATE_RESOURCES, "false") != "false",
    )


def _classes(given: Mapping[str, Any] | None) -> dict[str, PriorityClassValue]:
    return {
        name: PriorityClassValue(name, entry["value"], entry["preemption_policy"])
        for name, entry in (given or {}).items()
    }


def _draw(given: Mapping[str, Any]) -> Callable[[str], int]:
    """The number that each profile draws; 0 where the case gives none."""
    draws = plain(given.get("draws", {}))
    return lambda name: draws.get(name, 0)


def _creates(given: Mapping[str, Any], *more: str) -> bool:
    """Whether the request is one that is acted on: create, or one of `more`, of the pod itself."""
    operation = one_of(given, "operation", ("create", "update", "delete", "connect"), "create")
    return not _subresource(given) and operation in ("create", *more)


def _subresource(given: Mapping[str, Any]) -> str:
    """The part of a pod that is written: no rule of these kinds is about one."""
    return one_of(given, "subresource", ("", "status", "binding", "eviction", "ephemeralcontainers"), "")


def _outcome(case: Any, result: Mutation) -> Compared:
    yield "allowed", case.expect["allowed"], result.refusal is None
    if result.refusal is not None:
        yield "reason", case.expect["reason"], result.refusal.rule
        yield "code", case.expect["code"], result.refusal.code


def profile_step(case: Any) -> Compared:
    given = case.given
    pod = _pod(given["pod"])
    namespaces = plain(given.get("namespaces", {}))
    labels = namespaces.get(given["pod"]["namespace"] or given["namespace"])
    profiles = [read_profile(entry) for entry in given.get("profiles", ())]
    acts = _creates(given)
    result = mutate_pod(
        pod,
        profiles if acts else [],
        None if labels is None else Labels.of(labels),
        _classes(given["priority_classes"]),
        _draw(given),
        merge_pod,
        translates=acts and not switches(given["gates"], "skip_mutating_resources")["skip_mutating_resources"],
    )
    yield from _outcome(case, result)
    if "pod" in case.expect:
        got = {key: result.document["metadata"].get(key) for key in ("namespace", "name", "labels", "annotations")}
        got |= _back(result.document["spec"])
        yield "pod", _without_absent(case.expect["pod"]), _without_absent(got)


def reservation_step(case: Any) -> Compared:
    given = case.given["reservation"]
    obj = {
        "metadata": _metadata(given, "name", "labels", "annotations"),
        "spec": {"template": {"spec": _spec(given["template"] or {})}},
    }
    profiles = [read_profile(entry) for entry in case.given.get("profiles", ())]
    classes = _classes(case.given["priority_classes"])
    no_matter(case.given, "namespaces")  # reservations have none
    switches(case.given["gates"], "skip_mutating_resources")  # their resources stay as they are in any case
    acts = _creates(case.given)
    result = mutate_reservation(obj, profiles if acts else [], classes, _draw(case.given), merge_reservation)
    yield from _outcome(case, result)
    if "reservation" in case.expect:
        got = dict(result.document["metadata"]) | {"template": _back(result.document["spec"]["template"]["spec"])}
        yield "reservation", case.expect["reservation"], got


def extended_spec_step(case: Any) -> Compared:
    pod = _pod(case.given["pod"])
    before = json.loads(json.dumps(pod))
    is_off = switches(case.given["gates"], "disable_extended_resource_spec")["disable_extended_resource_spec"]
    refusal = record(pod) if _creates(case.given, "update") and not is_off else None
    yield "allowed", case.expect["allowed"], refusal is None
    yield "error", case.expect["error"], refusal is not None
    before["metadata"].get("annotations", {}).pop(EXTENDED_SPEC, None)
    written = pod["metadata"].get("annotations", {}).pop(EXTENDED_SPEC, None)
    got = json.loads(written) if written else None
    for amounts in (got or {"containers": {}})["containers"].values():
        for kind in ("requests", "limits"):
            amounts[kind] = _read(amounts.get(kind, {}))
    yield "annotation", case.expect["annotation"], got
    yield "rest_of_pod_unchanged", case.expect["rest_of_pod_unchanged"], pod == before


_RULES = {
    "BE-requires-mid-batch-or-free": "qos-and-class",
    "LSR-requires-prod": "qos-and-class",
    "LSE-requires-prod": "qos-and-class",
    "LSR-LSE-need-integer-cpus": "cpu-not-integer",
}


def _declared(given: Mapping[str, Any]) -> Document:
    """A pod as its labels, priority, requests and overhead declare it."""
    spec: Document = {
        key: [
            {"name": str(i), "resources": {"requests": _written(entry)}} for i, entry in enumerate(given.get(name, ()))
        ]
        for name, key in (("containers", "containers"), ("init_containers", "initContainers"))
    }
    if given["overhead"] is not None:
        spec["overhead"] = _written(given["overhead"])
    labels = plain(given.get("labels", {}))
    for name, key in (("qos", QOS_CLASS), ("sub_priority", SUB_PRIORITY)):
        if given[name] is not None:
            labels[key] = str(given[name])
    if given["priority_class"]:
        labels[PRIORITY_CLASS] = PriorityClass(given["priority_class"]).label
    metadata = _metadata(given, "namespace", "name", "annotations") | {"labels": labels}
    return {"metadata": metadata, "spec": spec | {"priority": given["priority"]}}


def pod_rules(case: Any) -> Compared:
    old = case.given["old"]
    pod, before = _declared(case.given["pod"] or {}), None if old is None else _declared(old)
    may_change = switches(case.given["gates"], "skip_validating_priority")["skip_validating_priority"]
    broken = []
    if _creates(case.given, "update"):
        broken = check_pod(pod, before, may_change_sub_priority=may_change)
    found = sorted(_RULES.get(refusal.rule, refusal.rule) for refusal in broken)
    yield "allowed", case.expect["allowed"], not found
    yield "reasons", case.expect["reasons"], found


def reserved_annotation(case: Any) -> Compared:
    pod = {"metadata": _metadata(case.given, "annotations"), "spec": {}}
    rules = [refusal.rule for refusal in check_pod(pod)] if _creates(case.given, "update") else []
    yield "allowed", case.expect["allowed"], not rules
    yield "reason", case.expect["reason"], rules[0] if rules else None


def device_defaulting(case: Any) -> Compared:
    resources = {kind: _written(case.given[kind]) for kind in ("requests", "limits") if case.given[kind] is not None}
    pod = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    is_off = switches(case.given["gates"], "disable_device_resource_spec")["disable_device_resource_spec"]
    if _creates(case.given) and not is_off:
        default_devices(pod)
    for kind in ("requests", "limits"):
        got = _read(resources[kind]) if kind in resources else None
        yield kind, case.expect[kind], got


def device_validation(case: Any) -> Compared:
    pod = {"spec": {"containers": [_container(entry) for entry in case.given.get("containers", ())]}}
    is_on = switches(case.given["gates"], "validate_device_resource")["validate_device_resource"]
    found = sorted(device.rule for device in check_devices(pod)) if _creates(case.given, "update") and is_on else []
    yield "allowed", case.expect["allowed"], not found
    yield "reasons", case.expect["reasons"], found


def pod_quota_rules(case: Any) -> Compared:
    given = case.given
    quotas = {}
    for entry in given.get("quotas", ()):
        no_matter(entry, "namespace")  # a quota is named in the whole cluster
        namespaces = tuple(entry.get("namespaces", ()))
        quotas[entry["name"]] = Quota(entry["name"], is_parent=bool(entry["is_parent"]), namespaces=namespaces)

    def of(pod: Mapping[str, Any]) -> Quota | None:
        return quotas.get(quota_of_pod(pod.get("namespace", ""), pod.get("quota_label", ""), quotas))

    old, quota = given["old"], of(given["pod"])
    preemptible = given["pod"].get("preemptible", "")
    before = None if old is None else old.get("preemptible", "")
    takes_pods = switches(given["gates"], "support_parent_quota_submit_pod")["support_parent_quota_submit_pod"]
    operation = one_of(given, "operation", ("create", "update", "delete"), "create")
    changes = operation == "create" or old is None or of(old) is not quota
    found = check_pod_quota(
        quota,
        changes_quota=changes and not takes_pods,
        preemptible=preemptible,
        old_preemptible=before if operation == "update" else None,
    )
    yield "allowed", case.expect["allowed"], not found or operation == "delete" or bool(_subresource(given))
    broken = found or check_pod_quota(quota)  # a case names the rule that does not apply to an update
    yield "reason", case.expect["reason"], broken[0].rule if broken else None


def quota_pod_admission(case: Any) -> Compared:
    given = case.given

    def amounts(written: Mapping[str, int] | None) -> Amounts:
        given = (written or {}).items()
        return Amounts.of({CPU_NAME if key == "cpu_m" else kubernetes_name(key): value or 0 for key, value in given})

    limits = given.get("quota", {})
    quota = Quota(limits.get("name", "none"), maximum=amounts(limits["max"]))
    used, request = amounts(limits["child_request"]), amounts(given["pod"]["request"])
    admission = None if limits["admission"] is None else amounts(limits["admission"])
    moved = given["old_quota"] is not None and given["old_quota"] != given["pod"]["quota"]
    on_update = switches(given["gates"], "on_update")["on_update"]
    operation = one_of(given, "operation", ("create", "update", "delete"), "create")
    if operation == "delete" or (operation == "update" and not (moved and on_update)) or _subresource(given):
        no_matter(given["pod"], "quota")
        yield "allowed", case.expect["allowed"], True
        yield "child_request", case.expect["child_request"], None
        return
    label = given["pod"].get("quota", "")
    if label != quota.name:
        nowhere = unknown(label, {quota.name: quota})
        yield "allowed", case.expect["allowed"], not nowhere
        yield "reason", case.expect["reason"], nowhere[0].rule if nowhere else None
        yield "child_request", case.expect["child_request"], None
        yield "exceeded", case.expect["exceeded"] or [], []
        return
    found = exceeded(quota, used, request, admission)
    yield "allowed", case.expect["allowed"], not found
    yield "reason", case.expect["reason"], found[0].rule if found else None
    named = {name for name, _ in quota.maximum if any(f"of {name}:" in violation.text for violation in found)}
    wanted = amounts(dict.fromkeys(case.expect["exceeded"] or (), 1))
    yield "exceeded", {name for name, _ in wanted}, named
    counted = used + Amounts.of({name: amount for name, amount in request if name in quota.maximum})
    wanted = case.expect["child_request"]
    yield "child_request", None if wanted is None else amounts(wanted), None if found else counted


KINDS = {
    "profile_step": profile_step,
    "reservation_step": reservation_step,
    "extended_spec_step": extended_spec_step,
    "pod_rules": pod_rules,
    "reserved_annotation": reserved_annotation,
    "device_defaulting": device_defaulting,
    "device_validation": device_validation,
    "pod_quota_rules": pod_quota_rules,
    "quota_pod_admission": quota_pod_admission,
}
