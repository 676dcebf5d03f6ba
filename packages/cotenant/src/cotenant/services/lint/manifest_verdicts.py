"""What the webhook would do with each of a set of manifests, and a scheduler with a configuration file.

A refused pod of a Deployment is found as an event of its ReplicaSet, long after the manifest was written. The rules of
the webhook on every pod, pod template, reservation, profile and quota of the files; profiles, priority classes,
namespaces and quotas in the files are what the cluster has.
Limits: what is only in the cluster is not known: a profile that selects namespaces acts only where the Namespace is in
the files, and limits of quotas at creation are not judged. Whoever applies them is not the scheduler. A share acts by
workload, as the webhook's default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from cotenant.drivers.kube.kinds.custom.colocation_profile import (
    COLOCATION_PROFILES,
    ColocationProfileObject,
    read_colocation_profile,
)
from cotenant.drivers.kube.kinds.custom.elastic_quota import ELASTIC_QUOTAS, X_ELASTIC_QUOTAS
from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS
from cotenant.drivers.kube.kinds.priority_class import PRIORITY_CLASSES, PriorityClassObject, read_priority_class
from cotenant.model.cluster.colocation_profile import ColocationProfile, PriorityClassValue
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import NAME as QUOTA_LABEL
from cotenant.model.groups.quota import Quota
from cotenant.policy.admission.devices import check_devices
from cotenant.policy.admission.differences import Operation, difference
from cotenant.policy.admission.documents import Document, copied, labels_of, mapping, section
from cotenant.policy.admission.holdings import check_holdings
from cotenant.policy.admission.pods import check_pod
from cotenant.policy.admission.profiles import mutate_pod, mutate_reservation, note_profiles, workload_draw
from cotenant.policy.quota.pods import check_pod_quota, quota_of_pod
from cotenant.services.lint.manifest_reading import Manifest
from cotenant.services.reviewing import quotas
from cotenant.services.reviewing.facts import KnownQuota
from cotenant.services.reviewing.merging import checked_patch, merge_pod, merge_reservation
from cotenant.services.reviewing.reviewer import complete_pod
from cotenant.services.reviewing.rules import SYSTEM_NAMESPACE
from cotenant.services.scheduler_config import configuration_file as scheduler_configuration
from cotenant.services.scheduler_config.settings import SettingVerdict

T = TypeVar("T")

REFUSED, WARNING, CHANGE, NOTE = "refused", "warning", "change", "note"

_TEMPLATES = {  # path of the pod template
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("", "ReplicationController"): ("spec", "template"),
    ("", "PodTemplate"): ("template",),
}
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_ELASTIC = {kind.group for kind in (ELASTIC_QUOTAS, X_ELASTIC_QUOTAS)}


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing that the webhook would do. `patch`: of a change, as an API server would apply it."""

    file: str
    line: int
    level: str  # REFUSED, WARNING, CHANGE or NOTE
    kind: str
    name: str
    rule: str
    message: str
    patch: tuple[Operation, ...] = ()


def lint(manifests: Sequence[Manifest]) -> list[LintFinding]:
    """Findings about the manifests, in their order."""
    return [*_Linter(manifests).findings()]


