"""Kinds of pod admission: colocation profiles, the record of extended resources, reservations, validation, devices, and a pod's quota."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from cotenant.model.cluster.colocation_profile import SKIP_UPDATE_RESOURCES, ColocationProfile, PriorityClassValue
from cotenant.model.cluster.labels import QOS_CLASS, Labels, LabelSelector
from cotenant.model.cluster.qos import qos_of_label
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
from cotenant.policy.admission.pods import RESERVE_POD, check_pod
from cotenant.policy.admission.profiles import Mutation, mutate_pod, mutate_reservation
from cotenant.policy.admission.translation import EXTENDED_SPEC, record
from cotenant.policy.quota.pods import check_pod_quota, exceeded, quota_of_pod
from cotenant.services.webhook.merging import merge_pod, merge_reservation

Compared = Iterator[tuple[str, Any, Any]]

_GPU = {"gpu": GPU, "gpu.shared": GPU_SHARED, "npu-core": "huawei.com/npu-core"}
_SHORT = {kubernetes_name(name): name for name in ("batch-cpu", "batch-memory", "mid-cpu", "mid-memory")} | {
    GPU: "gpu",
    GPU_SHARED: "gpu.shared",
    GPU_CORE: "gpu-core",
    GPU_MEMORY: "gpu-memory",
    GPU_MEMORY_RATIO: "gpu-memory-ratio",
}


def _written(amounts: Mapping[str, int]) -> dict[str, str]:
    found = {}
    for key, amount in amounts.items():
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
        "resources": {kind: _written(given[kind]) for kind in ("requests", "limits") if given.get(kind) is not None},
    }


_TEXTS = {"scheduler_name": "schedulerName", "priority_class_name": "priorityClassName", "priority": "priority"}


def _spec(given: Mapping[str, Any]) -> Document:
    spec: Document = {key: given[name] for name, key in _TEXTS.items() if name in given}
    for name, key in (("init_containers", "initContainers"), ("containers", "containers")):
        if name in given:
            spec[key] = [_container(each) for each in given[name]]
    if "overhead" in given:
        spec["overhead"] = _written(given["overhead"])
    return spec


def _pod(given: Mapping[str, Any]) -> Document:
    metadata = {key: given[key] for key in ("namespace", "name", "labels", "annotations") if key in given}
    return {"metadata": metadata, "spec": _spec(given)}


def _back(spec: Document) -> dict[str, Any]:
    found: dict[str, Any] = {name: spec[key] for name, key in _TEXTS.items() if key in spec}
    if "preemptionPolicy" in spec:
        found["preemption_policy"] = spec["preemptionPolicy"]
    for name, key in (("init_containers", "initContainers"), ("containers", "containers")):
        if key in spec:
            found[name] = [
                {"name": each["name"]}
                | {kind: _read(each["resources"].get(kind) or {}) for kind in ("requests", "limits")}
                for each in spec[key]
            ]
    if "overhead" in spec:
        found["overhead"] = _read(spec["overhead"])
    return found


def _without_absent(pod: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in pod.items() if value is not None and value != {}}


def _selector(given: Mapping[str, Any] | None) -> LabelSelector | None:
    return None if given is None else LabelSelector.of(given.get("match_labels") or {})


def _profile(given: Mapping[str, Any]) -> ColocationProfile:
    spec = given["spec"]
    share = spec.get("probability")
    if isinstance(share, str):
        share = int(share.removesuffix("%"))

    def pairs(key: str) -> tuple[tuple[str, str], ...]:
        return tuple(sorted((spec.get(key) or {}).items()))

    return ColocationProfile(
        name=given["name"],
        namespaces=_selector(spec.get("namespace_selector")),
        pods=_selector(spec.get("selector")),
        probability=share,
        labels=pairs("labels"),
        annotations=pairs("annotations"),
        label_keys=pairs("label_keys_mapping"),
        annotation_keys=pairs("annotation_keys_mapping"),
        label_suffixes=pairs("label_suffixes"),
        scheduler_name=spec.get("scheduler_name", ""),
        qos=qos_of_label(spec.get("qos_class")),
        priority_class=spec.get("priority_class_name", ""),
        sub_priority=spec.get("koordinator_priority"),
        patch=json.dumps(spec["patch"]) if spec.get("patch") else "",
        keeps_resources=given.get("annotations", {}).get(SKIP_UPDATE_RESOURCES, "false") != "false",
    )


def _classes(given: Mapping[str, Any]) -> dict[str, PriorityClassValue]:
    return {name: PriorityClassValue(name, each["value"], each["preemption_policy"]) for name, each in given.items()}


def _outcome(case: Any, result: Mutation) -> Compared:
    yield "allowed", case.expect["allowed"], result.refusal is None
    if result.refusal is not None:
        yield "reason", case.expect.get("reason"), result.refusal.rule
        if "code" in case.expect:
            yield "code", case.expect["code"], result.refusal.code


def profile_step(case: Any) -> Compared:
    given = case.given
    pod = _pod(given["pod"])
    labels = given["namespaces"].get(given["pod"]["namespace"])
    draws = given.get("draws", {})
    result = mutate_pod(
        pod,
        [_profile(each) for each in given["profiles"]],
        None if labels is None else Labels.of(labels),
        _classes(given["priority_classes"]),
        lambda name: draws.get(name, 0),
        merge_pod,
        translates=not given.get("gates", {}).get("skip_mutating_resources"),
    )
    yield from _outcome(case, result)
    if "pod" in case.expect:
        got = {key: result.document["metadata"].get(key) for key in ("namespace", "name", "labels", "annotations")}
        got |= _back(result.document["spec"])
        yield "pod", _without_absent(case.expect["pod"]), _without_absent(got)


def reservation_step(case: Any) -> Compared:
    given = case.given["reservation"]
    obj = {
        "metadata": {key: given[key] for key in ("name", "labels", "annotations")},
        "spec": {"template": {"spec": _spec(given["template"])}},
    }
    profiles = [_profile(each) for each in case.given["profiles"]]
    classes = _classes(case.given["priority_classes"])
    result = mutate_reservation(obj, profiles, classes, lambda name: 0, merge_reservation)
    yield from _outcome(case, result)
    if "reservation" in case.expect:
        got = dict(result.document["metadata"]) | {"template": _back(result.document["spec"]["template"]["spec"])}
        yield "reservation", case.expect["reservation"], got


def extended_spec_step(case: Any) -> Compared:
    pod = _pod(case.given["pod"])
    before = json.loads(json.dumps(pod))
    refusal = record(pod)
    yield "allowed", case.expect["allowed"], refusal is None
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


def pod_rules(case: Any) -> Compared:
    given = case.given["pod"]
    spec = {
        key: [{"name": str(i), "resources": {"requests": _written(each)}} for i, each in enumerate(given.get(name, ()))]
        for name, key in (("containers", "containers"), ("init_containers", "initContainers"))
    }
    pod: Document = {
        "metadata": {"labels": {QOS_CLASS: given["qos"]}},
        "spec": spec | {"priority": given.get("priority")},
    }
    found = sorted(_RULES.get(each.rule, each.rule) for each in check_pod(pod))
    yield "allowed", case.expect["allowed"], not found
    yield "reasons", case.expect["reasons"], found


def reserved_annotation(case: Any) -> Compared:
    pod = {"metadata": {"annotations": case.given["annotations"]}, "spec": {}}
    rules = [each.rule for each in check_pod(pod)]
    yield "allowed", case.expect["allowed"], not rules
    yield "reason", [case.expect["reason"]], rules
    yield "allowed", case.expect["allowed"], RESERVE_POD not in case.given["annotations"]


def device_defaulting(case: Any) -> Compared:
    resources = {kind: _written(case.given[kind]) for kind in ("requests", "limits") if case.given[kind] is not None}
    pod = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    if not case.given.get("gates", {}).get("disable_device_resource_spec"):
        default_devices(pod)
    for kind in ("requests", "limits"):
        yield kind, case.expect[kind], _read(resources[kind])


def device_validation(case: Any) -> Compared:
    pod = {
        "spec": {
            "containers": [
                {"name": str(i), "resources": {"requests": _written(each["requests"])}}
                for i, each in enumerate(case.given["containers"])
            ]
        }
    }
    is_on = case.given["gates"]["validate_device_resource"]
    found = sorted(each.rule for each in check_devices(pod)) if is_on else []
    yield "allowed", case.expect["allowed"], not found
    yield "reasons", case.expect["reasons"], found


def pod_quota_rules(case: Any) -> Compared:
    given = case.given
    quotas = {each["name"]: Quota(each["name"], is_parent=each["is_parent"]) for each in given["quotas"]}

    def of(pod: Mapping[str, Any]) -> Quota | None:
        return quotas.get(quota_of_pod(pod["namespace"], pod["quota_label"] or "", quotas))

    def preemptible(pod: Mapping[str, Any]) -> str:
        return pod.get("preemptible") or ""

    old = given.get("old")
    quota = of(given["pod"])
    found = check_pod_quota(
        quota,
        changes_quota=old is None or of(old) is not quota,
        preemptible=preemptible(given["pod"]),
        old_preemptible=None if old is None else preemptible(old),
    )
    yield "allowed", case.expect["allowed"], not found
    if "reason" in case.expect:
        broken = found or check_pod_quota(quota)  # a case names the rule that does not apply to an update
        yield "reason", case.expect["reason"], broken[0].rule


def quota_pod_admission(case: Any) -> Compared:
    given = case.given

    def amounts(written: Mapping[str, int]) -> Amounts:
        return Amounts.of(
            {CPU_NAME if key == "cpu_m" else kubernetes_name(key): value for key, value in written.items()}
        )

    quota = Quota(given["quota"]["name"], maximum=amounts(given["quota"]["max"]))
    used, request = amounts(given["quota"].get("child_request", {})), amounts(given["pod"]["request"])
    admission = given["quota"].get("admission")
    moved = "old_quota" in given and given["old_quota"] != given["pod"]["quota"]
    if given["operation"] == "update" and not (moved and given.get("gates", {}).get("on_update")):
        yield "allowed", case.expect["allowed"], True
        yield "child_request", case.expect["child_request"], None
        return
    found = exceeded(quota, used, request, None if admission is None else amounts(admission))
    yield "allowed", case.expect["allowed"], not found
    if found:
        yield "reason", case.expect["reason"], found[0].rule
        named = [name for name, _ in quota.maximum if any(f"of {name}:" in each.text for each in found)]
        yield "exceeded", case.expect["exceeded"], ["cpu_m" if name == CPU_NAME else name for name in named]
    else:
        counted = used + Amounts.of({name: amount for name, amount in request if name in quota.maximum})
        yield "child_request", amounts(case.expect["child_request"]), counted


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
