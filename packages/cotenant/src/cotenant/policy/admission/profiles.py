"""What colocation profiles make of a new pod or reservation.

Several profiles may match one pod, each may act on a share of the pods only, and a mistake in one of them must not
change pods that it does not mean. All profiles are matched against the pod as it was submitted; those that match act in
ascending order of their names, so the last one wins; afterwards the resources are translated (translation.py), where at
least one profile matched. Each step is a reason in the result; two profiles that set different QoS classes are a
warning.

Order of one profile's steps: labels, annotations, label keys, annotation keys, label suffixes, scheduler, QoS, priority
class, priority within the class, patch.

A share of p percent acts where the profile's draw (0 to 99) is at most p: p + 1 of 100 pods, as upstream; 0 none.
`workload_draw` gives every pod of a workload the same draw, so that a share is a share of workloads and grows without
changing sides; upstream draws anew for each pod.

Source: Koordinator, pkg/webhook/pod/mutating/cluster_colocation_profile.go, pkg/webhook/reservation/mutating. Where
upstream is at fault, this differs: a mapping without its source key does nothing, mappings read the keys as they were
before the first of them, a namespace that is not known matches no namespace selector, and only a profile that acts, and
whose annotation is not "false", prevents the translation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from cotenant.model.cluster.colocation_profile import PROFILES_APPLIED, ColocationProfile, Pairs, PriorityClassValue
from cotenant.model.cluster.labels import QOS_CLASS, SUB_PRIORITY, Labels
from cotenant.model.errors import InvalidInput
from cotenant.policy.admission.documents import (
    AdmissionRefusal,
    Document,
    annotations_of,
    copied,
    labels_of,
    mapping,
    pod_copy,
    section,
)
from cotenant.policy.admission.translation import class_of, translate

Draw = Callable[[str], int]  # profile's name -> 0..99
Merge = Callable[
    [Document, str], Document
]  # (document, strategic merge patch as JSON) -> document; raises InvalidInput

_POD_HASH = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class Mutation:
    """What became of a document. `document` is a changed copy; where it is refused, it has no meaning. Reasons: one
    line for each step.
    """

    document: Document
    applied: tuple[str, ...] = ()  # names of profiles
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: AdmissionRefusal | None = None


def mutate_pod(
    pod: Document,
    profiles: Sequence[ColocationProfile],
    namespace: Labels | None,
    classes: Mapping[str, PriorityClassValue],
    draw: Draw,
    merge: Merge,
    *,
    translates: bool = True,
) -> Mutation:
    """Apply the profiles to a new pod. `namespace`: labels of its namespace, None where that is not known.

    Raises `InvalidInput` for a pod that cannot be read.
    """
    work = _Work(pod_copy(pod))
    matching, warnings = _matching(profiles, labels_of(pod), namespace)
    keeps_resources = ""
    for profile in matching:
        if not work.acts(profile, draw):
            continue
        refusal = work.apply(profile, classes, merge, spec_path=("spec",))
        if refusal is not None:
            return Mutation(
                work.document, tuple(work.applied), tuple(work.reasons), (*warnings, *work.warnings), refusal
            )
        if profile.keeps_resources:
            keeps_resources = profile.name
    refusal = None
    if keeps_resources:
        work.reasons.append(f"resources stay: profile {keeps_resources} keeps them")
    elif matching and translates:
        translated, refusal = translate(work.document)
        if translated:
            work.reasons.append(f"resources translated: the pod's class is {class_of(work.document)}")
    return Mutation(work.document, tuple(work.applied), tuple(work.reasons), (*warnings, *work.warnings), refusal)


def mutate_reservation(
    reservation: Document,
    profiles: Sequence[ColocationProfile],
    classes: Mapping[str, PriorityClassValue],
    draw: Draw,
    merge: Merge,
) -> Mutation:
    """Apply the profiles to a new Reservation by its own labels; the scheduler and the priority go to its template.
    Resources are not translated.
    """
    work = _Work(copied(reservation))
    matching, warnings = _matching(profiles, labels_of(reservation), None, by_namespace=False)
    for profile in matching:
        if work.acts(profile, draw):
            refusal = work.apply(profile, classes, merge, spec_path=("spec", "template", "spec"))
            if refusal is not None:
                return Mutation(
                    work.document, tuple(work.applied), tuple(work.reasons), (*warnings, *work.warnings), refusal
                )
    return Mutation(work.document, tuple(work.applied), tuple(work.reasons), (*warnings, *work.warnings))


def note_profiles(document: Document, applied: Sequence[str]) -> None:
    """Name the profiles that changed an object in its annotation, in place."""
    if applied:
        section(section(document, "metadata"), "annotations")[PROFILES_APPLIED] = ",".join(applied)


def workload_draw(namespace: str, obj: Document) -> Draw:
    """The draws of a pod's workload: equal for all pods with the same controller, through all revisions of a
    Deployment.
    """
    metadata = mapping(obj, "metadata")
    name = str(metadata.get("generateName") or metadata.get("name") or "")
    kind = "Pod"
    owners = metadata.get("ownerReferences")
    for owner in owners if type(owners) is list else ():
        if type(owner) is dict and owner.get("controller"):
            kind, name = str(owner.get("kind", "")), str(owner.get("name", ""))
            revision = labels_of(obj).get(_POD_HASH)
            if kind == "ReplicaSet" and revision:
                kind, name = "Deployment", name.removesuffix(f"-{revision}")
    identity = f"{namespace}/{kind}/{name}/"
    return lambda profile: int.from_bytes(blake2b((identity + profile).encode(), digest_size=8).digest()) % 100


class _Work:
    """A document while profiles act on it."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.applied: list[str] = []
        self.reasons: list[str] = []
        self.warnings: list[str] = []
        self._qos_by = ""
        self._before = annotations_of(document).get(PROFILES_APPLIED, "").split(",")  # of an earlier call for this pod

    def acts(self, profile: ColocationProfile, draw: Draw) -> bool:
        share = profile.probability
        if share is None or share >= 100:
            return True
        drawn = draw(profile.name) if share > 0 else 100
        if drawn <= share:
            return True
        self.reasons.append(f"profile {profile.name}: not for this one ({share} % of the pods)")
        return False

    def apply(
        self,
        profile: ColocationProfile,
        classes: Mapping[str, PriorityClassValue],
        merge: Merge,
        spec_path: tuple[str, ...],
    ) -> AdmissionRefusal | None:
        metadata = section(self.document, "metadata")
        done = []
        if profile.labels or profile.label_keys or profile.label_suffixes:
            labels = section(metadata, "labels")
            labels.update(profile.labels)
            _map_keys(labels, profile.label_keys)
            for key, suffix in profile.label_suffixes:
                if key in labels and profile.name not in self._before:
                    labels[key] += suffix
            done.append("labels")
        if profile.annotations or profile.annotation_keys:
            annotations = section(metadata, "annotations")
            annotations.update(profile.annotations)
            _map_keys(annotations, profile.annotation_keys)
            done.append("annotations")
        spec = self.document
        if profile.scheduler_name or profile.priority_class:
            for key in spec_path:
                spec = section(spec, key)
        if profile.scheduler_name:
            spec["schedulerName"] = profile.scheduler_name
            done.append(f"schedulerName {profile.scheduler_name}")
        if profile.qos:
            labels = section(metadata, "labels")
            if self._qos_by and labels.get(QOS_CLASS) != profile.qos.value:
                self.warnings.append(
                    f"profiles {self._qos_by} and {profile.name} set different QoS classes: {profile.qos} of the "
                    "second is used"
                )
            labels[QOS_CLASS] = profile.qos.value
            self._qos_by = profile.name
            done.append(f"QoS {profile.qos}")
        if profile.priority_class:
            found = classes.get(profile.priority_class)
            if found is None:
                text = f"profile {profile.name} sets the PriorityClass {profile.priority_class}, which does not exist"
                return AdmissionRefusal("unknown-priority-class", text, code=500)
            spec["priorityClassName"], spec["priority"] = found.name, found.value
            if found.preemption_policy is None:
                spec.pop("preemptionPolicy", None)
            else:
                spec["preemptionPolicy"] = found.preemption_policy
            done.append(f"priority {found.value} ({found.name})")
        if profile.sub_priority is not None:
            section(metadata, "labels")[SUB_PRIORITY] = str(profile.sub_priority)
            done.append(f"priority within the class {profile.sub_priority}")
        if profile.patch:
            try:
                self.document = merge(copied(self.document), profile.patch)
            except InvalidInput as error:
                return AdmissionRefusal(
                    "bad-patch", f"the patch of profile {profile.name} does not apply: {error}", code=500
                )
            done.append("patch")
        self.applied.append(profile.name)
        self.reasons.append(f"profile {profile.name}: {', '.join(done) or 'matched, sets nothing'}")
        return None


def _matching(
    profiles: Sequence[ColocationProfile],
    labels: Mapping[str, str],
    namespace: Labels | None,
    *,
    by_namespace: bool = True,
) -> tuple[list[ColocationProfile], list[str]]:
    """Profiles that match an object as submitted, by name, and warnings about those that could not be judged."""
    found, warnings = [], []
    own = Labels.of(labels)
    for profile in sorted(profiles, key=lambda profile: profile.name.encode()):
        if profile.pods is not None and not profile.pods.matches(own):
            continue
        wanted = profile.namespaces
        if by_namespace and wanted is not None and wanted.requirements:
            if namespace is None:
                warnings.append(f"profile {profile.name} does not act: the labels of the pod's namespace are not known")
                continue
            if not wanted.matches(namespace):
                continue
        found.append(profile)
    return found, warnings


def _map_keys(values: dict[str, str], keys: Pairs) -> None:
    before = dict(values) if keys else values
    for old, new in keys:
        if old in before:
            values[new] = before[old]