class _Linter:
    def __init__(self, manifests: Sequence[Manifest]) -> None:
        self._manifests = manifests
        self._profiles: list[ColocationProfile] = []
        self._namespaces: dict[str, Labels] = {}
        self._classes = _usual_classes()
        self._quotas: dict[str, KnownQuota] = {}
        self._early: dict[int, list[LintFinding]] = {}
        for index, manifest in enumerate(manifests):
            self._early[index] = [*self._learn(manifest)]

    def findings(self) -> Iterator[LintFinding]:
        """Findings of each manifest."""
        for index, manifest in enumerate(self._manifests):
            yield from self._early[index]
            try:
                yield from self._judge(manifest)
            except InvalidInput as error:
                yield _finding(manifest, REFUSED, "unreadable", str(error), error.field)

    def _learn(self, manifest: Manifest) -> Iterator[LintFinding]:
        """Take in what the cluster would know."""
        place = (manifest.api_group, manifest.kind)
        try:
            if place == (COLOCATION_PROFILES.group, COLOCATION_PROFILES.name):
                profile = read_colocation_profile(_converted(manifest, ColocationProfileObject))
                if profile.patch:
                    checked_patch(profile.patch)
                self._profiles.append(profile)
            elif place == (PRIORITY_CLASSES.group, PRIORITY_CLASSES.name):
                found = read_priority_class(_converted(manifest, PriorityClassObject))
                self._classes[found.name] = found
            elif place == ("", "Namespace"):
                name = str(mapping(manifest.document, "metadata").get("name") or "")
                own = {"kubernetes.io/metadata.name": name}
                self._namespaces[name] = Labels.of(labels_of(manifest.document) | own)
        except InvalidInput as error:
            yield _finding(manifest, REFUSED, "unreadable", str(error), error.field)

    def _judge(self, manifest: Manifest) -> Iterator[LintFinding]:
        place = (manifest.api_group, manifest.kind)
        metadata = mapping(manifest.document, "metadata")
        namespace = str(metadata.get("namespace") or "default")
        if place == (scheduler_configuration.GROUP, scheduler_configuration.KIND):
            yield from self._configuration(manifest)
            return
        if namespace == SYSTEM_NAMESPACE:
            return
        if place == ("", "Pod"):
            yield from self._pod(manifest, manifest.document, namespace, "")
        elif place in _TEMPLATES:
            template, path = manifest.document, ""
            for key in _TEMPLATES[place]:
                template, path = mapping(template, key, path), f"{path}.{key}".strip(".")
            if template:
                yield from self._pod(manifest, _of_workload(template, manifest), namespace, path)
        elif place == (RESERVATIONS.group, RESERVATIONS.name):
            yield from self._reservation(manifest)
        elif place == (COLOCATION_PROFILES.group, COLOCATION_PROFILES.name):
            name = mapping(manifest.document, "spec").get("priorityClassName")
            if isinstance(name, str) and name and name not in self._classes:
                text = f"the PriorityClass {name} is not in these files; where the cluster has none, pods are refused"
                yield _finding(manifest, WARNING, "unknown-priority-class", text, "spec.priorityClassName")
        elif manifest.api_group in _ELASTIC and manifest.kind == ELASTIC_QUOTAS.name:
            yield from self._quota(manifest, namespace)

    def _pod(self, manifest: Manifest, pod: Document, namespace: str, path: str) -> Iterator[LintFinding]:
        pod = copied(pod)
        spec = section(pod, "spec")
        name = spec.get("priorityClassName")
        if name and spec.get("priority") is None:
            known = self._classes.get(str(name))
            if known is None:
                text = f"the PriorityClass {name} is not in these files: the pod's class is not known"
                yield _finding(
                    manifest, WARNING, "unknown-priority-class", text, _below(path, "spec.priorityClassName")
                )
            else:
                spec["priority"] = known.value
        done = mutate_pod(
            pod,
            self._profiles,
            self._namespaces.get(namespace),
            self._classes,
            workload_draw(namespace, pod),
            merge_pod,
        )
        refusal = done.refusal or complete_pod(done)
        for text in done.warnings:
            yield _finding(manifest, WARNING, "profile", text, path)
        if refusal is not None:
            yield _finding(manifest, REFUSED, refusal.rule, refusal.message, _below(path, refusal.field))
            return
        patch = difference(pod, done.document)
        if patch:
            text = "; ".join(done.reasons) or "resources completed"
            yield _finding(manifest, CHANGE, "mutate-pod", text, path, patch)
        made = done.document
        for level, broken in (
            *((REFUSED, found) for found in check_pod(made)),
            *((REFUSED, found) for found in check_holdings(made, None)),
            *((WARNING, found) for found in check_devices(made)),  # refused only with --check-devices
        ):
            yield _finding(manifest, level, broken.rule, broken.message, _below(path, broken.field))
        by_name = {known.quota.name: known.quota for known in self._quotas.values()}
        quota = by_name.get(quota_of_pod(namespace, labels_of(made).get(QUOTA_LABEL, ""), by_name))
        for violation in check_pod_quota(quota):
            field = _below(path, f"metadata.labels.{QUOTA_LABEL}")
            yield _finding(manifest, REFUSED, violation.rule, violation.text, field)

    def _reservation(self, manifest: Manifest) -> Iterator[LintFinding]:
        done = mutate_reservation(
            manifest.document, self._profiles, self._classes, workload_draw("", manifest.document), merge_reservation
        )
        for text in done.warnings:
            yield _finding(manifest, WARNING, "profile", text)
        if done.refusal is not None:
            yield _finding(manifest, REFUSED, done.refusal.rule, done.refusal.message, done.refusal.field)
            return
        note_profiles(done.document, done.applied)
        patch = difference(manifest.document, done.document)
        if patch:
            text = f"{'; '.join(done.reasons)} (where the webhook runs with --reservations)"
            yield _finding(manifest, CHANGE, "mutate-reservation", text, "", patch)

    def _configuration(self, manifest: Manifest) -> Iterator[LintFinding]:
        """What `cotenant scheduler --config` would not honour."""
        for setting in scheduler_configuration.convert_config(manifest.document).settings:
            if setting.verdict is not SettingVerdict.HONOURED:
                level = WARNING if setting.verdict is SettingVerdict.NOT_SUPPORTED else NOTE
                path, _, _ = setting.path.partition(" (")
                yield _finding(manifest, level, "scheduler-configuration", str(setting), path)

    def _quota(self, manifest: Manifest, namespace: str) -> Iterator[LintFinding]:
        is_x = manifest.api_group == X_ELASTIC_QUOTAS.group
        by_name = {known.quota.name: known.quota for known in self._quotas.values()}
        document = manifest.document
        if quotas.is_of_tree(document, manifest.api_group):
            document, violations = quotas.default_quota(document, by_name)
            for violation in violations:
                yield _finding(manifest, REFUSED, violation.rule, violation.text, "metadata.labels")
            if violations:
                return
            patch = difference(manifest.document, document)
            if patch:
                yield _finding(manifest, CHANGE, "mutate-quota", "defaults of the quota's tree", "", patch)
        known = quotas.known_quota(quotas.decoded(document, namespace), is_x=is_x)
        if quotas.is_of_tree(document, manifest.api_group):
            found = asyncio.run(quotas.check_written(known.quota, None, [*by_name.values()], _no_pods))
        else:
            found = quotas.check_by_itself(known.quota)
        for violation in found:
            yield _finding(manifest, REFUSED, violation.rule, violation.text, _QUOTA_FIELDS.get(violation.rule, ""))
        if not found:
            self._quotas[known.key] = known


_QUOTA_FIELDS = {
    "min-keys": "spec.min",
    "min-over-max": "spec.min",
    "min-sum": "spec.min",
    "max-keys": "spec.max",
    "parent-min-keys": "spec.min",
    "name": "metadata.name",
    "is-parent": "metadata.labels",
    "parent-is-leaf": "metadata.labels",
    "unknown-parent": "metadata.labels",
    "cycle": "metadata.labels",
    "tree-id": "metadata.labels",
    "namespace": "metadata.annotations",
}


async def _no_pods(quota: Quota) -> bool:
    return False


def _usual_classes() -> dict[str, PriorityClassValue]:
    """The classes that every cluster has, and those of the co-location protocol."""
    found = {name: PriorityClassValue(name, value) for name, value in _SYSTEM.items()}
    for priority_class in PriorityClass:
        if priority_class:
            found[priority_class.label] = PriorityClassValue(priority_class.label, priority_class.default_priority)
    return found


def _of_workload(template: Document, manifest: Manifest) -> Document:
    """A pod of a workload, owned by it, so that shares are drawn as for the real one."""
    pod: Document = copied(template)
    owner = {
        "kind": manifest.kind,
        "name": str(mapping(manifest.document, "metadata").get("name") or ""),
        "controller": True,
    }
    section(pod, "metadata")["ownerReferences"] = [owner]
    return pod


def _below(path: str, field: str) -> str:
    return f"{path}.{field}".strip(".") if path else field


def _finding(
    manifest: Manifest, level: str, rule: str, message: str, path: str = "", patch: Sequence[Operation] = ()
) -> LintFinding:
    return LintFinding(
        manifest.file, manifest.line(path), level, manifest.kind, manifest.name, rule, message, tuple(patch)
    )


def _converted(manifest: Manifest, form: type[T]) -> T:
    try:
        return msgspec.json.decode(msgspec.json.encode(manifest.document), type=form)  # a patch is kept as JSON
    except msgspec.ValidationError as error:
        text = str(error)
        field = text.rpartition("$.")[2].rstrip("`") if "$." in text else ""
        raise InvalidInput(field or "object", manifest.name, f"fields of a {manifest.kind}", text) from None
